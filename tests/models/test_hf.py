"""Checkpoints in and out: slices, shards, the census, and what is wrong with a folder."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from tiny_models import DEEPSEEK

from rlvr_jax.models import transformer as tf
from rlvr_jax.models.config import AttentionConfig, ModelConfig, MoeConfig
from rlvr_jax.models.families import FAMILIES, config_of, config_to_json, layout
from rlvr_jax.models.families.names import leaf_shapes, tensor_shapes
from rlvr_jax.models.hf import load_params, read_config, write_model
from rlvr_jax.models.safetensors_file import INDEX, SINGLE, read_headers, write_file
from rlvr_jax.sharding import MeshConfig, make_mesh

CONFIG = ModelConfig(
    family="llama",
    vocab=24,
    width=16,
    layers=3,
    mlp_width=32,
    attn=AttentionConfig(heads=4, kv_heads=2, head_dim=8),
    tied_head=False,
)
LLAMA = config_to_json(CONFIG)
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "factor": 4.0}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
NEAR_AND_FAR = {"sliding_attention": PLAIN, "full_attention": PLAIN | {"rope_theta": 1e6}}
LONG = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [1.0] * 4}


@pytest.fixture(scope="module")
def params():
    return jax.jit(lambda: tf.init(CONFIG, jax.random.key(0)))()


@pytest.fixture
def folder(params, tmp_path):
    """Four shards."""
    write_model(tmp_path, CONFIG, params, "float32", shard_bytes=13_000)
    return tmp_path


def one_device():
    return make_mesh(MeshConfig(), jax.devices()[:1])


def load(folder):
    return load_params(str(folder), read_config(str(folder)), one_device())


def equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_what_is_written_is_read_back(folder, params):
    assert len(list(folder.glob("*.safetensors"))) == 4
    assert dataclasses.replace(read_config(str(folder)), init_std=CONFIG.init_std) == CONFIG
    equal(load(folder), params)


def test_the_safetensors_package_reads_the_same(folder, params):
    from safetensors.numpy import load_file

    found = {}
    for file in folder.glob("*.safetensors"):
        found |= load_file(file)
    assert set(found) == set(read_headers(folder))
    q = found["model.layers.2.self_attn.q_proj.weight"]
    np.testing.assert_array_equal(q, np.asarray(params["layers"]["q"][2]).T)


@pytest.mark.parametrize("axes", [(2, 2, 2), (1, 4, 1), (1, 1, 2)])
def test_every_device_gets_its_slice(folder, params, axes):
    data, fsdp, tensor = axes
    mesh = make_mesh(MeshConfig(data, fsdp, tensor), jax.devices()[: data * fsdp * tensor])
    loaded = load_params(str(folder), read_config(str(folder)), mesh)
    equal(loaded, params)
    q = loaded["layers"]["q"]
    assert q.sharding.shard_shape(q.shape) == (3, 16 // fsdp, 32 // tensor)


def test_only_the_slices_asked_for_are_read(folder, monkeypatch):
    """Rows of each tensor that are read for one device of four, against all its rows."""
    from rlvr_jax.models import hf

    seen = []
    real = hf.read_into

    def spy(out, stored, rows, columns, transpose):
        seen.append((rows.stop - rows.start, stored.shape, transpose))
        return real(out, stored, rows, columns, transpose)

    monkeypatch.setattr(hf, "read_into", spy)
    mesh = make_mesh(MeshConfig(1, 1, 2), jax.devices()[:2])
    load_params(str(folder), read_config(str(folder)), mesh)
    up = [rows for rows, shape, transpose in seen if shape == (32, 16) and transpose]
    assert set(up) == {16}  # q, gate and up: half of the rows for each device
    assert len(up) == 3 * 3 * 2


def test_bfloat16_both_ways(folder, params, tmp_path):
    out = tmp_path / "half"
    write_model(out, CONFIG, params, "bfloat16")
    assert {s.dtype.name for s in read_headers(out).values()} == {"bfloat16"}
    rounded = jax.tree.map(lambda x: x.astype("bfloat16"), params)
    equal(load(out), jax.tree.map(lambda x: x.astype("float32"), rounded))
    small = dataclasses.replace(read_config(str(out)), param_dtype="bfloat16")
    equal(load_params(str(out), small, one_device()), rounded)


def rewrite(folder, change):
    """The tensors of a folder in one file, changed."""
    found = {name: stored for name, stored in read_headers(folder).items()}
    arrays = {
        name: np.fromfile(s.path, s.dtype, int(np.prod(s.shape)), offset=s.offset).reshape(s.shape)
        for name, s in found.items()
    }
    change(arrays)
    for file in folder.glob("model*"):
        file.unlink()
    tensors = {n: (a.shape, lambda a=a: a) for n, a in arrays.items()}
    write_file(folder / SINGLE, tensors, np.dtype(np.float32))


def bend(folder):
    def change(arrays):
        arrays["model.norm.weight"] = np.ones(17, np.float32)

    rewrite(folder, change)


def add_and_drop(folder):
    def change(arrays):
        arrays["model.layers.0.self_attn.q_proj.bias"] = np.zeros(32, np.float32)
        del arrays["model.layers.1.mlp.up_proj.weight"]

    rewrite(folder, change)


def lose_a_shard(folder):
    (folder / "model-00002-of-00004.safetensors").unlink()


def cut(folder):
    file = folder / "model-00003-of-00004.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def cut_the_header(folder):
    (folder / "model-00003-of-00004.safetensors").write_bytes(b"\0\0\0")


def other_dtype(folder):
    file = folder / "model-00001-of-00004.safetensors"
    file.write_bytes(file.read_bytes().replace(b'"F32"', b'"I32"', 1))


def broken_index(folder):
    (folder / INDEX).write_text("{}")


def no_weights(folder):
    for file in folder.glob("model*"):
        file.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"")


def double(folder):
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["model.embed_tokens.weight"] = "twin.safetensors"
    (folder / INDEX).write_text(json.dumps(index))
    first = folder / "model-00001-of-00004.safetensors"
    (folder / "twin.safetensors").write_bytes(first.read_bytes())


def names_a_number(folder):
    (folder / INDEX).write_text('{"weight_map": {"model.norm.weight": 1}}')


def header_of(folder, change, more=b""):
    """The one file of a folder with its header changed and bytes behind it."""
    rewrite(folder, lambda arrays: None)
    raw = (folder / SINGLE).read_bytes()
    stop = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:stop])
    text = json.dumps(change(header)).encode()
    (folder / SINGLE).write_bytes(len(text).to_bytes(8, "little") + text + raw[stop:] + more)


def entry(**keys):
    """Damage to one tensor's entry in the header; None drops a key."""

    def change(header):
        norm = header["model.norm.weight"] | keys
        header["model.norm.weight"] = {k: v for k, v in norm.items() if v is not None}
        return header

    return lambda folder: header_of(folder, change)


