"""The section `method`: a name, a solver with a gradient estimator, or a local protocol. Imports pydantic and packages below."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator

from nightfit.config.sections.base import Section
from nightfit.methods.loop import gradient_estimators, solvers
from nightfit.methods.loop.theory import Moment
from nightfit.planning.specification import Method
from nightfit.plugins import member
from nightfit.privacy.local import randomisers

Size = Annotated[float, Field(ge=1e-100, le=1e100)]  # its square is a finite, normal number


class MomentSection(Section):
    order: float = Field(gt=1, le=100, description="of the assumed moment E |g_j|^order of a gradient's coordinates")
    bound: Size = Field(description="of that moment, for scaled features")


class MethodSection(Section):
    solver: str | None = Field(
        None, description="accelerated_gradient, proximal_gradient, proximal_sgd, phased, assignment or frank_wolfe (default: by the mean)"
    )
    mean: str | None = Field(
        None,
        description="clipped (l2 norm), coordinate, soft (Catoni), smoothed, threshold, median_of_means, ball, range_ball or trimmed; "
        "hard_thresholding, vertex or private_lasso choose by noisy scores; sample_aggregate fits at once",
    )
    schedule: Literal["auto", "theory"] = Field("auto", description="who chooses what is left out: rules of thumb, or the method's theorem")
    moment: MomentSection | None = Field(None, description="what a theorem may assume: {order: .., bound: ..}; it only sets bounds")
    diameter: Size | None = Field(None, description="of the set of weights that a theorem may assume")
    failure: float = Field(0.05, gt=0, lt=1, description="the probability with which a theorem's promise may fail")
    bound: Size | None = Field(None, description="the bound of a gradient, of scaled features")
    steps: int | None = Field(None, ge=1, le=10_000, description="of the solver; each is paid for")
    step_size: Size | None = Field(None, description="of the solver, for scaled features")
    averaged: int | None = Field(None, ge=1, description="the result is the mean of this many last iterates")
    batch: Literal["full", "splits"] | Annotated[int, Field(ge=1)] | None = Field(
        None, description="what a step reads: full, splits (a disjoint part each) or the expected size of a Poisson sample"
    )
    groups: int | None = Field(None, ge=2, description="of a median of means; an even number")
    smoothing: float | None = Field(None, ge=0.5, le=50, description="of a smoothed mean: one over the variance of its noise factor")
    noise: Literal["laplace_log_normal", "arsinh_normal"] | None = Field(None, description="of a trimmed mean")
    scales: Literal["paid", "public"] = Field(
        "paid", description="paid: columns' scales, residuals and curvature are asked for; public: bounds are scales, and are needed"
    )
    blocks: int | None = Field(None, ge=3, description="of sample_aggregate")

    @field_validator("mean", "solver")
    @classmethod
    def _known(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            member(gradient_estimators if info.field_name == "mean" else solvers, value)
        return value

    def made(self) -> Method:
        """The method that it describes."""
        moment = None if self.moment is None else Moment(order=self.moment.order, bound=self.moment.bound)
        return Method(**self.model_dump(exclude={"moment"}), moment=moment)


LOCAL_SOLVERS = ("djw", "prestige")


class LocalMethodSection(Section):
    """For `privacy: {trust: local}`."""

    solver: Literal["djw", "prestige"] = Field(description="djw (private sampling) or prestige (with a private curriculum)")
    curriculum: Literal["masked", "label_only"] = Field(
        "masked", description="of prestige: masked (the whole record is protected) or label_only (only its label is)"
    )
    sampler: str = Field("djw", description="djw (a half sphere) or privunit (a cap: shorter reports for epsilon above 1)")
    batch: int = Field(10, ge=1, description="the mean of so many reports makes a step")
    epochs: int = Field(1, ge=1, le=1000, description="passes of the curriculum")
    cohorts: bool = Field(True, description="each record reports in one epoch only, and with the whole epsilon")
    bound: Size | None = Field(None, description="of one record's gradient, of scaled features")
    radius: Size | None = Field(None, description="of the ball of weights")
    steps: Literal["convex", "strongly_convex"] = Field("convex", description="step sizes: ~ 1 / sqrt(t), or 1 / (l2 t)")
    iterate: Literal["average", "last"] = Field("average", description="which weights are released: the mean of all, or the last")
    start: float = Field(1.5, description="of prestige: the margin that the first epoch asks for")
    drop: float = Field(1.0, ge=0, description="of prestige: after epoch k it falls by drop sqrt(k)")

    @field_validator("sampler")
    @classmethod
    def _known(cls, value: str) -> str:
        member(randomisers, value)
        return value


def _kind(value: Any) -> str:
    if isinstance(value, LocalMethodSection) or (isinstance(value, dict) and value.get("solver") in LOCAL_SOLVERS):
        return "<reports>"
    return "<section>" if isinstance(value, (dict, MethodSection)) else "<name>"


MethodChoice = Annotated[
    Annotated[str, Tag("<name>")] | Annotated[MethodSection, Tag("<section>")] | Annotated[LocalMethodSection, Tag("<reports>")],
    Discriminator(_kind),
]
