"""Prompts to ids with at most one BOS, demonstrations with exactly one end, views without it."""

import datetime

import pytest
from tokenizers.processors import TemplateProcessing

from rlvr_jax.text import (
    TEMPLATES,
    PromptFormat,
    char_tokenizer,
    decode,
    encode_answered,
    encode_completion,
    encode_prompt,
    encode_prompts,
)
from rlvr_jax.types import Problem

BOS, EOS, UNK = 2, 1, 3
CHAT = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<eos>"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


def problem(prompt="7+12=") -> Problem:
    return Problem(prompt=prompt, answer="19", index=0)


def plain_ids(text: str) -> list[int]:
    return char_tokenizer()(text)["input_ids"]


def bos_tokenizer(also_eos: bool = False):
    """A tokenizer that adds BOS (and EOS) by itself, as Llama's and T5's do."""
    tokenizer = char_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A <eos>" if also_eos else "<bos> $A",
        special_tokens=[("<bos>", BOS), ("<eos>", EOS)],
    )
    assert tokenizer("1")["input_ids"][0] == BOS
    return tokenizer


def chat_tokenizer(template: str = CHAT):
    pytest.importorskip("jinja2")
    tokenizer = bos_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def test_plain_prompt_is_the_text():
    assert encode_prompt(char_tokenizer(), problem(), PromptFormat()) == plain_ids("7+12=")


@pytest.mark.parametrize("also_eos", [False, True])
@pytest.mark.parametrize(
    ("bos", "count"), [("auto", 1), ("always", 1), ("never", 0)], ids=["auto", "always", "never"]
)
def test_bos_adding_tokenizer_gives_at_most_one(also_eos, bos, count):
    ids = encode_prompt(bos_tokenizer(also_eos), problem(), PromptFormat(bos=bos))
    assert ids == [BOS] * count + plain_ids("7+12=")  # and no EOS


@pytest.mark.parametrize(("bos", "count"), [("auto", 0), ("always", 1), ("never", 0)])
def test_bos_of_a_tokenizer_that_adds_none(bos, count):
    ids = encode_prompt(char_tokenizer(), problem(), PromptFormat(bos=bos))
    assert ids == [BOS] * count + plain_ids("7+12=")


@pytest.mark.parametrize(("bos", "count"), [("auto", 1), ("always", 1), ("never", 0)])
@pytest.mark.parametrize("make", [char_tokenizer, bos_tokenizer])
def test_template_that_contains_bos_does_not_double_it(make, bos, count):
    format = PromptFormat(template="<bos><bos>{prompt}", bos=bos)
    assert encode_prompt(make(), problem(), format) == [BOS] * count + plain_ids("7+12=")


def test_bos_in_the_middle_is_an_error():
    with pytest.raises(ValueError, match='contains the BOS token "<bos>"'):
        encode_prompt(char_tokenizer(), problem("7<bos>8"), PromptFormat())


def test_bos_that_is_also_eos_may_end_an_earlier_turn():
    tokenizer = bos_tokenizer()
    tokenizer.eos_token = "<bos>"
    ids = encode_prompt(tokenizer, problem("7<bos>8"), PromptFormat())
    assert ids == [BOS, *plain_ids("7"), BOS, *plain_ids("8")]


def test_always_without_a_bos_token():
    tokenizer = char_tokenizer()
    tokenizer.bos_token = None
    with pytest.raises(ValueError, match="no BOS token"):
        encode_prompt(tokenizer, problem(), PromptFormat(bos="always"))
    assert encode_prompt(tokenizer, problem(), PromptFormat()) == plain_ids("7+12=")


@pytest.mark.parametrize("template", [t for t in TEMPLATES if t != "none"])
def test_named_templates_hold_the_prompt_once(template):
    ids = encode_prompt(char_tokenizer(), problem("{prompt} \\boxed{7}"), PromptFormat(template))
    text = char_tokenizer().decode(ids)
    assert text.count("{prompt} \\boxed{7}") == 1
    assert text == TEMPLATES[template].replace("{prompt}", "{prompt} \\boxed{7}")


@pytest.mark.parametrize(("bos", "count"), [("auto", 1), ("always", 1), ("never", 0)])
def test_chat_template_with_bos(bos, count):
    ids = encode_prompt(chat_tokenizer(), problem(), PromptFormat("chat", bos))
    assert ids == [BOS] * count + plain_ids("[user]7+12=<eos>[assistant]")


