"""A point of a search's grid and the query that scores its fit. Imports planning, privacy and queries."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nightfit.methods.procedure import Outcome, Progress
from nightfit.planning.plan import Plan
from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import Event, GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.queries.loss_sums import LossSum, Margin
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency

SCORE = "score"


@dataclass(frozen=True, kw_only=True)
class Score:
    """The query that scores a fit by its noisy mean loss over units.

    The loss of a person is the mean of their rows' losses; a unit's loss is clipped to `most`. The noise has a standard deviation of
    `multiplier` sensitivities.
    """

    loss: Loss
    most: float
    multiplier: float
    units: int
    bits: int
    adjacency: Adjacency

    def query(self, outcome: Outcome, shape: Preprocessing) -> LossSum:
        """The loss sum of a fit's weights over records that are preprocessed by `shape`."""
        margin = Margin.of(outcome.weights, outcome.preprocessing or shape, shape)
        return LossSum(loss=self.loss, margin=margin, most=self.most, bits=self.bits)

    def event(self) -> GaussianEvent:
        """What a score costs. The sensitivity does not depend on the weights, so a query without columns has it too."""
        nowhere = np.zeros(0)
        query = LossSum(loss=self.loss, margin=Margin(weights=nowhere, centre=nowhere, scale=nowhere), most=self.most, bits=self.bits)
        return gaussian_event(query, SCORE, self.adjacency, self.multiplier)

    def mean_loss(self, answer: float) -> float:
        """most (1 + answer / units) / 2."""
        return self.most * (1 + answer / self.units) / 2

    @property
    def noise(self) -> float:
        """Standard deviation of the noise in a mean loss."""
        return self.most * self.multiplier * self.adjacency.contributions_changed / (2 * self.units)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A point of the grid: the values that it sets, by their keys in the configuration, the plan of its fit, and its score.

    It is an `Attempt` of the gate.
    """

    values: dict[str, Any]
    plan: Plan
    scored: Score

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The events of the fit and of its score."""
        return (*self.plan.events, self.scored.event())

    def fit(self, gate: Gate, show: Callable[[Progress], None] = lambda _: None) -> tuple[Outcome, float]:
        """The fit and its noisy mean loss."""
        outcome = self.plan.procedure.run(gate, show)
        answer = gate.ask(SCORE, self.scored.query(outcome, self.plan.specification.preprocessing))
        return outcome, self.scored.mean_loss(float(answer[0]))

    def score(self, gate: Gate) -> float:
        """The noisy mean loss. Shows no progress, because an attempt is not released."""
        return self.fit(gate)[1]
