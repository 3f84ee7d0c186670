"""What can go wrong on a cluster, in words for a user. Imports distributed.

Dask logs the arguments and the traceback of a task that raises. So a task raises or returns one of the names in FAILURES, or one of
DAMAGED, and nothing else, and errors of Dask itself are replaced by ours without their cause.
"""

import contextlib
import errno
import re
from collections.abc import Callable, Iterator
from multiprocessing import spawn
from typing import Any

from nightfit.shards.manifest import DataError
from nightfit.types import NightfitError

LOST = "the Dask cluster was lost: check scheduler and workers, then run the refit again to resume"
MORE_MEMORY = (
    "raise cluster.memory (`dask worker --memory-limit`), take more workers, set data.precision to single, or write smaller row groups"
)
GUARD = 'put what your script does under `if __name__ == "__main__":`, because each worker imports it, or use cluster: {kind: synchronous}'
MISCOUNTED = "a chunk was lost or counted twice: the answer was discarded; run the refit again to resume"

CHANGED, MEMORY, SPACE, VERSION, FAILED = "changed", "memory", "space", "version", "failed"
DAMAGED = re.compile(r"damaged (\d+) (.+)", re.DOTALL)  # the row group and the name of a shard that cannot be decoded
FAILURES = {
    CHANGED: "a shard was added, removed or rewritten since the plan was made: nothing more is charged; restore the files and resume, "
    "or abandon the run",
    MEMORY: "a worker ran out of memory reading a shard: raise cluster.memory, or write smaller row groups",
    SPACE: "the disk of a worker's local directory is full: free space or name another disk in cluster.directory, then run the refit "
    "again to resume",
    VERSION: "a worker that came later has another version of nightfit, numba or numpy: give all workers one environment, then run the "
    "refit again to resume",
    FAILED: "a shard could not be read: check that every worker reaches the files; a started run resumes when the refit is run again",
}


class ClusterError(NightfitError):
    """The Dask cluster cannot be used or was lost; a started run resumes when the same refit is run again."""


class Stalled(Exception):
    """Tasks wait for workers that will not do them. The text says why and what to change."""


class FileChanged(Exception):
    """A file is not the one that was planned on. It has no text: FAILURES has it."""


class Undecodable(Exception):
    """A row group of a shard cannot be decoded, or a page is not what its checksum says. The text is a name of DAMAGED, never a value."""

    def __init__(self, shard: str, row_group: int) -> None:
        super().__init__(f"damaged {row_group} {shard}")


def in_words(failure: str) -> str:
    """What the name of a failure means, for a user."""
    damaged = DAMAGED.fullmatch(failure)
    if damaged is None:
        return FAILURES.get(failure, FAILURES[FAILED])
    return (
        f"row group {damaged[1]} of {damaged[2]} cannot be decoded: the file was damaged after it was written; restore it from a copy, "
        "or write it again, then run the refit again"
    )


def failing_by_name(work: Callable[[], Any]) -> Any:
    """The result of work, inside a task; any exception becomes a RuntimeError whose text `in_words` understands."""
    try:
        return work()
    except FileChanged:
        failure = CHANGED
    except Undecodable as damaged:
        failure = str(damaged)
    except MemoryError:
        failure = MEMORY
    except OSError as error:
        failure = SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else FAILED
    except Exception:
        failure = FAILED
    raise RuntimeError(failure)


def started(make: Callable[[], Any]) -> Any:
    """What `make` starts as processes of this machine, each of which imports the user's script once more.

    Raises
    ------
    ClusterError
        If the script would start processes when it is imported, or if they do not start.
    """
    try:
        spawn.get_preparation_data("worker")
    except RuntimeError:
        raise ClusterError(f"this process was started by a script that is run a second time: {GUARD}") from None
    try:
        return make()
    except RuntimeError:
        raise ClusterError(f"the workers of the local cluster did not start: {GUARD}; else look at this machine's memory") from None


@contextlib.contextmanager
def translated(then: str = "then run the refit again to resume") -> Iterator[None]:
    """Replace errors of tasks and of Dask by a DataError or a ClusterError without a cause, whose text might show a task's arguments.

    Parameters
    ----------
    then : str
        What the user should do when the cause is removed.
    """
    try:
        yield
    except RuntimeError as failure:
        raise DataError(in_words(str(failure))) from None
    except Stalled as stalled:
        raise ClusterError(f"{stalled}; {then}") from None
    except (OSError, TimeoutError):
        raise ClusterError(LOST) from None
    except BaseException as error:
        from distributed import CancelledError, KilledWorker  # imported here: work in this process needs no cluster

        if isinstance(error, KilledWorker):
            raise ClusterError(f"workers kept dying on the same shard (out of memory?): {MORE_MEMORY}; {then}") from None
        if isinstance(error, CancelledError):
            raise ClusterError(LOST) from None
        raise
