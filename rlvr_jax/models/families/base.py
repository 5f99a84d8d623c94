"""What a family is, and reading a `config.json` so that nothing in it is overlooked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from rlvr_jax.models.config import RUN_KEYS, AttentionConfig, ModelConfig, RopeScaling
from rlvr_jax.models.families.keys import Keys, is_number
from rlvr_jax.models.families.names import LLAMA, Tensor
from rlvr_jax.registry import Registry

FAMILIES = Registry("model family")

ACTIVATIONS = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}


@dataclasses.dataclass(frozen=True)
class Family:
    """Switches and names of one `model_type`; subclasses override what differs from Llama."""

    model_type: ClassVar[str]
    architecture: ClassVar[str]
    names: ClassVar[Mapping[str, Tensor]] = LLAMA

    def read(self, keys: Keys) -> ModelConfig:
        """The model a config.json describes."""
        return model(self, keys, attention(keys))

    def unread(self, c: ModelConfig, names: Collection[str]) -> set[str]:
        """Which of a checkpoint's tensors belong to parts that are left out on purpose."""
        return set()

    def write(self, c: ModelConfig) -> dict[str, Any]:
        """The inverse; what this family cannot express is left out (`config_to_json` checks)."""
        return basics(c)


def config_of(data: Mapping[str, Any]) -> ModelConfig:
    """The model that a config.json describes; ValueError naming what is not supported."""
    if not isinstance(data, Mapping):
        raise ValueError(f"config.json must hold an object; got {data!r:.40}")
    kind = data.get("model_type")
    if not isinstance(kind, str):
        raise ValueError("config.json has no model_type")
    if data.get("quantization_config"):
        raise ValueError(
            "quantized weights are not supported (quantization_config in config.json): save them "
            "as bfloat16 first"
        )
    keys = Keys(data)
    try:
        config = FAMILIES.make(kind).read(keys)
    except (TypeError, KeyError, ArithmeticError) as error:
        raise ValueError(f'config.json of model_type "{kind}" is malformed: {error}') from error
    keys.check_all_read()
    return config


def _architecture(c: ModelConfig) -> ModelConfig:
    """`c` with everything that a config.json does not say set to one value."""
    plain = ModelConfig()
    rope = dataclasses.replace(c.attn.rope, long=False)
    fixed = {k: getattr(plain, k) for k in (*RUN_KEYS, "family", "init_std")}
    attn = dataclasses.replace(c.attn, rope=rope, query_scale=c.attn.scale)
    if attn.mla.kv_rank:
        mla = dataclasses.replace(attn.mla, value_dim=attn.value_dim, absorb=False)
        attn = dataclasses.replace(attn, mla=mla)
    mlp_width = 0 if c.moe.experts and not c.moe.dense_layers else c.mlp_width
    return dataclasses.replace(c, **fixed, attn=attn, mlp_width=mlp_width)


def family_of(c: ModelConfig) -> Family:
    """The family `c` is exported as: its own, else the first that expresses every switch."""
    order = [c.family] if c.family else sorted(FAMILIES, key=lambda name: name != "llama")
    wrong, refused = {}, {}
    for name in order:
        family = FAMILIES.make(name)
        try:
            lost = _inexpressible(family, c)
        except ValueError as error:  # not even a model of this family
            refused[name] = str(error)
            continue
        if not lost:
            return family
        wrong[name] = lost
    nearest = min(wrong, key=lambda name: len(wrong[name]), default="")
    lacks = [f'the nearest, "{nearest}", lacks {", ".join(wrong[nearest])}'] if wrong else []
    parts = {item.partition("=")[0] for item in wrong.get(nearest, ["moe="])}
    told = (
        refused if parts & {"moe", "attn.mla"} else {}
    )  # who has such parts may have said why not
    no = [f'"{name}": {reason}' for name, reason in told.items()]
    raise ValueError(f"no model family expresses this model; {'; '.join(lacks + no)}")


def _inexpressible(family: Family, c: ModelConfig) -> list[str]:
    """Switches of `c` that are lost on the way through a config.json of `family`; ValueError where
    it cannot be read back."""
    back = family.read(Keys(family.write(c)))
    wanted, got = (dataclasses.asdict(_architecture(x)) for x in (c, back))
    flat = [(k, wanted[k], got[k]) for k in wanted if k != "attn"]
    flat += [(f"attn.{k}", v, got["attn"][k]) for k, v in wanted["attn"].items()]
    return [f"{k}={v!r}" for k, v, other in flat if not _same(v, other)]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9)
    return a == b


