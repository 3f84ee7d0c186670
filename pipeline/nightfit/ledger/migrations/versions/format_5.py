"""Format 5: entries of the kind `migrated`: a data set's policy has another unit or division, and what was spent counts for everybody.

Imports alembic, sqlalchemy, the chain.
"""

import sqlalchemy as sa
from alembic import op

from nightfit.ledger import chain

revision = "format_5"
down_revision = "format_4"


def upgrade() -> None:
    connection = op.get_bind()
    if connection.execute(sa.text("SELECT ledger_id FROM identity")).first() is None:
        return
    chain.append(connection, "upgraded", "", {"from": 4, "to": 5})
    connection.execute(sa.text("UPDATE identity SET version = 5"))
