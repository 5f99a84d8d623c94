"""Whether the completion has the shape it was asked for: thoughts, then one answer."""

from __future__ import annotations

import dataclasses
import re

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.extract import last_boxed
from rlvr_jax.types import Completion, Problem, Verdict

SHAPES = ("think_answer", "think_boxed")
_TAGS = re.compile(r"<(/?)(think|answer)>")
_ORDER = {
    "think_answer": ["<think>", "</think>", "<answer>", "</answer>"],
    "think_boxed": ["<think>", "</think>"],
}


def shape_fault(text: str, shape: str = "think_answer", prefill: str = "") -> str:
    """Why the text lacks the shape, as a reason code; "" if it has it.

    think_answer: one ``<think>``, one ``</think>``, one ``<answer>``, one ``</answer>`` in this
    order, nothing but blanks around them, neither block blank.  think_boxed: one block of thoughts
    that is not blank, then text with a closed, non-blank box.  prefill: what the prompt ended with.
    """
    text = prefill + text
    tags = list(_TAGS.finditer(text))
    if [t.group() for t in tags] != _ORDER[shape]:
        return "bad_tags"
    pieces = _between(text, tags)
    if pieces[0].strip():
        return "text_before"
    if not pieces[1].strip():
        return "empty_think"
    if shape == "think_boxed":
        box = last_boxed(pieces[2])
        return "" if box else "no_box" if box is None else "empty_answer"
    if pieces[2].strip() or pieces[4].strip():
        return "text_outside"
    return "" if pieces[3].strip() else "empty_answer"


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
