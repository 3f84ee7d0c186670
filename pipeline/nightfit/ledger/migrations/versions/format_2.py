"""Format 2: a file has a block, and the chain covers identity, files and runs. Imports alembic, sqlalchemy, the chain.

What an older ledger keeps beside its chain is put into one entry, `upgraded`, so that it cannot be changed unseen from now on.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from nightfit.ledger import chain

revision = "format_2"
down_revision = "format_1"


def upgrade() -> None:
    op.add_column("file", sa.Column("block", sa.Text, nullable=False, server_default=""))
    connection = op.get_bind()
    identity = connection.execute(sa.text("SELECT ledger_id, key FROM identity")).first()
    if identity is None:
        return
    runs = [dict(row._mapping) for row in connection.execute(sa.text("SELECT * FROM run ORDER BY seq"))]
    body: dict[str, Any] = {
        "from": 1,
        "to": 2,
        "identity": chain.genesis(identity.ledger_id, identity.key),
        "files": [list(row) for row in connection.execute(sa.text("SELECT fingerprint, data_set FROM file ORDER BY fingerprint"))],
        "rows": {run["run"]: chain.digest_of_row({**run, "private": bool(run["private"])}) for run in runs},
    }
    chain.append(connection, "upgraded", "", body)
    connection.execute(sa.text("UPDATE identity SET version = 2"))
