"""The decorators that compile a function with Numba. Imports numba and its own package.

No other module calls `numba.njit` or `numba.vectorize` (test_only_our_decorators_call_the_compiler), so three properties hold for all
machine code of the package: it is kept in the user's cache folder (`code_cache`), its loops are vectorised for short rows
(`short_loops`), and no two functions share a symbol.

Symbols. Numba derives a symbol from the function's module and qualified name, its argument types and a counter that starts at 1 in
every process. Closures of one factory share module and name, so one that is read from the cache can meet one that this process
compiles under the same symbol, and the linker picks either. Hence a closure is named after the functions that it closes over and after
a digest of their sources. Broken by test_losses_in_turn_survive_a_warm_cache.
"""

import re
from collections.abc import Callable
from typing import Any

import numba

from nightfit.numerics.code_cache import CodeCache, captured, fingerprint
from nightfit.numerics.short_loops import ShortLoops


def compiled(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function with `numba.njit`: without the interpreter's lock, and with NumPy's rules for division by zero.

    Parameters
    ----------
    function : callable, optional
        The function. Without it, a decorator with these options is returned.
    **options
        Options of `numba.njit`, such as `inline` or `fastmath`. `cache` is not one of them: the code is always cached.

    Returns
    -------
    numba.core.dispatcher.Dispatcher
        The compiled function. It compiles, or reads its cached code, when it is first called with arguments of new types.

    Examples
    --------
    >>> @compiled
    ... def half(x):
    ...     return x / 2
    >>> half(3.0)
    1.5
    """
    if function is None:
        return lambda function: compiled(function, **options)
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy", pipeline_class=ShortLoops, **options)(_named(function))
    if not numba.config.DISABLE_JIT:  # which leaves the function as it is
        dispatcher._cache = CodeCache(function)
    return dispatcher


def compiled_ufunc(function: Callable[..., Any]) -> Any:
    """Compile a function of numbers into a NumPy ufunc, with `numba.vectorize`.

    Examples
    --------
    >>> import numpy as np
    >>> @compiled_ufunc
    ... def half(x):
    ...     return x / 2
    >>> half(np.array([1.0, 3.0]))
    array([0.5, 1.5])
    """
    ufunc: Any = numba.vectorize(_named(function))
    ufunc._dispatcher.cache = CodeCache(function)
    return ufunc


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Name a closure after itself, the functions that it closes over and 8 digits of the digest of their sources."""
    if function.__closure__:
        inner = "__and__".join(f"{each.__module__}.{each.__qualname__}" for each in captured(function))
        function.__name__ = function.__qualname__ = re.sub(r"\W+", "_", f"{function.__name__}__of__{inner}__{fingerprint(function)[:8]}")
    return function
