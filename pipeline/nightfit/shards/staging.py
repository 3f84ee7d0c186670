"""Decoded rows that a worker keeps for the length of a run: in its memory, or in private files on its disk. Imports distributed.

Parquet is decoded once. A file holds slabs of rows, row-major, each followed by its targets and slots; it is read into one buffer
that every slab uses again, never mapped, because a worker's touched pages count as its memory.
"""

import errno
import os
import secrets
import shutil
import socket
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.manifest import DataError
from nightfit.shards.read import Changed, Chunk, blocks, load, room_for
from nightfit.types import Block

SLAB_BYTES = 2**23
PREFIX = "nightfit-"


class Kept(Protocol):
    """The rows of some chunks on one worker."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The chunks' numbers."""

    def blocks(self) -> Iterator[Block]:
        """Every row once. A block is valid until the next one is asked for."""


@dataclass(frozen=True, slots=True)
class InMemory:
    """Rows in the worker's memory."""

    numbers: tuple[int, ...]
    held: tuple[Block, ...]

    def blocks(self) -> Iterator[Block]:
        yield from self.held

    def __sizeof__(self) -> int:
        """What Dask judges a transfer by."""
        return sum(block.X.nbytes + block.y.nbytes + block.slots.nbytes for block in self.held)


@dataclass(frozen=True, slots=True)
class InFiles:
    """Rows in a file of the worker's local directory: made from Parquet where it is missing, as on a worker that took over."""

    folder: str
    chunks: tuple[Chunk, ...]
    preprocessing: Preprocessing

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(chunk.number for chunk in self.chunks)

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def blocks(self) -> Iterator[Block]:
        path = self.made()
        buffer = room_for(slab_rows(self.preprocessing), self.preprocessing)
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            offset, whole = 0, _bytes(buffer)
            for start in range(0, self.rows, len(buffer)):
                block = _first(buffer, min(len(buffer), self.rows - start))
                os.posix_fadvise(handle, offset + whole, whole, os.POSIX_FADV_WILLNEED)
                read_into(handle, (block.X, block.y, block.slots), offset)
                offset += _bytes(block)
                yield block
        finally:
            os.close(handle)

    def made(self) -> Path:
        """The path of the file, which is written first if it is not there."""
        folder = private_folder(local_directory(), self.folder)
        path = folder / f"{self.chunks[0].number}.rows"
        if not path.exists():
            written(path, self._arrays(), self.rows * row_bytes(self.preprocessing))
        return path

    def _arrays(self) -> Iterator[Any]:
        seen = 0
        for block in slabs(self.chunks, self.preprocessing, slab_rows(self.preprocessing)):
            yield from (block.X, block.y, block.slots)
            seen += len(block)
        if seen != self.rows:
            raise Changed


def keep_in_memory(chunks: Sequence[Chunk], preprocessing: Preprocessing) -> InMemory:
    """The task that decodes chunks into memory; it raises the name of a failure and nothing else."""
    numbers = tuple(chunk.number for chunk in chunks)
    return InMemory(numbers, named(lambda: tuple(load(chunk, preprocessing) for chunk in chunks)))


def keep_in_files(folder: str, chunks: Sequence[Chunk], preprocessing: Preprocessing) -> InFiles:
    """The task that decodes chunks into a file; it raises the name of a failure and nothing else."""
    kept = InFiles(folder, tuple(chunks), preprocessing)
    named(kept.made)
    return kept


def named(work: Callable[[], Any]) -> Any:
    """What work gives, or a RuntimeError that names the kind of a failure: Dask prints the text of a task's error."""
    try:
        return work()
    except Changed:
        failure = "changed"
    except MemoryError:
        failure = "memory"
    except OSError as error:
        failure = "space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "failed"
    except Exception:
        failure = "failed"
    raise RuntimeError(failure)


