"""The section `model`: what is fitted, penalty and start. Imports pydantic and packages below."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from nightfit.config.sections.base import Section
from nightfit.planning.specification import penalty_of
from nightfit.plugins import member
from nightfit.problem import losses
from nightfit.problem.losses import Loss
from nightfit.problem.losses.columns import Columns
from nightfit.problem.losses.gamma import Gamma
from nightfit.problem.losses.log_ranges import LEAST, MOST
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.quantile import Quantile
from nightfit.problem.losses.softmax import Softmax
from nightfit.problem.penalties import Penalty
from nightfit.records.targets import Pair

Kind = Literal["linear", "logistic", "multinomial", "counts", "amounts", "quantile", "mean"]


class Model(Section):
    kind: Kind = Field(
        "linear",
        description="what is predicted: a number (linear), the probability of a label (logistic) or of each of several (multinomial), the "
        "mean of counts or of amounts above zero, a quantile; or the mean of each column",
    )
    columns: list[str] | None = Field(None, min_length=1, description="for kind mean: whose means (default: all of data.columns)")
    quantile: float | None = Field(None, ge=0.01, le=0.99, description="for kind quantile: the share of targets below the prediction")
    loss: str | Annotated[dict[str, dict[str, float]], Field(min_length=1, max_length=1)] = Field(
        "squared", description="for kind linear: squared, huber, hinge (labels) or another; {huber: {delta: 2.0}} sets its parameter"
    )
    penalty: dict[str, Any] = Field(
        {}, description="{l1: 0.01}, {l2: ...}, {elastic_net: {l1: ..., l2: ...}}, {l1_ball: ...}, {l2_ball: ...}, {box: [low, high]} or {}"
    )
    intercept: bool = Field(True, description="whether a constant is fitted; it is not penalised")
    start: Literal["zero", "previous"] = Field(
        "zero", description="where the fit starts: at zero, or at this model's previous private release (free: it was paid for)"
    )

    curvature: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="the largest eigenvalue of the mean of x x' of scaled columns, if it is known; else a named method pays for it",
    )
    strong_convexity: float | None = Field(
        None, gt=0, le=1e6, description="of the mean loss without its penalty, in scaled weights, if it is known: some theorems need it"
    )

    def loss_of(self, bounds: Pair | None = None, classes: int = 2) -> Loss:
        """The loss of this kind, for a target with these public bounds, or of so many classes."""
        return LOSSES[self.kind](self, bounds, classes)

    def penalty_of(self) -> Penalty:
        return penalty_of(self.penalty)

    @model_validator(mode="after")
    def _known(self) -> "Model":
        if self.kind == "mean" and (
            self.penalty or self.model_fields_set & {"loss", "intercept", "start", "curvature", "strong_convexity"}
        ):
            raise ValueError("a mean has no loss, penalty, intercept, start or curvature: remove them")
        if self.strong_convexity is not None and self.curvature is not None and self.strong_convexity > self.curvature:
            raise ValueError(f"model.strong_convexity {self.strong_convexity:g} is above model.curvature {self.curvature:g}: check both")
        if self.kind != "mean" and self.columns is not None:
            raise ValueError("columns are for kind mean; name the columns to predict from in data.columns")
        if self.kind not in ("linear", "mean") and self.loss not in ("squared", self.kind):
            raise ValueError(f"the kind {self.kind} has a loss of its own: remove loss, which is for kind linear")
        if (self.kind == "quantile") != (self.quantile is not None):
            raise ValueError("kind quantile goes with the quantile that is wanted, as in {kind: quantile, quantile: 0.9}; use both or none")
        try:
            self.loss_of()
            self.penalty_of()
        except TypeError:
            raise ValueError("a loss or penalty has parameters that it does not know: `nightfit init` writes an example of each") from None
        return self


def _stated(model: Model, bounds: Pair | None, classes: int) -> Loss:
    ((name, parameters),) = ((model.loss, {}),) if isinstance(model.loss, str) else model.loss.items()
    made: Loss = member(losses, name)(**parameters)
    return made


def _counts(model: Model, bounds: Pair | None, classes: int) -> Loss:
    """No mean is larger than the largest count."""
    return Poisson(high=MOST if bounds is None else bounds[1])


def _amounts(model: Model, bounds: Pair | None, classes: int) -> Loss:
    """Every mean lies between the ends of the amounts."""
    return Gamma() if bounds is None else Gamma(low=max(bounds[0], LEAST), high=bounds[1])


LOSSES: dict[str, Callable[[Model, Pair | None, int], Loss]] = {
    "linear": _stated,
    "logistic": lambda model, bounds, classes: Logistic(),
    "multinomial": lambda model, bounds, classes: Softmax(classes=classes),
    "counts": _counts,
    "amounts": _amounts,
    "quantile": lambda model, bounds, classes: Quantile(quantile=model.quantile or 0.5),
    "mean": lambda model, bounds, classes: Columns(),
}
"""The loss of each kind."""
