"""Whether the completion has the shape it was asked for: thoughts, then one answer."""

from __future__ import annotations

import dataclasses
import re
import unicodedata

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.extract import last_boxed
from rlvr_jax.types import Completion, Problem, Verdict

SHAPES = ("think_answer", "think_boxed")
_TAGS = re.compile(r"<(/?)(think|answer)>")
_ORDER = {
    "think_answer": ["<think>", "</think>", "<answer>", "</answer>"],
    "think_boxed": ["<think>", "</think>"],
}

_TEX_BLANK = re.compile(
    r"\\(?:[,;:!>\s\\]|q?quad(?![A-Za-z])|(?:text|mathrm|hspace|phantom)\b)|[{}$~]"
)
_FILLERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and symbols that print nothing


def visible(text: str) -> bool:
    """Whether anything of the text can be seen: blanks, control and format characters, lone
    combining marks and fillers cannot."""
    return any(unicodedata.category(c)[0] not in "CZM" and c not in _FILLERS for c in text)


def shape_fault(text: str, shape: str = "think_answer", prefill: str = "") -> str:
    """Why the text lacks the shape, as a reason code; "" if it has it.

    think_answer: one ``<think>``, one ``</think>``, one ``<answer>``, one ``</answer>`` in this
    order, nothing but blanks around them, something to see in either block.  think_boxed: one block
    of thoughts, then text with a closed box, something to see in both.  prefill: what the prompt
    ended with.
    """
    text = prefill + text
    tags = list(_TAGS.finditer(text))
    if [t.group() for t in tags] != _ORDER[shape]:
        return "bad_tags"
    pieces = _between(text, tags)
    if pieces[0].strip():
        return "text_before"
    if not visible(pieces[1]):
        return "empty_think"
    if shape == "think_boxed":
        box = last_boxed(pieces[2])
        if box is None:
            return "no_box"
        return "" if visible(_TEX_BLANK.sub("", box)) else "empty_answer"
    if pieces[2].strip() or pieces[4].strip():
        return "text_outside"
    return "" if visible(pieces[3]) else "empty_answer"


def _between(text: str, tags: list[re.Match]) -> list[str]:
    """The pieces of text that the tags cut."""
    starts = [0] + [t.end() for t in tags]
    ends = [t.start() for t in tags] + [len(text)]
    return [text[a:b] for a, b in zip(starts, ends, strict=True)]


@REWARDS.register("format")
@dataclasses.dataclass(frozen=True)
class Format(Reward):
    """Pays for thoughts and one answer in the asked shape, whatever the answer says."""

    shape: str = "think_answer"
    prefill: str = ""
    right: float = 1.0
    wrong: float = 0.0

    def __post_init__(self):
        if self.shape not in SHAPES:
            raise ValueError(f'shape: got "{self.shape}", allowed are {", ".join(SHAPES)}')
        check_finite(right=self.right, wrong=self.wrong)

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        fault = shape_fault(completion.text, self.shape, self.prefill)
        return Verdict(
            status="wrong" if fault else "scored",
            score=self.wrong if fault else self.right,
            reason=fault,
            parts={"format": float(not fault)},
            stage="format",
        )

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="3 + 4?", answer="7", index=0)
        right = "<think>3 + 4 is 7</think><answer>7</answer>"
        return Example(cls(), problem, right, wrong="<think></think><answer>7</answer>")
