"""Rewards that say something else than the verifier: controls for spurious rewards and noise.

Each wraps a reward, grades with it, and pays by another rule.  The wrapped verdict stays in the
part "accuracy", which evaluations count (under "label_noise": as far as the labels are right); all
that training sees is what was paid.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Sequence

from rlvr_jax.rewards.base import REWARDS, Example
from rlvr_jax.rewards.format import shape_fault
from rlvr_jax.rewards.numeric import parse_number
from rlvr_jax.rewards.wrapper import Wrapper, named_reward
from rlvr_jax.types import Completion, Problem, Verdict

KINDS = ("random", "always", "never", "incorrect", "format_only", "flip", "label_noise", "majority")
GOLD_KINDS = ("incorrect", "flip", "label_noise")


@REWARDS.register("control")
@dataclasses.dataclass(frozen=True)
class Control(Wrapper):
    """Pays 1 or 0 by a rule that is not, or not quite, the verdict of `reward`.

    random: 1 with probability p (gamma of Shao et al. 2025, arXiv:2506.10947), whatever is said.
    always, never: 1, 0.  format_only: 1 for <think>...</think><answer>...</answer>.
    incorrect: 1 for an answer that was found and is wrong.  Shao et al. pay for matching one wrong
        label; here every wrong answer is paid.
    flip: the verdict, turned round with probability p for each completion (checker noise).
    label_noise: the verdict against a gold that is wrong for a share p of the problems, the same
        ones throughout a run; a number is moved by 1 to 9, other text becomes unreachable.
    majority: 1 for the answer that most completions of the problem in the batch gave (TTRL, Zuo et
        al. 2025, arXiv:2504.16084, eq. 2); the gold is not looked at.  Answers are one if they are
        equal as numbers or as text; between equally frequent ones the first counts.
    reward: the wrapped reward, as in "compose".  seed: of the random kinds.
    """

    kind: str = "random"
    reward: str = "numeric"
    p: float = 0.5
    seed: int = 0

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f'control: got kind "{self.kind}", allowed are {", ".join(KINDS)}')
        if not 0.0 <= self.p <= 1.0:
            raise ValueError(f"control: p must be a probability between 0 and 1, got {self.p!r}")
        named_reward(self.reward)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.reward,)

    def gold_fault(self, problem: Problem) -> str:
        """Of the kinds that look at the gold: the others may do without one."""
        return super().gold_fault(problem) if self.kind in GOLD_KINDS else ""

    def prepare(self, problems: Sequence[Problem]) -> Sequence[Problem]:
        if self.kind != "label_noise":
            return problems
        return [self._mislabelled(problem) for problem in problems]

    def _mislabelled(self, problem: Problem) -> Problem:
        if draw(self.seed, problem) >= self.p:
            return problem
        mark, value = problem.answer.rpartition("####")[::2]
        number = parse_number(value)
        if number is None or number.denominator != 1:
            return dataclasses.replace(problem, answer="\x00", meta={})
        wrong = int(number) + 1 + int(9 * draw(self.seed, problem, "shift"))
        return dataclasses.replace(problem, answer=f"{'####' * bool(mark)}{wrong}")

    def combine(
        self,
        completions: Sequence[Completion],
        problems: Sequence[Problem],
        verdicts: Sequence[Sequence[Verdict | None]],
    ) -> list[Verdict]:
        leaders = majorities(problems, verdicts[0]) if self.kind == "majority" else {}
        rows = zip(completions, problems, verdicts[0], strict=True)
        return [self._one(*row, leaders) for row in rows]

    def _one(
        self, completion: Completion, problem: Problem, verdict: Verdict, leaders: dict
    ) -> Verdict:
        if verdict.status == "unknown" and self.kind in GOLD_KINDS:
            return verdict
        pays = float(self._pays(completion, problem, verdict, leaders))
        parts = {"correct": pays, "accuracy": float(verdict.correct)}
        return dataclasses.replace(
            verdict, status="scored", score=pays, parts=parts, stage=f"control_{self.kind}"
        )

    def _pays(
        self, completion: Completion, problem: Problem, verdict: Verdict, leaders: dict
    ) -> bool:
        chance = coin(self.seed, completion, problem) < self.p
        said = vote(verdict)
        rules = {
            "random": chance,
            "always": True,
            "never": False,
            "incorrect": said is not None and not verdict.correct,
            "format_only": self.kind == "format_only" and not shape_fault(completion.text),
            "flip": verdict.correct != chance,
            "label_noise": verdict.correct,
            "majority": said is not None and leaders.get(_group(problem)) == said,
        }
        return rules[self.kind]

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="3 + 4?", answer="7", index=0)
        return Example(cls(), problem, right=None)


def coin(seed: int, completion: Completion, problem: Problem) -> float:
    """A uniform number in [0, 1), fixed by the seed, the problem's index and the sampled ids (the
    text where there are none): two equal samples of a problem agree."""
    said = repr(completion.token_ids) if completion.token_ids else completion.text
    key = f"{seed}|{problem.index}|{said}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(key).digest()[:7], "big") / 2**56


def draw(seed: int, problem: Problem, purpose: str = "") -> float:
    """A uniform number in [0, 1), fixed by the seed and the problem alone."""
    key = f"{seed}|{purpose}|{problem.index}|{problem.answer}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(key).digest()[:7], "big") / 2**56


def vote(verdict: Verdict) -> str | None:
    """The answer found in the completion, in a form in which equal answers are equal text."""
    found = (verdict.extracted or "").strip()
    number = parse_number(found)
    return str(number) if number is not None else found or None


def _group(problem: Problem) -> tuple[int, str]:
    return problem.index, repr(problem.prompt)


def majorities(
    problems: Sequence[Problem], verdicts: Sequence[Verdict]
) -> dict[tuple[int, str], str]:
    """The most frequent answer of each problem's completions; none where nobody answered."""
    votes: dict[tuple[int, str], Counter] = {}
    for problem, verdict in zip(problems, verdicts, strict=True):
        said = vote(verdict)
        if said is not None:
            votes.setdefault(_group(problem), Counter())[said] += 1
    return {group: counts.most_common(1)[0][0] for group, counts in votes.items()}
