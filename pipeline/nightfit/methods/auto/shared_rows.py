"""The queries of `auto` about rows alone, asked once for every model of the same columns. Imports whitened_coordinates and below.

They need no target, so a record counts in them whatever its targets are. A model takes their answers, and asks by itself only how many
records have its own target.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from nightfit.methods.auto.complete_rows import believed_share, counted_share
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.methods.procedure import Outcome, Progress
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.none import NoPenalty
from nightfit.queries.magnitudes import Norm
from nightfit.queries.parts import draw_within
from nightfit.records.outcomes import AS_IT_IS
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import ANYWHERE, Target
from nightfit.types import Part

PRESENT = "present"  # the label of the query for records that have the model's target


@dataclass(frozen=True, kw_only=True)
class RowQueries(QueryPlan):
    """What `auto` asks about rows, with the shares that each model gives to it. A `Procedure` that fits nothing.

    Guarantee: `events` is a function of the fields alone, and no field depends on a target, so models of the same columns, units and budget
    have the same. Broken by test_models_of_the_same_columns_share_the_same_queries_about_rows.

    Parameters
    ----------
    part : Part or None
        The units that are fitted on; None for all.
    """

    engine: ClassVar[str] = "auto"
    private: ClassVar[bool] = True
    prediction: ClassVar[None] = None
    part: Part | None = None

    @classmethod
    def of(cls, fit: QueryPlan, part: Part | None = None) -> "RowQueries":
        """Those of a fit."""
        return cls(
            loss=Squared(),
            penalty=NoPenalty(),
            preprocessing=without_target(fit.preprocessing),
            units=fit.units,
            adjacency=fit.adjacency,
            mu_squared=fit.mu_squared,
            largest_units=fit.largest_units,
            tuning=fit.tuning,
            part=part,
        )

    @property
    def gradients_carry_moment(self) -> bool:
        """No: the second moment of whitened rows is asked once, for all models."""
        return False

    @cached_property
    def shares(self) -> dict[str, float]:
        return {label: share for label, share in self.row_shares.items() if share > 0}

    @property
    def spent(self) -> float:
        """Their share of a model's budget."""
        return sum(self.shares.values())

    @cached_property
    def events(self) -> tuple[GaussianEvent, ...]:
        if self.part is None:
            return super().events
        return tuple(replace(event, draw=draw_within(self.part, event.draw)) for event in super().events)

    @property
    def passes(self) -> int:
        return len(self.shares)

    def coefficient_noise(self) -> None:
        return None

    def describe(self) -> dict[str, Any]:
        return {"method": "auto", "queries": "rows"}

    def explain(self) -> list[str]:
        return [f"Queries about rows: {', '.join(self.shares)}; {self.spent:.1%} of the budget of one model, paid once."]

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        raise NotImplementedError("queries about rows fit no model: ask `find_coordinates`")


def without_target(shape: Preprocessing) -> Preprocessing:
    """The same rows, whatever their targets are."""
    return replace(
        shape,
        target=None,
        target_centre=0.0,
        target_scale=1.0,
        target_reach=ANYWHERE,
        target_domain=Target.REAL,
        outcome=AS_IT_IS,
    )


def of_own_records(found: WhitenedCoordinates, plan: QueryPlan, gate: Gate) -> WhitenedCoordinates:
    """Coordinates that were found for all rows, for the rows that have the model's target.

    The second moment of rows, divided by all records, is taken to be as much smaller for these as there are fewer of them.
    """
    if PRESENT not in plan.shares:
        return found
    counts, deviation = plan.ask(gate, PRESENT, measure=Norm(rows=found.rows)), plan.deviation(PRESENT)
    used = counted_share(counts, deviation, found.rows, plan.units)
    complete = min(believed_share(used.share, used.deviation), found.complete)
    ratio = complete / found.complete
    return replace(found, complete=complete, used_share=used, moment=found.moment * ratio, moment_noise=found.moment_noise * ratio)
