"""Rebuilds data/randhie from the statsmodels package and data/hospital from its simulator: python data/rebuild.py [--check]."""

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
SUMS = HERE / "SHA256SUMS"
COLUMNS = ("mdvis", "lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp")
ROWS = 20190
SHARDS = 6


def source() -> pa.Table:
    """The table that statsmodels ships, every column float64, in its order of rows and with no pandas metadata."""
    from statsmodels.datasets import randhie

    frame = randhie.load_pandas().data
    table = pa.table({name: pa.array(frame[name].to_numpy("float64")) for name in COLUMNS})
    if table.num_rows != ROWS:
        raise SystemExit(f"statsmodels ships {table.num_rows} rows, not {ROWS}; use the version named in data/README.md")
    return table


def hospital() -> Any:
    """The simulator of the bundled hospital, with its seed."""
    from nightfit.shards.hospital import Hospital

    return Hospital(rows=20_000, days=5, seed=21)


def paths() -> list[Path]:
    """The files of randhie."""
    return [HERE / "randhie" / f"part-{shard}.parquet" for shard in range(SHARDS)]


def sums() -> str:
    """The lines of SHA256SUMS, as `sha256sum -c` reads them."""
    files = [*sorted((HERE / "hospital").glob("*/*.parquet")), *paths()]
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(HERE).as_posix()}\n" for path in files)


def build() -> None:
    """Consecutive slices of equal length; no statistics in the footers, so that no reader takes bounds from the data."""
    table, rows = source(), ROWS // SHARDS
    (HERE / "randhie").mkdir(exist_ok=True)
    for shard, path in enumerate(paths()):
        part = table.slice(shard * rows, rows)
        pq.write_table(part, path, compression="zstd", compression_level=19, write_statistics=False, store_schema=False)
    hospital().write(HERE / "hospital")
    SUMS.write_text(sums())


def check() -> list[str]:
    """What is wrong: files that differ from SHA256SUMS, or values that differ from statsmodels' (whatever wrote the Parquet)."""
    missing = [f"{path} is missing" for path in paths() if not path.exists()]
    if missing:
        return missing
    wrong = [f"{line.split()[1]} does not match SHA256SUMS" for line in sums().splitlines() if line not in SUMS.read_text().splitlines()]
    if not pa.concat_tables([pq.read_table(path) for path in paths()]).equals(source()):
        wrong.append("the values of randhie differ from those that statsmodels ships")
    written = {path: pq.read_table(path, partitioning=None) for path in sorted((HERE / "hospital").glob("*/*.parquet"))}
    if len(written) != hospital().days or any(
        not read.equals(made.cast(read.schema)) for read, (_, made) in zip(written.values(), hospital().tables(), strict=False)
    ):
        wrong.append("the values of hospital differ from those that its simulator makes (with another version of numpy they may)")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; compare the files with SHA256SUMS and with statsmodels")
    if not parser.parse_args().check:
        build()
    wrong = check()
    right = f"all files match SHA256SUMS; {ROWS} rows of randhie equal those of statsmodels, and those of hospital the simulator's"
    print("\n".join(wrong) or right)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
