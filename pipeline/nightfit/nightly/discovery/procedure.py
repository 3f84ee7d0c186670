"""The queries of a discovery, their noise and their thresholds, from public facts. Imports privacy, queries and planning."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from scipy.special import ndtri

from nightfit.ledger import Policy
from nightfit.methods.procedure import Outcome, Progress
from nightfit.planning.plan import ROUND_DOWN, PlanError
from nightfit.planning.specification import Budget
from nightfit.privacy.accounting import UNIT, Currency
from nightfit.privacy.events import Event, ThresholdedEvent
from nightfit.privacy.gate import Gate
from nightfit.queries.base import bits_for
from nightfit.queries.level_counts import LevelCounts
from nightfit.types import Adjacency

LEVELS_OF_A_PERSON = 4  # by default: of wards or diagnoses, few persons have more, and the noise grows with the root of it
LIFETIME_SHARE = Fraction(1, 256)  # of the mass of a lifetime budget: a threshold of 8 standard deviations instead of 7 costs little
ROUND_UP = 1 + 1e-12


@dataclass(frozen=True, kw_only=True, slots=True)
class Discovery:
    """One count of levels for each column, all with the same noise. A `Procedure` that fits nothing."""

    engine: ClassVar[str] = "discovery"
    passes: ClassVar[int] = 1
    private: ClassVar[bool] = True
    prediction: ClassVar[None] = None
    asked: tuple[tuple[LevelCounts, ThresholdedEvent], ...]

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(event for _, event in self.asked)

    def describe(self) -> dict[str, Any]:
        columns = {query.column: {"at_most": query.most, "per_unit": query.per_unit, "bits": query.bits} for query, _ in self.asked}
        return {"engine": self.engine, "columns": columns}

    def explain(self) -> list[str]:
        return [
            f"  {query.column}: at most {query.most} levels, each told if about {event.threshold / event.contribution:,.0f} units have it "
            f"(noise {event.sigma / event.contribution:.3g}; a unit counts in at most {query.per_unit})"
            for query, event in self.asked
        ]

    def coefficient_noise(self) -> None:
        return None

    def told(self, gate: Gate, count: Callable[[LevelCounts], Mapping[str, int]]) -> dict[str, tuple[str, ...]]:
        """The levels of each column, through the gate."""
        return {query.column: gate.discover(event.label, query, count) for query, event in self.asked}

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        raise NotImplementedError("a discovery fits no model: ask `told`")


def planned(columns: Mapping[str, tuple[int, int]], budget: Budget, units: int, most: int, policy: Policy | None) -> Discovery:
    """The discovery of `columns`, each with how many levels it tells at most and in how many a unit counts, among `units`; sums hold
    `most`.

    All columns together cost at most the budget. Each pays the same share of the amount; of the mass no more than a small part of a
    lifetime's, so that discoveries can be repeated.

    Raises
    ------
    PlanError
        If no level could be told: the threshold is above the number of units.
    """
    mu = math.sqrt(budget.mu_squared() / len(columns)) * ROUND_DOWN
    mass = budget.ceiling().mass if policy is None else min(budget.ceiling().mass, int(policy.limit().mass * LIFETIME_SHARE))
    each = float(mass * UNIT) / (4 * len(columns))  # half for thresholds, twice that where a unit may change its bucket
    if budget.currency is Currency.ZCDP:
        each /= 1 + math.exp(max(budget.epsilon, 0.0 if policy is None else policy.epsilon))
    asked = []
    for column, (told, per_unit) in columns.items():
        query = LevelCounts(column=column, per_unit=per_unit, most=told, bits=bits_for(most))
        asked.append((query, _event(query, f"levels of {column}", budget.adjacency, mu, each)))
    worst = max(event.threshold / event.contribution for _, event in asked)
    if worst > units:
        raise PlanError(
            f"privacy.discover: a level would be told only if {worst:,.0f} units had it, and there are {units:,}: allow a larger epsilon, "
            "discover fewer columns, or list the levels that are publicly known"
        )
    return Discovery(asked=tuple(asked))


def _event(query: LevelCounts, label: str, adjacency: Adjacency, mu: float, mass: float) -> ThresholdedEvent:
    """Noise of sensitivity / mu, and the threshold at which `told_mass` is at most this mass."""
    sensitivity = query.sensitivity(adjacency)
    sigma = sensitivity / mu * ROUND_UP
    deviations = -float(ndtri(mass / query.per_unit))
    return ThresholdedEvent(
        label=label,
        sensitivity=sensitivity,
        sigma=sigma,
        threshold=query.contribution + math.ceil(deviations * sigma * (1 + 1e-9)),
        contribution=query.contribution,
        coordinates=query.coordinates,
        most=query.most,
        adjacency=adjacency,
        removal=query.sensitivity(Adjacency.ADD_REMOVE),
    )
