"""How a night is judged and what happens after it: the keys `evaluate` and `promote`. Imports pydantic."""

from typing import Annotated, Literal

from pydantic import Field

from nightfit.config.sections.base import Section

Promote = Literal["when better", "always", "by hand"]


class EvaluateSection(Section):
    """How good the fit is, asked of units that it never saw."""

    share: Annotated[float, Field(ge=0.01, le=0.5)] = Field(0.2, description="of the units, set aside for life and never fitted on")
    metrics: Literal["auto"] = Field("auto", description="auto: those that suit the model's kind")
    by: str | None = Field(None, description="a category of data.columns: the metrics are told for each of its public levels too")
    checks: bool = Field(True, description="shares of missing, unknown and extreme values of each column, and the drift of predictions")


EvaluateChoice = EvaluateSection | Literal["none"]
