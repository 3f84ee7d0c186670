"""Machine code on disk, in the user's cache folder. Imports numba.

Numba's own cache writes beside the source, touches the disk when a function is defined, notices edits of the function's own file only,
and keeps an index that two processes can overwrite for each other, after which a function is loaded under another's signature. Here a
function has one file for each set of argument types, named by a digest of everything that the code depends on; a file is written aside
and moved into its place, so any number of processes can fill one folder. A folder that cannot be written means no cache, nothing else.
"""

import contextlib
import functools
import hashlib
import marshal
import os
import pickle
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import caching, serialize
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

from nightfit._version import __version__

STABLE = {"numba", "numpy", "llvmlite", "math"}  # compiled by Numba's own rules, and its version is part of the key
NAME_LENGTH = 120  # file systems allow 255 bytes, of which a digest and a temporary name need 80


def folder() -> Path:
    """Where machine code is kept: below `NUMBA_CACHE_DIR` if that is set, else below `XDG_CACHE_HOME`, else below ~/.cache.

    Raises
    ------
    RuntimeError
        If the user has no home directory.
    """
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR) / f"nightfit-{__version__}"
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else Path.home() / ".cache") / "nightfit" / "numba" / __version__


class CodeCache(caching._Cache):  # type: ignore[misc]
    """The cached machine code of one function. It touches the disk when the function is first called, not when it is defined."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._enabled = True

    @property
    def cache_path(self) -> str | None:
        with contextlib.suppress(RuntimeError):
            return str(folder())
        return None

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        """Remove every file of this function."""
        with contextlib.suppress(OSError, RuntimeError):
            for file in folder().glob(f"{self._stem}.*"):
                file.unlink(missing_ok=True)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled function for these argument types, or None. A file that cannot be read is compiled again."""
        target.refresh()
        if not self._enabled:
            return None
        key = self._key(signature, target.codegen())
        try:
            stored, code = pickle.loads(self._file(key).read_bytes())
            return CompileResult._rebuild(target, *code) if stored == key else None
        except Exception:
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled function, unless its code holds addresses of this process."""
        if not self._enabled or result.lifted or result.library.has_dynamic_globals:
            return
        key = self._key(signature, result.codegen)
        data = serialize.dumps((key, result._reduce()))
        with contextlib.suppress(OSError, RuntimeError):
            _write(self._file(key), data)

    @functools.cached_property
    def _fingerprint(self) -> str:
        return fingerprint(self._function)

    @functools.cached_property
    def _stem(self) -> str:
        return f"{self._function.__module__}.{self._function.__qualname__}".replace("<", "").replace(">", "")[:NAME_LENGTH]

    def _key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        return numba.__version__, self._function.__qualname__, self._fingerprint, signature, codegen.magic_tuple()

    def _file(self, key: tuple[Any, ...]) -> Path:
        return folder() / f"{self._stem}.{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.nbc"


def fingerprint(function: Any) -> str:
    """SHA-256 of what a function's machine code is made from, so that an edit of any of it compiles the function again.

    That is the source files of the function and of all functions that it reaches by name or as a closure, the values of the constants
    that they use, and this package's own compiler pipeline. Broken by test_an_edited_source_is_compiled_again.
    """
    parts = {_file_digest(str(Path(__file__).with_name(name))) for name in ("code_cache.py", "compiled.py", "short_loops.py")}
    _collect_function(function.__module__, function, parts)
    return hashlib.sha256(b"\0".join(sorted(parts))).hexdigest()


def captured(function: Any) -> list[Any]:
    """The Python functions that a function closes over."""
    return [inner for cell in function.__closure__ or () if (inner := _plain(cell.cell_contents)) is not None]


def _collect(name: str, value: Any, names: set[str], parts: set[bytes]) -> None:
    """Add what a value contributes to code that uses these names: functions and modules are followed, constants are added by value."""
    function = _plain(value)
    if isinstance(value, types.ModuleType) and _package(value.__name__) not in STABLE:
        for attribute in names & vars(value).keys():
            _collect(f"{name}.{attribute}", vars(value)[attribute], names, parts)
    elif isinstance(value, tuple):
        for place, each in enumerate(value):
            _collect(f"{name}[{place}]", each, names, parts)
    elif isinstance(value, np.ndarray):
        parts.add(name.encode() + value.dtype.str.encode() + hashlib.sha256(value.tobytes()).digest())
    elif isinstance(value, int | float | complex | str | bytes | np.generic):
        parts.add(f"{name} = {value!r}".encode())
    elif function is not None and _package(function.__module__) not in STABLE:
        _collect_function(f"{function.__module__}.{function.__qualname__}", function, parts)


def _collect_function(name: str, function: Any, parts: set[bytes]) -> None:
    source = name.encode() + _source_digest(function.__code__)
    if source in parts:
        return
    parts.add(source)
    names = set(_names(function.__code__))
    used = dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__ or ()), strict=True))
    used |= {each: function.__globals__[each] for each in names & function.__globals__.keys()}
    for each, value in used.items():
        _collect(f"{name}: {each}", value, names, parts)


def _package(module: str) -> str:
    return module.split(".")[0]


def _names(code: types.CodeType) -> Iterator[str]:
    """The global names and attributes in a function's code and in the functions nested in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _plain(value: Any) -> Any:
    """The Python function behind a function, a compiled function or an intrinsic; None for anything else."""
    if isinstance(value, Dispatcher):
        return value.py_func
    if isinstance(value, _Intrinsic):
        return value._defn
    return value if isinstance(value, types.FunctionType) else None


def _source_digest(code: types.CodeType) -> bytes:
    """The digest of the file that code was written in, or of the code if there is none, as in a notebook."""
    with contextlib.suppress(OSError):
        return _file_digest(code.co_filename)
    return hashlib.sha256(marshal.dumps(code)).digest()


@functools.cache
def _file_digest(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as temporary:
            temporary.write(data)
        os.replace(name, file)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
