"""Reward models against `transformers`, as a reward of a run and of `rlvr grade`, and what is
refused."""

import functools
import json

import jax
import numpy as np
import pytest

from rlvr_jax.commands import grade
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.safetensors_file import SINGLE, read_headers, write_file
from rlvr_jax.packing import PackConfig, pack
from rlvr_jax.reward_model import RewardModel, open_reward_model, reward_models
from rlvr_jax.rewards import grade_all
from rlvr_jax.rewards.compose import Compose
from rlvr_jax.rewards.learned import Learned, Scores, serving
from rlvr_jax.sharding import MeshConfig, make_mesh
from rlvr_jax.text import char_tokenizer, encode_answered, load_tokenizer
from rlvr_jax.types import Completion, Problem

torch = pytest.importorskip("torch", reason="parity needs torch (the test extra)")
transformers = pytest.importorskip("transformers")

SMALL = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "num_labels": 1,
}
SLOW = pytest.mark.slow
CASES = {  # case -> (transformers' config class, what differs from SMALL)
    "qwen2": ("Qwen2Config", {}),
    "llama": ("LlamaConfig", {"tie_word_embeddings": True}),
    "mistral": ("MistralConfig", {"sliding_window": 4}),
    "gemma3_text": (
        "Gemma3TextConfig",
        {"head_dim": 16, "sliding_window": 4, "query_pre_attn_scalar": 20},
    ),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
    ),
    "gemma2": ("Gemma2Config", {"head_dim": 8, "sliding_window": 4, "query_pre_attn_scalar": 24}),
    "olmo2": ("Olmo2Config", {}),
    "phi3": ("Phi3Config", {}),
    "smollm3": ("SmolLM3Config", {"num_hidden_layers": 4}),
    "deepseek_v3": (
        "DeepseekV3Config",
        {"num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": None, "n_group": 1}
        | {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 12, "topk_group": 1}
        | {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
        | {"first_k_dense_replace": 1},
    ),
}
DEFAULT = ("qwen2", "llama", "mistral", "gemma3_text")
PROMPTS = ("3+4=", "Is it so?", ({"role": "user", "content": "Say a word."},))
ANSWERS = ("7", "<think>3 and 4</think><answer>7</answer>", "no, it is not", "ok" * 20, "?")
PROBLEMS = [
    Problem(prompt=PROMPTS[i % len(PROMPTS)], answer="", index=i) for i in range(len(ANSWERS))
]
COMPLETIONS = [Completion(text=answer) for answer in ANSWERS]
PRECISION = ModelConfig(unroll=False)  # compiles faster


pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """case -> (torch model, folder it was saved in with the character tokenizer)."""

    @functools.cache
    def make(case):
        name, more = CASES[case]
        config = getattr(transformers, name)(**(SMALL | more))
        config._attn_implementation = "eager"
        torch.manual_seed(0)
        model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
        with torch.no_grad():
            for key, value in model.named_parameters():
                value.normal_(0, 0.3 if "norm" in key or key.startswith("score") else 0.2)
                value += 1.0 if "norm" in key and "gemma" not in config.model_type else 0.0
        folder = tmp_path_factory.mktemp("reward_model")
        model.save_pretrained(folder)
        char_tokenizer().save_pretrained(folder)
        return model, folder

    return make


def one_device():
    return make_mesh(MeshConfig(), jax.devices()[:1])


def opened(folder, pack_config=PackConfig(row_tokens=128), mesh=None):  # noqa: B008  (frozen)
    return open_reward_model(str(folder), PRECISION, pack_config, mesh or one_device())


def theirs(model, texts, left=False):
    """Logits of a padded batch; transformers looks for the last token that is no padding."""
    width = max(map(len, texts))
    filled = [([0] * (width - len(t)) + t) if left else (t + [0] * (width - len(t))) for t in texts]
    tokens = torch.tensor(filled)
    with torch.no_grad():
        return model(tokens, attention_mask=(tokens != 0).long()).logits[:, 0].numpy()


def shown(folder):
    """The texts as ids.  With a qwen2 config.json transformers makes its own tokenizer class of the
    character tokenizer's files, which drops spaces."""
    tokenizer = load_tokenizer(str(folder))
    pairs = zip(PROBLEMS, COMPLETIONS, strict=True)
    return [encode_answered(tokenizer, p, c.text) for p, c in pairs]