def slab_rows(preprocessing: Preprocessing) -> int:
    return max(1, SLAB_BYTES // row_bytes(preprocessing))


def row_bytes(preprocessing: Preprocessing) -> int:
    """What one decoded record takes: its features, target and slot."""
    return preprocessing.dtype.itemsize * preprocessing.columns + 16


def private_folder(base: Path, name: str) -> Path:
    """A folder of this name that its owner alone can enter."""
    folder = base / name
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(errno.EPERM, "the folder of staged rows is not private")
    return folder


def local_directory() -> Path:
    """Where the worker that runs this task keeps its files."""
    from distributed import get_worker

    return Path(get_worker().local_directory)


def slabs(chunks: Sequence[Chunk], preprocessing: Preprocessing, rows: int) -> Iterator[Block]:
    """The chunks' records in blocks of `rows` rows, the last one shorter; each in the same buffer."""
    buffer, filled = room_for(rows, preprocessing), 0
    for block in (block for chunk in chunks for block in blocks(chunk, preprocessing)):
        start = 0
        while start < len(block):
            taken = min(rows - filled, len(block) - start)
            there, here = slice(filled, filled + taken), slice(start, start + taken)
            buffer.X[there], buffer.y[there], buffer.slots[there] = block.X[here], block.y[here], block.slots[here]
            filled, start = filled + taken, start + taken
            if filled == rows:
                yield buffer
                filled = 0
    if filled:
        yield _first(buffer, filled)


def check_room(client: Any, needed: dict[str, int]) -> None:
    """Refuse to stage where the workers' disks lack room; `needed` bytes by worker. Workers of one host may share a disk."""
    found = client.run(room, workers=list(needed), on_error="return")
    free: dict[tuple[str, int], int] = {}
    wanted: dict[tuple[str, int], int] = {}
    for worker, told in found.items():
        if isinstance(told, BaseException):
            raise DataError("a worker cannot tell the free space of its local directory: check that the directory exists there")
        host, device, left = told
        free[host, device] = left
        wanted[host, device] = wanted.get((host, device), 0) + needed[worker]
    for place, left in free.items():
        if wanted[place] > left:
            raise DataError(
                f"decoded rows need {wanted[place] / 2**30:.1f} GiB in the local directory of the Dask workers and {left / 2**30:.1f} GiB "
                "are free: nothing was asked; free space, name another disk in cluster.directory (or `dask worker --local-directory`), "
                "set data.precision to single, or give the workers more memory"
            )


def room(dask_worker: Any) -> tuple[str, int, int]:
    """Host, device and free bytes of a worker's local directory."""
    place = dask_worker.local_directory
    return socket.gethostname(), os.stat(place).st_dev, shutil.disk_usage(place).free


def sweep(client: Any) -> None:
    """Remove what runs left behind that ended without doing so: the folders of clients that the scheduler does not know any more.

    Folders are listed before the clients, so that a client that comes in between is not taken for a lost one.
    """
    listed = client.run(folders, on_error="return")
    names = {name for found in listed.values() if isinstance(found, list) for name in found}
    if not names:
        return
    alive = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.clients))
    for name in names:
        if not any(name.startswith(f"{PREFIX}{known}") for known in alive):
            client.run(remove, name, on_error="return")


def folders(dask_worker: Any) -> list[str]:
    """The names of the folders of staged rows on a worker."""
    return [path.name for path in Path(dask_worker.local_directory).glob(f"{PREFIX}*")]


def remove(name: str, dask_worker: Any) -> None:
    """Remove a folder of staged rows, if it is there."""
    shutil.rmtree(Path(dask_worker.local_directory) / name, ignore_errors=True)


def folder_of(client: Any) -> str:
    """A new name for the staged rows of a client's run."""
    return f"{PREFIX}{client.id}-{secrets.token_hex(4)}"


def written(path: Path, arrays: Iterable[Any], size: int = 0) -> None:
    """A private file of these arrays, one behind the other, under its name only when it is whole; `size` bytes are set aside first."""
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
    """Fill arrays with what a file holds from an offset on."""
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


def _bytes(block: Block) -> int:
    return block.X.nbytes + block.y.nbytes + block.slots.nbytes


def _first(buffer: Block, rows: int) -> Block:
    return Block(buffer.X[:rows], buffer.y[:rows], buffer.slots[:rows])
