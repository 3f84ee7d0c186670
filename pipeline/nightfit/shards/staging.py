"""Decoded rows that a worker keeps during a run: in its memory, or in private files on its disk. Imports distributed.

Parquet is decoded once. A file holds batches of rows, row-major, each followed by its targets and slots. It is read into one buffer that
every batch uses again, and not mapped, because a worker's touched pages count as its memory.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nightfit.records.coded_rows import StagedBlock
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.failures import FileChanged, failing_by_name
from nightfit.shards.lease import start_lease
from nightfit.shards.read import Chunk, PersonRange, blocks, empty_rows, load

PREFIX = "nightfit-"  # of the folders; the id of the client that made one comes next
FILE_BATCH_BYTES = 2**23  # read at a time: large beside a disk's latency, small beside a worker's memory


class StagedRows(Protocol):
    """The decoded rows of some chunks on one worker."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The chunks' numbers."""

    def blocks(self) -> Iterator[StagedBlock]:
        """Every row once. A block is valid until the next one is asked for."""


@dataclass(frozen=True, slots=True)
class InMemory:
    """Rows in the worker's memory."""

    numbers: tuple[int, ...]
    parts: tuple[StagedBlock, ...]

    def blocks(self) -> Iterator[StagedBlock]:
        yield from self.parts

    def __sizeof__(self) -> int:
        """Bytes of the rows, by which Dask judges a transfer."""
        return sum(map(_bytes, self.parts))


@dataclass(frozen=True, slots=True)
class InFiles:
    """Rows in a file of the worker's local directory; a worker that took over from a lost one writes the file again from Parquet."""

    folder: str
    chunks: tuple[Chunk, ...]
    preprocessing: Preprocessing

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(chunk.number for chunk in self.chunks)

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def blocks(self) -> Iterator[StagedBlock]:
        path = self.write_if_missing()
        buffer = empty_rows(batch_rows(self.preprocessing), self.preprocessing)
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            offset, whole = 0, _bytes(buffer)
            for start in range(0, self.rows, len(buffer)):
                block = buffer.first(min(len(buffer), self.rows - start))
                os.posix_fadvise(handle, offset + whole, whole, os.POSIX_FADV_WILLNEED)
                read_into(handle, block.arrays, offset)
                offset += _bytes(block)
                yield block
        finally:
            os.close(handle)

    def write_if_missing(self) -> Path:
        """The path of the file, which is written first if it does not exist."""
        folder = own_folder(self.folder)
        path = folder / f"{self.chunks[0].number}.rows"
        if not path.exists():
            write_file(path, self._arrays(), self.rows * row_bytes(self.preprocessing))
        return path

    def _arrays(self) -> Iterator[Any]:
        seen = 0
        for block in row_batches(self.chunks, self.preprocessing, batch_rows(self.preprocessing)):
            yield from block.arrays
            seen += len(block)
        if seen != self.rows:
            raise FileChanged


def stage_in_memory(chunks: Sequence[Chunk | PersonRange], preprocessing: Preprocessing) -> InMemory:
    """The task that decodes chunks, or ranges of persons, into memory."""
    numbers = tuple(chunk.number for chunk in chunks)
    return InMemory(numbers, failing_by_name(lambda: tuple(load(chunk, preprocessing) for chunk in chunks)))


def stage_in_files(folder: str, chunks: Sequence[Chunk], preprocessing: Preprocessing) -> InFiles:
    """The task that decodes chunks into a file."""
    staged = InFiles(folder, tuple(chunks), preprocessing)
    failing_by_name(staged.write_if_missing)
    return staged


def batch_rows(preprocessing: Preprocessing) -> int:
    """Rows of a batch in a file."""
    return max(1, FILE_BATCH_BYTES // row_bytes(preprocessing))


def row_bytes(preprocessing: Preprocessing) -> int:
    """Bytes of one staged record: its features, targets and slot."""
    return preprocessing.row_bytes


def private_folder(base: Path, name: str) -> Path:
    """Make or check a folder that only its owner can enter, and return it."""
    folder = base / name
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(errno.EPERM, "the folder of staged rows is not private")
    return folder


def own_folder(name: str) -> Path:
    """The folder of a run in the local directory of the worker that runs this task; it goes when the run's driver is gone."""
    folder = private_folder(local_directory(), name)
    start_lease(PREFIX, name)
    return folder


def local_directory() -> Path:
    """The local directory of the worker that runs this task."""
    from distributed import get_worker

    return Path(get_worker().local_directory)


def row_batches(chunks: Sequence[Chunk], preprocessing: Preprocessing, rows: int) -> Iterator[StagedBlock]:
    """The chunks' records in blocks of `rows` rows, the last one shorter; all use the same buffer."""
    buffer, filled = empty_rows(rows, preprocessing), 0
    for block in (block for chunk in chunks for block in blocks(chunk, preprocessing)):
        start = 0
        while start < len(block):
            count = min(rows - filled, len(block) - start)
            for into, array in zip(buffer.arrays, block.arrays, strict=True):
                into[filled : filled + count] = array[start : start + count]
            filled, start = filled + count, start + count
            if filled == rows:
                yield buffer
                filled = 0
    if filled:
        yield buffer.first(filled)


def write_file(path: Path, arrays: Iterable[Any], size: int = 0) -> None:
    """Write arrays one after the other into a private file, which gets its name when it is complete; `size` bytes are allocated first."""
    partial = path.with_name(f"{secrets.token_hex(8)}.partial")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            if size:
                os.posix_fallocate(handle, 0, size)
            for array in arrays:
                left = memoryview(array).cast("B") if array.nbytes else memoryview(b"")
                while left.nbytes:
                    left = left[os.write(handle, left) :]
        finally:
            os.close(handle)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def read_into(handle: int, arrays: Iterable[Any], offset: int) -> None:
    """Fill arrays from a file, starting at an offset."""
    parts = [memoryview(array).cast("B") for array in arrays if array.nbytes]
    while parts:
        got = os.preadv(handle, parts, offset)
        if not got:
            raise OSError(errno.EIO, "a staged file is shorter than it was")
        offset += got
        while parts and got >= parts[0].nbytes:
            got -= parts.pop(0).nbytes
        if parts and got:
            parts[0] = parts[0][got:]


def _bytes(block: StagedBlock) -> int:
    return sum(int(array.nbytes) for array in block.arrays)