def config_to_json(c: ModelConfig) -> dict[str, Any]:
    """The config.json of a model; ValueError where no family expresses it."""
    family = family_of(c)
    return {
        "architectures": [family.architecture],
        "model_type": family.model_type,
    } | family.write(c)


# Parts of a config.json that families share.


def attention(
    keys: Keys, theta: float = 10000.0, rotation: Mapping[str, Any] | None = None, **more: Any
) -> AttentionConfig:
    """Heads and rotation; `more` adds or replaces switches.

    rotation: fields of the rotary embedding, where a family reads them itself.
    """
    heads, width = keys("num_attention_heads"), keys("hidden_size")
    fields = {
        "heads": heads,
        "kv_heads": keys("num_key_value_heads", heads),
        "head_dim": keys("head_dim", width // heads),
        **(read_rope(keys, theta) if rotation is None else rotation),
    }
    return AttentionConfig(**(fields | more))


def kv_heads(keys: Keys, absent: int) -> int:
    """Heads of keys and values in families that have a number of their own where the key is
    absent; null is one for each head of queries."""
    given = keys.nullable("num_key_value_heads", absent)
    return keys("num_attention_heads") if given is None else given


def model(family: Family, keys: Keys, attn: AttentionConfig, **more: Any) -> ModelConfig:
    """Sizes and the switches that most families share; `more` adds or replaces."""
    if "activation" not in more:
        more["activation"] = activation(keys("hidden_act", "silu"))
    fields = {
        "family": family.model_type,
        "context": keys("max_position_embeddings", 0),
        "vocab": keys("vocab_size"),
        "width": keys("hidden_size"),
        "layers": keys("num_hidden_layers"),
        "mlp_width": keys("intermediate_size"),
        "attn": attn,
        "norm_eps": keys("rms_norm_eps", 1e-6),
        "tied_head": keys("tie_word_embeddings", False),
    }
    return ModelConfig(**(fields | more))


def activation(name: str) -> str:
    """Ours of the name of an activation."""
    if name not in ACTIVATIONS:
        raise ValueError(f'hidden_act "{name}" is not supported ({", ".join(ACTIVATIONS)} are)')
    return ACTIVATIONS[name]


def basics(c: ModelConfig) -> dict[str, Any]:
    """The keys that every family writes."""
    a = c.attn
    act = {ours: theirs for theirs, ours in ACTIVATIONS.items()}[c.activation]
    return {
        "vocab_size": c.vocab,
        "hidden_size": c.width,
        "intermediate_size": c.mlp_width,
        "num_hidden_layers": c.layers,
        "num_attention_heads": a.heads,
        "num_key_value_heads": a.kv_heads,
        "head_dim": a.head_dim,
        "hidden_act": act,
        "rms_norm_eps": c.norm_eps,
        "tie_word_embeddings": c.tied_head,
        "attention_bias": False,
        **({"max_position_embeddings": c.context} if c.context else {}),
        **write_rope(a),
    }


_SCALING = {  # rope_type -> ours of each key
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low_freq_factor": "low_freq_factor",
        "high_freq_factor": "high_freq_factor",
        "original_max_position_embeddings": "original_context",
    },
    "longrope": {
        "short_factor": "short_factor",
        "long_factor": "long_factor",
        "original_max_position_embeddings": "original_context",
        "attention_factor": "attention_factor",
    },
    "yarn": {
        "factor": "factor",
        "original_max_position_embeddings": "original_context",
        "beta_fast": "beta_fast",
        "beta_slow": "beta_slow",
        "mscale": "mscale",
        "mscale_all_dim": "mscale_all_dim",
    },
}
_ABSENT = {"yarn": {"beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 0.0}}


def one_name(given: Mapping[str, Any]) -> dict[str, Any]:
    """A rope dict without nulls, its kind under "rope_type"; ValueError where it gives two."""
    given = {k: v for k, v in given.items() if v is not None}
    older = given.pop("type", None)
    kind = given.setdefault("rope_type", older or "default")
    if older not in (None, kind):
        raise ValueError(f'rope scaling says rope_type "{kind}" and type "{older}"')
    return given


def rope_dict(keys: Keys, theta: float) -> dict[str, Any]:
    """`rope_parameters` or the older `rope_scaling`, with the keys that may stand beside them.

    ValueError where both are given and differ: readers disagree on which of them counts.
    """
    beside = {
        "rope_theta": keys("rope_theta", theta),
        "partial_rotary_factor": keys("partial_rotary_factor", 1.0),
    }
    found = [beside | one_name(keys(k, None) or {}) for k in ("rope_parameters", "rope_scaling")]
    if keys("rope_parameters", None) and keys("rope_scaling", None) and found[0] != found[1]:
        raise ValueError(
            "config.json has rope_parameters and rope_scaling that differ; delete one of them"
        )
    given = found[1 if keys("rope_scaling", None) else 0]
    for name in beside:
        Keys(given)(name)  # of the right kind there too
    return given


def read_rope(keys: Keys, theta: float) -> dict[str, Any]:
    """rope_theta and rope, of a family that rotates whole heads."""
    given = rope_dict(keys, theta)
    theta, partial = given.pop("rope_theta"), given.pop("partial_rotary_factor")
    if partial != 1:
        raise ValueError(
            f"partial_rotary_factor={partial} is not supported: this family rotates whole heads"
        )
    return {"rope_theta": theta, "rope": read_scaling(given)}


def read_scaling(given: Mapping[str, Any]) -> RopeScaling:
    """A `rope_scaling` dict; ValueError naming a kind or key that is not supported or lacks."""
    given = one_name(given)
    kind = given.pop("rope_type")
    if kind == "default":
        if given:
            raise ValueError(
                f"rope scaling has {', '.join(given)} but no rope_type that reads them"
            )
        return RopeScaling()
    if not isinstance(kind, str) or kind not in _SCALING:
        allowed = ", ".join(("default", *_SCALING))
        raise ValueError(f'rope scaling "{kind}" is not supported ({allowed} are)')
    bad = [k for k in given if k not in _SCALING[kind]]
    if bad:
        raise ValueError(f'rope scaling "{kind}" has keys that are not supported: {bad}')
    scales = given.get("mscale"), given.get("mscale_all_dim")
    given = _ABSENT.get(kind, {}) | given
    lost = [k for k in _SCALING[kind] if k not in given]
    if lost:
        raise ValueError(f'rope scaling "{kind}" lacks {", ".join(lost)}')
    for key, value in given.items():
        listed = key in ("short_factor", "long_factor")
        numbers = value if isinstance(value, list) and listed else [value]
        if listed != isinstance(value, list) or not all(is_number(n) for n in numbers):
            what = "a list of numbers" if listed else "a number"
            raise ValueError(f'"{key}" of rope scaling "{kind}" must be {what}; got {value!r}')
    _check_mscales(*scales)
    fields = {_SCALING[kind][k]: v for k, v in given.items()}
    return RopeScaling(
        kind, **{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    )


def _check_mscales(one: float | None, all_dim: float | None) -> None:
    """Of either without the other, `transformers` and DeepSeek's own code make different things."""
    if min(one or 0, all_dim or 0) <= 0 and not (one in (None, 1) and not all_dim):
        raise ValueError(
            f"mscale and mscale_all_dim of rope scaling are positive or absent, both of them; got "
            f"{one} and {all_dim}"
        )


def write_rope(a: AttentionConfig) -> dict[str, Any]:
    """`rope_theta`, and `rope_scaling` where there is one: the keys that every reader knows."""
    out: dict[str, Any] = {"rope_theta": a.rope_theta}
    if a.rope.kind != "none":
        fields = {k: getattr(a.rope, ours) for k, ours in _SCALING[a.rope.kind].items()}
        fields = {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}
        out["rope_scaling"] = {"rope_type": a.rope.kind} | fields
    return out


# Sliding windows.


def windows(flags: Sequence[bool], window: int | None) -> dict[str, Any]:
    """window and local_pattern for layers of which flags[i] are local."""
    if not any(flags):
        return {}
    if not window:
        raise ValueError(
            f"layers with a sliding window need sliding_window to be positive; got {window}"
        )
    return {"window": window, "local_pattern": shortest_pattern(flags)}


def shortest_pattern(flags: Sequence[bool]) -> tuple[int, ...]:
    """The shortest run whose repetition, cut at the end, is `flags`."""
    for size in range(1, len(flags) + 1):
        if all(bool(f) == bool(flags[i % size]) for i, f in enumerate(flags)):
            return tuple(int(f) for f in flags[:size])
    raise ValueError("a model needs at least one layer")


def layer_types(keys: Keys, default: Sequence[bool]) -> list[bool]:
    """Which layers are local, by `layer_types` where it is given."""
    types = keys("layer_types", None)
    if types is None:
        return list(default)
    bad = sorted({t for t in types if t not in ("full_attention", "sliding_attention")})
    if bad or len(types) != len(default):
        raise ValueError(
            f"layer_types must hold full_attention or sliding_attention for each of the "
            f"{len(default)} layers; got {len(types)} with {bad or 'known names'}"
        )
    return [t == "sliding_attention" for t in types]


def write_layer_types(c: ModelConfig) -> list[str]:
    names = ("full_attention", "sliding_attention")
    return [names[c.local(i)] for i in range(c.layers)]
