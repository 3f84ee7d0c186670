"""What is left of a lifetime budget, in numbers and in words. Imports the accounting."""

from dataclasses import dataclass

from nightfit.privacy.accounting import Cost


def share_left(spent: Cost, limit: Cost) -> float:
    """What is left of a budget, from 0 to 1: 1 - spent / limit in the amount in which the ledger adds, or in mass if that is scarcer.

    This is the one scale on which budgets are drawn. Amounts add, so that equal refits take equal parts; epsilons do not.
    """
    parts = [(spent.amount, limit.amount), (spent.mass, limit.mass)]
    return max(0.0, min(1 - used / whole for used, whole in parts if whole))


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """What a data set's lifetime budget holds; of the most used block, and in this year if the budget is renewed.

    Parameters
    ----------
    data_set
        Its name.
    epsilon_spent, epsilon_lifetime, delta
        What is spent of what, at which delta.
    epsilon_left
        What one more release may cost.
    share_left
        What is left, as a share of the budget in the amount in which the ledger adds; see `share_left`.
    runs
        How many there were.
    runs_left
        How many more like the last one fit; None if that is not known.
    share_of_run
        What the last one took of the whole budget, on the scale of `share_left`; None if that is not known.
    block, blocks
        The most used block, and the number of blocks, where there are several.
    per_year
        Whether the budget is renewed every year.
    """

    data_set: str
    epsilon_spent: float
    epsilon_lifetime: float
    delta: float
    epsilon_left: float
    share_left: float
    runs: int
    runs_left: int | None = None
    share_of_run: float | None = None
    block: str = ""
    blocks: int = 1
    per_year: bool = False

    def scope(self) -> str:
        """Which budget this is, in words."""
        block = f" in {self.block}, the most used of {self.blocks:,} blocks" if self.block else ""
        return block + (", per year" if self.per_year else "")

    def describe(self) -> str:
        """In words."""
        more = "" if self.runs_left is None else f" {self.runs_left:,} more refits like this one fit."
        return (
            f"{self.share_left:.1%} of the budget is left{self.scope()}: epsilon {self.epsilon_spent:.4g} of {self.epsilon_lifetime:g} is "
            f"spent at delta {self.delta:g}, by {self.runs:,} run{'' if self.runs == 1 else 's'}. "
            f"One more release may cost up to epsilon {self.epsilon_left:.4g} by itself "
            f"(epsilons do not simply add).{more}"
        )
