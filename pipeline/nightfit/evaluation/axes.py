"""Means of numbers from their noisy histograms on logarithmic nodes, and where such a histogram ends. Imports queries and estimates."""

import math
from dataclasses import dataclass

import numpy as np

from nightfit.evaluation.estimates import Estimate
from nightfit.queries.evaluations import LOWEST, NODES, nodes
from nightfit.types import Array

FOUND = 4.0
"""Standard deviations of noise that the largest count of three neighbouring nodes must exceed, or the histogram says nothing: of 145
places noise alone reaches that once in 200 evaluations."""

SEEN = 3.0
"""Standard deviations of noise above which a node next to seen ones holds units. At two, noise would be taken for a farther tail in one
evaluation of twenty, and each node farther doubles the noise of a mean."""

GAP = 2
"""Nodes that may look empty before the tail has ended."""

BEYOND = 1
"""Nodes of room above the last seen one. A larger number counts as that: each node more would double the noise of a mean."""

ROOT_OF_SHARED = float(np.mean(np.sqrt(1 + (s := (np.arange(1000) + 0.5) / 1000)) / ((1 - s) + s * np.sqrt(2.0))))
"""The mean of sqrt(v) over what the two nodes next to v say of it, for v spread over an octave."""

ONE = -LOWEST
"""The place of the node 2^0."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The noisy distribution of one number.

    Parameters
    ----------
    positive, negative : Array
        Counts of units at each node, by sign.
    deviation : float
        Standard deviation of the noise of each count.
    """

    positive: Array
    negative: Array
    deviation: float

    def top(self, signed: bool) -> int | None:
        """The node at which numbers may be clipped: BEYOND the last that noise does not hide. None if noise hides all."""
        counts = self.positive + self.negative if signed else self.positive
        noise = self.deviation * (math.sqrt(2.0) if signed else 1.0)
        near = np.convolve(counts, np.ones(3), mode="same") / math.sqrt(3.0)
        last = int(np.argmax(near))
        if near[last] <= FOUND * noise:
            return None
        place = last + 1
        while place < NODES and place <= last + GAP:
            last = place if counts[place] > SEEN * noise else last
            place += 1
        return min(last + BEYOND, NODES - 1)

    def median(self) -> float:
        """The size that half of the units do not exceed, by counts above noise; that of the fullest node if nothing else is seen."""
        counts = self.positive + self.negative
        seen = np.where(counts > SEEN * self.deviation * math.sqrt(2.0), counts, 0.0)
        seen[int(np.argmax(counts))] = max(float(counts.max()), 1.0)
        return float(nodes()[int(np.searchsorted(np.cumsum(seen), seen.sum() / 2))])

    def clipped_mean(self, units: float, end: int, last: int) -> Estimate:
        """The mean of a signed number over units, clipped at the node `end`, and the variance of its noise alone. Nothing lies beyond the
        node `last`.
        """
        clipped = np.minimum(nodes()[: max(end, last) + 1], nodes()[end])
        net = (self.positive - self.negative)[: len(clipped)]
        return Estimate(float(clipped @ net) / units, 2 * (self.deviation / units) ** 2 * float(clipped @ clipped))

    def quiet_mean(self, units: float, last: int) -> Estimate:
        """The same, clipped where it is known best, from the fullest node on.

        One far node more doubles the noise of a mean, whatever lies there. So the clip is where noise and what it hides, as far as counts
        above noise tell, have the least sum of squares.
        """
        both = (self.positive + self.negative)[: last + 1]
        seen = np.where(both > SEEN * math.sqrt(2.0) * self.deviation, (self.positive - self.negative)[: last + 1], 0.0)
        found = []
        for end in range(int(np.argmax(both)), last + 1):
            mean, hidden = self.clipped_mean(units, end, last), np.maximum(nodes()[: last + 1] - nodes()[end], 0.0)
            found.append((mean.variance + (float(hidden @ seen) / units) ** 2, end, mean))
        return min(found, key=lambda one: one[:2])[2]

    def mean(self, units: float, top: int, *, signed: bool = False, root: bool = False) -> Estimate:
        """The mean over units of the number, or of its root, all of which count at nodes up to `top`.

        sum f_b c_b / n, with noise of variance s^2 sum f_b^2 / n^2. Counts that were shared by two nodes overstate the mean square, so
        the variance of sampling (mean f^2 - (mean f)^2) / n is not understated.
        """
        values = nodes()[: top + 1]
        values = np.sqrt(values) * ROOT_OF_SHARED if root else values
        sides = [self.positive[: top + 1], *([self.negative[: top + 1]] if signed else [])]
        mean = float(values @ (sides[0] - sides[1] if signed else sides[0])) / units
        square = max(float(values**2 @ sum(sides)) / units, mean**2)
        noise = len(sides) * self.deviation**2 * float(values @ values) / units**2
        return Estimate(mean, noise + (square - mean**2) / units)


def axes_of(answer: Array, weights: tuple[float, ...], deviation: float) -> list[Axis]:
    """The axes of the answer to an `ErrorHistogram`, in units instead of weights.

    Parameters
    ----------
    answer : Array
        Noisy counts.
    weights : tuple of float
        Of the axes.
    deviation : float
        Standard deviation of the noise of an answer's count.
    """
    counts = answer.reshape(len(weights), 2, NODES)
    return [Axis(of[0] / weight, of[1] / weight, deviation / weight) for of, weight in zip(counts, weights, strict=True)]


def node_above(value: float) -> int:
    """The first node that is at least this number."""
    return min(max(math.ceil(math.log2(value)) - LOWEST, 1), NODES - 1) if value > 0 else 1