def values(scores):
    return np.array([s.value for s in scores])


def test_every_family_has_a_case():
    from rlvr_jax.models.families import FAMILIES

    assert set(CASES) == set(FAMILIES)


@pytest.mark.parametrize(
    "case", [c if c in DEFAULT else pytest.param(c, marks=SLOW) for c in CASES]
)
def test_scores_equal_transformers(case, models):
    model, folder = models(case)
    texts = shown(folder)
    assert len({len(t) for t in texts}) == len(texts)
    expected = theirs(model, texts)
    assert np.ptp(expected) > 0.5  # otherwise closeness says little
    scores = values(opened(folder)(COMPLETIONS, PROBLEMS))
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
    alone = [theirs(model, [t])[0] for t in texts]
    np.testing.assert_allclose(scores, alone, rtol=1e-4, atol=1e-4)
    if case == "llama":  # their left padding moves positions, which rotation does not see
        np.testing.assert_allclose(scores, theirs(model, texts, left=True), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["lines", "rows"])
def test_a_score_does_not_depend_on_the_batch(layout, models):
    _, folder = models("mistral")
    rm = opened(folder, PackConfig(row_tokens=128, micro_tokens=256, layout=layout))
    together = values(rm(COMPLETIONS, PROBLEMS))
    for order in ([3, 0, 4], [1]):
        some = values(rm([COMPLETIONS[i] for i in order], [PROBLEMS[i] for i in order]))
        np.testing.assert_allclose(some, together[order], atol=1e-5)


def test_on_a_mesh(models):
    model, folder = models("llama")
    scores = opened(folder, mesh=make_mesh(MeshConfig(2, 2, 2)))(COMPLETIONS, PROBLEMS)
    texts = shown(folder)
    np.testing.assert_allclose(values(scores), theirs(model, texts), rtol=1e-4, atol=1e-4)


def test_batches_of_any_length_come_in_few_shapes():
    """What would be compiled for 40 batches of 25 to 32 texts of 5 to 60 tokens."""
    shapes, rng = set(), np.random.default_rng(0)

    def values(params, policy, sequences, width):
        found = pack(sequences, PackConfig(row_tokens=128), width)
        shapes.update((r.tokens_RS.shape, r.slot_RM.shape, r.line, len(i)) for r, i in found)
        return np.zeros((len(sequences.length_B), width))

    rm = RewardModel(None, None, values, longest=64)
    for _ in range(40):
        rm.score([[5] * n for n in rng.integers(5, 61, rng.integers(25, 33))])
    assert len(shapes) <= 6


def test_a_text_that_the_model_cannot_see_is_not_judged(models):
    reward = Learned(scorer=str(models("llama")[1]))
    texts = ["7", "7" * 61]  # behind a prompt of 4 tokens; the model sees 64
    with reward_models(reward, PRECISION, PackConfig(), one_device()):
        verdicts = grade_all(reward, [Completion(text=t) for t in texts], PROBLEMS[:1] * 2)
    assert [v.status for v in verdicts] == ["scored", "unknown"]
    assert verdicts[1].reason.startswith("too long: the reward model sees 64 tokens")


def rewritten(folder, to, change):
    """A copy of a folder with other tensors: change(name -> array)."""
    arrays = {
        name: np.fromfile(s.path, s.dtype, int(np.prod(s.shape)), offset=s.offset).reshape(s.shape)
        for name, s in read_headers(folder).items()
    }
    arrays = change(arrays)
    for file in folder.glob("*.json"):
        (to / file.name).write_bytes(file.read_bytes())
    tensors = {n: (a.shape, lambda a=a: a) for n, a in arrays.items()}
    write_file(to / SINGLE, tensors, np.dtype(np.float32))
    return to


def test_names_without_the_prefix(models, tmp_path):
    _, folder = models("llama")
    bare = rewritten(
        folder, tmp_path, lambda a: {n.removeprefix("model."): x for n, x in a.items()}
    )
    assert any(name.startswith("layers.") for name in read_headers(bare))
    expected = values(opened(folder)(COMPLETIONS, PROBLEMS))
    np.testing.assert_array_equal(values(opened(bare)(COMPLETIONS, PROBLEMS)), expected)


