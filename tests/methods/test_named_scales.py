"""A named method pays for scales and residuals, and asks for all that it reserved: a query that is never asked leaves a paid run open."""

from dataclasses import dataclass

import numpy as np
import pytest

from nightfit.planning.plan import make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.privacy.account import InMemoryAccount, by_label
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import SeededNoise
from nightfit.problem.losses import Loss
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.queries.base import Query
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.types import Block, Integers

WILD = [np.zeros((40, 3)), np.full((40, 3), np.nan), np.random.default_rng(0).standard_cauchy((40, 3)) * 1e200]


@dataclass
class Held:
    block: Block

    def aggregate(self, query: Query) -> Integers:
        return query.chunk(self.block)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=["squared", "logistic"])
def test_a_named_method_asks_exactly_its_events_whatever_the_data_are(loss: Loss, steps: int) -> None:
    labels = loss.target is Target.LABELS
    shape = Preprocessing(
        features=("a", "b", "c"), target="y", centre=(0.0,) * 3, scale=(1.0,) * 3, intercept=True, target_domain=loss.target
    )
    method = Method(solver="proximal_gradient", mean="coordinate", steps=steps)
    budget = Budget(epsilon=1.0, delta=1e-6)
    said = Specification(name="m", data_set="d", preprocessing=shape, budget=budget, loss=loss, penalty=penalty_of({}), method=method)
    plan = make(said, 40)
    for X in WILD:
        target = np.where(np.arange(40) % 2, 1.0, 0.0) if labels else X[:, 0]
        account = InMemoryAccount(events=by_label(plan.events), secret=bytes(32))
        records, noise = Held(shape.block(X, target)), SeededNoise(np.random.default_rng(1))
        outcome = plan.procedure.run(Gate(account=account, records=records, noise=noise), lambda _: None)  # type: ignore[arg-type]
        assert account.answers.keys() == account.events.keys()
        assert np.isfinite(outcome.weights).all()
