"""Format 6: answers are packed into a table of their own, and may be pruned. Imports alembic, sqlalchemy, the chain and answers.

Digests stay: an entry's is that of the text that its packed answer stands for.
"""

import sqlalchemy as sa
from alembic import op

from nightfit.ledger import answers, chain

revision = "format_6"
down_revision = "format_5"


def upgrade() -> None:
    op.create_table(
        "answer",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("packed", sa.LargeBinary, nullable=False),
    )
    connection = op.get_bind()
    if connection.execute(sa.text("SELECT ledger_id FROM identity")).first() is None:
        return
    answers.pack_all(connection)
    chain.append(connection, "upgraded", "", {"from": 5, "to": 6})
    connection.execute(sa.text("UPDATE identity SET version = 6"))