def other_config(folder, to, **keys):
    rewritten(folder, to, lambda arrays: arrays)
    data = json.loads((to / "config.json").read_text())
    (to / "config.json").write_text(json.dumps(data | keys))


def without(*names):
    return lambda arrays: {n: a for n, a in arrays.items() if n not in names}


NORM = "model.norm.weight"
REFUSED = {
    "three labels": (
        lambda f, to: rewritten(
            f, to, lambda a: a | {"score.weight": np.repeat(a["score.weight"], 3, 0)}
        ),
        "it has 3 labels .rows of score.weight.; a reward model has 1",
    ),
    "no head": (
        lambda f, to: rewritten(f, to, without("score.weight")),
        "it holds no tensor score.weight",
    ),
    "a language model": (
        lambda f, to: rewritten(
            f,
            to,
            lambda a: without("score.weight")(a) | {"lm_head.weight": np.zeros((128, 32))},
        ),
        "it holds no tensor score.weight.*a language model is no reward model",
    ),
    "both heads": (
        lambda f, to: rewritten(f, to, lambda a: a | {"lm_head.weight": np.zeros((128, 32))}),
        "1 not expected .lm_head.weight.",
    ),
    "lost and strange tensors": (
        lambda f, to: rewritten(f, to, lambda a: without(NORM)(a) | {"model.odd": np.zeros(3)}),
        "1 missing .model.norm.weight.; 1 not expected .model.odd.",
    ),
    "a head of another width": (
        lambda f, to: rewritten(f, to, lambda a: a | {"score.weight": np.zeros((1, 31))}),
        r"score.weight has shape \(1, 31\), expected \(1, 32\)",
    ),
    "another family": (
        lambda f, to: other_config(f, to, model_type="bert"),
        'no model family "bert"',
    ),
    "few embeddings": (
        lambda f, to: other_config(f, to, vocab_size=100),
        "its embedding has 100 rows, but its tokenizer has 128 ids",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_reward_model_is_refused(case, models, tmp_path):
    make, said = REFUSED[case]
    make(models("llama")[1], tmp_path)
    with pytest.raises(ValueError, match=f'reward model "{tmp_path}": .*{said}') as caught:
        opened(tmp_path)
    assert "\n" not in str(caught.value)


def test_which_scorers_are_models(models):
    folder = str(models("llama")[1])
    assert Learned(scorer=folder).models == (folder,)
    assert Learned(scorer="rm").models == Learned(scorer="a/b.py:score").models == ()
    both = Compose(rewards=(f"learned:{folder}", "learned", "numeric"), gates=("learned:o/m",))
    assert both.models == (folder, "o/m")
    with serving(folder, lambda completions, problems: [Scores(value=5.0)]):
        assert Learned(scorer=folder).models == ()
        with reward_models(Learned(scorer=folder), PRECISION, PackConfig(), one_device()):
            (verdict,) = grade_all(Learned(scorer=folder), COMPLETIONS[:1], PROBLEMS[:1])
    assert verdict.score == 5.0
    with pytest.raises(ValueError, match=r"a folder is written with a /: ./rm"):
        grade_all(Learned(scorer="rm"), COMPLETIONS[:1], PROBLEMS[:1])


def test_rlvr_grade(models, tmp_path, capsys):
    model, folder = models("llama")
    problem = Problem(prompt="3+4=", answer="7", index=0)
    lines = {"prompt": "3+4=", "answer": "7", "responses": ["7", "eight", "I do not know"]}
    (tmp_path / "in.jsonl").write_text(json.dumps(lines) + "\n")
    out = tmp_path / "out.jsonl"
    arguments = ["--reward=learned", "--set", f"scorer={folder}", "--set", "scale=sigmoid"]
    assert grade.main([str(tmp_path / "in.jsonl"), *arguments, f"--out={out}"]) == 0
    texts = [encode_answered(char_tokenizer(), problem, t) for t in lines["responses"]]
    expected = 1 / (1 + np.exp(-theirs(model, texts)))
    found = [json.loads(line)["score"] for line in out.read_text().splitlines()]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert "3 responses" in capsys.readouterr().out
