"""The transformer once more, in float64 numpy, one sequence and one head at a time."""

from __future__ import annotations

import numpy as np

from rlvr_jax.models.config import ModelConfig


def _norm(x, weight, config):
    scale = weight + (1.0 if config.norm_plus_one else 0.0)
    return x / np.sqrt(np.mean(x**2, -1, keepdims=True) + config.norm_eps) * scale


def _gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _activation(name, x):
    return _gelu_tanh(x) if name == "gelu_tanh" else x / (1 + np.exp(-x))


def _rotate(x, positions, theta):
    """x [S, d]: pairs (i, i + d/2) turned by position / theta^(2i/d)."""
    half = x.shape[-1] // 2
    angle = positions[:, None] / theta ** (np.arange(half) / half)
    a, b = x[:, :half], x[:, half:]
    turned = [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)]
    return np.concatenate(turned, -1)


def _cap(x, cap):
    return cap * np.tanh(x / cap) if cap else x


def _attention(h, p, config, positions, local):
    a, size = config.attn, len(positions)
    theta = (a.rope_theta_local or a.rope_theta) if local else a.rope_theta
    q, k, v = (
        (h @ p[n] + p.get(f"{n}_bias", 0.0)).reshape(size, -1, a.head_dim) for n in ("q", "k", "v")
    )
    if a.qk_norm:
        q, k = _norm(q, p["q_norm"], config), _norm(k, p["k_norm"], config)
    distance = positions[:, None] - positions[None, :]
    allowed = (distance >= 0) & ((distance < a.window) if local else True)
    out = []
    for head in range(a.heads):
        shared = head // (a.heads // a.kv_heads)
        qh, kh = _rotate(q[:, head], positions, theta), _rotate(k[:, shared], positions, theta)
        score = _cap(qh @ kh.T * (a.query_scale or a.head_dim**-0.5), a.softcap)
        weight = np.where(allowed, np.exp(score - score.max()), 0.0)
        out.append(weight / weight.sum(-1, keepdims=True) @ v[:, shared])
    return np.concatenate(out, -1) @ p["o"] + p.get("o_bias", 0.0)


def hidden_states(config: ModelConfig, params, tokens, start: int = 0) -> np.ndarray:
    """Final hidden states [S, D] of one sequence whose first token has position `start`."""
    top = {k: np.asarray(v, np.float64) for k, v in params.items() if k != "layers"}
    x = top["embed"][np.asarray(tokens)] * (config.width**0.5 if config.embed_scale else 1.0)
    positions = start + np.arange(len(tokens), dtype=np.float64)
    for i in range(config.layers):
        p = {k: np.asarray(v[i], np.float64) for k, v in params["layers"].items()}
        local = bool(
            config.attn.window and config.attn.local_pattern[i % len(config.attn.local_pattern)]
        )

        def norm(name, x, p=p):
            return _norm(x, p[name], config) if name in p else x

        h = _attention(norm("attn_norm", x), p, config, positions, local)
        x = x + norm("attn_post_norm", h)
        h = norm("mlp_norm", x)
        h = (_activation(config.activation, h @ p["gate"]) * (h @ p["up"])) @ p["down"]
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
