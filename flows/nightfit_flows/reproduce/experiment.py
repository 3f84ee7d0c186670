"""What an experiment shows: figures, tables and verdicts, as plain data. Imports the standard library only."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Show = Callable[[str], None]
Kind = Literal["method", "printed", "auto", "not private", "zero"]
Answer = Literal["holds", "holds in part", "does not hold", "not tested"]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much is computed."""

    fast: bool = False

    def of(self, whole: T, fast: T) -> T:
        return fast if self.fast else whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """The mean of an error over repetitions and their standard deviation, at one value of what varies.

    `epsilon` is that of all noise which was added, as an accountant here proves it, where printed constants decided the noise.
    """

    x: float
    mean: float
    deviation: float
    epsilon: float | None = None

    @classmethod
    def of(cls, x: float, errors: Sequence[float], epsilon: float | None = None) -> "Point":
        spread = statistics.stdev(errors) if len(errors) > 1 else 0.0
        return cls(x=x, mean=statistics.fmean(errors), deviation=spread, epsilon=epsilon)


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A method's errors."""

    name: str
    kind: Kind
    points: tuple[Point, ...]

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The true epsilons of printed noise, least and largest; empty where the budget is the stated one."""
        known = [point.epsilon for point in self.points if point.epsilon is not None]
        return (min(known), max(known)) if known else ()

    @property
    def label(self) -> str:
        if not self.epsilons:
            return self.name
        low, high = (f"{epsilon:.2g}" for epsilon in self.epsilons)
        return f"{self.name}\n(true epsilon {low if low == high else f'{low} to {high}'})"

    def at(self, x: float) -> Point:
        return next(point for point in self.points if point.x == x)

    @property
    def last(self) -> Point:
        return self.points[-1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """Curves over one quantity; `about` says which figure of the paper it stands for, and what differs."""

    title: str
    over: str
    error: str
    curves: tuple[Curve, ...]
    logarithmic: bool = True
    about: str = ""

    def curve(self, name: str) -> Curve:
        return next(curve for curve in self.curves if curve.name == name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Whether a claim of the paper held here, and why."""

    claim: str
    answer: Answer
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """All that is shown of a paper."""

    paper: str
    citation: str
    settings: tuple[str, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    verdicts: tuple[Verdict, ...]
    configuration: dict[str, Any]
    command: str


def falls(curve: Curve, tolerance: float = 2.0) -> bool:
    """Whether no error exceeds the one before it by more than `tolerance` standard deviations of their difference."""
    pairs = zip(curve.points, curve.points[1:], strict=False)
    return all(later.mean <= first.mean + tolerance * (first.deviation**2 + later.deviation**2) ** 0.5 + 1e-12 for first, later in pairs)


def judged(claim: str, tests: Iterable[tuple[str, bool]], why: str = "") -> Verdict:
    """The verdict of a claim that was tested in several places."""
    found = list(tests)
    missed = [name for name, holds in found if not holds]
    answer: Answer = "holds" if not missed else "does not hold" if len(missed) == len(found) else "holds in part"
    told = f"In {len(found) - len(missed)} of {len(found)} places" + (
        f"; not in: {'; '.join(missed)}." if answer == "holds in part" else "."
    )
    return Verdict(claim=claim, answer=answer, why=" ".join(part for part in (told, why) if part))
