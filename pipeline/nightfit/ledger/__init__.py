"""The ledger: what was spent on which data, durable, append-only and hash-chained. The only package that imports sqlalchemy and alembic.

Every change is one transaction that appends to the chain. The other tables repeat what the chain records, so that a reservation stays quick
in an old ledger; a reservation recomputes the balances that it compares, and `verify` recomputes everything.

Contents
--------
store, opening
    `Ledger`: made by `Ledger.create` and `Ledger.open`; the one object that others learn. Making, opening and upgrading its database.
policy, policies, policy_migration
    `Policy`: the lifetime budget of a data set. Its table, and the rules by which it changes. From records to persons, and to other blocks.
reservation, reservations
    `Reservation`: what a plan asks to set aside. The transaction that charges it, or finds the run that did so before.
sharing
    Queries that one run pays for, whose answers several runs take.
run, runs, writes
    `Run`: the account through which queries are asked and answered. The table of runs; giving one up. Several runs in one commit.
receipt, releases
    `Receipt`, `Binding` and `Claim`: what ties a release to the entry that paid for it, and whether it still is that release.
windows
    Which blocks a refit reads, and how many nights their budgets last.
chain, checkpoints, balances, files
    The chain of entries; what a data set has spent by its entries; the tables of balances and files.
answers
    Answers packed into bytes, and removed on request.
promotions
    Which release of a model is in use: decisions and their reasons.
verify, history
    Whether a ledger is whole. What was charged when, for plots and outside accountants.
database, tables, migrate, lock, identity, errors
    Durable transactions, the schema and its formats, one driver per run, the ledger's id and key, exceptions.
"""

from nightfit.ledger.errors import BudgetExceeded, LedgerError, NoLedger
from nightfit.ledger.policy import Policy
from nightfit.ledger.receipt import Binding, Claim, Receipt
from nightfit.ledger.reservation import Reservation, Shared
from nightfit.ledger.run import Run
from nightfit.ledger.runs import RunRecord
from nightfit.ledger.store import Ledger
from nightfit.ledger.verify import unbound, verify

__all__ = [
    "Binding",
    "BudgetExceeded",
    "Claim",
    "Ledger",
    "LedgerError",
    "NoLedger",
    "Policy",
    "Receipt",
    "Reservation",
    "Run",
    "RunRecord",
    "Shared",
    "unbound",
    "verify",
]