def same_bytes(header):
    twin = header["model.layers.0.input_layernorm.weight"]["data_offsets"]
    header["model.norm.weight"]["data_offsets"] = twin
    return header


def drop_an_entry(header):
    del header["model.layers.0.input_layernorm.weight"]
    return header


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (names_a_number, "has no weight_map from tensors to files"),
        (lambda f: header_of(f, lambda header: []), "header is not a JSON object"),
        (lambda f: header_of(f, lambda header: None), "header is not a JSON object"),
        (lambda f: header_of(f, same_bytes), "is damaged: tensor .* begins at byte"),
        (lambda f: header_of(f, drop_an_entry), "is damaged: tensor .* begins at byte"),
        (lambda f: header_of(f, lambda header: header, b"xxxx"), "is damaged: its tensors end"),
        (entry(data_offsets=None), "needs dtype, shape .*data_offsets=None"),
        (entry(data_offsets=[-64, 0]), r"needs dtype.* data_offsets=\[-64, 0\]"),
        (entry(data_offsets=[64, 0]), "has -64 bytes for shape"),
        (entry(data_offsets=[0, 64, 128]), "needs dtype, shape"),
        (entry(data_offsets=[0.0, 64.0]), "needs dtype, shape"),
        (entry(dtype=None), "needs dtype, .*dtype=None"),
        (entry(dtype=["F32"]), "needs dtype, shape"),
        (entry(shape="16"), "needs dtype, .*shape='16'"),
        (entry(shape=[-4, -4]), "needs dtype, shape"),
        (lambda f: header_of(f, lambda header: header | {"model.norm.weight": 3}), "needs dtype"),
        (bend, r"model.norm.weight has shape \(17,\), expected \(16,\)"),
        (add_and_drop, r"1 missing \(model.layers.1.mlp.up_proj.*1 not expected .*q_proj.bias"),
        (lose_a_shard, "lacks 1 of 4 shards: model-00002-of-00004.safetensors"),
        (cut, 'is truncated: tensor ".*" ends at byte'),
        (cut_the_header, "is truncated or no safetensors file"),
        (other_dtype, "has dtype I32; F32, F16, BF16 can be read"),
        (broken_index, "has no weight_map"),
        (no_weights, "holds no model.safetensors and no model.safetensors.index.json"),
        (double, 'tensor ".*" is in .* and in'),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(folder, damage, said):
    damage(folder)
    with pytest.raises(ValueError, match=said) as error:
        load(folder)
    assert "\n" not in str(error.value)


