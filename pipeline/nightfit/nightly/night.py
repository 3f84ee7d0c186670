"""What one night came to, in one line: new or unchanged, cost, what is left, the paid metric, where the release lies. Imports release and
below.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightfit.config import Config
from nightfit.ledger import Ledger
from nightfit.ledger.windows import window_of
from nightfit.nightly.job import Job
from nightfit.nightly.selection import existing_blocks
from nightfit.release import Release
from nightfit.release.balance import Balance
from nightfit.release.metrics import Evaluation, evaluation_of
from nightfit.release.shifts import Shift


@dataclass(frozen=True, kw_only=True)
class Night:
    """A night that ended with a release. Everything in it is public or paid for.

    Attributes
    ----------
    model : str
        Its name.
    new : bool
        Whether the release is of this night; else the window was fitted before, and nothing was spent.
    release : Release
        What was released.
    path : Path
        Where it lies.
    balance : Balance
        What is left of the budget.
    nights_left : int
        How many more such nights the budget allows.
    goes_on : bool
        Whether the budget never ends, if a new block comes every night.
    promotion : str
        What was decided about promotion, and why; empty where nothing was.
    shifted : tuple of Shift
        Paid checks that changed beyond their intervals since the release in use.
    """

    model: str
    new: bool
    release: Release
    path: Path
    balance: Balance
    nights_left: int
    goes_on: bool
    promotion: str = ""
    shifted: tuple[Shift, ...] = ()

    @property
    def evaluation(self) -> Evaluation | None:
        """The paid evaluation, if there is one."""
        return evaluation_of(self.release)

    def line(self) -> str:
        """The night in one line."""
        return f"{self.words()}; {self.path}"

    def words(self) -> str:
        """The night without a place: what a third party may know of it. No number of a release that is not private is in it."""
        guarantee, balance, evaluation = self.release.content["guarantee"], self.balance, self.evaluation
        spent = "no privacy claimed" if guarantee is None else f"epsilon {guarantee['epsilon']:.4g} spent"
        parts = [
            f"{self.model}: {'new' if self.new else 'unchanged'} release {self.release.run_id}",
            spent if self.new else "nothing spent",
            f"{balance.share_left:.1%} of the budget left (epsilon {balance.epsilon_spent:.4g} of {balance.epsilon_lifetime:g} spent)",
            nights_in_words(self.nights_left, self.goes_on),
            *([] if evaluation is None else [evaluation.words(compared=evaluation.change_words() not in self.promotion)]),
            *([f"changed: {', '.join(one.words() for one in self.shifted)}"] if self.shifted else []),
            *([self.promotion] if self.promotion else []),
        ]
        return "; ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """The night as plain data, for machines."""
        return {
            "model": self.model,
            "state": "new" if self.new else "unchanged",
            "run": self.release.run_id,
            "time": self.release.content["time"],
            "private": self.release.private,
            "share_left": self.balance.share_left,
            "nights_left": self.nights_left,
            "goes_on": self.goes_on,
            "promotion": self.promotion,
            "shifted": [one.as_dict() for one in self.shifted],
            "line": self.line(),
            "words": self.words(),
        }


def nights_in_words(nights: int, goes_on: bool) -> str:
    """12 nights left."""
    if goes_on:
        return "nights left without end while a new block comes every night"
    return f"{nights:,} night{'' if nights == 1 else 's'} left"


def nights_left(job: Job, ledger: Ledger) -> int:
    """How many more nights like this one the budget allows, as it is now."""
    policy = ledger.policies()[job.config.data_set]
    existing = existing_blocks(job.config, job.division)
    spent = ledger.spent_by_block(job.config.data_set, sorted({*existing, *job.blocks}))
    return window_of(job.config.data.window).nights_left(job.blocks, existing, spent, policy.cost(job.plan.events), policy.limit())


def night_name(config: Config) -> str:
    """What a night is called before anything is read: its model and its window.

    A window without a name is what the files are, and stays nameless: their identity is a function of the data.
    """
    window = config.data.window
    if window is None:
        return f"{config.name} on {config.data_set}"
    return f"{config.name} {window if isinstance(window, str) else ' '.join(map(str, window))}"
