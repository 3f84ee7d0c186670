"""What each account of a data set has spent, read and raised for many blocks at a time. Imports sqlalchemy."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from nightfit.ledger import tables
from nightfit.privacy.accounting import Cost

_AT = (tables.balance.c.data_set == sa.bindparam("of")) & (tables.balance.c.block == sa.bindparam("account"))
_RAISE = tables.balance.update().where(_AT).values(amount=sa.bindparam("amount_now"), mass=sa.bindparam("mass_now"))
_OPEN = tables.balance.insert().values(
    data_set=sa.bindparam("of"), block=sa.bindparam("account"), amount=sa.bindparam("amount_now"), mass=sa.bindparam("mass_now")
)


def every(connection: sa.Connection, data_set: str) -> dict[str, Cost]:
    """The balance of every account of a data set that was ever charged."""
    return _held(connection, tables.balance.c.data_set == data_set)


def spent(connection: sa.Connection, data_set: str, accounts: Sequence[str]) -> dict[str, Cost]:
    """The balances of those of the accounts that were ever charged."""
    held: dict[str, Cost] = {}
    for start in range(0, len(accounts), tables.AT_ONCE):
        some = tables.balance.c.block.in_(accounts[start : start + tables.AT_ONCE])
        held |= _held(connection, (tables.balance.c.data_set == data_set) & some)
    return held


def charge(connection: sa.Connection, data_set: str, accounts: Sequence[str], held: Mapping[str, Cost], charged: Cost) -> None:
    """Raise the balance of each account from what it held, as `spent` just told; the caller's transaction holds the write lock."""
    for statement, some in (
        (_RAISE, [name for name in accounts if name in held]),
        (_OPEN, [name for name in accounts if name not in held]),
    ):
        now = [(name, held.get(name, Cost()) + charged) for name in some]
        if now:
            connection.execute(
                statement, [{"of": data_set, "account": name, "amount_now": cost.amount, "mass_now": cost.mass} for name, cost in now]
            )


def _held(connection: sa.Connection, where: sa.ColumnElement[bool]) -> dict[str, Cost]:
    rows = connection.execute(sa.select(tables.balance.c.block, tables.balance.c.amount, tables.balance.c.mass).where(where))
    return {row.block: Cost(row.amount, row.mass) for row in rows}
