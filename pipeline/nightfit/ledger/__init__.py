"""The ledger: what was spent on which data, durable, append-only and hash-chained. The only room that imports sqlalchemy and alembic.

Every change is one transaction that appends one entry to the chain; balances and runs are kept beside it so that a reservation
does not slow down with the ledger's age, and `verify` recomputes them from the chain. A ledger is made by `Ledger.create` only.
"""

from nightfit.ledger.errors import BudgetExceeded, LedgerError
from nightfit.ledger.policy import Policy
from nightfit.ledger.reservation import Order
from nightfit.ledger.run import Receipt, Run
from nightfit.ledger.store import Found, Ledger
from nightfit.ledger.verify import verify

__all__ = ["BudgetExceeded", "Found", "Ledger", "LedgerError", "Order", "Policy", "Receipt", "Run", "verify"]
