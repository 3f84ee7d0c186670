"""Which files a path or URL names. Imports fsspec.

A table of Delta Lake, Iceberg or Hudi is no folder of shards: it keeps files of deleted and rewritten rows beside the live ones, and only
its log tells them apart. Read as a folder, an erased patient stays in and a rewritten row counts twice, so that one record is not one.
"""

import contextlib
import glob
import re
from collections.abc import Iterable, Iterator
from typing import Any

import fsspec

from nightfit.types import NightfitError

# what lies in a table's folder, by the kind of table
MARKS = {
    "Delta Lake": re.compile(r"^(.*/)?_delta_log/[^/]+$"),
    "Iceberg": re.compile(r"^(.*/)?metadata/[^/]+\.metadata\.json$"),
    "Hudi": re.compile(r"^(.*/)?\.hoodie/.+$"),
}
FORMATS = {"Delta Lake": "delta", "Iceberg": "iceberg"}  # those whose live files are known by `lakes`
PATTERNS = ("_delta_log/*", "metadata/*.metadata.json", ".hoodie/*")


class DataError(NightfitError):
    """The shards cannot be read as configured; nothing was charged by this check."""


def opened(path: str, options: dict[str, Any] | None = None) -> tuple[Any, str]:
    """The file system of a path or URL, and the path in it; `options` are the store's.

    Raises
    ------
    DataError
        If nobody knows such a store, or the package that reads it is not installed.
    """
    if re.match(r"(.*::)?https?://", path):
        raise DataError(f"data.path: {path!r} is a web page, which does not list its files: copy the shards to a folder or a store")
    try:
        filesystem, root = fsspec.core.url_to_fs(path, **(options or {}))
    except ImportError as error:
        scheme = path.partition("://")[0]
        raise DataError(f"data.path: the store {scheme} needs a package that is not installed ({error}): install it") from None
    except TypeError as error:
        raise DataError(f"data.storage_options: the store of {path!r} does not take them ({error})") from None
    except (ValueError, OSError) as error:
        raise DataError(f"data.path: {path!r} is no path and no URL of a store that fsspec knows ({error})") from None
    return filesystem, str(root)


def files_of(filesystem: Any, root: str) -> list[str]:
    """Every shard that a file, a glob or a folder names, in the order of their names; a lake table is refused."""
    if any(letter in root for letter in "*?["):
        found = sorted(filesystem.glob(root))
        _refuse_lake_tables(filesystem, root, found)
        return found
    if filesystem.isfile(root):
        _refuse_lake_tables(filesystem, root, [root])
        return [root]
    if not filesystem.isdir(root):
        return []
    found = filesystem.find(root)
    _refuse_lake_tables(filesystem, root, found)
    hidden = ("_", ".")
    inside = [name for name in found if not any(part.startswith(hidden) for part in name[len(root) :].strip("/").split("/"))]
    stray = [name for name in inside if not name.endswith((".parquet", ".parq", ".pq"))]
    if stray and len(stray) < len(inside):
        raise DataError(
            f"{relative(stray[0], root)} lies among the shards and is not named *.parquet: move it away or give a glob in data.path"
        )
    return sorted(name for name in inside if name not in stray)


def _refuse_lake_tables(filesystem: Any, root: str, names: list[str]) -> None:
    table = _lake_table(filesystem, root, names)
    if table is not None:
        kind, folder = table
        raise DataError(
            f"{folder} is a {kind} table: its folder holds deleted and rewritten rows too, so that one record would not be one; write its "
            "live rows as plain Parquet files into a folder of their own, and name that in data.path"
            + (f"; or read its live files: data.format {FORMATS[kind]}" if kind in FORMATS else "")
        )


def _lake_table(filesystem: Any, root: str, names: Iterable[str]) -> tuple[str, str] | None:
    """The kind and the folder of a lake table that a path names, lies in or contains; None if there is none.

    Parameters
    ----------
    filesystem : fsspec file system
        Of the path.
    root : str
        A file, a folder or a glob.
    names : iterable of str
        Every file below a folder, or that a glob finds.
    """
    names = list(names)
    globbed = re.split(r"[*?\[]", root, maxsplit=1)
    folder = root if len(globbed) == 1 else globbed[0].rpartition("/")[0]
    inside = {above for name in names for above in _above(name, folder)} if len(globbed) > 1 else set()
    for place in (*sorted(inside), folder, *_above(folder, "")):
        for pattern in PATTERNS:
            with contextlib.suppress(OSError):  # a store may forbid to list what lies above
                names += filesystem.glob(f"{glob.escape(place)}/{pattern}")
    for kind, mark in MARKS.items():
        for name in names:
            found = mark.match(name)
            if found is not None:
                return kind, (found[1] or ".").rstrip("/")
    return None


def _above(name: str, folder: str) -> Iterator[str]:
    """The folders that a file lies in, up to but without this one."""
    above = name.rpartition("/")[0]
    while len(above) > len(folder):
        yield above
        above = above.rpartition("/")[0]


def relative(name: str, root: str) -> str:
    """A file's name below a folder, for messages."""
    shortened = name[len(root) :].strip("/") if name.startswith(root) else ""
    return shortened or name.rsplit("/", 1)[-1]
