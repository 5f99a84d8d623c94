"""The terms around the policy loss: each acts, none hides, micro-batches add up."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import loss_oracle as oracle
import numpy as np
import pytest

from rlvr_jax.losses import KL, LOSSES, Coefs, Correction, Objective, finish_metrics, merge_metrics
from rlvr_jax.masking import nll_weights

F32 = np.float32


def make_inputs(seed=0, **kwargs):
    x = oracle.make_inputs(seed, **kwargs)
    correct_B = np.array([True, True, False, True, False])[: x.mask_BT.shape[0]]
    x = dataclasses.replace(x, nll_weight_BT=nll_weights(x.mask_BT, correct_B))
    return jax.tree.map(lambda a: a if a.dtype == bool else a.astype(F32), x)


@functools.cache
def compiled(objective):
    def value(logp_BT, entropy_BT, x, coefs):
        y = dataclasses.replace(x, logp_BT=logp_BT, entropy_BT=entropy_BT)
        return objective(y, coefs)

    return jax.jit(jax.value_and_grad(value, argnums=(0, 1), has_aux=True))


def run(objective, x, coefs=None):
    (total, metrics), grads = compiled(objective)(x.logp_BT, x.entropy_BT, x, coefs)
    return float(total), jax.tree.map(np.asarray, grads), jax.tree.map(np.asarray, metrics)


def clipped(**fields):
    return Objective(loss=LOSSES["clipped"](), **fields)


KNOBS = {
    "kl": KL(place="loss", estimator="k3", coef=0.1),
    "correction": Correction(level="token", high=1.05),
    "entropy_coef": 0.01,
    "nll_coef": 0.1,
    "positive_scale": 0.5,
    "negative_scale": 0.5,
    "top_entropy": 0.4,
}


@pytest.mark.parametrize("knob", list(KNOBS))
def test_every_knob_changes_the_loss_and_the_gradient(knob):
    plain = clipped()
    turned = clipped(**{knob: KNOBS[knob]})
    x = turned.prepare(make_inputs())
    base, changed = run(plain, x), run(turned, x)
    assert base[0] != changed[0]
    assert any(np.any(a != b) for a, b in zip(base[1], changed[1], strict=True))


def test_no_knob_is_missing_from_this_table():
    assert {f.name for f in dataclasses.fields(Objective)} == set(KNOBS) | {"loss"}


@pytest.mark.parametrize(
    "change",
    [
        {"kl": KL(place="loss", estimator="k2", coef=0.1)},
        {"kl": KL(place="loss", estimator="k1", coef=0.1, force=True)},
        {"kl": KL(place="loss", estimator="k3", coef=0.1, grad="k2")},
        {"kl": KL(place="loss", estimator="k3", coef=0.1, ratio_corrected=True)},
        {"kl": KL(place="loss", estimator="k3", coef=0.2)},
    ],
    ids=str,
)
def test_every_field_of_the_kl_acts(change):
    x = make_inputs()
    base = run(clipped(kl=KL(place="loss", estimator="k3", coef=0.1)), x)
    assert np.any(base[1][0] != run(clipped(**change), x)[1][0])


def test_value_is_the_sum_of_its_parts():
    x = make_inputs()
    beta, c, mu = 0.3, 0.05, 0.1
    kl = KL(place="loss", estimator="k2", coef=beta)
    total = run(clipped(kl=kl, entropy_coef=c, nll_coef=mu), x)[0]
    loss = LOSSES["clipped"]()
    weight_BT = np.where(x.mask_BT, x.weight_BT, 0.0)
    expected = oracle.value("clipped", loss, x, x.logp_BT, x.logp_BT)
    expected += beta * np.sum(weight_BT * 0.5 * (x.logp_BT - x.ref_logp_BT) ** 2)
    expected -= c * np.sum(weight_BT * x.entropy_BT)
    expected += mu * np.sum(np.where(x.mask_BT, x.nll_weight_BT * -x.logp_BT, 0.0))
    np.testing.assert_allclose(total, expected, rtol=1e-5)


def test_vapo_likelihood_example():
    """Specification A3.4: log-probs [-.5, -1.5] of a right answer add mu * 1.0."""
    x = make_inputs(rows=5, width=2)
    mask_BT = np.zeros((5, 2), bool)
    mask_BT[1] = True
    logp_BT = np.tile(np.array([-0.5, -1.5], F32), (5, 1))
    x = dataclasses.replace(
        x,
        mask_BT=mask_BT,
        logp_BT=logp_BT,
        adv_BT=np.zeros((5, 2), F32),
        nll_weight_BT=nll_weights(mask_BT, np.array([1, 1, 0, 0, 0], bool)),
    )
    np.testing.assert_allclose(run(clipped(nll_coef=0.1), x)[0], 0.1, rtol=1e-6)


def test_controlled_coefficients_take_the_place_of_the_fixed_ones():
    x = make_inputs()
    kl = KL(place="loss", estimator="k3", coef=0.5)
    moved = run(clipped(kl=kl), x, Coefs(kl=jnp.float32(0.2), entropy=jnp.float32(0.01)))[0]
    fixed = run(clipped(kl=dataclasses.replace(kl, coef=0.2), entropy_coef=0.01), x)[0]
    np.testing.assert_allclose(moved, fixed, rtol=1e-6)


def test_entropy_gradient_goes_through_the_entropy():
    x = make_inputs()
    grad_BT = run(clipped(entropy_coef=0.02), x)[1][1]
    np.testing.assert_allclose(grad_BT, -0.02 * np.where(x.mask_BT, x.weight_BT, 0), rtol=1e-6)
    assert np.all(run(clipped(), x)[1][1] == 0)


def test_sign_switches_silence_one_side():
    x = make_inputs()
    good_BT = (x.adv_BT > 0) & x.mask_BT
    bad_BT = (x.adv_BT < 0) & x.mask_BT
    plain = run(clipped(), x)[1][0]
    for scales, kept_BT, silent_BT in (
        ({"positive_scale": 1.0, "negative_scale": 0.0}, good_BT, bad_BT),
        ({"positive_scale": 0.0, "negative_scale": 1.0}, bad_BT, good_BT),
    ):
        grad_BT = run(clipped(**scales), x)[1][0]
        np.testing.assert_array_equal(grad_BT[kept_BT], plain[kept_BT])
        assert np.all(grad_BT[silent_BT] == 0)
    assert good_BT.any() and bad_BT.any()


def test_top_entropy_keeps_the_right_tokens():
    objective = clipped(top_entropy=0.2)
    x = objective.prepare(make_inputs())
    entropies = np.sort(x.entropy_BT[x.mask_BT])[::-1]
    number = int(0.2 * entropies.size)
    assert int(np.sum(x.keep_BT)) == number
    assert np.all(np.asarray(x.entropy_BT)[np.asarray(x.keep_BT)] >= entropies[number - 1])
    grad_BT = run(objective, x)[1][0]
    plain_BT = run(clipped(), x)[1][0]
    np.testing.assert_array_equal(grad_BT, np.where(x.keep_BT, plain_BT, 0.0))


def alone(x, row):
    """A micro-batch of one row, in the shape of the whole."""
    mask_BT = x.mask_BT & (np.arange(x.mask_BT.shape[0]) == row)[:, None]
    return dataclasses.replace(x, mask_BT=mask_BT)


@pytest.mark.parametrize("name", ["clip_cov", "kl_cov"])
@pytest.mark.parametrize("top_entropy", [1.0, 0.5])
def test_choices_on_the_minibatch_survive_the_split(name, top_entropy):
    objective = Objective(loss=LOSSES.make(name, share=0.2), top_entropy=top_entropy)
    if name == "clip_cov":
        objective = dataclasses.replace(
            objective, loss=LOSSES.make(name, share=0.2, cov_low=0.0, cov_high=9.0)
        )
    x = objective.prepare(make_inputs(2))
    assert np.any(x.picked_BT) and not np.any(x.picked_BT & ~x.mask_BT)
    total, (grad_BT, _), metrics = run(objective, x)
    parts = [run(objective, alone(x, row)) for row in range(5)]
    np.testing.assert_allclose(total, sum(p[0] for p in parts), rtol=1e-5)
    np.testing.assert_allclose(grad_BT, sum(p[1][0] for p in parts), atol=1e-8)
    merged = functools.reduce(merge_metrics, (p[2] for p in parts))
    for key, value in finish_metrics(metrics).items():
        np.testing.assert_allclose(value, finish_metrics(merged)[key], rtol=1e-5, err_msg=key)


def test_unprepared_batches_are_refused():
    x = make_inputs()
    with pytest.raises(ValueError, match="prepare"):
        clipped(top_entropy=0.2)(x)
    bare = dataclasses.replace(x, picked_BT=None)
    for name in ("clip_cov", "kl_cov"):
        with pytest.raises(ValueError, match="prepare"):
            Objective(loss=LOSSES[name]())(bare)
    with pytest.raises(ValueError, match="nll_weight_BT"):
        clipped(nll_coef=0.1)(dataclasses.replace(x, nll_weight_BT=None))


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"nll_coef": -1.0}, "nll_coef"),
        ({"positive_scale": -1.0}, "positive_scale"),
        ({"positive_scale": 0.0, "negative_scale": 0.0}, "nothing to learn"),
        ({"top_entropy": 0.0}, "share"),
        ({"loss": LOSSES["gspo"](), "top_entropy": 0.2}, "one ratio a sequence"),
        ({"loss": LOSSES["gspo"](), "correction": Correction(level="token")}, "one ratio"),
        ({"loss": LOSSES["gmpo"](), "correction": Correction(level="token")}, "one ratio"),
    ],
)
def test_contradictions_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        Objective(**({"loss": LOSSES["clipped"]()} | fields))


def test_needs_reference():
    assert not clipped().needs_reference
    assert clipped(kl=KL(place="reward", estimator="k1", coef=0.1)).needs_reference


def test_objective_is_static():
    """Usable as a jit static: hashable and equal by value."""
    assert hash(clipped(nll_coef=0.1)) == hash(clipped(nll_coef=0.1))
    assert clipped() != clipped(entropy_coef=0.1)


def test_on_policy_invariants_of_the_metrics():
    x = make_inputs(spread=0.0)
    done = finish_metrics(run(clipped(), x)[2])
    assert done["policy/ratio_max"] == 1.0 and done["policy/approx_kl"] == 0.0
    assert done["policy/clip_frac_low"] == done["policy/clip_frac_high"] == 0.0
