"""By which loss a fit is judged, and what its metrics are called. Imports problem."""

from dataclasses import dataclass
from typing import cast

from nightfit.problem.losses import LOG_MEANS, Estimand, Loss, QuantileLoss
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.softmax import Softmax
from nightfit.problem.losses.squared import Squared
from nightfit.records.targets import Target

SHARP = 1e-12
"""Width of the smoothing of a quantile's loss when it judges: none that could be seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """How fits of one kind are judged.

    Parameters
    ----------
    loss : Loss
        Its share that a fit explains is the main metric, 1 - E loss / E loss of the best constant.
    main : str
        What that is called: R2 for squares.
    size : str
        What the mean loss is called.
    of_means : bool
        Whether the best constant is the mean.
    labels : bool
        Whether targets are labels, of which the model gives probabilities.
    classes : int
        Of several classes their number.
    of_log_means : bool
        Whether predictions are means of counts or amounts.
    """

    loss: Loss
    main: str
    size: str = ""
    of_means: bool = True
    labels: bool = False
    classes: int = 0
    of_log_means: bool = False

    @property
    def squared(self) -> bool:
        """Whether errors are squared."""
        return self.main == "r2"


def judge_of(loss: Loss) -> Judge | None:
    """The judge of fits by a loss; None where nothing is judged: means of columns, scores that are no probabilities."""
    if loss.estimand is Estimand.COLUMN_MEANS:
        return None
    if loss.estimand is Estimand.CLASS_LOG_ODDS:
        return Judge(loss=loss, main="deviance_explained", size="log_loss", classes=cast(Softmax, loss).classes)
    if loss.target is Target.LABELS:
        return Judge(loss=Logistic(), main="deviance_explained", size="log_loss", labels=True) if loss.link.probability else None
    if loss.estimand is Estimand.QUANTILE:
        sharp = cast(Loss, cast(QuantileLoss, loss).smoothed(SHARP))
        return Judge(loss=sharp, main="pinball_explained", size="pinball_loss", of_means=False)
    if loss.estimand in LOG_MEANS:
        return Judge(loss=loss, main="deviance_explained", size="half_deviance", of_log_means=True)
    return Judge(loss=Squared(), main="r2")
