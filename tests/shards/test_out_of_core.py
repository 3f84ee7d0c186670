"""Data larger than the driver may ever map: refit and predict run with less address space to spare than the decoded size."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

pytestmark = pytest.mark.process

ROWS, COLUMNS, SHARDS = 500_000, 100, 4
SPARE = 320 * 2**20
# Imports once, then forks a process for each command, which may map SPARE more than its imports have. One arena: threads that map 64 MB
# each are no rows.
LIMITED = """
import json, os, re, resource, sys, traceback
from pathlib import Path
if __name__ == "__main__":
    import dask_ml.wrappers, pyarrow.parquet
    import nightfit_flows.refit, nightfit.nightly.job, nightfit.shards.dataset, nightfit.shards.predict
    from nightfit.cli import main
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            for number, name in ((1, "out.txt"), (2, "err.txt")):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            used = 1024 * int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
            resource.setrlimit(resource.RLIMIT_AS, (used + {spare},) * 2)
            code, sys.argv = 0, ["nightfit", *json.loads(line)]
            try:
                pyarrow.parquet.read_table("shards").to_pandas() if sys.argv[1] == "hold" else main()
            except SystemExit as left:
                code = left.code or 0
            except MemoryError:
                code = 99
            except BaseException:
                traceback.print_exc()
                code = 1
            sys.stdout.flush()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Shards that are small on disk and larger than the limit when decoded."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "shards").mkdir()
    rng = np.random.default_rng(0)
    rows, values = ROWS // SHARDS, np.array([-1.0, -0.3, 0.4, 1.0])
    constant = [pa.array(np.full(rows, value)) for value in values]
    for part in range(SHARDS):
        codes = [rng.integers(0, 4, rows) for _ in range(3)]
        columns = {f"x{j}": pa.array(values[codes[j]]) if j < 3 else constant[j % 4] for j in range(COLUMNS)}
        table = pa.table({**columns, "y": (codes[0] > 1).astype(float)})
        pq.write_table(table, folder / "shards" / f"part-{part}.parquet", row_group_size=50_000, compression="zstd")
    content = {
        "name": "large",
        "data": {"path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-1, 1]}},
        "privacy": {"epsilon": 1.0, "delta": 1e-8, "lifetime": {"epsilon": 2.0, "delta": 1e-7}},
        "model": {"loss": "logistic"},
        "method": {"mean": "clipped", "steps": 2, "scales": "public"},
        "evaluate": "none",
        "cluster": {"kind": "local", "workers": 1, "memory": "1GiB"},
    }
    (folder / "refit.yaml").write_text(yaml.safe_dump(content))
    (folder / "limited.py").write_text(LIMITED.format(spare=SPARE))
    return folder


@pytest.fixture(scope="module")
def limited(place, prefect_server):
    """A function that runs a command with SPARE to spare, and gives its exit code and what it wrote."""
    environment = {**os.environ, **prefect_server, "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "limited.py"]
    with subprocess.Popen(command, cwd=place, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:

        def run(*words):
            forks.stdin.write(json.dumps(words) + "\n")
            forks.stdin.flush()
            code = int(forks.stdout.readline())
            return code, (place / "out.txt").read_text(), (place / "err.txt").read_text()

        yield run
        forks.stdin.close()


def test_refit_and_predict_run_with_less_address_space_than_the_decoded_size(place, limited):
    assert ROWS * COLUMNS * 8 > 1.1 * SPARE
    code, out, err = limited("ledger", "init", "--config", "refit.yaml")
    assert code == 0, out + err
    code, out, err = limited("refit", "refit.yaml", "--json")
    assert code == 0, out + err
    result = json.loads(out)
    assert result["private"]
    assert result["coef"]["x0"] > 5 * max(abs(result["coef"][other]) for other in ("x1", "x2"))  # a slope of the constants is noise
    code, out, err = limited("predict", result["release"], "shards", "-o", "scored.parquet")
    assert code == 0, out + err
    assert pq.read_metadata(place / "scored.parquet").num_rows == ROWS


def test_the_limit_is_one_that_the_decoded_data_would_break(limited):
    code, _, err = limited("hold")
    assert code == 99 or "alloc" in err.lower(), err
