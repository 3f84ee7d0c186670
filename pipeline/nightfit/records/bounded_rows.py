"""Features to bounded rows in one pass over memory. Imports numerics."""

import math

import numpy as np

from nightfit.numerics.compiled import compiled

TILE = np.uintp(64)
"""Rows at a time: a column of raw features is read in whole cache lines, and the rows that it is written to stay in a core's cache."""


@compiled
def bound_rows(raw, centre, scale, reach, drops, fills, absent, out, kept):  # type: ignore[no-untyped-def]
    """out[i, j] = clip((raw[i, j] - centre[j]) / scale[j], -reach[j], reach[j]), and 1 in a last column of `out` that `raw` has not.

    kept[i] tells whether no feature that `drops` its record is missing in row i. A missing feature (NaN or infinite) becomes absent[j]
    if `fills`. Without it, it becomes what the formula says; NaN stays NaN.

    Parameters
    ----------
    raw : array of float64, rows x features
        In any order: columns that lie one after the other, as Arrow has them, are read without a copy in the order of rows.
    centre, scale, reach, absent : array of float64
    drops : array of bool
    fills : bool
    out : array of float64 or float32, rows x columns
    kept : array of bool
        Of the length of `out`, as `raw` has: both are written without a check.
    """
    rows, columns, width = np.uintp(raw.shape[0]), np.uintp(raw.shape[1]), np.uintp(out.shape[1])
    bounded = np.empty(TILE)
    for first in range(np.uintp(0), rows, TILE):
        count = min(rows - first, TILE)
        for i in range(count):
            kept[first + i] = True
            for j in range(columns, width):
                out[first + i, j] = 1.0
        for j in range(columns):
            middle, unit, most, missing = centre[j], scale[j], reach[j], 0
            for i in range(count):
                value = (raw[first + i, j] - middle) / unit
                value = -most if value < -most else value
                bounded[i] = most if value > most else value
                missing += not abs(raw[first + i, j]) < math.inf
            for i in range(count):
                out[first + i, j] = bounded[i]
            if missing > 0:
                _replace_missing(raw[first : first + count, j], drops[j], fills, absent[j], out[first : first + count, j], kept[first:])


@compiled
def _replace_missing(values, drops, fills, absent, out, kept):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        if not abs(values[i]) < math.inf:
            kept[i] = kept[i] and not drops
            out[i] = absent if fills else out[i]
