"""The section `data`: which records, which columns, their public bounds and the privacy unit. Imports pydantic and packages below."""

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from nightfit.config.sections.base import MOST_IN_A_NAME, Name, Place, Section
from nightfit.ledger.policy import check_blocks
from nightfit.ledger.windows import window_of
from nightfit.records.preprocessing import Precision
from nightfit.types import RECORD, person_of

MOST_ROWS_PER_UNIT = 2**16  # a person's mean gradient is a sum of this many rows at most, which the integer grid has room for


def _pair(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _undated(value: Any) -> Any:
    """A window that is a date, or a list of dates, as it is written in YAML: they name blocks."""
    if isinstance(value, list):
        return [_undated(one) for one in value]
    return value.isoformat() if isinstance(value, date) else value


Bounds = Annotated[tuple[float, float], BeforeValidator(_pair)]
SMALLEST_WIDTH = 1e-300  # of bounds: its inverse, a column's scale, is finite


class Data(Section):
    path: Place = Field(description="file, glob, folder (hive or flat) or fsspec URL of Parquet shards; relative to this file")
    target: str | None = Field(None, description="the column to be predicted; none for model.kind mean")
    name: Name | None = Field(None, description="the data set's name in the ledger (default: the folder's name)")
    features: list[str] | None = Field(None, min_length=1, description="the columns to predict from (default: all others but `exclude`)")
    exclude: list[str] = Field([], description="columns that are no features")
    unit: str = Field(
        RECORD,
        min_length=1,
        description="the privacy unit: record, a column that identifies a person such as patient_id, or (curriculum label_only) label",
    )
    rows_per_unit: int = Field(100, ge=1, le=MOST_ROWS_PER_UNIT, description="how many rows of a person are used at most")
    bounds: dict[str, Bounds] = Field(
        {}, description="public facts [low, high] per column: centre, scale and clamp it; the target too if named"
    )
    default_bounds: Bounds | None = Field(None, description="[low, high] for the columns not named in `bounds`")
    row_id: str | None = Field(None, description="a column that identifies a record; never a feature")
    window: Annotated[str | list[str | int] | None, BeforeValidator(_undated)] = Field(
        None, description="`last 30 blocks`, `rotate 4`, a list of blocks, or (if all is one block) a name for what is read"
    )
    blocks: str | None = Field(
        None, max_length=MOST_IN_A_NAME, description="how the ledger divides the data set: all, a hive key such as day, or hash:64"
    )
    exhausted: Literal["skip", "refuse"] = Field("refuse", description="what to do with blocks whose budget is used up")
    precision: Precision = Field("double", description="of decoded features: single halves what a step reads; sums are exact either way")
    units: int | None = Field(None, ge=1, description="the public number of persons, or under add_remove of records")

    @model_validator(mode="after")
    def _identified(self) -> "Data":
        if self.person is None:
            if "rows_per_unit" in self.model_fields_set:
                raise ValueError(
                    f"data.rows_per_unit is for persons, and the unit is a {self.unit}: remove it, or name a column in data.unit"
                )
        elif self.person in (self.target, self.row_id, *(self.features or ())):
            raise ValueError(f"data.unit {self.person!r} identifies a person: it cannot be a feature, the target or data.row_id as well")
        elif self.units is None:
            raise ValueError(
                f"data.units is missing: with data.unit {self.person!r} state how many persons there are, from what is public (it divides "
                "every mean); the number is never counted in the data, because a count would tell about a person"
            )
        return self

    @property
    def person(self) -> str | None:
        """The column that identifies persons, if they are the unit."""
        return person_of(self.unit)

    @field_validator("window")
    @classmethod
    def _understood(cls, value: Any) -> Any:
        window_of(value)
        return value

    @model_validator(mode="after")
    def _divided(self) -> "Data":
        if self.blocks is not None:
            check_blocks(self.blocks, self.unit)
        return self

    @field_validator("bounds", "default_bounds")
    @classmethod
    def _ordered(cls, value: Any) -> Any:
        pairs = value.items() if isinstance(value, dict) else [("default", value)] if value else []
        for name, (low, high) in pairs:
            if not (abs(low) < 1e300 and abs(high) < 1e300 and low < high):
                raise ValueError(f"the bounds of {name} must be two finite numbers, low < high")
            if high - low < max(SMALLEST_WIDTH, 1e-9 * max(abs(low), abs(high))):  # a billionth: below it a double tells few values apart
                raise ValueError(f"the bounds of {name} must be further apart: between them numbers can hardly be told from each other")
        return value
