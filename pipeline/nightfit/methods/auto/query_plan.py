"""The queries of `auto`, fixed in advance by public facts, and how they are asked. Imports gate, query_templates and below."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from nightfit.methods.auto.complete_rows import believed_share, counted_share
from nightfit.methods.auto.constants.budget import FINE_GRID_SHARE, GRID_VISIBILITY, NOISE_BITS
from nightfit.methods.auto.constants.histograms import LOWER_SIGNIFICANCE_MARGIN, SIGNIFICANCE_MARGIN
from nightfit.methods.auto.distributions import MagnitudeDistribution, SignedDistribution
from nightfit.methods.auto.query_templates import template
from nightfit.methods.auto.shares import BudgetShares
from nightfit.methods.procedure import UsedShare
from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.queries.base import LEAST_BITS, SumQuery
from nightfit.queries.magnitudes import (
    NORM_GRID,
    OCTAVE_RESIDUAL_GRID,
    RESIDUAL_GRID,
    TWO_OCTAVE_RESIDUAL_GRID,
    LogGrid,
    Norm,
    Residual,
    SignedResidual,
)
from nightfit.queries.rows import Rotation, Rows
from nightfit.queries.second_moments import DIAGONAL, OTHERS, matrix_of
from nightfit.queries.whitened_gradients import outputs_of
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Gradient:
    """A paid mean gradient and the standard deviation of its noise; and, if they came with it, the second moments of the rows and of the
    residuals, and the standard deviations of the noise on their diagonals.
    """

    mean: Array
    deviation: float
    moment: Array | None = None
    moment_noise: float = math.inf
    residuals: Array | None = None
    residual_noise: float = math.inf


class QueryPlan(BudgetShares):
    """Which queries are asked, with which share of the budget and which noise.

    Guarantee: `events` is a function of the fields alone. A query's sensitivity in steps does not depend on the bounds that earlier
    answers set (they scale its grid), so a run asks exactly what was reserved, whatever the answers are, and the gate refuses anything
    else. Broken by test_auto_asks_exactly_its_events_whatever_the_data_are.
    """

    @cached_property
    def events(self) -> tuple[GaussianEvent, ...]:
        """The event of every query, in order."""
        return tuple(
            gaussian_event(query, self.prefix + label, self.adjacency, self.noise_multiplier(label))
            for label, query in self.templates.items()
        )

    @cached_property
    def templates(self) -> dict[str, SumQuery]:
        """Every query with bounds of one, in order."""
        return {label: self._with_room_for_noise(label, template(self, label, self.residual_grid(label))) for label in self.shares}

    def noise_multiplier(self, label: str) -> float:
        """sigma in sensitivities: 1 / mu_i with mu_i^2 = share mu^2."""
        return 1 / math.sqrt(self.mu_squared * self.shares[label])

    def residual_grid(self, label: str) -> LogGrid:
        """The bins of a histogram of residuals: half octaves. Before the calibration one octave where half octaves would not show a bin of
        1% of the records, and two octaves where noise hides most slopes too: amounts of the few who have any spread over many bins.
        """
        shown = GRID_VISIBILITY * math.sqrt(self.adjacency.contributions_changed) * self.noise_multiplier(label) / self.units
        if label != f"signed residuals {self.residual_queries}" or shown <= FINE_GRID_SHARE:
            return RESIDUAL_GRID
        return TWO_OCTAVE_RESIDUAL_GRID if self.hopeless else OCTAVE_RESIDUAL_GRID

    def _with_room_for_noise(self, label: str, query: Any) -> SumQuery:
        """The query on a grid coarse enough for its noise to stay inside 64 bits."""
        bits = query.bits
        while query.sensitivity(self.adjacency) * self.noise_multiplier(label) > 2.0**NOISE_BITS:
            bits -= 1
            if bits < LEAST_BITS:
                raise ValueError("so much noise does not fit in 64 bits; choose fewer columns or a larger epsilon")
            query = replace(query, bits=bits)
        coarse: SumQuery = query
        return coarse

    def ask(self, gate: Gate, label: str, **bounds: Any) -> Array:
        """The answer to a query whose bounds are now known, divided by its divisor."""
        query: Any = replace(self.templates[label], **bounds)  # type: ignore[type-var]
        return gate.ask(self.prefix + label, query) / query.divisor(self.units)

    def deviation(self, label: str, **bounds: Any) -> float:
        """The standard deviation of an answer's noise: public, given the bounds."""
        query: Any = replace(self.templates[label], **bounds)  # type: ignore[type-var]
        sigma = next(event.sigma for event in self.events if event.label == self.prefix + label)
        return float(sigma * query.grid / query.divisor(self.units))

    def gradient(
        self, gate: Gate, label: str, *, rows: Rows, rotation: Rotation, loss: Loss, weights: Array, clip: float, cap: float
    ) -> Gradient:
        """The mean gradient of whitened rows of norm `cap` at most, with the second moment if it comes along."""
        bounds = {"clip": clip, "cap": math.sqrt(2) * cap if self.brings_moment(label) else cap}
        noise = self.deviation(label, **bounds)
        answer = self.ask(gate, label, rows=rows, rotation=rotation, loss=loss, weights=weights, **bounds)
        if not self.brings_moment(label):
            return Gradient(mean=answer, deviation=noise)
        d, unit = self.columns, clip / cap
        M = matrix_of(answer, d + outputs_of(weights))
        return Gradient(
            mean=(M[:d, d:] if weights.ndim > 1 else M[:d, d]) * unit,
            deviation=noise / OTHERS * unit,
            moment=M[:d, :d],
            moment_noise=noise / DIAGONAL,
            residuals=M[d:, d:] * unit**2,
            residual_noise=noise / DIAGONAL * unit**2,
        )

    def norms(self, gate: Gate, rows: Rows) -> tuple[MagnitudeDistribution | None, float, UsedShare | None]:
        """The paid distribution of the norms of scaled rows (None if noise hides it), and the share of rows that are not null, as it is
        believed and as it was answered: one and None where there is no intercept, because then nothing depends on it.
        """
        counts, deviation = self.ask(gate, "norms", measure=Norm(rows=rows)), self.deviation("norms")
        used = counted_share(counts, deviation, rows, self.units) if self.preprocessing.intercept else None
        complete = 1.0 if used is None else believed_share(used.share, used.deviation)
        return MagnitudeDistribution.of(counts, NORM_GRID, deviation, self.units * complete), complete, used

    def distribution(self, gate: Gate, label: str, measure: Norm | Residual, complete: float) -> MagnitudeDistribution | None:
        """The paid distribution of a row's norm or of a residual's magnitude; None if noise hides it. Only complete rows count."""
        grid = self.residual_grid(label) if isinstance(measure, Residual) else NORM_GRID
        return MagnitudeDistribution.of(self.ask(gate, label, measure=measure), grid, self.deviation(label), self.units * complete)

    def signed_distribution(self, gate: Gate, label: str, measure: SignedResidual, complete: float = 1.0) -> SignedDistribution | None:
        """The paid distribution of a residual, with its sign; None if noise hides it.

        Where noise hides most slopes, the level is all there is to find, and bins before the calibration are read with less caution.
        """
        grid, answer = self.residual_grid(label), self.ask(gate, label, measure=measure)
        margin = LOWER_SIGNIFICANCE_MARGIN if grid == TWO_OCTAVE_RESIDUAL_GRID else SIGNIFICANCE_MARGIN
        found = SignedDistribution.of(answer, grid, self.deviation(label), self.units * complete, margin)
        return found.smoothed(round(grid.step / RESIDUAL_GRID.step)) if found else None
