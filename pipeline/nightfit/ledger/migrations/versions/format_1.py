"""Format 1: the chain, and the balances, policies, runs and files kept beside it. Imports alembic, sqlalchemy."""

import sqlalchemy as sa
from alembic import op

revision = "format_1"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "identity",
        sa.Column("ledger_id", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
    )
    op.create_table(
        "entry",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("data_set", sa.Text, nullable=False),
        sa.Column("run", sa.Text),
        sa.Column("label", sa.Text),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
    )
    op.create_index("entry_by_question", "entry", ["run", "kind", "label"])
    op.create_table("policy", sa.Column("data_set", sa.Text, primary_key=True), sa.Column("body", sa.Text, nullable=False))
    op.create_table(
        "balance",
        sa.Column("data_set", sa.Text, primary_key=True),
        sa.Column("block", sa.Text, primary_key=True),
        sa.Column("amount", sa.Text, nullable=False),
        sa.Column("mass", sa.Text, nullable=False),
    )
    op.create_table(
        "run",
        sa.Column("run", sa.Text, primary_key=True),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("counter", sa.Integer, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("data_set", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("manifest", sa.Text, nullable=False),
        sa.Column("manifest_id", sa.Text, nullable=False),
        sa.Column("private", sa.Boolean, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("started", sa.Text, nullable=False),
        sa.UniqueConstraint("key", "counter"),
    )
    op.create_table("file", sa.Column("fingerprint", sa.Text, primary_key=True), sa.Column("data_set", sa.Text, nullable=False))
