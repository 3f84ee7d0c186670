"""The error and the number of refits to expect at each epsilon, from public facts. Imports plan."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nightfit.methods.procedure import PredictedError
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
    prediction : PredictedError, optional
        The error to expect, if the method can predict it.
    noise : float, optional
        Standard deviation of the noise in a scaled coefficient, if it does not depend on the data.
    refits : int, optional
        Number of such refits that the lifetime budget holds, if there is one.
    """

    epsilon: float
    prediction: PredictedError | None
    noise: float | None
    refits: int | None

    @property
    def range(self) -> tuple[float, float] | None:
        """(low, high) of the error to expect, or of the noise; None if neither is known."""
        if self.prediction is not None:
            return self.prediction.low, self.prediction.high
        return None if self.noise is None else (self.noise, self.noise)


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