def test_a_tied_head_that_is_stored_again_must_be_the_embedding(folder):
    def tie(arrays):
        arrays["lm_head.weight"] = arrays["model.embed_tokens.weight"].copy()

    rewrite(folder, tie)
    keys = LLAMA | {"tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(keys))
    assert "head" not in load(folder)

    def differ(arrays):
        arrays["lm_head.weight"][3, 3] += 1

    rewrite(folder, differ)
    with pytest.raises(ValueError, match=r"1 not expected \(lm_head.weight\)"):
        load(folder)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"model_type": "lama"}, 'no model family "lama"; did you mean "llama"'),
        ({"model_type": None}, "has no model_type"),
        ({"multi_token_prediction": 2}, "not supported: multi_token_prediction=2"),
        ({"mlp_bias": True}, "not supported: mlp_bias=True"),
        ({"quantization_config": {"bits": 4}}, "quantized weights are not supported"),
        ({"rope_scaling": {"factor": 2.0}}, "rope scaling has factor but no rope_type"),
        ({"rope_parameters": {"rope_type": "default", "wavelength": 7}}, "has wavelength but"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 'rope scaling "dynamic"'),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "beta": 1}}, "not supported: .'beta'"),
        ({"hidden_act": "relu"}, 'hidden_act "relu" is not supported'),
        ({"hidden_size": None}, 'lacks "hidden_size"'),
        ({"hidden_size": "16"}, '"hidden_size" in config.json must be a positive whole number'),
        ({"layer_types": ["full_attention"]}, "not supported: layer_types"),
    ],
)
def test_a_config_that_is_not_understood_is_refused_by_name(keys, said):
    with pytest.raises(ValueError, match=said):
        config_of(LLAMA | keys)


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"', "[{}]"])
def test_a_config_that_is_no_object_is_refused_in_one_line(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(ValueError, match="config.json must hold an object; got") as error:
        read_config(str(folder))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("num_attention_heads", (0, -4, 4.0, "4", True, [4])),
        ("num_hidden_layers", (0, -1, 2.0)),
        ("num_key_value_heads", (0, "2")),
        ("head_dim", (0, 8.0)),
        ("vocab_size", ("24", 24.0, -24)),
        ("max_position_embeddings", ("64", 0)),
        ("rope_theta", ("10000", 0, -1.0, float("nan"), [1e4])),
        ("rms_norm_eps", ("1e-6", 0, float("inf"), True)),
        ("tie_word_embeddings", ("false", 0, 1)),
        ("attention_bias", ("false", [])),
        ("hidden_act", (3, ["silu"])),
        ("rope_parameters", ("linear", [1], 3)),
        ("rope_scaling", ("linear", [1], True)),
        ("partial_rotary_factor", ("1", 0)),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_key(key, values):
    for value in values:
        with pytest.raises(ValueError, match=f'"{key}" in config.json must be') as error:
            config_of(LLAMA | {key: value})
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "keys", "said"),
    [
        ("llama", {"rope_parameters": PLAIN | {"rope_theta": "1e4"}}, '"rope_theta" in config'),
        ("llama", {"rope_parameters": {"rope_type": "linear"}}, "lacks factor"),
        ("llama", {"rope_parameters": {"rope_type": ["linear"]}}, "is not supported"),
        ("llama", {"rope_parameters": LINEAR | {"factor": "4"}}, "must be a number; got '4'"),
        ("llama", {"rope_parameters": LINEAR | {"type": "yarn"}}, 'type "yarn"'),
        ("phi3", {"rope_scaling": LONG | {"long_factor": 2.0}}, "must be a list of numbers"),
        ("phi3", {"rope_scaling": LONG | {"long_factor": ["2"] * 4}}, "must be a list of numbers"),
        ("llama", {"rope_scaling": LONG}, "lacks original_max_position_embeddings"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5 is not supported"),
        ("llama", {"rope_parameters": PLAIN | {"partial_rotary_factor": 0.5}}, "=0.5 is not sup"),
        ("llama", {"hidden_activation": "gelu_pytorch_tanh"}, "not supported: hidden_activation"),
        ("mistral", {"sliding_window": 0}, "need sliding_window to be positive; got 0"),
        ("gemma3_text", {"sliding_window": 0}, "need sliding_window to be positive; got 0"),
        ("gemma2", {"sliding_window": None}, "need sliding_window to be positive; got None"),
        ("gemma3_text", {"attn_logit_softcapping": 3.0}, "not supported: attn_logit_softcapping"),
        ("gemma3_text", {"rope_parameters": LINEAR}, "hold full_attention and sliding_attention"),
        ("gemma3_text", {"rope_scaling": {"type": "linear", "factor": 2.0}}, 'type "linear"'),
        ("gemma3_text", {"rope_parameters": {"full_attention": "x"}}, '"full_attention" in config'),
        ("gemma3_text", {"sliding_window_pattern": 0}, '"sliding_window_pattern" in config'),
        ("smollm3", {"no_rope_layers": [1, 0]}, "has 2 entries for 3 layers"),
        ("smollm3", {"no_rope_layer_interval": 0}, '"no_rope_layer_interval" in config'),
        ("phi3", {"rope_scaling": LONG, "original_max_position_embeddings": 1}, "malformed"),
        ("llama", {"pruned_heads": {"0": [1]}}, "not supported: pruned_heads"),
    ],
)
def test_what_a_family_cannot_do_is_refused_in_one_line(kind, keys, said):
    with pytest.raises(ValueError, match=said) as error:
        config_of(LLAMA | {"model_type": kind} | keys)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "changed", "field", "expected"),
    [
        ("gemma2", {"hidden_act": "silu"}, "activation", "gelu_tanh"),
        ("gemma2", {"final_logit_softcapping": None}, "logit_softcap", 0.0),
        ("gemma2", {}, "logit_softcap", 30.0),
        ("gemma3_text", {"final_logit_softcapping": 2.0}, "logit_softcap", 2.0),
        ("gemma3_text", {}, "logit_softcap", 0.0),
    ],
)
def test_keys_that_only_gemma_reads(kind, changed, field, expected):
    keys = LLAMA | {"model_type": kind, "head_dim": 8} | changed
    assert getattr(config_of(keys), field) == expected


