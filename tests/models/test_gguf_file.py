"""A GGUF file, written here with the gguf package, becomes a folder that runs."""

import dataclasses

import jax
import numpy as np
import pytest

from rlvr_jax.export import import_gguf
from rlvr_jax.models import transformer as tf
from rlvr_jax.models.config import AttentionConfig, ModelConfig
from rlvr_jax.models.gguf_file import BLOCK, OUTSIDE, open_gguf
from rlvr_jax.models.hf import load_params, read_config
from rlvr_jax.sharding import MeshConfig, make_mesh
from rlvr_jax.text import load_tokenizer, stop_ids
from rlvr_jax.text.spm import BYTE, CONTROL, NORMAL, USER_DEFINED, spm_tokenizer

gguf = pytest.importorskip("gguf", reason="needs the extra gguf")

PIECES = ["▁", "a", "b", "c", "d", "▁a", "ab", "bc", "abc", "▁ab", "cd"]  # rising in rank
VOCAB = (
    [(t, -1000.0, CONTROL) for t in ("<pad>", "<eos>", "<bos>", "<unk>", "<turn>")]
    + [(t, -1000.0, USER_DEFINED) for t in ("\n", "\n\n", "  ")]
    + [(f"<0x{i:02X}>", 0.0, BYTE) for i in range(256)]
    + [(t, -float(len(PIECES) - i), NORMAL) for i, t in enumerate(PIECES)]
)
CONFIG = ModelConfig(
    family="gemma3_text",
    context=128,
    vocab=len(VOCAB),
    width=32,
    layers=7,
    mlp_width=64,
    attn=AttentionConfig(
        heads=2,
        kv_heads=1,
        head_dim=32,
        qk_norm=True,
        query_scale=32**-0.5,
        window=8,
        local_pattern=(1, 1, 1, 1, 1, 0),
        rope_theta=1e6,
        rope_theta_local=1e4,
    ),
    activation="gelu_tanh",
    norms="both",
    norm_plus_one=True,
    embed_scale=True,
)


def tensors(params):
    """GGUF name -> array, by llama.cpp's conventions."""
    back = {v: k for k, v in (OUTSIDE | BLOCK).items()}
    out = {"token_embd.weight": params["embed"], "output_norm.weight": params["final_norm"] + 1}
    names = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj"}
    names |= {"o": "self_attn.o_proj", "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm"}
    names |= {n: f"mlp.{n}_proj" for n in ("gate", "up", "down")}
    names |= {"attn_norm": "input_layernorm", "attn_post_norm": "post_attention_layernorm"}
    names |= {
        "mlp_norm": "pre_feedforward_layernorm",
        "mlp_post_norm": "post_feedforward_layernorm",
    }
    for leaf, name in names.items():
        for i, value in enumerate(np.asarray(params["layers"][leaf])):
            out[f"blk.{i}.{back[name]}.weight"] = value + 1 if "norm" in leaf else value.T
    return {name: np.ascontiguousarray(value, np.float32) for name, value in out.items()}


def write(path, arrays, kind="gemma3", quantized=(), **facts):
    writer = gguf.GGUFWriter(str(path), kind)
    writer.add_name("Tiny")
    writer.add_block_count(CONFIG.layers)
    writer.add_context_length(CONFIG.context)
    writer.add_embedding_length(CONFIG.width)
    writer.add_feed_forward_length(CONFIG.mlp_width)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_key_length(32)
    writer.add_value_length(32)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_sliding_window(8)
    writer.add_rope_freq_base(1e6)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([t for t, _, _ in VOCAB])
    writer.add_token_scores([s for _, s, _ in VOCAB])
    writer.add_token_types([k for _, _, k in VOCAB])
    for i, name in enumerate(("pad", "eos", "bos", "unk")):
        getattr(writer, f"add_{name}_token_id")(i)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    for key, value in facts.items():
        writer.add_uint32(key, value)
    for name, value in arrays.items():
        if name in quantized:
            q8 = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(value, q8), raw_dtype=q8)
        else:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def params():
    made = jax.jit(lambda: tf.init(CONFIG, jax.random.key(0)))()
    noise = np.random.default_rng(0)

    def fill(path, x):
        norm = str(path[-1].key).endswith("norm")
        return np.float32(noise.normal(size=x.shape) if norm else x)

    return jax.tree_util.tree_map_with_path(fill, made)


