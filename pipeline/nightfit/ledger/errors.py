"""The ledger's exceptions. Imports nightfit.types."""

from collections.abc import Callable

from nightfit.types import NightfitError


class LedgerError(NightfitError):
    """The ledger cannot be used, or forbids what was asked; nothing was read from the data."""


class NoLedger(LedgerError):
    """There is no ledger at its URL: none was made yet, or it was lost."""


class BudgetExceeded(LedgerError):
    """The data set's lifetime budget does not hold the plan's cost; nothing was charged and nothing read."""


class DoesNotFit(Exception):
    """Ends a transaction for lack of budget. Its words take a moment to find, while others wait for the write lock: they come after it."""

    def __init__(self, words: Callable[[], str]) -> None:
        super().__init__()
        self.words = words
