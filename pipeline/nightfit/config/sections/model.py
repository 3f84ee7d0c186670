"""The section `model`: loss, penalty and start. Imports pydantic and packages below."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from nightfit.config.sections.base import Section
from nightfit.planning.specification import penalty_of
from nightfit.plugins import member
from nightfit.problem import losses
from nightfit.problem.losses import Loss
from nightfit.problem.losses.columns import Columns
from nightfit.problem.penalties import Penalty


class Model(Section):
    kind: Literal["linear", "mean"] = Field("linear", description="linear in the features, or the mean of each column")
    columns: list[str] | None = Field(None, min_length=1, description="for kind mean: whose means (default: all of data.columns)")
    loss: str | Annotated[dict[str, dict[str, float]], Field(min_length=1, max_length=1)] = Field(
        "squared", description="squared, huber, logistic (labels), hinge (labels) or another; {huber: {delta: 2.0}} sets its parameter"
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

    def loss_of(self) -> Loss:
        if self.kind == "mean":
            return Columns()
        ((name, parameters),) = ((self.loss, {}),) if isinstance(self.loss, str) else self.loss.items()
        made: Loss = member(losses, name)(**parameters)
        return made

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
        if self.kind == "linear" and self.columns is not None:
            raise ValueError("columns are for kind mean; name the columns to predict from in data.columns")
        try:
            self.loss_of()
            self.penalty_of()
        except TypeError:
            raise ValueError("a loss or penalty has parameters that it does not know: `nightfit init` writes an example of each") from None
        return self