def test_chat_template_without_bos_gets_none_by_itself():
    tokenizer = chat_tokenizer(CHAT.replace("{{ bos_token }}", ""))
    assert BOS not in encode_prompt(tokenizer, problem(), PromptFormat("chat"))


def test_chat_conversation_and_system():
    turns = ({"role": "user", "content": "1"}, {"role": "assistant", "content": "2"})
    ids = encode_prompt(chat_tokenizer(), problem(turns), PromptFormat("chat", system="be brief"))
    assert ids == [
        BOS,
        *plain_ids("[system]be brief<eos>[user]1<eos>[assistant]2<eos>[assistant]"),
    ]
    own = ({"role": "system", "content": "x"}, *turns)
    with pytest.raises(ValueError, match="brings a system message"):
        encode_prompt(chat_tokenizer(), problem(own), PromptFormat("chat", system="be brief"))


def test_chat_needs_a_chat_template():
    with pytest.raises(ValueError, match="no chat template"):
        encode_prompt(char_tokenizer(), problem(), PromptFormat("chat"))


def test_a_chat_template_that_refuses_the_messages_is_one_line():
    refusing = CHAT.replace(
        "{% for m in messages %}",
        "{% for m in messages %}{% if m['role'] == 'system' %}"
        "{{ raise_exception('no system role here') }}{% endif %}",
    )
    tokenizer = chat_tokenizer(refusing)
    assert encode_prompt(tokenizer, problem(), PromptFormat("chat"))[0] == BOS
    with pytest.raises(ValueError, match=r"problem 0.*\(system, user\): no system role") as error:
        encode_prompt(tokenizer, problem(), PromptFormat("chat", system="be brief"))
    assert "\n" not in str(error.value)


def test_messages_are_rendered_and_tokenised_in_one_call(monkeypatch):
    """A rendered template is never tokenised again, which would add a second BOS."""
    tokenizer, calls = chat_tokenizer(), []
    real = type(tokenizer).apply_chat_template

    def apply(self, *args, **kwargs):
        calls.append(kwargs["tokenize"])
        return real(self, *args, **kwargs)

    monkeypatch.setattr(type(tokenizer), "apply_chat_template", apply)
    ids = encode_prompt(tokenizer, problem(), PromptFormat("chat"))
    assert calls == [True] and ids.count(BOS) == 1


class Later(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2031, 5, 6, 7, 8)


def test_a_chat_template_that_reads_the_clock_is_told_a_fixed_date(monkeypatch):
    pytest.importorskip("jinja2")
    tokenizer = char_tokenizer()
    tokenizer.chat_template = (
        "\n  {% macro say() %}{{ strftime_now('%Y-%m-%d') }}{% endmacro %}"
        "{% if strftime_now is defined %}{{ strftime_now('%-d %b %Y') }},{% endif %}{{ say() }}"
        "{{ messages[0]['content'] }}"
    )
    found, format = [], PromptFormat("chat")
    for clock in (Later, datetime.datetime):
        monkeypatch.setattr("transformers.utils.chat_template_utils.datetime", clock)
        found.append(encode_prompt(tokenizer, problem("=?"), format))
        assert encode_answered(tokenizer, problem("=?"), "19") == found[0]
        theirs = tokenizer.apply_chat_template([{"role": "user", "content": "=?"}], tokenize=False)
        assert ("2031" in theirs) == (clock is Later)
    assert found[0] == found[1] == plain_ids("\n26 Jul 2024,2024-07-26=?")
    assert theirs.startswith("\n") and theirs[1] != "\n"  # white space is as in their rendering


def test_messages_under_a_plain_template():
    one = ({"role": "user", "content": "7+12="},)
    assert encode_prompt(char_tokenizer(), problem(one), PromptFormat()) == plain_ids("7+12=")
    two = (*one, {"role": "assistant", "content": "19"})
    with pytest.raises(ValueError, match=r"conversation \(user, assistant\).*\"chat\""):
        encode_prompt(char_tokenizer(), problem(two), PromptFormat())


def test_empty_prompt_is_an_error():
    with pytest.raises(ValueError, match="empty prompt"):
        encode_prompt(char_tokenizer(), problem(""), PromptFormat())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"template": "r1_zro"}, 'did you mean "r1_zero"'),
        ({"template": "Question: ?"}, "any text that contains"),
        ({"bos": "yes"}, '"auto", "always", "never"'),
        ({"system": "be brief"}, "no effect"),
    ],
)
def test_prompt_format_errors(fields, message):
    with pytest.raises(ValueError, match=message):
        PromptFormat(**fields)


