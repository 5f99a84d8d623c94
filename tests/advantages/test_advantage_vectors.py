"""The worked examples of the specification, through the public functions."""

import dataclasses

import jax
import numpy as np
import pytest

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.advantages.gae import adaptive_lambda
from rlvr_jax.advantages.passk import passk_table
from rlvr_jax.batch import AdvantageInputs

F32 = np.float32


def inputs(reward_NG, lengths=None, **fields):
    reward_NG = np.atleast_2d(np.asarray(reward_NG, F32))
    length_B = np.ones(reward_NG.size, int) if lengths is None else np.asarray(lengths)
    mask_BT = np.arange(length_B.max()) < length_B[:, None]
    return AdvantageInputs(
        reward_NG=reward_NG,
        valid_NG=np.ones(reward_NG.shape, bool),
        mask_BT=mask_BT,
        correct_NG=reward_NG > 0,
        **fields,
    )


def advantages(name, x, **fields):
    """[B, T] of entry `name`."""
    estimator = ADVANTAGES.make(name, **fields)
    return np.asarray(jax.jit(lambda x: estimator(x))(x))


def per_sample(name, reward_NG, lengths=None, **fields):
    """The first token's advantage of each sample."""
    return advantages(name, inputs(reward_NG, lengths), **fields)[:, 0]


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)


ONE = [1, 0, 0, 0]
TWO = [[1, 0, 0, 0], [1, 1, 0, 0]]


def test_groups(vectors):
    close(per_sample("group", ONE, ddof=0, eps=0.0), vectors["adv.grpo_pop"])
    close(per_sample("group", ONE, ddof=1, eps=0.0), vectors["adv.grpo_ddof1"])
    close(per_sample("group", ONE, std="none"), vectors["adv.drgrpo"])
    close(per_sample("rloo", ONE), vectors["adv.rloo"])
    scaled = per_sample("group", ONE, std="none") * 4 / 3
    close(scaled, vectors["adv.rloo_from_mean"])


def test_seven_of_eight(vectors):
    reward = [1] * 7 + [0]
    close(per_sample("group", reward, ddof=0, eps=0.0)[[0, 7]], vectors["adv.p78"])
    close(per_sample("group", reward, ddof=1, eps=0.0), vectors["adv.p78_ddof1"])


def test_batch_statistics(vectors):
    close(per_sample("magistral", TWO, eps=0.0), vectors["magistral.norm_pop"])
    close(per_sample("reinforce_pp_baseline", TWO, eps=0.0), vectors["rppb.norm_ddof1"])
    close(per_sample("group", TWO, std="none"), vectors["magistral.centred"])
    lite = per_sample("group", TWO, std="batch", ddof=0, eps=0.0)
    close(lite, vectors["litepp.norm_batchstd_of_rewards"])
    centred = np.asarray(vectors["magistral.centred"])
    stds = [centred[0] / per_sample("magistral", TWO, ddof=d, eps=0.0)[0] for d in (0, 1)]
    close(stds, vectors["std.pop_ddof1"])
    stds = [centred[0] / per_sample("group", TWO, std="batch", ddof=d, eps=0.0)[0] for d in (0, 1)]
    close(stds, vectors["litepp.std_pop_ddof1"])


def test_reinforce_pp(vectors):
    x = inputs([[1.0, 0.0]], [1, 3])
    for ddof, key in ((1, "rpp.whiten_token_ddof1"), (0, "rpp.whiten_token_pop")):
        adv_BT = advantages("reinforce_pp", x, ddof=ddof, eps=0.0)
        close(adv_BT[x.mask_BT], vectors[key])


def test_kl_in_the_reward_to_go(vectors):
    """Returns [.94, .96] of R = 1, KL = [.2, .4], beta = .1; ReMax shows them unwhitened."""
    kl_BT = np.array([[0.02, 0.04]], F32)
    x = inputs([[1.0]], [2], kl_BT=kl_BT, greedy_reward_N=np.zeros(1, F32))
    close(advantages("remax", x)[0], vectors["rpp.ret"])
    one = dataclasses.replace(x, greedy_reward_N=np.ones(1, F32), kl_BT=None)
    close(advantages("remax", one)[0], [0.0, 0.0])
    zero = dataclasses.replace(one, greedy_reward_N=np.zeros(1, F32))
    close(advantages("remax", zero)[0], [1.0, 1.0])


def test_opo(vectors):
    b = vectors["opo.baseline"]
    close(per_sample("opo", [1, 0], [1, 3]), [1 - b, -b])


