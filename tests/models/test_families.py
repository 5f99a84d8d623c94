"""Every family against `transformers` on tiny random models: logits, decoding, round trip."""

import copy
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.generate import Address, DecodeConfig, make_sampler
from rlvr_jax.models import transformer as tf
from rlvr_jax.models.families import FAMILIES, config_of
from rlvr_jax.models.hf import load_params, read_config, write_model
from rlvr_jax.models.safetensors_file import read_headers
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.sharding import MeshConfig, make_mesh

torch = pytest.importorskip("torch", reason="parity needs torch (the test extra)")
transformers = pytest.importorskip("transformers")

VOCAB, LENGTH = 48, 14
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 100.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "factor": 4.0}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 500.0,
    "short_factor": [1.0, 1.2, 1.5],
    "long_factor": [2.0, 3.0, 4.0],
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 100.0,
    "factor": 8.0,
    "original_max_position_embeddings": 16,
}
LAYERS4 = {"num_hidden_layers": 4}
DEEPSEEK = {
    "num_hidden_layers": 3,
    "num_key_value_heads": 4,
    "q_lora_rank": 10,
    "kv_lora_rank": 12,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 16,
    "n_group": 4,
    "topk_group": 2,
    "first_k_dense_replace": 1,
}
CASES = {  # case -> (transformers' config class, what differs from SMALL)
    "qwen2": ("Qwen2Config", {}),
    "qwen2 tied, windowed": (
        "Qwen2Config",
        LAYERS4
        | {
            "tie_word_embeddings": True,
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 2,
            "num_key_value_heads": 4,
        },
    ),
    "qwen3": ("Qwen3Config", {"head_dim": 16, "tie_word_embeddings": True}),
    "qwen3 biased": ("Qwen3Config", {"head_dim": 8, "attention_bias": True}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {"head_dim": 8, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
        | {"norm_topk_prob": True},
    ),
    "qwen3_moe plain weights": (
        "Qwen3MoeConfig",
        {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 3, "moe_intermediate_size": 16},
    ),
    "llama": ("LlamaConfig", {"num_key_value_heads": 1}),
    "llama biased, head_dim": (
        "LlamaConfig",
        {"attention_bias": True, "head_dim": 12, "tie_word_embeddings": True},
    ),
    "llama3 scaling": ("LlamaConfig", {"rope_parameters": LLAMA3}),
    "llama linear scaling": ("LlamaConfig", {"rope_parameters": LINEAR | {"rope_theta": 50.0}}),
    "llama yarn": ("LlamaConfig", {"rope_parameters": YARN}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "mistral windowed": ("MistralConfig", {"sliding_window": 4, "head_dim": 16}),
    "gemma2": (
        "Gemma2Config",
        LAYERS4
        | {"head_dim": 8, "sliding_window": 4, "query_pre_attn_scalar": 24}
        | {"final_logit_softcapping": 3.0, "attn_logit_softcapping": 2.0},
    ),
    "gemma3_text": (
        "Gemma3TextConfig",
        {"num_hidden_layers": 7, "head_dim": 16, "sliding_window": 4}
        | {"query_pre_attn_scalar": 20, "num_key_value_heads": 1},
    ),
    "gemma3_text scaled": (
        "Gemma3TextConfig",
        {"num_hidden_layers": 3, "head_dim": 16, "sliding_window": 5}
        | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
        | {
            "rope_parameters": {
                "full_attention": LINEAR | {"rope_theta": 1000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            }
        },
    ),
    "olmo2": ("Olmo2Config", {"num_key_value_heads": 4}),
    "olmo2 grouped": ("Olmo2Config", {"rope_parameters": {"rope_theta": 500.0}}),
    "phi3": ("Phi3Config", {}),
    "phi3 longrope, partial": (
        "Phi3Config",
        {"num_attention_heads": 4, "sliding_window": 9, "original_max_position_embeddings": 32}
        | {"rope_parameters": LONGROPE | {"partial_rotary_factor": 0.75}},
    ),
    "smollm3": ("SmolLM3Config", {"num_hidden_layers": 5, "tie_word_embeddings": False}),
    "smollm3 windowed": (
        "SmolLM3Config",
        LAYERS4 | {"no_rope_layers": [1, 0, 1, 1], "use_sliding_window": True, "sliding_window": 6},
    ),
    "deepseek_v3": (
        "DeepseekV3Config",
        DEEPSEEK
        | {"rms_norm_eps": 0.05}
        | {"rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 1.2, "beta_fast": 4.0}},
    ),
    "deepseek_v3 direct queries": (
        "DeepseekV3Config",
        DEEPSEEK
        | {"q_lora_rank": None, "rope_interleave": False, "attention_bias": True}
        | {"first_k_dense_replace": 0, "n_group": 1, "topk_group": 1, "norm_topk_prob": False}
        | {"n_shared_experts": 2, "num_hidden_layers": 2},
    ),
    "deepseek_v3 two dense layers": (
        "DeepseekV3Config",
        DEEPSEEK | {"first_k_dense_replace": 2, "topk_group": 1, "num_experts_per_tok": 2},
    ),
}
TOKENS = np.random.default_rng(0).integers(3, VOCAB, (2, LENGTH))


pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """case -> (torch model, folder it was saved in, our config, our parameters)."""
    mesh = make_mesh(MeshConfig(), jax.devices()[:1])

    @functools.cache
    def make(case):
        name, more = CASES[case]
        config = getattr(transformers, name)(**(SMALL | more))
        config._attn_implementation = "eager"
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            routing = [(k, v) for k, v in model.named_buffers() if k.endswith("correction_bias")]
            for key, value in [*model.named_parameters(), *routing]:
                value.normal_(0, 0.3 if "norm" in key else 0.2)
                value += 1.0 if "norm" in key and "gemma" not in config.model_type else 0.0
        folder = tmp_path_factory.mktemp("model")
        model.save_pretrained(folder)
        ours = dataclasses.replace(read_config(str(folder)), unroll=False)  # compiles faster
        return model, folder, ours, load_params(str(folder), ours, mesh)

    return make


@functools.partial(jax.jit, static_argnums=0)
def logits(config, params, tokens):
    tokens = jnp.asarray(tokens, jnp.int32)
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    allowed = positions[:, :, None] >= positions[:, None, :]
    attend = tf.attend_full(config, allowed, positions, lambda k, v: None)
    hidden, _ = tf.forward(config, params, tokens, positions, attend)
    return tf.logits_of(config, tf.head_weight(params), hidden)


def theirs(model, tokens):
    with torch.no_grad():
        return model(torch.tensor(tokens)).logits.numpy()


REQUIRED = {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"}
REQUIRED |= {"num_attention_heads", "num_experts", "num_local_experts", "num_experts_per_tok"}
REQUIRED |= {"moe_intermediate_size", "n_routed_experts", "kv_lora_rank", "v_head_dim"}
REQUIRED |= {"qk_nope_head_dim", "qk_rope_head_dim"}
TOLD = {"num_hidden_layers": 7, "num_attention_heads": 32, "num_key_value_heads": 16}
TOLD |= {"hidden_size": 1024, "head_dim": 48, "rms_norm_eps": 1e-3, "sliding_window": 5}
TOLD |= {"rope_parameters": {"rope_type": "default", "rope_theta": 123.0}}
EXTRA = {  # optional keys at values that are not the default
    "qwen2": {"use_sliding_window": True, "max_window_layers": 3, "tie_word_embeddings": True},
    "qwen3": {"use_sliding_window": True, "max_window_layers": 3, "attention_bias": True},
    "qwen3_moe": {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    | {"norm_topk_prob": True},
    "llama": {"attention_bias": True, "tie_word_embeddings": True},
    "gemma2": {"query_pre_attn_scalar": 24, "final_logit_softcapping": 3.0}
    | {"attn_logit_softcapping": 2.0, "tie_word_embeddings": False},
    "gemma3_text": {"query_pre_attn_scalar": 20, "final_logit_softcapping": 3.0}
    | {"rope_parameters": {k: {"rope_theta": 9.0} for k in ("full_attention", "sliding_attention")}}
    | {"layer_types": ["full_attention", "sliding_attention"] * 3 + ["full_attention"]},
    "smollm3": {"use_sliding_window": True, "tie_word_embeddings": False}
    | {"no_rope_layers": [1, 0, 1, 1, 0, 1, 1]},
    "phi3": {"original_max_position_embeddings": 32, "rope_parameters": LONGROPE}
    | {"head_dim": 32, "hidden_size": 512, "num_attention_heads": 16, "max_position_embeddings": 99}
    | {"rope_parameters": LONGROPE | {"partial_rotary_factor": 0.1875}},
    "deepseek_v3": DEEPSEEK
    | {"head_dim": 8, "num_hidden_layers": 7, "num_key_value_heads": 32, "n_routed_experts": 16}
    | {"rope_parameters": YARN, "attention_bias": True, "n_shared_experts": 2, "n_group": 4}
    | {"routed_scaling_factor": 1.5, "norm_topk_prob": False, "rope_interleave": False},
}


@pytest.mark.parametrize("without", ["nothing", "layer_types"])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_key_that_is_absent_means_what_it_means_to_transformers(name, without):
    """Each optional key dropped in turn, against what transformers writes for the rest in full."""
    kind = type(transformers.AutoConfig.for_model(name))
    told = {k: v for k, v in TOLD.items() if k != "sliding_window" or k in kind().to_dict()}
    full = kind(**(SMALL | told | EXTRA.get(name, {}))).to_dict()
    full.pop(without, None)
    refused = set()
    for key in full:
        rest = {k: v for k, v in copy.deepcopy(full).items() if k != key}
        try:
            ours = config_of(rest)
        except ValueError:
            refused.add(key)
            continue
        theirs = config_of(kind.from_dict(copy.deepcopy(rest)).to_dict())
        context = ours.context if key == "max_position_embeddings" else theirs.context
        assert dataclasses.replace(theirs, context=context) == ours, key  # 0 is "not limited"
    if "layer_types" in full:  # it may name local layers, which then have no window
        refused -= {"use_sliding_window", "sliding_window"}
    if name == "deepseek_v3":  # absent means 128 to transformers, which is not one for each head
        refused -= {"num_key_value_heads"}
    assert refused == REQUIRED & set(full)


def test_every_family_has_a_case():
    assert {CASES[c][0] for c in CASES} == {
        type(transformers.AutoConfig.for_model(name)).__name__ for name in FAMILIES
    }


@pytest.mark.parametrize("case", CASES)
def test_logits_equal_transformers(case, models):
    model, _, config, params = models(case)
    expected = theirs(model, TOKENS)
    assert np.abs(expected).max() > 0.5  # otherwise closeness says little
    np.testing.assert_allclose(logits(config, params, TOKENS), expected, rtol=1e-4, atol=1e-4)


DECODED = (  # the fullest case of each family by default, the others when slow tests are run
    ["qwen2 tied, windowed", "qwen3", "qwen3_moe", "llama biased, head_dim", "llama3 scaling"]
    + ["mistral windowed", "gemma2", "gemma3_text scaled", "olmo2 grouped"]
    + ["phi3 longrope, partial", "smollm3 windowed", "deepseek_v3", "deepseek_v3 direct queries"]
)


@pytest.mark.parametrize(
    "case", [c if c in DECODED else pytest.param(c, marks=pytest.mark.slow) for c in CASES]
)
def test_prefill_and_decode_equal_forward(case, models):
    """Log-probs that the sampler gives, against the forward pass over what it sampled."""
    _, _, config, params = models(case)
    decode = DecodeConfig(max_prompt_tokens=8, max_new_tokens=6, chunk=6)
    sampler = make_sampler(config, decode, SamplingConfig(temperature=1.0), [VOCAB + 1])
    prompts = [TOKENS[0, :8].tolist(), TOKENS[1, :5].tolist()]
    out = sampler(params, prompts, [0, 1], 2, Address(0, 0, 0))
    rows = [[*prompts[row // 2], *out.tokens_BT[row].tolist()] for row in range(4)]
    padded = np.array([row + [0] * (LENGTH - len(row)) for row in rows])
    log_probs = np.asarray(jax.nn.log_softmax(logits(config, params, padded)))
    for row, tokens in enumerate(rows):
        start = len(tokens) - 6
        expected = [log_probs[row, start - 1 + t, tokens[start + t]] for t in range(6)]
        np.testing.assert_allclose(out.logp_BT[row], expected, atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_export_gives_back_the_same_tensors(case, models, tmp_path):
    model, folder, config, params = models(case)
    write_model(tmp_path, config, params, "float32", shard_bytes=20_000)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert set(read_headers(tmp_path)) == set(read_headers(folder))
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager")
    before, after = model.state_dict(), again.state_dict()
    assert set(before) == set(after)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name].numpy(), value.numpy(), err_msg=name)
    np.testing.assert_array_equal(theirs(again, TOKENS), theirs(model, TOKENS))
    assert read_config(str(tmp_path)) == dataclasses.replace(config, unroll=True)
