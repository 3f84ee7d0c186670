"""What a notebook shows of a ledger. Imports the store's types alone."""

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nightfit.ledger.store import Ledger


def as_html(ledger: "Ledger") -> str:
    """A table: each data set with its policy, its runs, and what its most used block has left of its budget."""
    runs, rows = ledger.runs(), []
    for name, policy in ledger.policies().items():
        most = max((cost.amount / policy.limit().amount for cost in ledger.accounts(name).values()), default=0)
        count = sum(run["data_set"] == name for run in runs)
        cells = (name, policy.describe(), f"{count:,}", f"{1 - most:.1%}")
        rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
    head = "".join(f"<th>{cell}</th>" for cell in ("data set", "policy", "runs", "budget left"))
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
