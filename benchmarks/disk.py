"""One step on staged data four times larger than the workers' memory, against reading the same files; pages are dropped before both."""

import contextlib
import os
import statistics
import tempfile
from pathlib import Path

from benchmarks._measure import REPEATS, data_set, on_workers, preprocessing, question, seconds
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import scan
from nightfit.shards.staging import FILE_BATCH_BYTES

WORKERS, MEMORY, COLUMNS, SHARDS = 2, 2**30, 50, 64
ROWS = 4 * WORKERS * MEMORY // (8 * COLUMNS + 16)


def dropped(paths: list[Path]) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def read(paths: list[Path]) -> None:
    buffer = bytearray(FILE_BATCH_BYTES)
    for path in paths:
        handle, offset = os.open(path, os.O_RDONLY), 0
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while got := os.preadv(handle, [buffer], offset):
            offset += got
        os.close(handle)


def high_water() -> int:
    """The largest resident memory that this process ever had, in bytes; getrusage would count its parent's too."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def ratios(data: Path | None = None, rows: int = ROWS, repeats: int = REPEATS) -> dict[str, float]:
    """On `rows` synthetic rows, or on the files of `data`, which `nightfit generate` made with 50 columns."""
    asked = question(COLUMNS)
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="nightfit-benchmark-"))
        manifest = stack.enter_context(data_set(rows, COLUMNS, SHARDS)) if data is None else scan(str(data))
        client, shards = stack.enter_context(on_workers(manifest, COLUMNS, WORKERS, f"{MEMORY}B", scratch))
        paths = sorted(Path(scratch).rglob("*.rows"))
        size = sum(path.stat().st_size for path in paths)
        steps, reads = [], []
        for _ in range(repeats):
            dropped(paths)
            steps.append(seconds(lambda: shards.aggregate(asked)))
            dropped(paths)
            reads.append(seconds(lambda: read(paths)))
        on_disk, peak = shards.aggregate(asked), max(client.run(high_water).values())
        with ShardedDataset(manifest, preprocessing(COLUMNS), client, passes=1) as never_staged:
            in_memory = never_staged.aggregate(asked)
    return {
        "step against reading its files": statistics.median(steps) / statistics.median(reads),
        "staged bytes against the workers' memory": size / (WORKERS * MEMORY),
        "peak memory of a worker against its limit": peak / MEMORY,
        "integers that differ from those of rows that were never on disk": float((on_disk != in_memory).sum()),
    }