@pytest.fixture(scope="module")
def folder(params, tmp_path_factory):
    place = tmp_path_factory.mktemp("gguf")
    source = write(place / "tiny.gguf", tensors(params))
    assert import_gguf(source, place / "out", "float32") == "Tiny"
    return place / "out"


def test_architecture_and_weights_arrive(folder, params):
    config = read_config(str(folder))
    assert dataclasses.replace(config, init_std=CONFIG.init_std) == CONFIG
    loaded = load_params(str(folder), config, make_mesh(MeshConfig(), jax.devices()[:1]))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), loaded, params)


def test_quantised_tensors_come_out_as_the_package_says(params, tmp_path):
    name = "blk.3.ffn_up.weight"
    arrays = tensors(params)
    found = open_gguf(write(tmp_path / "q.gguf", arrays, quantized=[name]))
    q8 = gguf.GGMLQuantizationType.Q8_0
    expected = gguf.quants.dequantize(gguf.quants.quantize(arrays[name], q8), q8)
    value = found.tensors["model.layers.3.mlp.up_proj.weight"][1]()
    np.testing.assert_array_equal(value, expected)
    assert 0 < np.abs(value - arrays[name]).max() < 0.01


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("abc", ["abc"]),
        ("abcd", ["ab", "cd"]),  # cd outranks abc
        (" ab", ["▁ab"]),
        ("a  b", ["a", "  ", "b"]),
        ("a\n\n\nb", ["a", "\n\n", "\n", "b"]),
        ("a<turn>b", ["a", "<turn>", "b"]),
        ("é", ["<0xC3>", "<0xA9>"]),
        ("", []),
    ],
)
def test_the_tokenizer_cuts_by_score(folder, text, tokens):
    tokenizer = load_tokenizer(str(folder))
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["<bos>", *tokens]
    assert tokenizer.decode(ids[1:]) == text
    assert stop_ids(tokenizer) == (1,)


def test_what_is_no_gemma_3_file_is_refused(params, tmp_path):
    arrays = tensors(params)
    missing = {k: v for k, v in arrays.items() if k != "blk.2.attn_q.weight"}
    extra = arrays | {"blk.0.attn_q.bias": np.zeros(64, np.float32)}
    half = tmp_path / "half.gguf"
    whole = write(tmp_path / "whole.gguf", arrays)
    half.write_bytes(whole.read_bytes()[:3000])
    for path, said in (
        (tmp_path / "none.gguf", "no GGUF file"),
        (half, "is no whole GGUF file"),
        (write(tmp_path / "a", arrays, kind="falcon"), 'architecture "falcon" is not supported'),
        (write(tmp_path / "b", missing), r"1 missing \(model.layers.2.self_attn.q_proj.weight\)"),
        (write(tmp_path / "c", extra), r"1 not expected \(blk.0.attn_q.bias\)"),
        (write(tmp_path / "d", arrays, **{"gemma3.odd": 1}), r"not supported: \['odd'\]"),
    ):
        with pytest.raises(ValueError, match=said):
            open_gguf(path)


@pytest.mark.parametrize(
    ("facts", "said"),
    [({"model": "gpt2"}, '"gpt2" is not supported'), ({"add_space_prefix": True}, "add_space")],
)
def test_other_tokenizers_are_refused(facts, said):
    own = {"model": "llama", "scores": [], "add_space_prefix": False} | facts
    with pytest.raises(ValueError, match=said):
        spm_tokenizer({f"tokenizer.ggml.{k}": v for k, v in own.items()})
