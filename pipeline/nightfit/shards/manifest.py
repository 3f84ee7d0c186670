"""The files of a data set, from their footers: schema, row counts and identity, never a value or a statistic. Imports pyarrow."""

import hashlib
import json
import re
import struct
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nightfit.records.columns import ABSENT
from nightfit.shards.listing import DataError as DataError
from nightfit.shards.listing import opened, relative
from nightfit.shards.source import Listing, Source, listed

PREFIX_BYTES = 2**16  # of a file that its fingerprint hashes: enough to tell files with equal footers apart, cheap to read
NULL_KEY = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """One Parquet file. `stamp` changes when the file is rewritten; `footer` is a digest of its metadata; `options` are its store's."""

    name: str
    location: str
    size: int
    stamp: str
    footer: str
    row_groups: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def rows(self) -> int:
        return sum(self.row_groups)


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The shards in order of their names and the types of their columns; only those of `blocks`, if hive blocks are named.

    Of a lake table, `source` says the version that was found.
    """

    source: Source
    shards: tuple[Shard, ...]
    types: dict[str, str]
    blocks: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Where it is."""
        return self.source.path

    @property
    def window(self) -> str:
        """What is read, where the window has no name: the version of a lake table, else what the files are now."""
        return self.identity() if self.source.version is None else json.dumps([self.source.format, self.source.version])

    def only(self, blocks: tuple[str, ...]) -> "Manifest":
        """The shards that lie in these hive blocks."""
        return replace(self, shards=tuple(shard for shard in self.shards if _inside(shard.location, blocks)), blocks=blocks)

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def identity(self) -> str:
        """What the files are now, as text. It is a function of the data: only for the ledger, which keeps it keyed."""
        return json.dumps([[shard.name, shard.size, shard.stamp, shard.footer] for shard in self.shards])

    def fingerprints(self) -> tuple[str, ...]:
        """A fingerprint of each file, wherever it is; only for the ledger, like `identity`. Refuses two copies of one file."""
        return tuple(self._by_fingerprint())

    def block_by_file(self, key: str) -> dict[str, str]:
        """The hive block of each file, by its fingerprint."""
        return {fingerprint: block_of(shard.location, key) for fingerprint, shard in self._by_fingerprint().items()}

    def _by_fingerprint(self) -> dict[str, Shard]:
        known: dict[str, Shard] = {}
        for shard in self.shards:
            fingerprint = _fingerprint(shard)
            if fingerprint in known:
                raise DataError(f"{shard.name} is a copy of {known[fingerprint].name}: its records would count twice; remove one")
            known[fingerprint] = shard
        return dict(sorted(known.items()))


def hive_blocks(source: Source | str, key: str) -> tuple[str, ...]:
    """The hive blocks `key=value` of a data set, in ascending order: by number if all values are integers, else as text."""
    source = _source(source)
    path, found = source.path, {block_of(name, key) for name in listed(source).names}
    if f"{key}={NULL_KEY}" in found:
        raise DataError(f"{path} has a hive partition of {key} without a value: write those rows under a real key, or leave them out")
    values = {block: block.partition("=")[2] for block in found}
    numeric = all(re.fullmatch(r"-?\d+", value) for value in values.values())
    return tuple(sorted(found, key=lambda block: (int(values[block]), block) if numeric else (0, values[block])))


def block_of(location: str, key: str) -> str:
    """The folder `key=value` that a file is in. A file outside of any is refused, because its records would have no budget."""
    inside = [part for part in location.split("/")[:-1] if part.startswith(f"{key}=")]
    if len(inside) != 1:
        raise DataError(
            f"{location.rsplit('/', 1)[-1]} does not lie in one folder {key}=...: the ledger divides this data set by {key}; "
            f"write it as {key}=VALUE/NAME.parquet"
        )
    return inside[0]


def _inside(location: str, blocks: tuple[str, ...]) -> bool:
    return not blocks or not set(blocks).isdisjoint(location.split("/")[:-1])


def _source(place: Source | str) -> Source:
    return Source(path=place) if isinstance(place, str) else place


def scan(source: Source | str, blocks: tuple[str, ...] = ()) -> Manifest:
    """Read the footers of all shards and check that their schemas agree.

    Parameters
    ----------
    source : Source or str
        A file, a glob, a folder (hive or flat) or an fsspec URL; as a `Source` with options of its store, or a lake table.
    blocks : tuple of str
        Hive blocks to read; all by default.

    Returns
    -------
    Manifest

    Raises
    ------
    DataError
        If there is no Parquet file, one is not readable, or schemas differ.
    """
    listing = listed(_source(source))
    root, path = listing.root, listing.source.path
    names = [name for name in listing.names if _inside(name, blocks)]
    if not names:
        raise DataError(f"no Parquet file at {path}: check data.path (a file, a glob, a folder or a URL of *.parquet)")
    unnamed = next((name for name in names if NULL_KEY in name), None)
    if unnamed is not None:
        raise DataError(
            f"{relative(unnamed, root)} lies in a hive partition without a value: write those rows under a real key, or leave them out"
        )
    fixed = re.split(r"[*?\[]", root, maxsplit=1)
    folder = root if len(fixed) == 1 else fixed[0].rpartition("/")[0]
    read = [_footer(listing, name, folder) for name in names]
    first, types = read[0]
    for shard, other in read[1:]:
        _check_same(first, types, shard, other)
        types = {column: other[column] if kind == ABSENT else kind for column, kind in types.items()}
    return Manifest(source=listing.source, shards=_named_apart([shard for shard, _ in read]), types=types, blocks=blocks)


def _named_apart(shards: list[Shard]) -> tuple[Shard, ...]:
    """Shards whose names differ, because a record's slot is its file's name and its row; files of a table may lie anywhere."""
    if len({shard.name for shard in shards}) == len(shards):
        return tuple(shards)
    return tuple(replace(shard, name=shard.location) for shard in shards)


def check_unchanged(manifest: Manifest) -> None:
    """Raise a DataError if a file was added, removed or rewritten since the scan."""
    try:
        listing = listed(manifest.source)
        inside = [name for name in listing.names if _inside(name, manifest.blocks)]
        now = {f"{_protocol(listing.filesystem)}://{name}": size_and_stamp(listing.filesystem, name) for name in inside}
    except OSError:
        now = {}
    planned = {shard.location: (shard.size, shard.stamp) for shard in manifest.shards}
    if now != planned:
        gone = now.keys() ^ planned.keys()
        place = min(gone) if gone else next(place for place in planned if now[place] != planned[place])
        raise DataError(
            f"{place.rsplit('/', 1)[-1]} was added, removed or rewritten since the plan was made: nothing was asked; restore the files and "
            "run the refit again, or plan on what is there now (`nightfit ledger abandon` gives the reservation back)"
        )


def hive_keys(manifest: Manifest) -> tuple[str, ...]:
    """The keys of the hive folders that every shard lies in, outermost first."""
    found = [[part.partition("=")[0] for part in shard.name.split("/")[:-1] if "=" in part] for shard in manifest.shards]
    return tuple(key for key in found[0] if all(key in keys for keys in found))


def _protocol(filesystem: Any) -> str:
    return filesystem.protocol if isinstance(filesystem.protocol, str) else str(filesystem.protocol[0])


def size_and_stamp(filesystem: Any, location: str) -> tuple[int, str]:
    """Size and modification stamp of a file, from its file system and not from what that remembers."""
    filesystem.invalidate_cache(filesystem._parent(location))
    info = filesystem.info(location)
    stamp = next((str(info[name]) for name in ("ETag", "etag", "mtime", "LastModified", "last_modified", "created") if name in info), "")
    return int(info["size"]), stamp


def _fingerprint(shard: Shard) -> str:
    """Size, footer and first bytes of a file: without statistics, different values have equal footers."""
    if not shard.rows:
        return f"{shard.location}:{shard.footer}"
    filesystem, location = opened(shard.location, shard.options)
    try:
        with filesystem.open(location, "rb") as handle:
            first = hashlib.sha256(handle.read(PREFIX_BYTES)).hexdigest()
    except OSError:
        raise DataError(f"{shard.name} is gone since its footer was read: restore it, then run the refit again") from None
    return f"{shard.size}:{shard.footer}:{first}"


def _footer(listing: Listing, location: str, root: str) -> tuple[Shard, dict[str, str]]:
    filesystem, name = listing.filesystem, relative(location, root)
    try:
        size, stamp = size_and_stamp(filesystem, location)
        with filesystem.open(location, "rb") as handle:
            handle.seek(max(0, size - 8))
            (length, magic) = struct.unpack("<I4s", handle.read(8))
            if magic != b"PAR1":
                raise pa.ArrowInvalid("no Parquet magic")
            handle.seek(size - 8 - length)
            digest = hashlib.sha256(handle.read(length)).hexdigest()
            handle.seek(0)
            parsed = pq.ParquetFile(handle)
            metadata, schema = parsed.metadata, parsed.schema_arrow
    except (pa.ArrowException, OSError, struct.error, ValueError):
        raise DataError(f"{name} is not a readable Parquet file (truncated, corrupt or another format): restore or remove it") from None
    groups = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    repeated = {column for column, times in Counter(schema.names).items() if times > 1}
    if repeated:
        raise DataError(f"{name} has two columns named {min(repeated)!r}: rename one")
    _check_field_ids(name, schema, listing.field_ids)
    place, options = f"{_protocol(filesystem)}://{location}", listing.source.options
    shard = Shard(name=name, location=place, size=size, stamp=stamp, footer=digest, row_groups=groups, options=options)
    return shard, {field.name: str(field.type) for field in schema}


def _check_field_ids(name: str, schema: Any, ids: dict[str, int] | None) -> None:
    """Refuse a file of a table whose columns were renamed since it was written: read by its names, one would be taken for another."""
    for column in schema if ids is not None else ():
        number = (column.metadata or {}).get(b"PARQUET:field_id")
        if ids is not None and (number is None or ids.get(column.name) != int(number)):
            raise DataError(
                f"column {column.name!r} in {name} is another one in the table, or has no number: columns were renamed or dropped since "
                "that file was written; rewrite the table's data files"
            )


def _check_same(first: Shard, types: dict[str, str], shard: Shard, other: dict[str, str]) -> None:
    for column in types.keys() | other.keys():
        if column not in other:
            raise DataError(
                f"column {column!r} is in {first.name} and missing in {shard.name}: "
                f"rewrite that shard, or leave it out with a glob in data.path"
            )
        if column not in types:
            raise DataError(f"column {column!r} is in {shard.name} and missing in {first.name}: rewrite these shards with one schema")
        if types[column] != other[column] and ABSENT not in (types[column], other[column]):
            raise DataError(
                f"column {column!r} is {types[column]} in {first.name} and {other[column]} in {shard.name}: rewrite them with one type"
            )
