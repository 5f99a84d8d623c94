"""The transformer once more, in float64 numpy, one sequence and one head at a time."""

from __future__ import annotations

import dataclasses

import numpy as np

from rlvr_jax.models.config import ModelConfig


def _norm(x, weight, config):
    scale = weight + (1.0 if config.norm_plus_one else 0.0)
    return x / np.sqrt(np.mean(x**2, -1, keepdims=True) + config.norm_eps) * scale


def _gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _activation(name, x):
    return _gelu_tanh(x) if name == "gelu_tanh" else x / (1 + np.exp(-x))


def _stretched(speed, i, rope):
    """Radians a token of the i-th pair, of `speed` before the stretch."""
    if rope.kind == "linear":
        return speed / rope.factor
    if rope.kind == "longrope":
        return speed / (rope.long_factor if rope.long else rope.short_factor)[i]
    if rope.kind == "llama3":
        wavelength = 2 * np.pi / speed
        if wavelength < rope.original_context / rope.high_freq_factor:
            return speed
        if wavelength > rope.original_context / rope.low_freq_factor:
            return speed / rope.factor
        smooth = rope.original_context / wavelength - rope.low_freq_factor
        smooth /= rope.high_freq_factor - rope.low_freq_factor
        return (1 - smooth) * speed / rope.factor + smooth * speed
    return speed


