"""A pseudo-random function of (key, stream, slot), for the randomness that tasks need: a retried task repeats itself. Imports types.

A record's slot is a hash of its file's relative path and its row number, never of an id: ids may be null or repeated, and records of one
slot share their coins. Its place in a chunk or batch does not enter. A person's slot is a hash of the person's id.
Groups, splits and samples are functions of the slots and the run's key: they do not depend on the records' values, and nobody can
predict them without the key.

A removed record renumbers those behind it. Their slots stay distinct, and the key is drawn for the run and told to nobody: groups, parts
and coins of the other records have the same distribution with and without the removed one, which is all that add_remove needs.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nightfit.numerics.compiled import compiled
from nightfit.types import Draw, Part

Slots = npt.NDArray[np.uint64]


def slots_of(place: str, start: int, count: int) -> Slots:
    """The slots of rows start, ..., start + count - 1 of a file, named by its relative path."""
    key = hashlib.blake2b(place.encode(), digest_size=16).digest()
    return prf(key, 0, np.arange(start, start + count, dtype=np.uint64))


def groups_of(key: bytes, count: int, slots: Slots) -> npt.NDArray[np.int64]:
    """The group of each slot: floor(count u / 2^32) for the upper 32 bits u of its PRF. It never changes under one key."""
    drawn = prf(key, GROUPS, slots) >> np.uint64(32)
    return ((drawn * np.uint64(count)) >> np.uint64(32)).astype(np.int64)


def members_of(key: bytes, draw: Draw, slots: Slots) -> npt.NDArray[np.bool_]:
    """Which slots a draw selects."""
    return next(members(key, (draw,), slots))


def members(key: bytes, draws: Sequence[Draw], slots: Slots) -> Iterator[npt.NDArray[np.bool_]]:
    """Which slots each draw selects, draw by draw.

    All parts are cut from one stream, so disjoint parts share no slot under one key; every sample, by its number, has a stream of its
    own.
    """
    cut = prf(key, PARTS, slots) >> np.uint64(32) if any(isinstance(draw, Part) for draw in draws) else slots
    for draw in draws:
        if isinstance(draw, Part):
            yield (cut >= np.uint64(draw.low)) & (cut < np.uint64(draw.high))
        else:
            yield prf(key, SAMPLES + draw.number, slots) < np.uint64(int(draw.rate * 2**64))


@dataclass(frozen=True, kw_only=True, slots=True)
class Buckets:
    """A selection of `count` buckets of hashed ids. The key belongs to the data set for life, so a unit stays in its bucket."""

    count: int
    chosen: tuple[int, ...]
    key: bytes = field(repr=False)

    def hold(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """Whether each slot lies in a chosen bucket."""
        return np.isin(groups_of(self.key, self.count, slots), self.chosen)


GROUPS, PARTS, SAMPLES = 1, 2, 2**32  # streams; stream 0 makes slots, SAMPLES + n is that of sample n


def prf(key: bytes, stream: int, slots: Slots) -> Slots:
    """SipHash-2-4 (Aumasson, Bernstein 2012) of (stream, slot) with a key of 16 bytes: 64 pseudo-random bits for each slot."""
    k0, k1 = struct.unpack("<QQ", key)
    out = np.empty(len(slots), dtype=np.uint64)
    _siphash(np.uint64(k0), np.uint64(k1), np.uint64(stream), slots, out)
    return out


@compiled
def _rotate_left(x: Any, bits: Any) -> Any:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@compiled
def _sip_round(a: Any, b: Any, c: Any, d: Any) -> Any:
    """One SipRound of the four state words."""
    a += b
    b = _rotate_left(b, 13) ^ a
    a = _rotate_left(a, 32)
    c += d
    d = _rotate_left(d, 16) ^ c
    a += d
    d = _rotate_left(d, 21) ^ a
    c += b
    b = _rotate_left(b, 17) ^ c
    c = _rotate_left(c, 32)
    return a, b, c, d


@compiled
def _siphash(k0: Any, k1: Any, stream: Any, slots: Any, out: Any) -> None:
    for i in range(len(slots)):
        a, b = k0 ^ np.uint64(0x736F6D6570736575), k1 ^ np.uint64(0x646F72616E646F6D)
        c, d = k0 ^ np.uint64(0x6C7967656E657261), k1 ^ np.uint64(0x7465646279746573)
        for word in (stream, slots[i], np.uint64(16 << 56)):
            d ^= word
            a, b, c, d = _sip_round(a, b, c, d)
            a, b, c, d = _sip_round(a, b, c, d)
            a ^= word
        c ^= np.uint64(0xFF)
        for _ in range(4):
            a, b, c, d = _sip_round(a, b, c, d)
        out[i] = a ^ b ^ c ^ d
