"""The share of records that are not null, from paid norms. Imports queries, numpy, procedure and constants.

A null record is a row of zeros, which adds nothing to any sum. So a sum over the number of records is that of complete rows times their
share, and what is compared with a number that is not such a sum must be divided by it.
"""

import math

import numpy as np

from nightfit.methods.auto.constants.level import NULL_MARGIN
from nightfit.methods.procedure import PaidShare, UsedShare
from nightfit.queries.magnitudes import NORM_GRID
from nightfit.queries.rows import Rows
from nightfit.types import Array


def believed_share(found: float, deviation: float) -> float:
    """One, unless noise of this standard deviation cannot have made the share smaller; at least what noise can make of none."""
    return min(1.0, max(found, NULL_MARGIN * deviation)) if found < 1 - NULL_MARGIN * deviation else 1.0


def label_share(usual: float, residual: float, deviation: float, believed: float, used: UsedShare | None) -> PaidShare:
    """The share of a label among the units that count: `usual` and the mean residual of these.

    Units that do not count have no residual, so a sum over all is divided by the share that was answered, not by the one that is
    believed for a fit: that is one as long as noise may be why it is not, and would pull every share towards `usual`.

    Parameters
    ----------
    usual : float
        The prediction that residuals were asked at.
    residual, deviation : float
        The mean residual if the believed share of units counts, and the standard deviation of its noise.
    believed, used : float, UsedShare or None
        The share of units that count, as it is believed, and as it was answered.
    """
    if used is None:
        return PaidShare(usual + residual, deviation)
    share = min(1.0, max(used.share, NULL_MARGIN * used.deviation))
    scale = believed / share
    return PaidShare(usual + residual * scale, math.hypot(deviation * scale, residual * scale * used.deviation / share))


def counted_share(counts: Array, deviation: float, rows: Rows, units: int) -> UsedShare:
    """The share of complete rows as it was answered, from a histogram of the norms of rows that end in a one for the intercept.

    Their norms lie between one and that of the reaches: only bins there are added, so only their noise is.

    Parameters
    ----------
    counts, deviation : Array, float
        Noisy counts on NORM_GRID, and the standard deviation of a bin's noise.
    rows : Rows
        Whose norms were counted.
    units : int
        The number of records, null or not.
    """
    inside = (NORM_GRID.upper >= 1) & (NORM_GRID.edges <= np.linalg.norm(rows.reach))
    return UsedShare(float(counts[inside].sum()) / units, deviation * math.sqrt(inside.sum()) / units)