@pytest.mark.parametrize(
    ("kind", "new", "old"),
    [
        ("llama", PLAIN, YARN),
        ("llama", PLAIN, LINEAR),
        ("llama", LINEAR, LINEAR | {"factor": 2.0}),
        ("llama", PLAIN, {"type": "linear", "factor": 4.0}),
        ("llama", PLAIN | {"rope_theta": 5.0}, {"rope_type": "default"}),
        ("phi3", PLAIN, YARN),
        ("phi3", PLAIN, LONG),
        ("gemma3_text", NEAR_AND_FAR, LINEAR),
        ("gemma3_text", NEAR_AND_FAR, YARN),
        ("gemma3_text", NEAR_AND_FAR, {"rope_theta": 5.0}),
    ],
)
def test_two_rope_dicts_that_differ_are_refused(kind, new, old):
    keys = LLAMA | {"model_type": kind, "rope_parameters": new, "rope_scaling": old}
    with pytest.raises(ValueError, match="rope_parameters and rope_scaling that differ") as error:
        config_of(keys)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "new", "old"),
    [
        ("llama", LINEAR, {"type": "linear", "factor": 4.0}),
        ("llama", LINEAR | {"rope_theta": 10000.0}, LINEAR),
        ("llama", PLAIN, {}),
        ("phi3", PLAIN, PLAIN),
        ("gemma3_text", NEAR_AND_FAR | {"full_attention": LINEAR}, LINEAR),
    ],
)
def test_two_rope_dicts_that_agree_are_read_as_one(kind, new, old):
    keys = {k: v for k, v in LLAMA.items() if k != "rope_theta"} | {"model_type": kind}
    alone = config_of(keys | {"rope_parameters": new})
    assert config_of(keys | {"rope_parameters": new, "rope_scaling": old}) == alone


