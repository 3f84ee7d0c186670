"""The table of files: which file belongs to which data set and block. Imports sqlalchemy.

The same records must not have two budgets.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import checkpoints, tables
from nightfit.ledger.errors import LedgerError
from nightfit.privacy.accounting import Cost


def unknown(connection: sa.Connection, data_set: str, homes: Mapping[str, str]) -> list[str]:
    """The keyed fingerprints that were never charged, or only for runs that asked nothing and gave everything back.

    Guarantee: a file that is read has one data set and one block, from the first query on that was asked of either: as long as its data set
    has spent nothing, no row of it was read. Broken by test_the_same_files_under_a_second_name_are_refused and
    test_files_of_a_data_set_that_gave_everything_back_are_free.

    Parameters
    ----------
    connection
        Of the caller's transaction.
    data_set
        To which the files belong.
    homes
        The hive block of each keyed fingerprint, or an empty text.

    Raises
    ------
    LedgerError
        If a file was charged under another data set or block.
    """
    known = {row.fingerprint: row for row in _known(connection, list(homes))}
    moved = [row for row in known.values() if (row.data_set, row.block) != (data_set, homes[row.fingerprint])]
    spent = {name for name in {row.data_set for row in moved} if _has_spent(connection, name)}
    for row in moved:
        if row.data_set not in spent:
            del known[row.fingerprint]
            continue
        if row.data_set != data_set:
            raise LedgerError(
                f"a file of {data_set!r} is charged under the data set {row.data_set!r} already: "
                f"the same records must not have two budgets; set `data: name: {row.data_set}`"
            )
        raise LedgerError(
            f"a file of {data_set!r} in block {homes[row.fingerprint] or 'all'} is charged in block {row.block or 'all'} already: "
            "the same records must not have two budgets; move it back"
        )
    return [fingerprint for fingerprint in homes if fingerprint not in known]


def record(connection: sa.Connection, data_set: str, homes: Mapping[str, str], fingerprints: Sequence[str]) -> None:
    """Add files that `unknown` returned."""
    for start in range(0, len(fingerprints), tables.BATCH):
        some = fingerprints[start : start + tables.BATCH]
        connection.execute(tables.file.delete().where(tables.file.c.fingerprint.in_(some)))
        connection.execute(tables.file.insert(), [{"fingerprint": name, "data_set": data_set, "block": homes[name]} for name in some])


def rehome(connection: sa.Connection, data_set: str, homes: Mapping[str, str]) -> list[list[str]]:
    """Give every file of a data set that was ever charged its hive block, or none; a file that has none is not read in any.

    Returns
    -------
    list
        The keyed fingerprint and the block of each file that has one.
    """
    ours = tables.file.c.data_set == data_set
    known = set(connection.execute(sa.select(tables.file.c.fingerprint).where(ours)).scalars())
    connection.execute(tables.file.update().where(ours).values(block=""))
    found = [[name, homes[name]] for name in sorted(known & homes.keys())]
    for name, home in found:
        connection.execute(tables.file.update().where(tables.file.c.fingerprint == name).values(block=home))
    return found


def _has_spent(connection: sa.Connection, data_set: str) -> bool:
    """Whether the chain says that any account of a data set was charged for what was not given back."""
    return any(cost != Cost() for cost in checkpoints.recompute(connection, data_set).balances.values())


def _known(connection: sa.Connection, fingerprints: Sequence[str]) -> list[sa.Row[Any]]:
    found: list[sa.Row[Any]] = []
    for start in range(0, len(fingerprints), tables.BATCH):
        some = tables.file.c.fingerprint.in_(fingerprints[start : start + tables.BATCH])
        found += connection.execute(sa.select(tables.file).where(some)).all()
    return found
