"""The section `data`: which records, which columns, what is publicly known of them, and the privacy unit. Imports pydantic and below."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from nightfit.config.sections.base import MOST_IN_A_NAME, Name, Place, Section
from nightfit.config.sections.columns import Bounds, CategoryColumn, ColumnChoice, NumberColumn, ProductColumn
from nightfit.config.sections.replaced import check_replaced
from nightfit.config.sections.target import TargetChoice, TargetSection
from nightfit.ledger.policy import check_blocks
from nightfit.ledger.windows import window_of
from nightfit.records.columns import Column
from nightfit.records.outcomes import AS_IT_IS, Outcome
from nightfit.records.preprocessing import Precision
from nightfit.shards.source import Format, check_options
from nightfit.types import RECORD, NightfitError, person_of

MOST_ROWS_PER_UNIT = 2**16  # a person's mean gradient is a sum of this many rows at most, which the integer grid has room for


def _undated(value: Any) -> Any:
    """A window that is a date, or a list of dates, as it is written in YAML: they name blocks."""
    if isinstance(value, list):
        return [_undated(one) for one in value]
    return value.isoformat() if isinstance(value, date) else value


class Data(Section):
    path: Place = Field(description="file, glob, folder (hive or flat) or fsspec URL of Parquet shards; relative to this file")
    format: Format = Field("parquet", description="parquet, or a lake table whose live rows are read: delta or iceberg")
    version: int | None = Field(
        None, ge=0, description="of a lake table: the version (delta) or the snapshot's id (iceberg); the newest by default"
    )
    storage_options: dict[str, Any] = Field(
        {}, description="options of the URL's store, such as {endpoint_url: ...}; never a secret: those come from the environment"
    )
    target: TargetChoice | None = Field(
        None,
        description="the column to be predicted, or its long form {column: .., bounds: ..}; none for model.kind mean",
    )
    name: Name | None = Field(None, description="the data set's name in the ledger (default: the folder's name)")
    columns: dict[str, ColumnChoice] = Field({}, description="what is publicly known of each column to predict from, and its kind")
    default: ColumnChoice | None = Field(
        None, description="the same for the columns not named; leave it out to use only those named (if none is, it is {kind: number})"
    )
    exclude: list[str] = Field([], description="columns that are no features")
    unit: str = Field(
        RECORD,
        min_length=1,
        description="the privacy unit: record, a column that identifies a person such as patient_id, or (curriculum label_only) label",
    )
    rows_per_unit: int = Field(100, ge=1, le=MOST_ROWS_PER_UNIT, description="how many rows of a person are used at most")
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

    @model_validator(mode="before")
    @classmethod
    def _in_the_new_form(cls, value: Any) -> Any:
        check_replaced(value)
        return value

    @field_validator("storage_options")
    @classmethod
    def _without_secrets(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            check_options(value)
        except NightfitError as error:
            raise ValueError(str(error)) from None
        return value

    @model_validator(mode="after")
    def _of_a_store_or_table(self) -> "Data":
        if self.version is not None and self.format == "parquet":
            raise ValueError("data.version is of a lake table: add data.format delta or iceberg, or remove it")
        if self.storage_options and "://" not in self.path:
            raise ValueError("data.storage_options is for a store, and data.path is a path of this machine: remove it, or write a URL")
        return self

    @model_validator(mode="after")
    def _one_role_each(self) -> "Data":
        exposure = self.outcome.exposure
        roles = {"data.target": self.target_column, "data.unit": self.person, "data.row_id": self.row_id, "data.target.exposure": exposure}
        for role, name in roles.items():
            if name is not None and name in self.columns:
                raise ValueError(f"column {name!r} is named twice: {role} is no column to predict from; remove it from data.columns")
        both = next((name for name in self.exclude if name in self.columns), None)
        if both is not None:
            raise ValueError(f"column {both!r} is named twice: in data.columns and in data.exclude; remove one of them")
        if isinstance(self.default, ProductColumn):
            raise ValueError("data.default is for columns of the data, and a product is made of two of them: describe it in data.columns")
        return self

    @model_validator(mode="after")
    def _identified(self) -> "Data":
        if self.person is None:
            if "rows_per_unit" in self.model_fields_set:
                raise ValueError(
                    f"data.rows_per_unit is for persons, and the unit is a {self.unit}: remove it, or name a column in data.unit"
                )
        elif self.person in (self.target_column, self.row_id):
            raise ValueError(f"data.unit {self.person!r} identifies a person: it cannot be the target or data.row_id as well")
        elif self.units is None:
            raise ValueError(
                f"data.units is missing: with data.unit {self.person!r} state how many persons there are, from what is public (it divides "
                "every mean); the number is never counted in the data, because a count would tell about a person"
            )
        return self

    @property
    def target_column(self) -> str | None:
        """The column to be predicted, if there is one."""
        return self.target.column if isinstance(self.target, TargetSection) else self.target

    @property
    def target_bounds(self) -> Bounds | None:
        """The public bounds of the target, if any are known."""
        return self.target.bounds if isinstance(self.target, TargetSection) else None

    @property
    def outcome(self) -> Outcome:
        """How the target's column is read."""
        return self.target.outcome() if isinstance(self.target, TargetSection) else AS_IT_IS

    @property
    def default_column(self) -> ColumnChoice | None:
        """What is known of the columns not named; None if only those named are used."""
        return NumberColumn() if self.default is None and not self.columns else self.default

    def described(self, folder: Path) -> dict[str, Column]:
        """The columns that are named, by their public facts; files of levels lie in `folder`. An error names every column at fault."""
        found: dict[str, Column] = {}
        faults: list[str] = []
        for name, section in self.columns.items():
            try:
                found[name] = section.made(folder)
            except ValueError as error:
                faults.append(f"data.columns.{name}: {error}")
        if faults:
            raise ValueError("\n  ".join(faults))
        return found

    @property
    def to_discover(self) -> dict[str, CategoryColumn]:
        """The categories whose levels are a paid question that was not answered yet."""
        return {name: column for name, column in self.columns.items() if isinstance(column, CategoryColumn) and column.discovers}

    def with_levels(self, levels: Mapping[str, tuple[str, ...]]) -> "Data":
        """The same section with levels that were told."""
        found = {name: column.told(levels[name]) for name, column in self.to_discover.items() if name in levels}
        return self.model_copy(update={"columns": {**self.columns, **found}})

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
