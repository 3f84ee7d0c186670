"""I27: a lake table is not a folder of shards; it is refused by its kind, whichever path leads to it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nightfit.shards.manifest import DataError, check_unchanged, hive_blocks, scan
from nightfit.shards.source import Source

MARKS = {
    "Delta Lake": "_delta_log/00000000000000000000.json",
    "Iceberg": "metadata/v1.metadata.json",
    "Hudi": ".hoodie/hoodie.properties",
}


@pytest.fixture(params=MARKS)
def lake(request, table, write):
    """A folder with two days of rows and the log of a lake table; and its kind."""
    folder = write("lake", table, [300, 400], ["day=1/a.parquet", "day=2/b.parquet"])
    mark = folder / MARKS[request.param]
    mark.parent.mkdir()
    mark.write_text("{}")
    return folder, request.param


@pytest.mark.parametrize("path", ["", "/", "/day=1", "/day=1/a.parquet", "/*/*.parquet", "/day=1/*.parquet", "/[d]ay=1/a.parquet"])
def test_i27_no_path_leads_into_a_lake_table(lake, path):
    folder, kind = lake
    with pytest.raises(DataError, match=f"is a {kind} table: .*write its live rows"):
        scan(f"{folder}{path}")


def test_i27_a_folder_that_contains_a_lake_table_is_refused(lake):
    folder, kind = lake
    for path in (folder.parent, folder.parent / "*" / "*" / "*.parquet"):
        with pytest.raises(DataError, match=f"is a {kind} table"):
            scan(str(path))
    with pytest.raises(DataError, match=f"is a {kind} table"):
        hive_blocks(str(folder), "day")


def test_folders_beside_a_lake_table_and_names_like_its_log_s_are_read(lake, table, write):
    folder, _ = lake
    plain = write("plain", table, [700], ["metadata/a.parquet"])
    assert scan(str(plain)).rows == 700
    assert scan(f"{plain}/*/*.parquet").rows == 700
    assert folder.parent == plain.parent


# live rows of real tables


def delta(table, folder):
    """A Delta table in a folder: a function that appends, deletes by a condition, or compacts; each makes a version."""
    from deltalake import DeltaTable, write_deltalake

    def change(what, argument=None):
        if what == "append":
            write_deltalake(str(folder), argument, mode="append")
        elif what == "delete":
            DeltaTable(str(folder)).delete(argument)
        else:
            DeltaTable(str(folder)).optimize.compact()

    write_deltalake(str(folder), table)
    return change


def iceberg(table, folder):
    """The same for an Iceberg table, with a catalog beside it that the reader does not know."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("tests", uri=f"sqlite:///{folder.parent}/catalog.db", warehouse=f"file://{folder.parent}")
    catalog.create_namespace("lake")
    made = catalog.create_table("lake.lake", schema=table.schema, location=f"file://{folder}")
    made.append(table)

    def change(what, argument=None):
        if what == "append":
            made.append(argument)
        elif what == "delete":
            made.delete(argument)
        else:
            made.overwrite(made.scan().to_arrow())

    change.close = catalog.close  # type: ignore[attr-defined]
    return change


MAKERS = {"delta": delta, "iceberg": iceberg}


def values(manifest):
    """The ids of every row that would be read."""
    import pyarrow.parquet as pq

    return sorted(x for shard in manifest.shards for x in pq.read_table(shard.location.removeprefix("file://"))["id"].to_pylist())


@pytest.fixture(params=MAKERS)
def real(request, tmp_path):
    """A lake table of ids and targets, and how it is changed."""
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "y": np.arange(100.0)})
    change = MAKERS[request.param](rows, tmp_path / "lake")
    yield Source(path=str(tmp_path / "lake"), format=request.param), change
    if request.param == "iceberg":
        change.close()


def test_live_rows_of_a_lake_table_are_read_and_erased_rows_are_gone(real):
    source, change = real
    first = scan(source)
    assert values(first) == list(range(100))
    change("append", pa.table({"id": pa.array(range(100, 130), pa.int64()), "y": np.arange(30.0)}))
    change("delete", "id = 7")
    second = scan(source)
    erased = [*range(7), *range(8, 130)]
    assert values(second) == erased
    change("compact")
    third = scan(source)
    assert values(third) == erased
    assert len({first.window, second.window, third.window}) == 3
    assert scan(source).window == third.window, "a version is a window"
    earlier = scan(replace(source, version=first.source.version))
    assert values(earlier) == list(range(100))
    assert earlier.window == first.window
    check_unchanged(first)  # a version stays what it was while the table changes
    assert len({shard.name for shard in third.shards}) == len(third.shards)


def test_what_is_no_table_or_no_version_is_told(real, tmp_path):
    source, _ = real
    with pytest.raises(DataError, match="at version 99"):
        scan(replace(source, version=99))
    (tmp_path / "plain").mkdir()
    with pytest.raises(DataError, match=r"cannot be read as a Delta table|is no Iceberg table"):
        scan(replace(source, path=str(tmp_path / "plain")))
    with pytest.raises(DataError, match=f"or read its live files: data.format {source.format}"):
        scan(Source(path=source.path))


def test_a_file_that_a_table_lost_is_told(real):
    source, _ = real
    manifest = scan(source)
    Path(manifest.shards[0].location.removeprefix("file://")).unlink()
    with pytest.raises(DataError, match="was added, removed or rewritten"):
        check_unchanged(manifest)


def test_a_delta_table_that_marks_rows_as_deleted_is_refused(tmp_path):
    from deltalake import DeltaTable, write_deltalake

    folder = tmp_path / "marked"
    write_deltalake(str(folder), pa.table({"id": [1, 2], "y": [0.0, 1.0]}), configuration={"delta.enableDeletionVectors": "true"})
    assert "deletionVectors" in (DeltaTable(str(folder)).protocol().reader_features or ())
    with pytest.raises(DataError, match="uses deletionVectors: its files hold rows or names that the table does not"):
        scan(Source(path=str(folder), format="delta"))


def test_an_iceberg_table_whose_columns_were_renamed_is_refused(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("tests", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("lake")
    rows = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    made = catalog.create_table("lake.renamed", schema=rows.schema, location=f"file://{tmp_path}/renamed")
    made.append(rows)
    with made.update_schema() as update:
        update.rename_column("a", "c")
    with made.update_schema() as update:
        update.rename_column("b", "a")
    made.append(pa.table({"c": [1.0], "a": [3.0]}))
    catalog.close()
    with pytest.raises(DataError, match="is another one in the table"):
        scan(Source(path=str(tmp_path / "renamed"), format="iceberg"))