def _yarn(a, size):
    """Radians a token of every pair: those between two borders, in pairs, fade from one to the
    other."""
    rope, speeds = a.rope, [a.rope_theta ** (-2 * i / size) for i in range(size // 2)]

    def border(turns):  # where a pair, counted on from whole ones, makes so many turns
        return -np.log(turns * 2 * np.pi / rope.original_context) * size / 2 / np.log(a.rope_theta)

    low, high = max(np.floor(border(rope.beta_fast)), 0), np.ceil(border(rope.beta_slow))
    high = max(min(high, size - 1), low + 1e-3)
    fade = [min(max((i - low) / (high - low), 0.0), 1.0) for i in range(size // 2)]
    return [s * (1 - f) + s / rope.factor * f for s, f in zip(speeds, fade, strict=True)]


def _m(rope, scale):
    return 0.1 * scale * np.log(rope.factor) + 1


def _rotate(x, positions, a, local):
    """x [S, d]: of its first r dimensions pairs (i, i + r/2) turned by position / theta^(2i/r)."""
    own = local and a.rope_theta_local
    theta, size = a.rope_theta_local if own else a.rope_theta, a.rotary_dim or a.head_dim
    out = x.copy()
    for i in range(size // 2):
        speed = theta ** (-2 * i / size)
        angle = positions * (speed if own else _stretched(speed, i, a.rope))
        scale = 1.0 if own else a.rope.attention_factor
        if a.rope.kind == "yarn" and not own:
            angle = positions * _yarn(a, size)[i]
            scale = _m(a.rope, a.rope.mscale) / _m(a.rope, a.rope.mscale_all_dim)
        u, w = x[:, i], x[:, i + size // 2]
        out[:, i] = scale * (u * np.cos(angle) - w * np.sin(angle))
        out[:, i + size // 2] = scale * (w * np.cos(angle) + u * np.sin(angle))
    return out


def _mixture(h, p, config):
    """Every token's top experts, one at a time."""
    out, moe = np.zeros_like(h), config.moe
    for t, x in enumerate(h):
        score = np.exp(x @ p["router"] - (x @ p["router"]).max())
        score /= score.sum()
        order = score
        if moe.scoring == "sigmoid":
            score = 1 / (1 + np.exp(-x @ p["router"]))
            order, size = score + p["router_bias"], moe.experts // moe.groups
            groups = [range(g * size, (g + 1) * size) for g in range(moe.groups)]
            groups.sort(key=lambda g, order=order: -sum(sorted(order[e] for e in g)[-2:]))
            outside = [e for g in groups[moe.top_groups :] for e in g]
            order[outside] = -np.inf
        chosen = np.argsort(-order, kind="stable")[: moe.top_k]
        total = score[chosen].sum() if moe.normalize else 1.0
        for e in chosen:
            own = [p[f"expert_{n}"][e] for n in ("gate", "up", "down")]
            out[t] += moe.scale * score[e] / total * _mlp(x, own, config)
    if moe.shared:
        out += _mlp(h, [p[f"shared_{n}"] for n in ("gate", "up", "down")], config)
    return out


def _mlp(x, weights, config):
    gate, up, down = weights
    return (_activation(config.activation, x @ gate) * (x @ up)) @ down


def _cap(x, cap):
    return cap * np.tanh(x / cap) if cap else x


def _latent(h, p, config):
    """Queries, keys and values of latent attention, rotated dimensions first, [S, heads, d]."""
    a, size = config.attn, len(h)
    exact = dataclasses.replace(config, norm_eps=1e-6)
    plain, rank = a.head_dim - a.rotary_dim, a.mla.kv_rank

    def bias(name):
        return p.get(f"{name}_bias", 0.0)

    def first(x):  # plain and rotated parts change places, neighbours become halves
        x, y = x[..., :plain], x[..., plain:]
        y = np.concatenate([y[..., ::2], y[..., 1::2]], -1) if a.mla.interleave else y
        return np.concatenate([y, x], -1)

    if a.mla.q_rank:
        q = _norm(h @ p["q_a"] + bias("q_a"), p["q_a_norm"], exact) @ p["q_b"]
    else:
        q = h @ p["q"]
    down = h @ p["kv_a"] + bias("kv_a")
    up = _norm(down[:, :rank], p["kv_a_norm"], exact) @ p["kv_b"]
    up = up.reshape(size, a.heads, -1)
    shared = np.repeat(down[:, None, rank:], a.heads, axis=1)
    k = np.concatenate([up[..., :plain], shared], -1)
    return first(q.reshape(size, a.heads, -1)), first(k), up[..., plain:]


def _plain(h, p, config):
    a, size = config.attn, len(h)
    q, k, v = (h @ p[n] + p.get(f"{n}_bias", 0.0) for n in ("q", "k", "v"))
    if a.qk_norm_whole:
        q, k = _norm(q, p["q_norm"], config), _norm(k, p["k_norm"], config)
    q, k, v = (x.reshape(size, -1, a.head_dim) for x in (q, k, v))
    if a.qk_norm and not a.qk_norm_whole:
        q, k = _norm(q, p["q_norm"], config), _norm(k, p["k_norm"], config)
    return q, k, v


def _attention(h, p, config, positions, local, rotary):
    a = config.attn
    q, k, v = (_latent if a.mla.kv_rank else _plain)(h, p, config)
    factor = a.query_scale or a.head_dim**-0.5
    if a.mla.kv_rank and a.rope.kind == "yarn":
        factor *= _m(a.rope, a.rope.mscale_all_dim) ** 2
    distance = positions[:, None] - positions[None, :]
    allowed = (distance >= 0) & ((distance < a.window) if local else True)
    out = []
    for head in range(a.heads):
        shared = head // (a.heads // a.kv_heads)
        qh, kh = q[:, head], k[:, shared]
        if rotary:
            qh, kh = _rotate(qh, positions, a, local), _rotate(kh, positions, a, local)
        score = _cap(qh @ kh.T * factor, a.softcap)
        weight = np.where(allowed, np.exp(score - score.max()), 0.0)
        out.append(weight / weight.sum(-1, keepdims=True) @ v[:, shared])
    return np.concatenate(out, -1) @ p["o"] + p.get("o_bias", 0.0)


def hidden_states(config: ModelConfig, params, tokens, start: int = 0) -> np.ndarray:
    """Final hidden states [S, D] of one sequence whose first token has position `start`."""
    top = {k: np.asarray(params[k], np.float64) for k in ("embed", "final_norm")}
    x = top["embed"][np.asarray(tokens)] * (config.width**0.5 if config.embed_scale else 1.0)
    positions = start + np.arange(len(tokens), dtype=np.float64)
    for i in range(config.layers):
        first = config.moe.dense_layers
        stack = params["dense"]["layers"] if i < first else params["layers"]
        row = i if i < first else i - first
        p = {k: np.asarray(v[row], np.float64) for k, v in stack.items()}
        local = bool(
            config.attn.window and config.attn.local_pattern[i % len(config.attn.local_pattern)]
        )

        def norm(name, x, p=p):
            return _norm(x, p[name], config) if name in p else x

        rotary = bool(config.attn.rope_pattern[i % len(config.attn.rope_pattern)])
        h = _attention(norm("attn_norm", x), p, config, positions, local, rotary)
        x = x + norm("attn_post_norm", h)
        h = norm("mlp_norm", x)
        if config.moe.experts and i >= first:
            h = _mixture(h, p, config)
        else:
            h = _mlp(h, [p[n] for n in ("gate", "up", "down")], config)
        x = x + norm("mlp_post_norm", h)
    return _norm(x, top["final_norm"], config)


def logits(config: ModelConfig, params, tokens, start: int = 0) -> np.ndarray:
    """float64 [S, V]."""
    head = np.asarray(params.get("head", params["embed"]), np.float64)
    return _cap(hidden_states(config, params, tokens, start) @ head.T, config.logit_softcap)


def possible(z, sampling) -> np.ndarray:
    """bool [V]: the tokens that can be drawn, by brute force over the definition."""
    z = np.asarray(z, np.float64)
    if sampling.temperature == 0:
        return z == z.max()
    z = z / sampling.temperature
    allowed = np.ones(len(z), bool)
    if 0 < sampling.top_k < len(z):
        allowed = z >= np.sort(z)[-sampling.top_k]
    if sampling.top_p < 1:
        p = np.where(allowed, np.exp(z - z.max()), 0.0)
        p /= p.sum()
        for border in np.sort(np.unique(z[allowed]))[::-1]:  # take whole levels of equal logits
            if p[z > border].sum() >= sampling.top_p:
                allowed &= z > border
                break
    return allowed


def log_distribution(z, sampling) -> np.ndarray:
    """log of the sampling distribution [V]; -inf where impossible."""
    z = np.asarray(z, np.float64) / (sampling.temperature or 1.0)
    z = np.where(possible(z * (sampling.temperature or 1.0), sampling), z, -np.inf)
    return z - z.max() - np.log(np.exp(z - z.max()).sum())
