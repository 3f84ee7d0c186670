"""The trade-off between privacy and accuracy, from public facts: what each epsilon would buy. Imports plan, sheet."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nightfit.methods.auto.prediction import Prediction
from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.auto.screening import ScreenedAutoFit
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import Specification
from nightfit.privacy.accounting import Cost

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """What an epsilon buys: the expected error of the automatic method, or the noise of a coefficient by another; and how many such
    refits the whole lifetime budget holds, if it is known.
    """

    epsilon: float
    prediction: Prediction | None
    noise: float | None
    refits: int | None

    @property
    def range(self) -> tuple[float, float] | None:
        if self.prediction is not None:
            return self.prediction.low, self.prediction.high
        return None if self.noise is None else (self.noise, self.noise)


def swept(said: Specification, units: int, limit: Cost | None) -> Iterator[Point]:
    """The plan at each epsilon, its own among them; an epsilon that cannot be planned is left out."""
    for epsilon in sorted({*EPSILONS, said.budget.epsilon}):
        try:
            plan = make(replace(said, budget=replace(said.budget, epsilon=epsilon)), units)
        except PlanError:
            continue
        cost = plan.cost
        yield Point(
            epsilon=epsilon,
            prediction=plan.procedure.prediction if isinstance(plan.procedure, AutoFit | ScreenedAutoFit) else None,
            noise=plan.procedure.coefficient_noise(),
            refits=None if limit is None or not cost.amount else limit.amount // cost.amount,
        )
