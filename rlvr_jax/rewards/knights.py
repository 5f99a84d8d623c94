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
_LINK = (
    r"""["'*]*(?:\s*(?:\|\s*|[:=(]\s*|-+>?\s+|[–—→]\s*)"""
    r"""|\s+(?:is|must\s+be)\s+(?:(?:definitely|certainly|clearly|indeed|actually)\s+)?|['’]s\s+(?=an?\s|the\s|not\s)"""
    r"""|\s*,?\s+(?=an?\s))"""
)
_NOT = r"(?P<no>not\s+)?"
_END = r"""(?:an?\s+|the\s+)?["'*]*(?P<role>knight|knave)(?![\w-])"""
_HEDGE = re.compile(  # words that turn what was said into something else, wherever they stand
    r"\b(if|iff|only|unless|until|except|otherwise|whenever|when|whether|either|or|neither|nor|not"
    r"|no|none|never|cannot|maybe|perhaps|possibly|possible|probably|likely|might|may|could|would"
    r"|should|unknown|impossible|undetermined|uncertain|unsure|false|untrue|wrong|incorrect|opposite"
    r"|reversed?|swap(?:ped)?|doubt|guess|suppose|supposing|provided|providing|implies|equivalent"
    r"|exactly|precisely|just in case|in case|as long as|vice versa|xor|a lie|are lies|mistaken"
    r"|den(?:y|ies|ied)|contrary|instead|rather|contradict\w*|refuted?|n't)\b|n['’]t\b"
    r"|\?|\|\||[=<-]>|<[=-]|[⇒⇔⟹⟺↔→⊕≡¬∨]",
    re.IGNORECASE,
)
_SAID = "\x00"  # stands for a statement that was read
_CLAUSE = re.compile(  # where one clause ends; after a colon the next line still belongs to it
    r"(?<![:\s])\s*\n|[.;,(){}|!–—]|\s-+\s"
    r"|\b(?:and|but|while|whereas|because|since)\b",
    re.IGNORECASE,
)
_HARMLESS = re.compile(  # nothing that could bind one statement to another but a conjunction
    r"(?:\b(?:(?:(?:the|my|our)\s+)?(?:final\s+)?(?:answer|solution|conclusion)(?:\s+is)?"
    r"|here\s+(?:is|are)|as\s+follows|it\s+follows|we\s+(?:have|know|conclude|find|see|get)|the|final|roles?"
    r"|identity|identities|assignment|so|thus|hence|therefore|consequently|finally|clearly|indeed"
    r"|also|that)\b|[\d\s:\"'`*#•✅✓✔&∧\[\]\x00-])*",
    re.IGNORECASE,
)
_TEX = re.compile(r"\\(?:boxed|fbox|text|text(?:bf|it|rm)|math(?:bf|it|rm))\s*\{([^{}]*)\}")


def read_roles(text: str, names: list[str]) -> dict[str, str] | str:
    """Each person's role as the text states it, or why it states none, as a reason code.

    "Zoey is a knight", "Zoey: knight", "Zoey is not a knave", "Zoey and Oliver are knights", "Zoey,
    a knight", JSON.  A statement counts where its clause says nothing but it (and "so", "the answer
    is" and the like): under a condition, a report ("Zoey says") or a word that is not known here it
    states nothing.  Repetition is harmless.  A conditional, a choice or a denial anywhere is
    "hedged", two roles of one person are a "contradiction", and a role word that belongs to no
    statement about a person of the puzzle makes the text "unparsable".
    """
    text = re.sub(r"\bisn['’]t\b", "is not", text.replace(_SAID, " "))
    for _ in range(3):
        text = _TEX.sub(r"\1", text)
    text = re.sub(r"\\(?:\\|newline\b)", "\n", text)
    text = re.sub(r"\\(?:q?quad\b|[,;:! ])|\$", " ", text)
    said = _statements(text, names)
    outside, at = [], 0
    for start, end, _ in said:
        outside += [text[at:start], _SAID]
        at = end
    return _judge("".join(outside) + text[at:], [roles for *_, roles in said], names)


def _statements(text: str, names: list[str]) -> list[tuple[int, int, dict[str, str]]]:
    """(start, end, {name: role}) of each statement, in order."""
    bare = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name)
    if not bare:
        return []
    bare = rf"(?<![\w-])(?:{bare})(?![\w-])"
    one = re.compile(rf"(?P<names>{bare}){_LINK}{_NOT}{_END}", re.IGNORECASE)
    many = re.compile(
        rf"(?P<names>{bare}(?:\s*,\s*{bare})*\s*,?\s*and\s+{bare})\s+are\s+(?:both\s+|all\s+)?"
        r"(?P<role>knight|knave)s(?![\w-])",
        re.IGNORECASE,
    )
    found = []
    for match in sorted((*many.finditer(text), *one.finditer(text)), key=lambda m: m.start()):
        role = match["role"].lower()
        role = ROLES[1 - ROLES.index(role)] if match.groupdict().get("no") else role
        named = {name.lower() for name in re.findall(bare, match["names"], re.IGNORECASE)}
        roles = {name: role for name in names if name.lower() in named}
        if not found or match.start() >= found[-1][1]:
            found.append((*match.span(), roles))
    return found


def _judge(outside: str, said: list[dict[str, str]], names: list[str]) -> dict[str, str] | str:
    """The verdict on the statements, `outside` being the text with a mark for each of them."""
    if _HEDGE.search(outside):
        return "hedged"
    if _ROLE.search(outside) or not said:
        return "unparsable"
    if any(len({roles[name] for roles in said if name in roles}) > 1 for name in names):
        return "contradiction"
    if set().union(*said) != set(names):
        return "incomplete"
    stated: dict[str, str] = {}
    outside = re.sub(rf"{_SAID}[\"'*]*\s*:", f"{_SAID};", outside)
    for clause in _CLAUSE.split(outside):
        marks = clause.count(_SAID)
        if _HARMLESS.fullmatch(clause):
            stated |= {name: role for roles in said[:marks] for name, role in roles.items()}
        said = said[marks:]
    return {name: stated[name] for name in names} if len(stated) == len(names) else "hedged"


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
