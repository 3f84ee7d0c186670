"""The live files of a version of a Delta Lake or Iceberg table. Imports deltalake and pyiceberg, which are extras, when they are needed.

A table's folder holds files of deleted and rewritten rows beside the live ones. The table's log says which files make up a version, and
those are the shards: a record that was erased is in none of them. A version never changes, so it names a run's window.

Some tables keep a file and mark rows in it as deleted (deletion vectors, merge on read), or give columns other names than their files do.
They are refused by name: a reader of whole files would count erased rows, or take one column for another.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nightfit.shards.listing import DataError
from nightfit.shards.source import Listing, Source

# of Delta's readers: they change no row and no column's name
KNOWN_FEATURES = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "variantType"}
METADATA = re.compile(r"^(?:v)?(\d+)(?:-[^/]*)?\.metadata\.json$")


def delta_files(source: Source, filesystem: Any, root: str) -> Listing:
    """The live files of a Delta table at a version."""
    try:
        import deltalake
    except ImportError:
        raise DataError("data.format delta needs a package that is not installed: pip install 'nightfit[delta]'") from None
    path = source.path if "://" in source.path else root
    try:
        table = deltalake.DeltaTable(path, version=source.version, storage_options=_delta_options(source.options))
    except Exception as error:  # its errors have no common class
        raise DataError(f"data.path: {source.path} cannot be read as a Delta table{_at(source)} ({_first_line(error)})") from None
    protocol = table.protocol()
    features = set(protocol.reader_features or ()) - KNOWN_FEATURES
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if features:
        raise DataError(
            f"the Delta table {source.path} uses {', '.join(sorted(features))}: its files hold rows or names that the table does not; "
            "rewrite it (REORG TABLE ... APPLY (PURGE)) with these features off, or write its live rows as plain Parquet files"
        )
    return _listing(replace(source, version=table.version()), filesystem, root, table.file_uris())


def iceberg_files(source: Source, filesystem: Any, root: str) -> Listing:
    """The live files of an Iceberg table at a snapshot."""
    try:
        from pyiceberg.table import StaticTable
    except ImportError:
        raise DataError("data.format iceberg needs a package that is not installed: pip install 'nightfit[iceberg]'") from None
    place = root if root.endswith(".metadata.json") else _newest_metadata(source, filesystem, root)
    try:
        table = StaticTable.from_metadata(filesystem.unstrip_protocol(place), _iceberg_options(source.options))
        snapshot = table.current_snapshot() if source.version is None else table.snapshot_by_id(source.version)
        planned = [] if snapshot is None else list(table.scan(snapshot_id=snapshot.snapshot_id).plan_files())
    except Exception as error:
        raise DataError(f"data.path: {source.path} cannot be read as an Iceberg table{_at(source)} ({_first_line(error)})") from None
    if snapshot is None:
        raise DataError(f"the Iceberg table {source.path} has no snapshot{_at(source)}: name one that it has, or write rows into it first")
    if any(task.delete_files for task in planned):
        raise DataError(
            f"the Iceberg table {source.path} marks rows of its files as deleted (merge on read): those would count; rewrite its data "
            "files (rewrite_data_files with delete-file-threshold 1), or let it copy on write"
        )
    schema = table.schemas()[snapshot.schema_id] if snapshot.schema_id is not None else table.schema()
    ids = {column.name: column.field_id for column in schema.fields}
    folder = re.sub(r"(^|/)metadata/[^/]*$", "", place)
    listing = _listing(replace(source, version=snapshot.snapshot_id), filesystem, folder, [task.file.file_path for task in planned])
    return replace(listing, field_ids=ids)


def _newest_metadata(source: Source, filesystem: Any, root: str) -> str:
    """The metadata file of the highest number in a table's folder; where writers used a catalog, two may have the same number."""
    found = [(int(match[1]), name) for name in filesystem.glob(f"{root}/metadata/*") if (match := METADATA.match(name.rsplit("/", 1)[-1]))]
    newest = [name for number, name in found if number == max(found)[0]]
    if not newest:
        raise DataError(f"data.path: {source.path} is no Iceberg table: there is no metadata/*.metadata.json in it")
    if len(newest) > 1:
        raise DataError(
            f"the Iceberg table {source.path} has two newest metadata files, and only its catalog tells which one holds: name that file in "
            "data.path"
        )
    return newest[0]


def _listing(source: Source, filesystem: Any, root: str, uris: list[str]) -> Listing:
    return Listing(source=source, filesystem=filesystem, root=root, names=sorted(str(filesystem._strip_protocol(uri)) for uri in uris))


def _delta_options(options: dict[str, Any]) -> dict[str, str] | None:
    """The options of the store as deltalake names them; what opens it is in the environment."""
    endpoint = options.get("endpoint_url") or options.get("client_kwargs", {}).get("endpoint_url")
    if endpoint is None:
        return None
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}


def _iceberg_options(options: dict[str, Any]) -> dict[str, str]:
    """The options of the store as pyiceberg names them."""
    endpoint = options.get("endpoint_url") or options.get("client_kwargs", {}).get("endpoint_url")
    return {} if endpoint is None else {"s3.endpoint": endpoint}


def _at(source: Source) -> str:
    return "" if source.version is None else f" at version {source.version}"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


READERS: dict[str, Callable[[Source, Any, str], Listing]] = {"delta": delta_files, "iceberg": iceberg_files}