def test_gpg_example():
    """Specification A1.9: four prompts, one unanimous."""
    reward = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]]
    adv = per_sample("gpg", reward)
    close(adv[:4], [1.0, -1 / 3, -1 / 3, -1 / 3])
    close(adv[12:], np.zeros(4))


def test_kimi_soft_baseline(vectors):
    adv = per_sample("log_mean_exp", [1, 0], tau=0.5)
    close(adv, [1 - vectors["kimi.tlogZ"], -vectors["kimi.tlogZ"]])


@pytest.mark.parametrize("n, c, k, key", [(4, 1, 2, "passk_train"), (8, 2, 4, "passk_train8")])
def test_passk_training(vectors, n, c, k, key):
    mean, sigma, right, wrong = vectors[key]
    adv = per_sample("passk", [1] * c + [0] * (n - c), k=k)
    close(adv[[0, -1]], [right, wrong])
    close((1 - mean) / sigma, passk_table(n, k)[n, c, 1])
    close(adv.sum(), 0.0)


@pytest.mark.parametrize("n, c, k, key", [(4, 1, 2, "pkpo"), (8, 2, 4, "pkpo8")])
def test_pkpo(vectors, n, c, k, key):
    adv = per_sample("pkpo", [1] * c + [0] * (n - c), k=k, variance_baseline="none")
    close(adv[[0, -1]], vectors[key])


def critic(**fields):
    x = inputs([[1.0]], [3], value_BT=np.array([[0.2, 0.5, 0.8]], F32))
    gae = ADVANTAGES.make("gae", **fields)
    adv_BT, return_BT = jax.jit(lambda x: (gae(x), gae.returns(x)))(x)
    return {"adv": np.asarray(adv_BT)[0], "ret": np.asarray(return_BT)[0]}


@pytest.mark.parametrize(
    "key, fields",
    [
        ("gae.lam1.0", {}),
        ("gae.lam0.95", {"lam_policy": 0.95, "lam_value": 0.95}),
        ("gae.lam0.0", {"lam_policy": 0.0, "lam_value": 0.0}),
        ("gae.g0.9_lam.95", {"gamma": 0.9, "lam_policy": 0.95, "lam_value": 0.95}),
    ],
)
def test_gae(vectors, key, fields):
    done = critic(**fields)
    close(done["adv"], vectors[key]["adv"])
    close(done["ret"], vectors[key]["ret"])


def test_decoupled_lambda(vectors):
    done = critic(lam_policy=0.95, lam_value=1.0)
    close(done["adv"], vectors["gae.lam0.95"]["adv"])
    close(done["ret"], vectors["gae.lam1.0"]["ret"])


def test_length_adaptive_lambda(vectors):
    lengths = np.array([10, 20, 100, 1000, 10000])
    mask_BT = np.arange(10000) < lengths[:, None]
    close(adaptive_lambda(mask_BT, 0.05), vectors["vapo.lambda"])


def test_signal_at_the_first_token_decays(vectors):
    """With V = 0 and lambda .95 the reward at the end of 101 tokens is worth .95^100."""
    x = inputs([[1.0]], [101], value_BT=np.zeros((1, 101), F32))
    close(advantages("gae", x, lam_policy=0.95)[0, 0], vectors["decay.0.95^100"])
    close(advantages("gae", x)[0, 0], 1.0)


def test_process_example():
    """Specification A1.6: both rows end step 1 at token 1 and step 2 at token 2."""
    end_BT = np.array([[False, True, True]] * 2)
    reward_BT = np.array([[0, 1, 0], [0, 0, 1]], F32)
    x = inputs([[0.0, 0.0]], [3, 3], step_end_BT=end_BT, step_reward_BT=reward_BT)
    adv_BT = advantages("process", x, ddof=0, eps=0.0)
    close(adv_BT, [[0, 0, -1], [0, 0, 1]])


@pytest.mark.parametrize("success", [1, 2, 4, 7])
def test_binary_closed_forms(success):
    """Specification 0.4: A+ = sqrt((1-p)/p), A- = -sqrt(p/(1-p)) with the population deviation."""
    p = success / 8
    adv = per_sample("group", [1] * success + [0] * (8 - success), ddof=0, eps=0.0)
    close(adv[0], np.sqrt((1 - p) / p))
    close(adv[-1], -np.sqrt(p / (1 - p)))
    close(np.abs(adv).mean(), 2 * np.sqrt(p * (1 - p)))
