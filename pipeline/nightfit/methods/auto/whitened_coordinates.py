"""Coordinates in which rows are centred, scaled and nearly isotropic, from paid answers. Imports column_scales, whitening and below."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nightfit.methods.auto import thresholds
from nightfit.methods.auto.column_scales import find_rows
from nightfit.methods.auto.constants.coordinates import INTERCEPT_CURVATURE
from nightfit.methods.auto.distributions import MagnitudeDistribution
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.whitening import Spectrum, centring, repaired, safe_curvature
from nightfit.methods.procedure import UsedShare
from nightfit.privacy.gate import Gate
from nightfit.queries.magnitudes import Norm
from nightfit.queries.rows import Rotation, Rows
from nightfit.queries.second_moments import DIAGONAL, matrix_of
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class WhitenedCoordinates:
    """How a row is scaled, rotated and capped.

    Parameters
    ----------
    rows : Rows
        Centre, scale and clamp of each column.
    rotation : Rotation
        From the scaled row x to z = A x.
    cap : float
        The bound on the norm of z.
    variances : Array
        Of the scaled row in these directions, without the intercept's.
    free : tuple of int
        The intercept's place among the directions, if there is one.
    moment, moment_noise : Array, float
        The second moment of z as it was answered so far, and the standard deviation of the noise on its diagonal.
        Null records count in it as rows of zeros.
    complete : float
        The share of records that are not null, as it is believed.
    used_share : UsedShare or None
        The same as it was answered, if it was asked.
    """

    rows: Rows
    rotation: Rotation
    cap: float
    variances: Array
    free: tuple[int, ...]
    moment: Array
    moment_noise: float = math.inf
    complete: float = 1.0
    used_share: UsedShare | None = None

    def with_moment(self, moment: Array, noise: float) -> "WhitenedCoordinates":
        """The same with one more answer about the second moment, averaged by its precision."""
        before, now = self.moment_noise**-2, noise**-2
        average = (before * self.moment + now * moment) / (before + now)
        return replace(self, moment=average, moment_noise=(before + now) ** -0.5)

    @cached_property
    def curvature(self) -> Spectrum:
        """The curvature of the squared loss, made safe for steps."""
        low, high = INTERCEPT_CURVATURE
        return safe_curvature(self.moment, self.moment_noise, self.free, (self.complete * low, self.complete * high))

    @property
    def complete_moment(self) -> Array:
        """The second moment of complete rows."""
        return self.moment / self.complete

    def means(self, intercept: int) -> Array:
        """The mean of each other direction, H_1j / H_11, where it is surely not zero."""
        H = self.curvature.matrix
        return H[intercept, : len(self.variances)] / H[intercept, intercept]


def find_coordinates(plan: QueryPlan, gate: Gate) -> WhitenedCoordinates:
    """Ask everything about rows that a fit needs."""
    rows = find_rows(plan, gate)
    norms, complete, used_share = plan.norms(gate, rows)
    A, variances = _whitening(plan, gate, rows, norms, complete)
    rotation = Rotation.of(A)
    cap = _cap(plan, plan.distribution(gate, "whitened norms", Norm(rows=rows, rotation=rotation), complete))
    coordinates = WhitenedCoordinates(
        rows=rows,
        rotation=rotation,
        cap=cap,
        variances=variances,
        free=(plan.columns - 1,) if plan.preprocessing.intercept else (),
        moment=np.zeros_like(A),
        complete=complete,
        used_share=used_share,
    )
    if plan.gradients_carry_moment:
        return coordinates
    moment = matrix_of(plan.ask(gate, "whitened moment", rows=rows, rotation=rotation, cap=cap), plan.columns)
    return coordinates.with_moment(moment, plan.deviation("whitened moment", cap=cap) / DIAGONAL)


def _whitening(plan: QueryPlan, gate: Gate, rows: Rows, norms: MagnitudeDistribution | None, complete: float) -> tuple[Array, Array]:
    """The matrix A that whitens complete scaled rows, and the variances of their directions."""
    cap = norms.quantile(plan.tuning.moment_quantile) if norms else math.sqrt(plan.columns)
    moment = matrix_of(plan.ask(gate, "moment", rows=rows, cap=cap), plan.columns) / complete
    noise = plan.deviation("moment", cap=cap) / DIAGONAL / complete
    if not plan.tuning.whitens:
        inner = moment[: plan.features, : plan.features]
        inner[~np.eye(plan.features, dtype=bool)] = 0.0
    if plan.preprocessing.intercept:
        return centring(moment, noise, plan.tuning.moment_quantile)
    spectrum = repaired(moment, noise)
    return spectrum.inverse_root, spectrum.values


def _cap(plan: QueryPlan, norms: MagnitudeDistribution | None) -> float:
    if norms is None:
        return math.sqrt(plan.columns)
    if plan.tuning.cap_quantile:
        return norms.quantile(plan.tuning.cap_quantile)
    return thresholds.for_norms(norms, plan.slope_noise, 1 / plan.units)
