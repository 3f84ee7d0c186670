"""Answers packed into bytes: how an `answered` entry is stored, read and pruned. Imports sqlalchemy.

The digest of an entry is that of its text, `{"answer":[7,-8,9]}`, as it was before answers were packed; the text is made from the integers
whenever a digest is checked.
"""

import json
import zlib
from typing import Any

import numpy as np
import sqlalchemy as sa

from nightfit.ledger import chain, runs, tables
from nightfit.ledger.errors import LedgerError
from nightfit.types import Integers

WIDTH = 8  # bytes of a 64-bit integer
LEVEL = 1  # of zlib: bytes of noise cannot be compressed, and runs of zeros can at any level
KIND = "pruned"

with_packed = sa.select(tables.entry, tables.answer.c.packed).outerjoin(tables.answer, tables.answer.c.seq == tables.entry.c.seq)


def pack(answer: Integers) -> bytes:
    """The integers as bytes: signs last, the bytes of one place together (high ones are zeros), compressed.

    Examples
    --------
    >>> unpack(pack(np.array([7, -8, 9])))
    array([ 7, -8,  9])
    """
    folded = (answer << 1) ^ (answer >> 63)  # 0, -1, 1, -2 become 0, 1, 2, 3, so that small integers have high bytes of zero
    places = np.ascontiguousarray(folded.astype("<i8").view(np.uint8).reshape(-1, WIDTH).T)
    return zlib.compress(places.tobytes(), LEVEL)


def unpack(packed: bytes) -> Integers:
    """The integers that `pack` packed."""
    places = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(WIDTH, -1)
    folded = np.ascontiguousarray(places.T).view("<u8").ravel()
    return ((folded >> np.uint64(1)).astype(np.int64)) ^ -((folded & np.uint64(1)).astype(np.int64))


def text_of(answer: Integers) -> str:
    """What the digest of an `answered` entry is taken of."""
    return chain.canonical({"answer": answer.tolist()})


def body_of(row: sa.Row[Any]) -> str | None:
    """The text of an entry of `with_packed`; None if it is an answer that is not there any more."""
    if row.packed is not None and not row.body:
        return text_of(unpack(row.packed))
    return None if row.kind == "answered" and not row.body else str(row.body)


def append(connection: sa.Connection, data_set: str, run: str, label: str, answer: Integers, after: tuple[int, str]) -> None:
    """Add the `answered` entry of a query, inside the caller's transaction."""
    entry = chain.append(connection, "answered", data_set, {"answer": answer.tolist()}, run, label, after=after, kept="")
    connection.execute(tables.answer.insert(), {"seq": entry.seq, "packed": pack(answer)})


def pack_all(connection: sa.Connection) -> None:
    """Pack every answer that lies in the chain as text, where what is packed gives the same text to the last letter."""
    entry = tables.entry
    answered = sa.select(entry.c.seq).where(entry.c.kind == "answered", entry.c.body != "")
    for seq in connection.execute(answered).scalars().all():
        text = connection.execute(sa.select(entry.c.body).where(entry.c.seq == seq)).scalar_one()
        packed = _packed_text(text)
        if packed is not None:
            connection.execute(tables.answer.insert(), {"seq": seq, "packed": packed})
            connection.execute(entry.update().where(entry.c.seq == seq).values(body=""))


def _packed_text(text: str) -> bytes | None:
    try:
        packed = pack(np.array(json.loads(text)["answer"], dtype=np.int64))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return packed if text_of(unpack(packed)) == text else None


def prune(connection: sa.Connection, run_id: str) -> int:
    """Remove the answers of a run that has ended, inside the caller's transaction.

    Guarantee: what is removed stays in the chain by its number, query and digest, in a `pruned` entry; so an answer that was removed by
    hand is told from one that was pruned, and no other answer can be put in its place. The run asks nothing anew: it has ended, and its
    queries count as answered. Broken by test_an_answer_removed_by_hand_is_not_a_pruned_one and test_a_pruned_run_is_never_asked_again.

    Returns
    -------
    int
        How many answers were removed; none if they were pruned before.

    Raises
    ------
    LedgerError
        If the run is unfinished: it is resumed from its answers.
    """
    row = runs.read(connection, run_id)
    if row.state == "reserved":
        raise LedgerError(f"run {run_id} is unfinished and is resumed from its answers: finish it, or `nightfit ledger abandon {run_id}`")
    entry = tables.entry
    here = sa.select(entry.c.seq, entry.c.label, entry.c.digest).where(entry.c.run == run_id, entry.c.kind == "answered")
    there = here.outerjoin(tables.answer, tables.answer.c.seq == entry.c.seq).where((entry.c.body != "") | tables.answer.c.seq.is_not(None))
    kept = [[one.seq, one.label, one.digest] for one in connection.execute(there.order_by(entry.c.seq))]
    if kept:
        chain.append(connection, KIND, row.data_set, {"answers": kept}, run_id)
    for seq, _, _ in kept:
        connection.execute(tables.answer.delete().where(tables.answer.c.seq == seq))
        connection.execute(entry.update().where(entry.c.seq == seq).values(body=""))
    return len(kept)