def test_harmless_keys_and_switched_off_ones_change_nothing():
    more = {"torch_dtype": "bfloat16", "mlp_bias": False, "use_cache": True, "odd": None}
    more |= {"num_beams": 1, "temperature": 1.0, "top_p": 1.0, "do_sample": False, "top_k": 50}
    more |= {"torchscript": False, "is_decoder": False, "pruned_heads": {}, "max_length": 20}
    assert config_of(LLAMA | more) == config_of(LLAMA)


OLD = {  # keys as older checkpoints on the hub write them
    "llama 3.1": (
        "llama",
        {"rope_theta": 5e5}
        | {
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            }
        },
    ),
    "qwen2.5": (
        "qwen2",
        {"use_sliding_window": False, "sliding_window": 32768, "max_window_layers": 21},
    ),
    "gemma 3": (
        "gemma3_text",
        {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window": 512}
        | {"sliding_window_pattern": 6, "query_pre_attn_scalar": 256, "hidden_activation": None}
        | {"rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "hidden_act": None},
    ),
    "phi 3 long": (
        "phi3",
        {"head_dim": 4, "sliding_window": 262144, "original_max_position_embeddings": 4096}
        | {"max_position_embeddings": 131072}
        | {
            "rope_scaling": {
                "type": "longrope",
                "short_factor": [1.0, 2.0],
                "long_factor": [2.0, 5.0],
            }
        },
    ),
}


@pytest.mark.parametrize("case", OLD)
def test_older_keys_say_the_same_as_transformers_reads_in_them(case):
    transformers = pytest.importorskip("transformers")
    kind, more = OLD[case]
    keys = {k: v for k, v in (LLAMA | {"model_type": kind} | more).items() if v is not None}
    keys = {"max_position_embeddings": 32768} | keys | {"num_hidden_layers": 7}
    read = transformers.AutoConfig.for_model(**keys).to_dict()
    assert config_of(keys) == config_of({k: v for k, v in read.items() if v is not None})


def test_longrope_takes_its_long_factors_for_a_run_that_needs_them():
    kind, more = OLD["phi 3 long"]
    config = config_of(LLAMA | {"model_type": kind} | more)
    assert not config.for_length(4096).attn.rope.long
    assert config.for_length(4097).attn.rope.long
    with pytest.raises(ValueError, match="the model sees 131072"):
        config.for_length(131073)


def test_a_layout_covers_every_row_of_every_tensor_once():
    for name in FAMILIES:
        moe = MoeConfig(3, 2, 12) if "moe" in name else MoeConfig()
        norms = "post" if name == "olmo2" else "both" if "gemma" in name else "pre"
        config = dataclasses.replace(CONFIG, moe=moe, norms=norms)
        config = DEEPSEEK if "deepseek" in name else config
        sizes = leaf_shapes(jax.eval_shape(lambda c=config: tf.init(c, jax.random.key(0))))
        cells = layout(FAMILIES[name].names, sizes)
        total = sum(int(np.prod(s)) for s in tensor_shapes(cells, sizes).values())
        assert total == sum(int(np.prod(s)) for s in sizes.values())
        with pytest.raises(ValueError, match="overlap or leave a gap"):
            tensor_shapes([cells[0], *cells], sizes)


def test_the_nearest_family_is_one_that_can_be_read_back():
    attn = dataclasses.replace(CONFIG.attn, qk_norm=True, softcap=3.0)
    with pytest.raises(ValueError, match='nearest, "qwen3", lacks attn.softcap=3.0'):
        config_to_json(dataclasses.replace(CONFIG, family="", attn=attn))


def test_a_leaf_without_a_name_is_an_error(params, tmp_path):
    layers = params["layers"] | {"extra": np.zeros((3, 16))}
    with pytest.raises(ValueError, match="no tensor for: layers/extra"):
        write_model(tmp_path, CONFIG, params | {"layers": layers}, "float32")


def test_no_such_model():
    with pytest.raises(ValueError, match='no model folder "./nowhere"'):
        read_config("./nowhere")
