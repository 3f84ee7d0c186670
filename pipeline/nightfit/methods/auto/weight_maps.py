"""Weights in whitened coordinates, of scaled rows, and of the release's columns. Imports whitened_coordinates and below."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nightfit.methods.auto.constants.numerical import ROUNDING
from nightfit.methods.auto.quadratic_prox import proximal
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.queries.rows import Rows
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class WeightMaps:
    """Maps between the three kinds of weights: v of the whitened directions, those of scaled rows, those of the release's columns."""

    plan: QueryPlan
    coordinates: WhitenedCoordinates

    def with_rows(self, rows: Rows) -> "WeightMaps":
        """The same with other clamps."""
        return replace(self, coordinates=replace(self.coordinates, rows=rows))

    @property
    def unbounded(self) -> npt.NDArray[np.bool_]:
        """Whether a column has no public bounds."""
        free = np.zeros(self.plan.columns, dtype=bool)
        free[list(self.plan.unbounded)] = True
        return free

    def scaled(self, v: Array) -> Array:
        """The weights of the scaled row."""
        return self.coordinates.rotation.A.T @ v

    @cached_property
    def from_columns(self) -> Array:
        """B with v = B w: slopes in the whitened directions from the weights w of scaled columns."""
        features = slice(self.plan.features)
        inverse: Array = np.asarray(np.linalg.inv(self.coordinates.rotation.A.T), dtype=np.float64)
        return inverse[features, features]

    def signal(self, v: Array) -> float:
        """The variance of complete rows' predictions by the slopes of v: v' H v without the intercept, less the square of their mean."""
        slopes, H = v.copy(), self.coordinates.curvature.matrix
        slopes[list(self.coordinates.free)] = 0.0
        explained = float(slopes @ H @ slopes) - sum(float(H[j] @ slopes) ** 2 / H[j, j] for j in self.coordinates.free)
        return max(0.0, explained / self.coordinates.complete)

    def penalised(self, v: Array, slope: float) -> Array:
        """The weights of the scaled row with the penalty."""
        back = np.linalg.inv(self.coordinates.rotation.A)
        return proximal(self.scaled(v), slope * back @ self.coordinates.curvature.matrix @ back.T, self.plan.penalty, self.plan.features)

    def released(self, v: Array) -> Array:
        """The weights of the release's columns."""
        return self.in_columns(self.scaled(v))

    def in_columns(self, weights: Array) -> Array:
        """The weights of the release's columns from those of the scaled row; what rounding leaves of a zero becomes zero.

        A column without public bounds is clamped at its reach about its centre. One with public bounds keeps them, and its centre goes into
        the intercept.
        """
        return self.mapped(np.where(np.abs(weights) <= ROUNDING * np.abs(weights).max(), 0.0, weights))

    def mapped(self, weights: Array) -> Array:
        """The same without rounding, of a vector or of each column of a matrix."""
        rows, free, mapped = self.coordinates.rows, list(self.plan.unbounded), weights.copy()
        if self.plan.preprocessing.intercept:
            mapped[-1] -= np.delete(rows.centre, free) @ np.delete(weights, free, axis=0)
        mapped[free] = (mapped[free].T * rows.reach[free]).T
        return mapped

    def preprocessing(self) -> Preprocessing:
        """The public preprocessing with the paid clamp of every column that had none."""
        rows, public = self.coordinates.rows, self.plan.preprocessing
        centre, scale = np.array(public.centre), np.array(public.scale)
        free = list(self.plan.unbounded)
        centre[free] += scale[free] * rows.centre[free]
        scale[free] *= rows.scale[free] * rows.reach[free]
        return replace(public, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()), reach=(), imputes=True)
