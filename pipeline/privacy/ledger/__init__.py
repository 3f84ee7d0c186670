"""The ledger: what was spent on which data, durable, append-only and hash-chained. The only room that imports sqlalchemy and alembic.

Every change is one transaction that appends one entry to the chain; balances and runs are kept beside it so that a reservation
does not slow down with the ledger's age, and `verify` recomputes them from the chain. A ledger is made by `Ledger.create` only.
"""

from pipeline.privacy.ledger.book import Found, Ledger
from pipeline.privacy.ledger.errors import BudgetExceeded, LedgerError
from pipeline.privacy.ledger.order import Order
from pipeline.privacy.ledger.policy import Policy
from pipeline.privacy.ledger.run import Receipt, Run
from pipeline.privacy.ledger.verify import verify

__all__ = ["BudgetExceeded", "Found", "Ledger", "LedgerError", "Order", "Policy", "Receipt", "Run", "verify"]
