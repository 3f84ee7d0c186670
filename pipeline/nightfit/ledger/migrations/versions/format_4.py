"""Format 4: entries of the kind `promotion`: which release of a model is in use, and why. Imports alembic, sqlalchemy, the chain."""

import sqlalchemy as sa
from alembic import op

from nightfit.ledger import chain

revision = "format_4"
down_revision = "format_3"


def upgrade() -> None:
    connection = op.get_bind()
    if connection.execute(sa.text("SELECT ledger_id FROM identity")).first() is None:
        return
    chain.append(connection, "upgraded", "", {"from": 3, "to": 4})
    connection.execute(sa.text("UPDATE identity SET version = 4"))
