"""One thread for the libraries of linear algebra in this process. Imports threadpoolctl."""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside: list[Any] = []  # the limiter of the outermost block, then a None for each other block that has been entered and not left


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """BLAS and LAPACK work on the calling thread alone inside of the block, in the whole process.

    Their threads wait for each other by spinning: where a processor is busy, two of them took 40 to 100 times the processor time of one for
    the eigenvalues of 51 to 401 columns, and for products of a slice of rows as much as ten times. Blocks may overlap in several threads:
    the first that is entered sets the limit, and the last that is left lifts it.
    """
    with _lock:
        _inside.append(None if _inside else _libraries().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limiter = _inside[0]
            _inside.pop()
            if not _inside:
                limiter.restore_original_limits()


@functools.cache
def _libraries() -> Any:
    """Those that are loaded at the first call: NumPy's, which is the one that works here."""
    return ThreadpoolController()
