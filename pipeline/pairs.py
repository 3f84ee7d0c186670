"""The pass of a coordinatewise bounding over a tile of rows, two at a time. Imports numba and rooms below."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from pipeline import exact
from pipeline.exact import finite
from pipeline.prefetch import fetch_row

NONE, ONE, TWO = np.uintp(0), np.uintp(1), np.uintp(2)


def pass_of(factor: Callable[..., Any], steps: Callable[..., Any]) -> Callable[..., None]:
    """The compiled sums[groups[i], j] += steps(factor(slopes[i], squares[i], numbers) * X[i, j], numbers); a product that is not a
    number adds nothing.

    factor and steps are module-level functions marked `register_jitable`, whose formulas become part of the loop; `numbers` are their
    parameters. Two rows of one group share the reading and writing of its sums. Numba keeps the machine code on disk under the
    names of the two functions; the digest of the files that they and their arithmetic are written in is part of that key, so a
    formula that was edited is compiled again.
    """
    written_in = {formula.__code__.co_filename for formula in (factor, steps)} | {exact.__file__}
    written = hashlib.sha256(b"".join(Path(name).read_bytes() for name in sorted(written_in))).hexdigest()

    @numba.njit(cache=True, nogil=True, error_model="numpy")
    def add(X, slopes, squares, groups, numbers, sums):  # type: ignore[no-untyped-def]
        written  # noqa: B018  (makes the digest one of the function's own variables)
        rows, columns = np.uintp(X.shape[0]), np.uintp(X.shape[1])
        for i in range(NONE, rows, TWO):
            k = i + ONE if i + ONE < rows else i
            a, b = factor(slopes[i], squares[i], numbers), factor(slopes[k], squares[k], numbers)
            b = b if k > i else 0.0
            first, second = np.uintp(groups[i]), np.uintp(groups[k])
            if not (finite(a, squares[i]) and finite(b, squares[k])):
                for j in range(columns):
                    value = a * X[i, j]
                    sums[first, j] += steps(value, numbers) if value == value else 0
                    value = b * X[k, j]
                    sums[second, j] += steps(value, numbers) if value == value else 0
            elif first == second:
                for j in range(columns):
                    sums[first, j] += steps(a * X[i, j], numbers) + steps(b * X[k, j], numbers)
            else:
                fetch_row(X, i + rows)
                fetch_row(X, k + rows)
                for j in range(columns):
                    sums[first, j] += steps(a * X[i, j], numbers)
                    sums[second, j] += steps(b * X[k, j], numbers)

    return add
