"""`auto`: its queries are fixed in advance, their bounds come from paid answers. Imports descent, finish, prediction and below."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from nightfit.methods.auto.class_descent import ClassDescent
from nightfit.methods.auto.constants.budget import PRESENT_SHARE
from nightfit.methods.auto.descent import Descent
from nightfit.methods.auto.finish import finish
from nightfit.methods.auto.log_mean_descent import LogMeanDescent
from nightfit.methods.auto.prediction import Prediction, predicted, remedies
from nightfit.methods.auto.previous_weights import previous_weights
from nightfit.methods.auto.quantile_descent import QuantileDescent
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.query_templates import kind_of
from nightfit.methods.auto.shared_rows import PRESENT, RowQueries, of_own_records
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates, find_coordinates
from nightfit.methods.procedure import Outcome, Progress
from nightfit.methods.warm_start import Previous
from nightfit.numerics.linear_algebra import one_thread
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Estimand

PURPOSES = {
    "scales": "the scale of each column",
    "hidden scales": "the scale of the columns that the first query did not show",
    "means": "the mean of each column",
    "spreads": "the spread of each column about its mean",
    "norms": "the norms of rows",
    "present": "the share of records that have a target",
    "moment": "the second moment of rows",
    "whitened norms": "the norms of whitened rows",
    "whitened moment": "the second moment of whitened rows",
    "signed residuals": "the distribution of residuals",
    "residuals": "the distribution of residual magnitudes",
    "target": "the mean of the target",
    "calibration": "the level and scale of predictions",
}
"""What each kind of query is for, as a plan prints it."""

DESCENTS: dict[Estimand | None, type[Descent]] = {
    Estimand.LOG_MEAN: LogMeanDescent,
    Estimand.LOG_MEAN_OF_RATIOS: LogMeanDescent,
    Estimand.QUANTILE: QuantileDescent,
}
"""How steps are taken, by what the loss estimates; the others as for numbers and labels."""


@dataclass(frozen=True, kw_only=True)
class AutoFit(QueryPlan):
    """Scales, means and second moments, then Newton steps on a clipped loss; every bound is read from an answer paid before.

    Parameters
    ----------
    start : Previous or None
        The previous model that steps begin at and shrink towards.
    shares_rows : bool
        Whether another run pays for the queries about rows, once for all models of these columns.
    coordinates : WhitenedCoordinates or None
        What these queries came to, where that was found for all models at once; it is no part of the plan. Without it their stored answers
        are asked for.
    """

    engine: ClassVar[str] = "auto"
    start: Previous | None = None
    shares_rows: bool = False
    coordinates: WhitenedCoordinates | None = field(default=None, compare=False, repr=False)

    @property
    def gradients_carry_moment(self) -> bool:
        """Not where the second moment is shared: to ask for it with each gradient would cost no privacy, and most of a model's time."""
        return self.several_classes if self.shares_rows else super().gradients_carry_moment

    @property
    def row_shares(self) -> dict[str, float]:
        """Where queries about rows are shared, they are the same for every model; each asks how many records have its target."""
        if not self.shares_rows:
            return super().row_shares
        return {**RowQueries.of(self).shares, PRESENT: PRESENT_SHARE if self.preprocessing.intercept else 0.0}

    @property
    def shared_rows(self) -> RowQueries | None:
        """The queries that another run pays for."""
        return RowQueries.of(self) if self.shares_rows else None

    @property
    def passes(self) -> int:
        return len(self.events)

    @property
    def private(self) -> bool:
        return True

    def coefficient_noise(self) -> float | None:
        return None

    def describe(self) -> dict[str, Any]:
        shared = {} if self.shared_rows is None else {"shared": list(self.shared_rows.shares)}
        return {"method": "auto", "tuning": asdict(self.tuning), "steps": self.steps, **shared}

    def explain(self) -> list[str]:
        gradients = sum(share for label, share in self.shares.items() if kind_of(label) == "gradient")
        first = self.gradients_with_moment
        which = {0: "", 1: ", the first", self.steps: ", each"}.get(first, f", the first {first}")
        along = f"{which} with the second moment of whitened rows" if first else ""
        return [
            f"Automatic: {len(self.events)} queries; answers paid earlier set the bounds of later ones.",
            *(
                f"  {label}: {share:.1%} of the budget, {PURPOSES[kind_of(label)]}"
                for label, share in self.shares.items()
                if kind_of(label) in PURPOSES
            ),
            f"  {self.steps} gradients{along}: {gradients:.1%} of the budget.",
            *(
                []
                if self.shared_rows is None
                else [f"  {self.shared_rows.spent:.1%} of the budget is paid once for all models of the night."]
            ),
            *self.expected_noise(),
        ]

    @property
    def prediction(self) -> Prediction:
        return predicted(self)

    def expected_noise(self) -> list[str]:
        """The expected noise in words and, where it is large, what would make it small."""
        if not self.prediction.large:
            return [self.prediction.explain()]
        return [
            self.prediction.explain(),
            "Warning: noise hides all but strong effects, and slopes that look like noise are shrunk. "
            f"{' or '.join(remedies(self)).capitalize()} would help{'; public bounds help a little' if self.unbounded else ''}.",
        ]

    @one_thread()
    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        rows = self.shared_rows
        found = self.coordinates or find_coordinates(self if rows is None else rows, gate)
        coordinates = found if rows is None else of_own_records(found, self, gate)
        if self.several_classes:
            return ClassDescent(plan=self, gate=gate, coordinates=coordinates).run(show)
        start = previous_weights(self.start, self.preprocessing, coordinates)
        return finish(self, DESCENTS.get(self.loss.estimand, Descent)(plan=self, gate=gate, coordinates=coordinates, start=start).run(show))
