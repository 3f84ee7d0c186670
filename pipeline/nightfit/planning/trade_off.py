"""The error and the number of refits to expect at each epsilon, from public facts. Imports plan."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nightfit.methods.procedure import ExpectedNoise
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import Specification
from nightfit.privacy.accounting import Cost

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TradeOff:
    """What an epsilon buys.

    Parameters
    ----------
    epsilon : float
        The epsilon of one refit.
    prediction : ExpectedNoise, optional
        The noise to expect in predictions, if the method can tell it.
    noise : float, optional
        Standard deviation of the noise in a scaled coefficient, if it does not depend on the data.
    refits : int, optional
        Number of such refits that the lifetime budget holds, if there is one.
    """

    epsilon: float
    prediction: ExpectedNoise | None
    noise: float | None
    refits: int | None

    @property
    def expected(self) -> float | None:
        """The noise of predictions to expect, or of a coefficient; None if neither is known."""
        return self.noise if self.prediction is None else self.prediction.error


def swept(spec: Specification, units: int, limit: Cost | None) -> Iterator[TradeOff]:
    """The trade-off at each of EPSILONS and at the specification's own; an epsilon that cannot be planned is left out."""
    for epsilon in sorted({*EPSILONS, spec.budget.epsilon}):
        try:
            plan = make(replace(spec, budget=replace(spec.budget, epsilon=epsilon)), units)
        except PlanError:
            continue
        cost = plan.cost
        yield TradeOff(
            epsilon=epsilon,
            prediction=plan.procedure.prediction,
            noise=plan.procedure.coefficient_noise(),
            refits=None if limit is None or not cost.amount else limit.amount // cost.amount,
        )
