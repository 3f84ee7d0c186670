"""The table of balances: what each account of a data set has spent. Imports sqlalchemy."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from nightfit.ledger import tables
from nightfit.privacy.accounting import Cost

_WHERE = (tables.balance.c.data_set == sa.bindparam("of")) & (tables.balance.c.block == sa.bindparam("account"))
_UPDATE = tables.balance.update().where(_WHERE).values(amount=sa.bindparam("new_amount"), mass=sa.bindparam("new_mass"))
_INSERT = tables.balance.insert().values(
    data_set=sa.bindparam("of"), block=sa.bindparam("account"), amount=sa.bindparam("new_amount"), mass=sa.bindparam("new_mass")
)


def read_all(connection: sa.Connection, data_set: str) -> dict[str, Cost]:
    """The balance of every account of a data set that was ever charged."""
    return _read(connection, tables.balance.c.data_set == data_set)


def read(connection: sa.Connection, data_set: str, accounts: Sequence[str]) -> dict[str, Cost]:
    """The balances of those of the accounts that were ever charged."""
    balances: dict[str, Cost] = {}
    for start in range(0, len(accounts), tables.BATCH):
        some = tables.balance.c.block.in_(accounts[start : start + tables.BATCH])
        balances |= _read(connection, (tables.balance.c.data_set == data_set) & some)
    return balances


def charge(connection: sa.Connection, data_set: str, accounts: Sequence[str], before: Mapping[str, Cost], charged: Cost) -> None:
    """Raise the balance of each account.

    Parameters
    ----------
    connection
        Of the caller's transaction, which holds the write lock.
    data_set, accounts
        Which balances.
    before
        What `read` just returned.
    charged
        What is added to each.
    """
    known = [name for name in accounts if name in before]
    new = [name for name in accounts if name not in before]
    for statement, names in ((_UPDATE, known), (_INSERT, new)):
        after = [(name, before.get(name, Cost()) + charged) for name in names]
        if after:
            connection.execute(
                statement, [{"of": data_set, "account": name, "new_amount": cost.amount, "new_mass": cost.mass} for name, cost in after]
            )


def replace_all(connection: sa.Connection, data_set: str, balances: Mapping[str, Cost]) -> None:
    """Let these accounts be all that the data set has."""
    connection.execute(tables.balance.delete().where(tables.balance.c.data_set == data_set))
    for account, cost in balances.items():
        charge(connection, data_set, [account], {}, cost)


def _read(connection: sa.Connection, where: sa.ColumnElement[bool]) -> dict[str, Cost]:
    rows = connection.execute(sa.select(tables.balance.c.block, tables.balance.c.amount, tables.balance.c.mass).where(where))
    return {row.block: Cost(row.amount, row.mass) for row in rows}