@pytest.mark.parametrize("make", [char_tokenizer, bos_tokenizer, lambda: bos_tokenizer(True)])
@pytest.mark.parametrize("text", ["19", "19<eos>", "19<eos><eos>"])
def test_completion_ends_with_one_eos_and_has_no_bos(make, text):
    assert encode_completion(make(), text, EOS) == [*plain_ids("19"), EOS]


def test_empty_completion_is_the_end_token():
    assert encode_completion(char_tokenizer(), "", EOS) == [EOS]


def test_completion_may_end_with_another_stop_token():
    assert encode_completion(char_tokenizer(), "1", 7) == [*plain_ids("1"), 7]


def test_decode_removes_only_the_end_token():
    tokenizer = char_tokenizer()
    ids = plain_ids("<answer>3 9</answer>")
    assert decode(tokenizer, [*ids, EOS], (EOS,)) == "<answer>3 9</answer>"
    assert decode(tokenizer, ids, (EOS,)) == "<answer>3 9</answer>"
    assert decode(tokenizer, [EOS], (EOS,)) == ""
    assert decode(tokenizer, [], (EOS,)) == ""


def test_decode_hides_nothing_else():
    tokenizer = char_tokenizer()
    ids = [*plain_ids("3"), UNK, EOS, *plain_ids("9"), 0, EOS]
    assert decode(tokenizer, ids, (EOS,)) == "3<unk><eos>9<pad>"


def test_decode_shows_ids_without_a_token():
    """Between the tokenizer's size and that of a padded embedding."""
    three, nine = plain_ids("39")
    assert decode(char_tokenizer(), [three, 620, nine, EOS], (EOS,)) == "3\ufffd9"
    assert decode(char_tokenizer(), [620, 621, EOS], (EOS, 621)) == "\ufffd\ufffd"
    assert decode(char_tokenizer(), [three, 621], (EOS, 621)) == "3"


def test_decode_inverts_encode_completion():
    text = "<think>7+12=19 .</think><answer>19</answer>"
    tokenizer = char_tokenizer()
    assert decode(tokenizer, encode_completion(tokenizer, text, EOS), (EOS,)) == text


@pytest.mark.parametrize("bos", ["auto", "always", "never"])
@pytest.mark.parametrize("template", ["none", "r1_zero", "chat"])
def test_many_prompts_are_the_single_ones(template, bos):
    tokenizer, format = bos_tokenizer(), PromptFormat(template, bos)
    tokenizer.chat_template = CHAT
    problems = [problem(), problem("1+1="), problem("a longer one than the others?")]
    rows = encode_prompts(tokenizer, problems, format)
    assert rows == [encode_prompt(tokenizer, p, format) for p in problems]
    assert len({len(row) for row in rows}) == 3  # nothing is padded
    assert encode_prompts(tokenizer, [], format) == []


def test_a_prompt_with_its_answer_in_the_chat_template():
    turns = ({"role": "system", "content": "be brief"}, {"role": "user", "content": "7+12="})
    text = "[user]7+12=<eos>[assistant]19<eos>"
    ids = encode_answered(chat_tokenizer(), problem(), "19")
    assert ids == [BOS, *plain_ids(text)]
    whole = encode_answered(chat_tokenizer(), problem(turns), "19")
    assert whole == [BOS, *plain_ids("[system]be brief<eos>" + text)]


def test_a_prompt_with_its_answer_in_plain_text():
    for prompt in ("7+12=", ({"role": "user", "content": "7+12="},)):
        assert encode_answered(char_tokenizer(), problem(prompt), "19") == plain_ids("7+12=19")
        for tokenizer in (bos_tokenizer(), bos_tokenizer(also_eos=True)):
            ids = encode_answered(tokenizer, problem(prompt), "19<bos>")
            assert ids == [BOS, *plain_ids("7+12=19"), BOS]  # whatever the policy wrote
    assert encode_answered(bos_tokenizer(), problem("<bos>1"), "9") == [BOS, *plain_ids("19")]
    turns = ({"role": "system", "content": "x"}, {"role": "user", "content": "y"})
    with pytest.raises(ValueError, match="a tokenizer without a chat template takes plain text"):
        encode_answered(char_tokenizer(), problem(turns), "19")
