"""Format 3: checkpoints of what each data set has spent, and an index to find a data set's charges. Imports alembic, sqlalchemy, the chain.

From now on a run's `finished` entry binds its release. Releases that were finished before stay unbound: nothing was recorded of them.
"""

from collections import defaultdict

import sqlalchemy as sa
from alembic import op

from nightfit.ledger import chain, checkpoints, tables
from nightfit.privacy.accounting import Cost

revision = "format_3"
down_revision = "format_2"


def upgrade() -> None:
    op.create_index("entry_by_data_set", "entry", ["data_set", "kind", "seq"])
    connection = op.get_bind()
    if connection.execute(sa.text("SELECT ledger_id FROM identity")).first() is None:
        return
    chain.append(connection, "upgraded", "", {"from": 2, "to": 3})
    data_sets = connection.execute(sa.text("SELECT DISTINCT data_set FROM entry WHERE kind = 'reserved' ORDER BY data_set")).scalars()
    for data_set in data_sets.all():
        _append_checkpoint(connection, data_set)
    connection.execute(sa.text("UPDATE identity SET version = 3"))


def _append_checkpoint(connection: sa.Connection, data_set: str) -> None:
    """What all charges of a data set add to, by the chain alone."""
    balances: defaultdict[str, Cost] = defaultdict(Cost)
    single_order, last = False, (0, "")
    for entry in chain.each(connection, tables.entry.c.data_set == data_set, tables.entry.c.kind.in_(("reserved", "abandoned"))):
        for account in chain.accounts_of(entry.body):
            balances[account] += chain.charge_of(entry)
        single_order = single_order or any(_has_single_order(event) for event in entry.body.get("events", []))
        last = (entry.seq, entry.digest)
    checkpoints.append_checkpoint(connection, data_set, balances, single_order, last)


def _has_single_order(event: dict[str, object]) -> bool:
    """Poisson samples and repeated attempts, as formats 1 and 2 stored them."""
    draw = event.get("draw")
    return event["mechanism"] == "repeat_and_select" or (isinstance(draw, dict) and "rate" in draw)
