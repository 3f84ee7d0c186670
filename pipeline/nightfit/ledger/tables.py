"""The ledger's tables. Imports sqlalchemy."""

from typing import Any

import sqlalchemy as sa

VERSION = 6  # of the format; docs/reference/ledger.md lists what each one added
BATCH = 500  # values in one IN clause: below the smallest limit of bound parameters (SQLite, 999)


class BigInteger(sa.types.TypeDecorator[int]):
    """A Python integer of any size, kept as decimal text: SQL numbers are too narrow for exact sums."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Any) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Any) -> int | None:
        return None if value is None else int(value)


metadata = sa.MetaData()
identity = sa.Table(
    "identity",
    metadata,
    sa.Column("ledger_id", sa.Text, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
)
entry = sa.Table(
    "entry",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("data_set", sa.Text, nullable=False),
    sa.Column("run", sa.Text),
    sa.Column("label", sa.Text),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Index("entry_by_question", "run", "kind", "label"),
    sa.Index("entry_by_data_set", "data_set", "kind", "seq"),
)
answer = sa.Table(  # packed; the entry's own body is empty, and its digest is that of the text which they stand for
    "answer",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("packed", sa.LargeBinary, nullable=False),
)
policy = sa.Table(
    "policy",
    metadata,
    sa.Column("data_set", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)
balance = sa.Table(
    "balance",
    metadata,
    sa.Column("data_set", sa.Text, primary_key=True),
    sa.Column("block", sa.Text, primary_key=True),
    sa.Column("amount", BigInteger, nullable=False),
    sa.Column("mass", BigInteger, nullable=False),
)
run = sa.Table(
    "run",
    metadata,
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
file = sa.Table(
    "file",
    metadata,
    sa.Column("fingerprint", sa.Text, primary_key=True),
    sa.Column("data_set", sa.Text, nullable=False),
    sa.Column("block", sa.Text, nullable=False, server_default=""),
)
