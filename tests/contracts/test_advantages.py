"""What every advantage estimator promises.  Runs over the registry."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.batch import AdvantageInputs

PROMPTS, SAMPLES, WIDTH = 4, 8, 7
F32 = np.float32


def make_inputs(seed=0, *, kl=False) -> AdvantageInputs:
    rng = np.random.default_rng(seed)
    rows = PROMPTS * SAMPLES
    valid_NG = rng.uniform(size=(PROMPTS, SAMPLES)) > 0.15
    length_B = rng.integers(1, WIDTH + 1, rows) * valid_NG.reshape(-1)
    mask_BT = np.arange(WIDTH) < length_B[:, None]
    correct_NG = (rng.uniform(size=valid_NG.shape) < 0.25) & valid_NG
    reward_NG = correct_NG + 0.25 * rng.integers(0, 3, valid_NG.shape)
    parts_CNG = np.stack([correct_NG, reward_NG - correct_NG])
    end_BT = mask_BT & ((rng.uniform(size=mask_BT.shape) < 0.3) | ~np.roll(mask_BT, -1, 1))
    return AdvantageInputs(
        reward_NG=reward_NG.astype(F32),
        valid_NG=valid_NG,
        mask_BT=mask_BT,
        kl_BT=(0.1 * rng.normal(size=mask_BT.shape) * mask_BT).astype(F32) if kl else None,
        value_BT=rng.uniform(size=mask_BT.shape).astype(F32),
        greedy_reward_N=rng.integers(0, 2, PROMPTS).astype(F32),
        correct_NG=correct_NG,
        step_reward_BT=rng.integers(0, 2, mask_BT.shape).astype(F32) * end_BT,
        step_end_BT=end_BT,
        reward_parts_CNG=parts_CNG.astype(F32),
        running_baseline=F32(0.3),
    )


@functools.cache
def compiled(estimator):
    function = jax.jit(lambda x: estimator(x))
    return lambda x: np.asarray(function(x))


@pytest.fixture(params=list(ADVANTAGES))
def estimator(request):
    return ADVANTAGES[request.param]()


def promised(estimator, word):
    if word not in estimator.promises:
        pytest.skip(f"does not promise {word}")


def kinds_of_reward(x, change):
    """`x` with every field that carries rewards of samples changed."""
    return dataclasses.replace(
        x,
        reward_NG=change(x.reward_NG),
        reward_parts_CNG=change(x.reward_parts_CNG),
    )


def test_zero_and_finite_where_it_must_be(estimator):
    x = make_inputs()
    adv_BT = compiled(estimator)(x)
    assert adv_BT.shape == x.mask_BT.shape and adv_BT.dtype == np.float32
    assert np.all(np.isfinite(adv_BT)) and np.any(adv_BT != 0)
    assert np.all(np.where(x.mask_BT, 0.0, adv_BT) == 0)


def test_invalid_samples_and_padding_are_irrelevant(estimator):
    x = make_inputs()
    valid_B1 = x.valid_NG.reshape(-1, 1)
    spoiled = dataclasses.replace(
        x,
        reward_NG=np.where(x.valid_NG, x.reward_NG, F32(1e6)),
        correct_NG=x.correct_NG | ~x.valid_NG,
        reward_parts_CNG=np.where(x.valid_NG, x.reward_parts_CNG, F32(-1e6)),
        value_BT=np.where(x.mask_BT, x.value_BT, F32(np.nan)),
        step_reward_BT=np.where(valid_B1 & x.mask_BT, x.step_reward_BT, F32(np.nan)),
        step_end_BT=x.step_end_BT | ~x.mask_BT,
    )
    np.testing.assert_allclose(compiled(estimator)(x), compiled(estimator)(spoiled), atol=1e-6)
    wide = {
        f.name: np.pad(value, ((0, 0), (0, 3)))
        for f in dataclasses.fields(x)
        if f.name.endswith("_BT") and (value := getattr(x, f.name)) is not None
    }
    padded_BT = compiled(estimator)(dataclasses.replace(x, **wide))
    np.testing.assert_allclose(compiled(estimator)(x), padded_BT[:, :WIDTH], atol=1e-6)


def test_order_of_samples_is_irrelevant(estimator):
    x = make_inputs()
    rng = np.random.default_rng(3)
    order_N = rng.permutation(PROMPTS)
    order_G = rng.permutation(SAMPLES)
    rows = (order_N[:, None] * SAMPLES + order_G).reshape(-1)

    def move(name, a):
        if a is None or a.ndim == 0:
            return a
        if name.endswith("_BT"):
            return a[rows]
        if name.endswith("_CNG"):
            return a[:, order_N][:, :, order_G]
        return a[order_N][:, order_G] if name.endswith("_NG") else a[order_N]

    moved = AdvantageInputs(
        **{f.name: move(f.name, getattr(x, f.name)) for f in dataclasses.fields(x)}
    )
    np.testing.assert_allclose(compiled(estimator)(x)[rows], compiled(estimator)(moved), atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.3])
def test_unanimous_groups_get_exactly_zero(estimator, value):
    promised(estimator, "unanimous")
    # equal up to rounding, as sums of reward parts are
    noise_G = F32(3e-8) * np.random.default_rng(0).integers(-1, 2, SAMPLES).astype(F32)
    flat = make_inputs()
    flat.reward_NG[0] = F32(value) + noise_G
    flat.reward_parts_CNG[:, 0] = F32(value) + noise_G
    flat.correct_NG[0] = value > 0
    flat.step_reward_BT[:SAMPLES] = value
    adv_BT = compiled(estimator)(flat)
    assert np.all(adv_BT[:SAMPLES] == 0)
    assert np.any(adv_BT[SAMPLES:] != 0)


def test_shift_of_the_reward_is_irrelevant(estimator):
    promised(estimator, "shift")
    x = make_inputs()
    np.testing.assert_allclose(
        compiled(estimator)(x),
        compiled(estimator)(kinds_of_reward(x, lambda r: r + 2.0)),
        atol=2e-5,
    )


def test_scale_of_the_reward_is_irrelevant(estimator):
    promised(estimator, "scale")
    x = make_inputs()
    np.testing.assert_allclose(
        compiled(estimator)(x),
        compiled(estimator)(kinds_of_reward(x, lambda r: r * 8.0)),
        atol=2e-5,
    )


def test_kl_in_the_reward_is_taken_or_refused(estimator):
    plain, penalised = make_inputs(), make_inputs(kl=True)
    if not estimator.takes_kl:
        with pytest.raises(ValueError, match="KL in the reward"):
            compiled(estimator)(penalised)
        return
    assert np.any(compiled(estimator)(plain) != compiled(estimator)(penalised))


def test_missing_inputs_are_named(estimator):
    for field in estimator.needs:
        with pytest.raises(ValueError, match=field):
            estimator(dataclasses.replace(make_inputs(), **{field: None}))


def test_all_masked_gives_zero(estimator):
    x = make_inputs()
    nothing = dataclasses.replace(
        x,
        valid_NG=np.zeros_like(x.valid_NG),
        mask_BT=np.zeros_like(x.mask_BT),
        correct_NG=np.zeros_like(x.correct_NG),
    )
    assert np.all(compiled(estimator)(nothing) == 0)


def test_hashable_equal_and_documented(estimator):
    assert hash(estimator) == hash(type(estimator)()) and estimator == type(estimator)()
    assert "arXiv" in type(estimator).__doc__ or "Williams" in type(estimator).__doc__
