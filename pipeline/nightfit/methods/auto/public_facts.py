"""What `auto` knows before any row is read. Imports privacy, records, problem and below."""

import math
from dataclasses import dataclass, field
from functools import cached_property

from nightfit.methods.auto.constants.budget import MOST_COLUMNS
from nightfit.methods.auto.tuning import Tuning
from nightfit.problem.losses import LOG_MEANS, Estimand, Loss
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties import Penalty
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.types import Adjacency


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """The problem, the number of units and the budget.

    Parameters
    ----------
    loss, penalty : Loss, Penalty
        What is minimised; the penalty is convex.
    preprocessing : Preprocessing
        The columns, and which of them have public bounds.
    units : int
        The public number of units n.
    adjacency : Adjacency
        Which data sets are neighbours.
    mu_squared : float
        The whole budget: the sum of mu^2 over all queries.
    largest_units : int
        An upper bound on the number of units, by which integers are sized.
    tuning : Tuning
        Shares and switches.
    prefix : str
        Stands before the label of every query.

    Raises
    ------
    ValueError
        If there are more than 4,000 columns, or the penalty is not convex.
    """

    loss: Loss
    penalty: Penalty
    preprocessing: Preprocessing
    units: int
    adjacency: Adjacency
    mu_squared: float
    largest_units: int
    tuning: Tuning = field(default_factory=Tuning)
    prefix: str = ""

    def __post_init__(self) -> None:
        if self.columns > MOST_COLUMNS + 1:
            raise ValueError(f"the automatic method takes at most {MOST_COLUMNS} columns, got {self.columns}: name a solver")
        if not self.penalty.convex:
            raise ValueError("the automatic method needs a convex penalty")

    @property
    def columns(self) -> int:
        """The number of columns d, with the intercept's."""
        return self.preprocessing.columns

    @property
    def features(self) -> int:
        """The number of columns without the intercept's."""
        return len(self.preprocessing.features)

    @property
    def labels(self) -> bool:
        """Whether the target is a class label."""
        return self.loss.target in (Target.LABELS, Target.CLASSES)

    @property
    def several_classes(self) -> bool:
        """Whether there is a margin for each contrast between classes."""
        return self.loss.estimand is Estimand.CLASS_LOG_ODDS

    @property
    def residual_loss(self) -> Loss:
        """The loss whose slope is the residual that is asked for: y - z for quantiles and for Huber's, whose bound is paid for."""
        return Squared() if self.loss.estimand in (Estimand.MEDIAN, Estimand.QUANTILE) else self.loss

    @property
    def log_mean(self) -> bool:
        """Whether the logarithm of a mean is linear in the features."""
        return self.loss.estimand in LOG_MEANS

    @cached_property
    def unbounded(self) -> tuple[int, ...]:
        """The features without public bounds."""
        return tuple(j for j, reach in enumerate(self.preprocessing.reach) if not math.isfinite(reach))

    @property
    def level(self) -> float:
        """1 if predictions have an intercept, else 0."""
        return float(self.preprocessing.intercept)

    @property
    def gradients_carry_moment(self) -> bool:
        """Whether each gradient is asked together with the second moment of whitened rows.

        That costs nothing where a gradient may change its sign (replace_one), and as much as the gradient where it may only vanish. The
        gradients of several classes always bring it along, with the second moment of residuals.
        """
        return self.several_classes or self.adjacency.contributions_changed == 2

    @property
    def calibrates(self) -> bool:
        """Whether level and scale are asked for at the end: for means and quantiles, because other losses are defined by their clip."""
        return (self.log_mean or self.loss.estimand in (Estimand.MEAN, Estimand.QUANTILE)) and self.tuning.calibrates
