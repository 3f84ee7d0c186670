"""Where a data set's shards are: a path or URL with the options of its store, or a version of a lake table. Imports fsspec.

Shards live where fsspec finds them. What opens a store (passwords, keys, tokens) comes from its own environment variables or files: a
configuration is shown and copied, and the options of a store go to every worker.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from nightfit.shards.listing import DataError, files_of, opened

Format = Literal["parquet", "delta", "iceberg"]
SECRET = re.compile(r"pass|secret|token|credential|(^|_)key|signature|sas", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where the shards of a data set are.

    Attributes
    ----------
    path : str
        A file, a glob, a folder or an fsspec URL; of a lake table its folder, or an Iceberg metadata file.
    options : dict
        Options of the store, such as `endpoint_url`; never a secret.
    format : str
        parquet, delta or iceberg.
    version : int, optional
        Of a lake table: the version (Delta) or the snapshot's id (Iceberg); the newest by default.
    """

    path: str
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    format: Format = "parquet"
    version: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """The files of a data set as they are now, without any cache.

    Attributes
    ----------
    source : Source
        Whose version is known.
    filesystem, root
        The store, and the place of the data set in it.
    names : list of str
        The files in the order of their names.
    field_ids : dict, optional
        The number of each column, where the table finds columns by numbers.
    """

    source: Source
    filesystem: Any
    root: str
    names: list[str]
    field_ids: dict[str, int] | None = None


def listed(source: Source) -> Listing:
    """List the files of a data set: those that lie at its path, or the live ones of a lake table.

    Raises
    ------
    DataError
        If the store or the table cannot be read.
    """
    filesystem, root = opened(source.path, source.options)
    filesystem.invalidate_cache()  # object stores remember what they listed, and a replaced object would not be seen
    if source.format == "parquet":
        return Listing(source=source, filesystem=filesystem, root=root, names=files_of(filesystem, root))
    from nightfit.shards import lakes  # needs an extra

    return lakes.READERS[source.format](source, filesystem, root)


def check_options(options: dict[str, Any], place: str = "data.storage_options") -> None:
    """Refuse an option that opens the store, at any depth: configurations are copied and shown.

    Raises
    ------
    DataError
        It names the option, never its value.
    """
    for name, value in options.items():
        if SECRET.search(str(name)):
            raise DataError(
                f"{place}.{name}: secrets do not belong into a configuration; give them to every worker by the store's own environment "
                "variables or files (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_*)"
            )
        if isinstance(value, dict):
            check_options(value, f"{place}.{name}")
