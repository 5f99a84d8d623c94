"""Contradictory choices are refused with their reason; the same choice without it passes."""

import pytest

from rlvr_jax.choices import make, make_objective, validate
from rlvr_jax.losses import LOSSES

GROUP = {"name": "group"}
CLIPPED = {"name": "clipped"}
GSPO = {"name": "gspo"}
KL = {"place": "loss", "coef": 0.1}
SEQ = {"mode": "seq_mean_token_mean"}


def sections(**changes):
    return {"advantage": GROUP, "loss": CLIPPED} | changes


GDPO = {"name": "gdpo", "parts": ("format", "correct")}

REFUSED = [
    (dict(reference={"mode": "none", "decay": 0.9}), "decay goes with"),
    (dict(kl=KL), "needs a reference"),
    (dict(kl=KL, reference={"mode": "frosen"}), "not one of"),
    (dict(reference={"mode": "every_n", "every": 100}), "no effect"),
    (dict(kl=KL, reference={"mode": "every_n"}), "reference.every"),
    (dict(kl=KL, reference={"mode": "frozen", "every": 9}), "reference.every"),
    (dict(kl=KL, reference={"mode": "ema"}), "reference.decay"),
    (dict(kl_control={"target": 1.0}), "kl.place"),
    (dict(loss=GSPO), "seq_mean_token_mean"),
    (dict(loss=GSPO, aggregation={"mode": "token_mean"}), "averaged over sequences"),
    (dict(loss=GSPO, aggregation=SEQ, correction={"level": "token"}), "one ratio a sequence"),
    (dict(loss=GSPO, aggregation=SEQ, objective={"top_entropy": 0.2}), "one ratio a sequence"),
    (
        dict(loss=GSPO, aggregation=SEQ, advantage={"name": "gae"}, critic={"enabled": True}),
        "one advantage a sequence",
    ),
    (
        dict(
            loss=GSPO,
            aggregation=SEQ,
            advantage={"name": "reinforce_pp"},
            kl={"place": "reward", "coef": 0.1},
            reference={"mode": "frozen"},
        ),
        "one advantage a sequence",
    ),
    (dict(advantage={"name": "gae"}), "needs a critic"),
    (dict(critic={"enabled": True}), "does not read the critic"),
    (dict(entropy={"coef": 0.1, "target": 0.2}), "leave entropy.coef"),
    (
        dict(correction={"level": "token"}, learner={"old_logp": "sampler"}),
        "count it twice",
    ),
    (dict(rollout={"group": 1}), "rollout.group is 1"),
    (dict(advantage={"name": "passk", "k": 9}, rollout={"group": 8}), "k = 9"),
    (dict(advantage={"name": "passk", "k": 8}, rollout={"group": 8}), "teaches nothing"),
    (
        dict(advantage={"name": "batch_mean"}, rollout={"group": 1, "dynamic_sampling": True}),
        "unanimous",
    ),
    (
        dict(
            advantage={"name": "gpg"},
            kl={"place": "reward", "coef": 0.1},
            reference={"mode": "frozen"},
        ),
        "cannot take the KL in the reward",
    ),
    (dict(aggregation={"mode": "tokenmean"}), "did you mean"),
    (dict(loss={"name": "clippd"}), 'did you mean "clipped"'),
    (dict(loss={"name": "clipped", "eps_hihg": 0.3}), 'did you mean "eps_high"'),
    (dict(loss={"eps_high": 0.3}), 'needs "name"'),
    (dict(kl={"place": "loss", "estimator": "k1", "coef": 0.1}), "exactly 0"),
    (dict(advantage={"name": "process"}), "no reward of a run gives"),
    (dict(aggregation={"mode": "const", "length_limit": -3}), "length_limit is -3"),
    (dict(advantage={"name": "passk"}, shaping={"soft_overlong": 0.2}), "soft_overlong has no eff"),
    (dict(advantage=GDPO, shaping={"cosine_length": True}), "cosine_length has no effect"),
    (dict(advantage={"name": "gdpo"}), "needs advantage.parts"),
    (dict(advantage=GDPO | {"parts": ("accuracy",)}), "for evaluations alone"),
    (dict(advantage=GDPO | {"weights": (0.0, 0.0)}), "no part counts"),
    (
        dict(advantage={"name": "pkpo", "variance_baseline": "loo"}, rollout={"group": 4}),
        "must be above advantage.k 4",
    ),
    (
        dict(advantage=GDPO | {"parts": ("corect", "format")}, reward={"name": "compose"}),
        'gives no part "corect"; did you mean "correct"',
    ),
    (dict(advantage=GDPO, reward={"weights": (1.0, 2.0)}), "reward.weights has no effect"),
    (dict(advantage=GDPO, reward={"gates": ("format",)}), "reward.gates has no effect"),
    (dict(advantage=GDPO | {"weights": (1.0,)}), "1 weights for 2 parts"),
]


@pytest.mark.parametrize("changes, reason", REFUSED, ids=str)
def test_refused(changes, reason):
    with pytest.raises(ValueError, match=reason):
        validate(sections(**changes))


ACCEPTED = [
    *(
        dict(advantage={"name": name}, rollout={"group": 1})
        for name in ("constant", "batch_mean", "running_mean", "reinforce_pp", "remax")
    ),
    {},
    dict(kl=KL, reference={"mode": "frozen"}),
    dict(kl=KL, reference={"mode": "every_n", "every": 100}),
    dict(kl=KL, reference={"mode": "ema", "decay": 0.99}),
    dict(kl=KL, reference={"mode": "frozen"}, kl_control={"target": 1.0}),
    dict(loss=GSPO, aggregation=SEQ, correction={"level": "sequence"}),
    dict(loss=GSPO, aggregation=SEQ, advantage={"name": "reinforce_pp"}),
    dict(
        loss={"name": "gspo_token"},
        aggregation=SEQ,
        advantage={"name": "gae"},
        critic={"enabled": True},
    ),
    dict(correction={"level": "token"}, learner={"old_logp": "recompute"}),
    dict(advantage={"name": "reinforce_pp"}, rollout={"group": 1}),
    dict(objective={"positive_scale": 0.0}),
    dict(reference={"mode": "frozen"}),  # reported only
]


@pytest.mark.parametrize("changes", ACCEPTED, ids=str)
def test_accepted(changes):
    validate(sections(**changes))


def test_make_objective_reads_every_section():
    objective = make_objective(
        sections(
            kl=KL,
            correction={"level": "token", "high": 3.0},
            entropy={"coef": 0.01},
            objective={"nll_coef": 0.1, "top_entropy": 0.2},
        )
    )
    assert objective.loss == LOSSES["clipped"]() and objective.kl.coef == 0.1
    assert objective.correction.high == 3.0 and objective.entropy_coef == 0.01
    assert objective.nll_coef == 0.1 and objective.top_entropy == 0.2


def test_make_does_not_change_its_section():
    section = {"name": "clipped", "eps_high": 0.3}
    assert make(LOSSES, section).eps_high == 0.3 and section["name"] == "clipped"
