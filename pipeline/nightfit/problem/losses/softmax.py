"""The loss of several classes: one margin for each contrast between classes. Imports numerics, links and targets."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import decay
from nightfit.problem.links import Link
from nightfit.problem.links.softmax import Softmax as ClassLink
from nightfit.problem.losses import Estimand, Formula
from nightfit.records.targets import Target
from nightfit.types import Array

MOST_CLASSES = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Softmax:
    """log sum_j exp(s_j) - s_y for the scores s = C z of k classes, where C are k - 1 orthonormal columns that each sum to zero.

    Adding a constant to all scores changes nothing, so k - 1 margins carry all. The slope in z is C'(p - e_y) with p = softmax(s): as
    p - e_y sums to zero, its norm is that of p - e_y, at most sqrt(2), whatever k is. So a record's gradient, the outer product of this
    vector and its row x, has the Frobenius norm |p - e_y| |x|, and one bound on it serves all classes.

    y is the place of the label. It is a loss of margins (rows x (k - 1)), not of one margin: no method takes it but `auto`.
    """

    name: ClassVar[str] = "softmax"
    classes: int
    target: ClassVar[Target] = Target.CLASSES
    scalable: ClassVar[bool] = False
    link: ClassVar[Link] = ClassLink()
    estimand: ClassVar[Estimand | None] = Estimand.CLASS_LOG_ODDS
    convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 0.5  # of the largest eigenvalue of diag p - p p' (Boehning 1992)
    lipschitz: ClassVar[float] = math.sqrt(2)

    def __post_init__(self) -> None:
        if not 2 <= self.classes <= MOST_CLASSES:
            raise ValueError(f"softmax: there must be 2 to {MOST_CLASSES} classes, got {self.classes}; put rare labels together")

    @property
    def outputs(self) -> int:
        """The number of margins, k - 1."""
        return self.classes - 1

    @property
    def contrasts(self) -> Array:
        """C (k x (k - 1)), the normed columns of Helmert: column j compares class j + 1 with those before it."""
        C = np.zeros((self.classes, self.outputs))
        for j in range(1, self.classes):
            C[:j, j - 1], C[j, j - 1] = 1 / math.sqrt(j * (j + 1)), -j / math.sqrt(j * (j + 1))
        return C

    def probabilities(self, z: Array) -> Array:
        """p of each row (rows x k)."""
        return self.link.inverse(z @ self.contrasts.T)

    def value(self, y: Array, z: Array) -> Array:
        """The loss of each row from the place of its label and its margins (rows x (k - 1))."""
        scores = z @ self.contrasts.T
        top = scores.max(axis=1)
        values: Array = top + np.log(np.exp(scores - top[:, None]).sum(axis=1)) - scores[np.arange(len(y)), y.astype(np.int64)]
        return values

    def slope(self, y: Array, z: Array) -> Array:
        """C'(p - e_y) of each row (rows x (k - 1)), with the same bits wherever the row lies; NaN where a margin is not finite."""
        out = np.empty((len(y), self.outputs))
        _slopes(np.ascontiguousarray(y, dtype=np.float64), np.ascontiguousarray(z, dtype=np.float64), self.contrasts, out)
        return out

    def formula(self) -> Formula | None:
        return None


@compiled
def _slopes(y, z, C, out):  # type: ignore[no-untyped-def]
    classes, outputs = C.shape
    odds = np.empty(classes)
    for i in range(z.shape[0]):
        top = -np.inf
        for j in range(classes):
            score = 0.0
            for m in range(outputs):
                score += C[j, m] * z[i, m]
            odds[j] = score
            top = max(top, score)
        total = 0.0
        for j in range(classes):
            odds[j] = decay(odds[j] - top) if odds[j] - top <= 0.0 else np.nan
            total += odds[j]
        for m in range(outputs):
            slope = y[i] - y[i]  # NaN for a label that is none
            for j in range(classes):
                slope += C[j, m] * (odds[j] / total - (1.0 if y[i] == j else 0.0))
            out[i, m] = slope
