"""Scales, curvature and residuals for a named method, by the queries of `auto`. Imports residuals, weight_maps and below."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from nightfit.methods.auto import thresholds
from nightfit.methods.auto.column_scales import find_rows
from nightfit.methods.auto.constants.named import MOMENT_SHARE, NORM_QUANTILE, RESIDUAL_SHARE
from nightfit.methods.auto.constants.steps import LEAST_SIGNAL, SIGNAL_QUANTILE, UNKNOWN_SIGNAL
from nightfit.methods.auto.distributions import MagnitudeDistribution
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.residuals import ResidualQueries
from nightfit.methods.auto.weight_maps import WeightMaps
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.methods.procedure import PaidShare, UsedShare
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Estimand
from nightfit.queries.rows import Rotation, Rows
from nightfit.queries.second_moments import matrix_of
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class NamedScales(QueryPlan):
    """The queries of `auto` about rows and targets, for a method that takes its own steps.

    All columns are asked for, with public bounds or without: a public range is a clamp, and says nothing about a column's size.

    Parameters
    ----------
    histograms : int
        How often residuals are asked for while the method descends; none for labels, whose residuals are at most one.
    curvature : float or None
        What was stated; then it is not asked for.
    asks_curvature : bool
        Whether a step size depends on it that was not stated.

    Guarantee: that of QueryPlan: `events` is a function of the fields alone. Broken by
    test_a_named_method_asks_exactly_its_events_whatever_the_data_are.
    """

    histograms: int
    curvature: float | None = None
    asks_curvature: bool = True

    @property
    def unbounded(self) -> tuple[int, ...]:
        return tuple(range(self.features))

    @cached_property
    def shares(self) -> dict[str, float]:
        """Each query's share of mu^2; what they leave is the method's."""
        asked = self.row_shares
        shares = {label: asked[label] for label in ("scales", "means", "spreads", "norms")}
        shares["moment"] = MOMENT_SHARE if self.asks_curvature else 0.0
        if not self.labels:
            shares["signed residuals 1"] = RESIDUAL_SHARE
        if self.preprocessing.intercept:
            shares["target"] = self.tuning.least_target
        shares |= {f"residuals {place + 2}": RESIDUAL_SHARE for place in range(self.histograms)}
        return {label: share for label, share in shares.items() if share > 0}

    @property
    def spent(self) -> float:
        return sum(self.shares.values())

    @property
    def residual_queries(self) -> int:
        return self.histograms + 1

    @property
    def calibrates(self) -> bool:
        return False

    def describe(self) -> dict[str, Any]:
        return {"scales": {"shares": dict(self.shares)}}

    def explain(self) -> list[str]:
        curvature = "" if self.curvature is None else f"; the curvature {self.curvature:.4g} is stated"
        return [
            f"First {len(self.shares)} queries, {self.spent:.1%} of the budget, find the scale and centre of each column"
            f"{', the curvature' if self.asks_curvature else ''} and the size of residuals{curvature}. Bounds are in sizes of residuals "
            "of scaled columns, step sizes in 1 / curvature."
        ]

    def find(self, gate: Gate) -> "PaidScales":
        rows = find_rows(self, gate)
        norms, complete, used = self.norms(gate, rows)
        cap = norms.quantile(NORM_QUANTILE) if norms else math.sqrt(self.columns)
        M = np.eye(self.columns) if not self.asks_curvature else matrix_of(self.ask(gate, "moment", rows=rows, cap=cap), self.columns)
        maps = WeightMaps(plan=self, coordinates=replace(self._coordinates(rows, cap, M, complete), used_share=used))
        queries, v = ResidualQueries(plan=self, gate=gate, maps=maps, loss=self.loss), np.zeros(self.columns)
        targets = None if self.labels else queries.signed(1, v)
        v, mean = queries.target_mean(v, targets)
        level = float(v[-1]) if self.preprocessing.intercept and self.loss.scalable else 0.0
        return PaidScales(
            plan=self,
            queries=queries,
            rows=replace(rows, level=level),
            curvature=self.curvature or float(np.linalg.eigvalsh(M)[-1]),
            norm=cap,
            used=used,
            labels=mean.label_share(self.loss, np.zeros(self.columns), maps.coordinates) if mean else (),
            start=np.r_[v[:-1], v[-1] - level] if len(v) else v,
            known=[] if targets is None else [targets.magnitudes],
        )

    def _coordinates(self, rows: Rows, cap: float, M: Array, complete: float) -> WhitenedCoordinates:
        """Scaled rows themselves: nothing is rotated."""
        intercept = self.preprocessing.intercept
        return WhitenedCoordinates(
            rows=rows,
            rotation=Rotation.of(np.eye(self.columns)),
            cap=cap,
            variances=M.diagonal()[: self.features],
            free=(self.columns - 1,) if intercept else (),
            moment=M,
            moment_noise=math.inf,
            complete=complete,
        )


@dataclass(frozen=True, kw_only=True)
class PaidScales:
    """What `NamedScales` found.

    Parameters
    ----------
    rows, curvature, norm, used, labels, start
        See `methods.scales.FoundScales`.
    known : list of MagnitudeDistribution
        The residuals as they were paid for so far.
    """

    plan: NamedScales
    queries: ResidualQueries
    rows: Rows
    curvature: float
    norm: float
    used: UsedShare | None
    labels: tuple[PaidShare, ...]
    start: Array
    known: list[MagnitudeDistribution] = field(default_factory=list)

    def clip(self, place: int, weights: Array, noise: float) -> float:
        """Bias against noise, as in a step of `auto` (thresholds); one for labels, the largest residual that they have."""
        plan = self.plan
        if plan.labels:
            return 1.0
        at = weights + np.r_[np.zeros(plan.columns - 1), self.rows.level]
        fresh = self.queries.magnitudes(place + 2, at) if place < plan.histograms else None
        if fresh:
            self.known.append(fresh.residuals)
        if not self.known:
            return self.queries.hidden_clip
        residuals, columns = self.known[-1], plan.columns
        if math.isnan(noise):  # as if one sum of all rows had what is left of the budget
            left = math.sqrt(plan.mu_squared * (1 - plan.spent))
            noise = plan.adjacency.contributions_changed * math.sqrt(columns) / (plan.units * left)
        if plan.loss.estimand is Estimand.MEDIAN:
            return thresholds.for_medians(residuals, plan.units, noise, math.inf)
        variance = float(residuals.squares(residuals.quantile(SIGNAL_QUANTILE) * np.ones(1))[0])
        moved = weights - self.start
        signal = float(moved @ self.queries.maps.coordinates.moment @ moved) if len(self.known) > 1 else UNKNOWN_SIGNAL * variance
        return thresholds.for_means(residuals, plan.units, columns, noise, max(signal, LEAST_SIGNAL * variance), 1.0, math.inf)

    def released(self, weights: Array) -> Array:
        moved = weights.copy()
        moved[-1] += self.rows.level
        return self.queries.maps.in_columns(moved)

    def scaled(self, weights: Array) -> Array:
        """w_j scale_j; what the centres add goes into the intercept."""
        rows, features = self.rows, self.plan.features
        moved = weights * rows.scale
        if self.plan.preprocessing.intercept:
            moved[-1] += float(rows.centre[:features] @ weights[:features]) - rows.level
        return moved

    def preprocessing(self) -> Preprocessing:
        return self.queries.maps.preprocessing()
