"""I27: a lake table is not a folder of shards; it is refused by its kind, whichever path leads to it."""

import pytest

from nightfit.shards.manifest import DataError, hive_blocks, scan

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
