"""Knights and knaves: the answer says of each person what they are, and nothing else."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.extract import check_places, extract
from rlvr_jax.rewards.format import shape_fault
from rlvr_jax.types import Completion, Problem, Verdict

MAX_CHARS = 2000
ROLES = ("knight", "knave")

_ROLE = re.compile(r"(?<![\w-])(knight|knave)(s?)(?![\w-])", re.IGNORECASE)
_LINK = r"""["'*]*\s*(?:\|\s*|[:=(]\s*|-+>?\s+|[–—→]\s*|is\s+|'s\s+)"""
_NOT = r"(?P<no>not\s+)?"
_END = r"""(?:an?\s+|the\s+)?["'*]*(?P<role>knight|knave)(?![\w-])"""
_HEDGE = re.compile(
    r"\b(if|unless|whether|either|or|neither|nor|not|maybe|perhaps|possibly|might|may|could|would"
    r"|should|unknown|impossible|false|untrue|doubt|suppose|n't)\b|n't|\?",
    re.IGNORECASE,
)


def read_roles(text: str, names: list[str]) -> dict[str, str] | str:
    """Each person's role as the text states it, or why it states none, as a reason code.

    "Zoey is a knight", "Zoey: knight", "Zoey is not a knave", "Zoey and Oliver are knights", JSON.
    Repetition is harmless.  A conditional, a choice or a denial is no statement ("hedged"), two
    roles of one person are a "contradiction", and a role word that belongs to no statement about a
    person of the puzzle makes the text "unparsable".
    """
    text = re.sub(r"\bisn['’]t\b", "is not", text)
    person = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    if not person:
        return "unparsable"
    person = rf"(?<![\w-])(?P<name>{person})(?![\w-])"
    one = re.compile(rf"{person}{_LINK}{_NOT}{_END}", re.IGNORECASE)
    bare = person.replace("?P<name>", "?:")
    many = re.compile(
        rf"(?P<names>{bare}(?:\s*,\s*{bare})*\s*,?\s*and\s+{bare})\s+are\s+(?:both\s+|all\s+)?"
        r"(?P<role>knight|knave)s(?![\w-])",
        re.IGNORECASE,
    )
    said: dict[str, set[str]] = {name: set() for name in names}
    covered = 0
    rest = []
    for pattern in (many, one):
        for match in pattern.finditer(text):
            role = match["role"].lower()
            if pattern is one and match["no"]:
                role = ROLES[1 - ROLES.index(role)]
            lowered = match.group("names" if pattern is many else "name").lower()
            named = re.findall(bare, lowered, re.IGNORECASE)
            for name in names:
                if name.lower() in named:
                    said[name].add(role)
            covered += 1
            rest.append(match.span())
    return _judge(text, said, covered, rest)


def _judge(text: str, said: dict, covered: int, spans: list) -> dict[str, str] | str:
    outside = list(text)
    for start, end in spans:
        outside[start:end] = " " * (end - start)
    outside = "".join(outside)
    if _HEDGE.search(outside):
        return "hedged"
    if _ROLE.search(outside) or not covered:
        return "unparsable"
    if any(len(roles) > 1 for roles in said.values()):
        return "contradiction"
    if not all(said.values()):
        return "incomplete"
    return {name: next(iter(roles)) for name, roles in said.items()}


@REWARDS.register("knights")
@dataclasses.dataclass(frozen=True)
class Knights(Reward):
    """Pays for naming every person's role, as problem.meta["roles"] = {name: role} has it.

    extract: where the answer may stand (see "numeric").  right, wrong: what it earns; there is no
    share for some of the roles, which guessing would collect.
    format_score: added for the shape <think>...</think><answer>...</answer>.
    """

    extract: tuple[str, ...] = ("answer_tag", "boxed")
    right: float = 1.0
    wrong: float = 0.0
    format_score: float = 0.0

    def __post_init__(self):
        check_places(self.extract)
        check_finite(right=self.right, wrong=self.wrong, format_score=self.format_score)

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        roles = problem.meta.get("roles")
        if not isinstance(roles, Mapping) or not roles or not set(roles.values()) <= set(ROLES):
            return Verdict(status="unknown", reason="bad_gold", stage="gold", gold=repr(roles))
        found = extract(completion.text, self.extract)
        reason = self._fault(found, dict(roles))
        shaped = float(not shape_fault(completion.text))
        return Verdict(
            status="wrong" if reason else "scored",
            score=(self.wrong if reason else self.right) + self.format_score * shaped,
            reason=reason,
            parts={"correct": float(not reason), "format": shaped},
            stage="extract" if not found else "roles",
            extracted=found,
            gold=", ".join(f"{name} is a {role}" for name, role in roles.items()),
        )

    def _fault(self, found: str | None, roles: dict[str, str]) -> str:
        if not found:
            return "no_answer" if found is None else "empty"
        if len(found) > MAX_CHARS:
            return "too_long"
        said = read_roles(found, list(roles))
        if isinstance(said, str):
            return said
        return "" if said == roles else "mismatch"

    @classmethod
    def example(cls) -> Example:
        roles = {"Zoey": "knight", "Oliver": "knave"}
        problem = Problem(prompt="Who is what?", answer="", index=0, meta={"roles": roles})
        right = "<answer>Zoey is a knight, Oliver is a knave</answer>"
        return Example(cls(), problem, right, wrong="<answer>Zoey and Oliver are knights</answer>")
