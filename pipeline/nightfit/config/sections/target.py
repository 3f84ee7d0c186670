"""The long form of `data.target`: what is publicly known of the column to be predicted. Imports pydantic and packages below."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from nightfit.config.sections.base import Section
from nightfit.config.sections.columns import Bounds, ordered
from nightfit.records.outcomes import ANY_EXPOSURE, Outcome

Label = str | int | bool


def text_of(label: Label) -> str:
    """A label as the reader compares it: text as it is, a whole number by its digits, a boolean as true or false."""
    return str(label).lower() if isinstance(label, bool) else str(label)


class ExposureSection(Section):
    """What a count or an amount is measured over, such as days at risk."""

    column: str = Field(description="the column of exposures: numbers above zero")
    bounds: Bounds | None = Field(None, description="public facts [low, high], low > 0: exposures beyond are clamped")

    @field_validator("bounds")
    @classmethod
    def _above_zero(cls, value: Any) -> Any:
        if value is not None and ordered(value)[0] <= 0:
            raise ValueError(f"exposures lie above zero: the low end of their bounds must too, got {list(value)}")
        return value


ExposureChoice = Annotated[
    Annotated[str, Tag("<name>")] | Annotated[ExposureSection, Tag("<exposure>")],
    Discriminator(lambda value: "<name>" if isinstance(value, str) else "<exposure>"),
]


class TargetSection(Section):
    """The long form of `target`."""

    column: str = Field(description="the column to be predicted")
    bounds: Bounds | None = Field(None, description="public facts [low, high]: values beyond are clamped; with an exposure, of the rate")
    positive: Label | None = Field(None, description="for kind logistic: the label whose probability is wanted, against any other value")
    classes: list[Label] | None = Field(
        None,
        description="the public labels, of which any other is missing: two for kind logistic, the positive one last; more for multinomial",
    )
    transform: Literal["none", "log1p", "log", "sqrt"] = Field(
        "none", description="fitted is the transformed target (kind linear or quantile); predictions are medians (quantiles) of the target"
    )
    exposure: ExposureChoice | None = Field(
        None, description="for counts and amounts: the column that they are measured over, or {column: days, bounds: [1, 366]}"
    )

    @field_validator("bounds")
    @classmethod
    def _in_order(cls, value: Any) -> Any:
        return None if value is None else ordered(value)

    @field_validator("positive", "classes", mode="before")
    @classmethod
    def _labels(cls, value: Any) -> Any:
        for odd in (one for one in (value if isinstance(value, list) else [value]) if not isinstance(one, (str, int, type(None)))):
            raise ValueError(f"YAML reads a label as {odd!r}, which is neither text, a whole number nor a boolean: write it in quotes")
        return value

    @model_validator(mode="after")
    def _one_reading(self) -> "TargetSection":
        if self.positive is not None and self.classes is not None:
            raise ValueError("positive is one label against all others, and classes are all labels: keep one of them")
        if self.classes is not None and len(self.classes) < 2:
            raise ValueError("a target has at least two classes: list all public labels")
        if (self.positive is not None or self.classes is not None) and (self.bounds, self.transform) != (None, "none"):
            raise ValueError("labels have neither bounds nor a transform: remove them")
        self.outcome()
        return self

    def outcome(self) -> Outcome:
        """How the column is read."""
        labels = [self.positive] if self.positive is not None else self.classes or []
        exposure = ExposureSection(column=self.exposure) if isinstance(self.exposure, str) else self.exposure
        return Outcome(
            labels=tuple(map(text_of, labels)),
            rest=self.positive is not None,
            transform=self.transform,
            exposure=None if exposure is None else exposure.column,
            exposures=ANY_EXPOSURE if exposure is None else exposure.bounds or ANY_EXPOSURE,
        )


TargetChoice = Annotated[
    Annotated[str, Tag("<name>")] | Annotated[TargetSection, Tag("<target>")],
    Discriminator(lambda value: "<name>" if isinstance(value, str) else "<target>"),
]
