"""One fit by `auto` on arrays, with seeded noise and no ledger: for measuring, never for release."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.auto.screening import automatic
from nightfit.methods.auto.tuning import Tuning
from nightfit.methods.procedure import Outcome
from nightfit.methods.warm_start import Previous
from nightfit.privacy.accounting import UNIT, Currency, limit
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import SeededNoise
from nightfit.problem.losses import Loss
from nightfit.problem.penalties import Penalty
from nightfit.problem.penalties.none import NoPenalty
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.shards.arrays import ArrayRecords
from nightfit.types import Adjacency, Array, Integers


@dataclass
class Memory:
    """An account that keeps answers and pays nothing."""

    events: dict[str, Event]
    key: bytes = bytes(16)
    stored: dict[str, Integers] = field(default_factory=dict)

    def asked(self, event: Event) -> Integers | None:
        return self.stored.get(event.label)

    def answered(self, event: Event, answer: Integers) -> None:
        self.stored[event.label] = answer


@dataclass(frozen=True, kw_only=True)
class Fitted:
    outcome: Outcome
    preprocessing: Preprocessing

    def predict(self, X: Array) -> Array:
        return self.preprocessing.features_of(X)[0] @ self.outcome.weights


def unbounded(features: int, *, intercept: bool = True, target: Target = Target.REAL) -> Preprocessing:
    """Columns of which nothing is known."""
    return Preprocessing(
        features=tuple(f"x{j}" for j in range(features)),
        target="y",
        centre=(0.0,) * features,
        scale=(1.0,) * features,
        reach=(math.inf,) * features,
        intercept=intercept,
        target_domain=target,
    )


def auto_of(
    preprocessing: Preprocessing, units: int, loss: Loss, epsilon: float, tuning: Tuning, penalty: Penalty, delta: float = 1e-6
) -> AutoFit:
    return AutoFit(
        loss=loss,
        penalty=penalty,
        preprocessing=preprocessing,
        units=units,
        adjacency=Adjacency.REPLACE_ONE,
        mu_squared=float(limit(epsilon, delta, Currency.GAUSSIAN).amount * UNIT),
        largest_units=units,
        tuning=tuning,
    )


def fitted(
    X: Array,
    y: Array,
    loss: Loss,
    epsilon: float,
    seed: int,
    *,
    tuning: Tuning | None = None,
    penalty: Penalty | None = None,
    preprocessing: Preprocessing | None = None,
    start: Previous | None = None,
) -> Fitted:
    shape = preprocessing or unbounded(X.shape[1], target=loss.target)
    plan = automatic(replace(auto_of(shape, len(y), loss, epsilon, tuning or Tuning(), penalty or NoPenalty()), start=start))
    account = Memory({event.label: event for event in plan.events})
    gate = Gate(account=account, records=ArrayRecords(X, y, shape), noise=SeededNoise(np.random.default_rng(seed)))
    outcome = plan.run(gate, lambda _: None)
    return Fitted(outcome=outcome, preprocessing=outcome.preprocessing or shape)
