"""What several test files need: a ledger on disk, small Parquet folders, one Dask cluster of two worker processes."""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster

from nightfit.ledger import Ledger

SLOWEST = (
    "test_nightly",
    "test_faults",
    "test_cli",
    "test_out_of_core",
    "test_flow",
    "test_readme",
    "test_kill",
    "test_shards",
    "test_ledger",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest files first, so that processes of pytest-xdist end together."""
    place = {name: number for number, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A real Prefect server on loopback, as the environment of a process that uses it: each `nightfit refit` would start its own."""
    from nightfit_flows.nightly import server

    home = str(tmp_path_factory.mktemp("prefect"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", home)
        patch.delenv("PREFECT_API_URL", raising=False)
        with server() as url:
            patch.delenv("PREFECT_API_URL")
            yield {"PREFECT_HOME": home, "PREFECT_API_URL": url}


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    return tmp_path / "ledger" / "ledger.db"


@pytest.fixture
def ledger(ledger_path: Path) -> Iterator[Ledger]:
    """A new ledger in a file of its own."""
    made = Ledger.create(f"sqlite:///{ledger_path}")
    yield made
    made.engine.dispose()


@pytest.fixture
def table() -> pa.Table:
    """700 rows of three heavy-tailed features and a target."""
    rng = np.random.default_rng(20261114)
    columns = {f"x{j}": rng.standard_t(2, 700) for j in range(3)}
    return pa.table({**columns, "y": columns["x0"] - columns["x1"] + rng.standard_t(2, 700)})


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a table into a new folder under tmp_path, cut into files of the given numbers of rows."""

    def into(folder: str, table: pa.Table, sizes: Sequence[int] | None = None, names: Sequence[str] | None = None, **options: Any) -> Path:
        sizes = [table.num_rows] if sizes is None else sizes
        assert sum(sizes) == table.num_rows
        start = 0
        for number, rows in enumerate(sizes):
            path = tmp_path / folder / (names[number] if names else f"part-{number:05d}.parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.slice(start, rows), path, **options)
            start += rows
        return tmp_path / folder

    return into


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Two worker processes of one thread each; kept for the whole session because they take seconds to start."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            memory_limit="1GiB",
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # None alone still takes port 8787, and warns when it is taken
            silence_logs=logging.ERROR,
            local_directory=str(tmp_path_factory.mktemp("dask")),
        ) as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected
