"""Which bins of a noisy histogram are real. Imports numpy, scipy and constants."""

import math
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from nightfit.methods.auto.constants.histograms import NOISE_LEVEL_MARGIN, REST_MARGIN, SIGNIFICANCE_MARGIN, WIDEST_WINDOW
from nightfit.methods.auto.constants.numerical import CONSUMED, POSITIVE
from nightfit.types import Array


def noise_level(bins: int, deviation: float) -> float:
    """(sqrt(2 log bins) + 0.5) deviation, which the largest of so many noisy zeros rarely exceeds."""
    return (math.sqrt(2 * math.log(max(2, bins))) + NOISE_LEVEL_MARGIN) * deviation


def significant(
    counts: Array, deviation: float, most: float, among: int = 1, margin: float = SIGNIFICANCE_MARGIN, price: float = 0.0
) -> Array:
    """The counts that noise alone would not show; zero elsewhere.

    A window of w bins stands out by (sum of its counts) / sqrt(w): an indicator lies in one bin, a heavy-tailed column in twenty, which
    together stand out four times as clearly as each. All windows of up to 40 bins are tested, the clearest first. Then the counts beside
    the windows are fitted by steps that fall with the distance, and steps that stand out are kept too.

    Parameters
    ----------
    counts : Array
        Noisy counts of one histogram.
    deviation : float
        The standard deviation of a bin's noise.
    most : float
        The number of records: windows hold no more than the others leave of it.
    among : int
        How many histograms are read together; noise shows in none of them.
    margin : float
        A window must exceed the noise level by this many standard deviations.
    price : float
        What a window pays, times log w, when windows are compared. It keeps mild noise out of a window; a tail that sets a clip needs it
        more than a scale does.

    Returns
    -------
    Array
        Non-negative counts, of at most `most` records up to noise.
    """
    level = noise_level(len(counts) * among, 1.0)
    kept, left = np.zeros(len(counts), dtype=bool), counts / deviation
    while (window := _clearest(left, _rest(counts, kept, deviation, most) / deviation, level + margin, price)) is not None:
        kept[window], left[window] = True, CONSUMED
    above = np.where(kept, np.maximum(counts, 0.0), 0.0)
    found: Array = above * (max(counts[kept].sum(), 0.0) / max(above.sum(), POSITIVE))
    if kept.any():
        found[~kept] = _beside(counts, kept, deviation, level)[~kept]
    found[~kept] *= min(1.0, _rest(counts, kept, deviation, most) / max(found[~kept].sum(), POSITIVE))
    return found


def _beside(counts: Array, kept: npt.NDArray[np.bool_], deviation: float, level: float) -> Array:
    """The counts that are not kept, as what falls with the distance from the kept ones on either side."""
    beside, edges = np.zeros(len(counts)), np.flatnonzero(np.diff(kept)) + 1
    for run in np.split(np.arange(len(counts)), edges):
        if not kept[run[0]]:
            after = _falling(counts[run], deviation, level) if run[0] > 0 else 0.0
            before = _falling(counts[run[::-1]], deviation, level)[::-1] if run[-1] < len(counts) - 1 else 0.0
            beside[run] = np.maximum(after, before)
    return beside


def _rest(counts: Array, kept: npt.NDArray[np.bool_], deviation: float, most: float) -> float:
    """What the kept counts leave of `most`, and two standard deviations of their noise more."""
    return max(0.0, most - float(counts[kept].sum()) + REST_MARGIN * deviation * math.sqrt(kept.sum()))


def _clearest(counts: Array, most: float, level: float, price: float) -> slice | None:
    """The window with the largest min(sum, most) / sqrt(w) - price log w of those that stand out by more than the level; None of none."""
    first, after = _windows(len(counts))
    until, width = np.r_[0.0, np.cumsum(counts)], after - first
    clear = np.minimum(until[after] - until[first], most) / np.sqrt(width)
    best = int(np.where(clear > level, clear - price * np.log(width), -np.inf).argmax())
    return slice(int(first[best]), int(after[best])) if clear[best] > level else None


@cache
def _windows(bins: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """For every window its first bin and the bin after its last."""
    first, width = np.meshgrid(np.arange(bins), np.arange(1, WIDEST_WINDOW + 1))
    inside = first + width <= bins
    return first[inside], (first + width)[inside]


def _falling(counts: Array, deviation: float, level: float) -> Array:
    """Counts beside a window, fitted by least squares under the constraint that they fall with the distance: steps up to the last that
    stands out. Noise far away cannot rise above what lies between, so it is averaged with it.
    """
    fitted = isotonic_regression(counts, increasing=False)
    widths = np.diff(fitted.blocks)
    heights = fitted.x[fitted.blocks[:-1]]
    clear = np.flatnonzero(heights * np.sqrt(widths) > (level + np.log(widths)) * deviation)
    last = fitted.blocks[clear[-1] + 1] if len(clear) else 0
    kept: Array = np.where(np.arange(len(counts)) < last, fitted.x, 0.0)
    return kept
