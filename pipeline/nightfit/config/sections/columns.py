"""The section `data.columns`: what is publicly known of each column. Imports pydantic and packages below."""

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from nightfit.config.sections.base import Section
from nightfit.records.columns import Column, Missing
from nightfit.records.columns.boolean import Boolean
from nightfit.records.columns.category import OTHER, Category
from nightfit.records.columns.date import Date
from nightfit.records.columns.number import Number
from nightfit.records.columns.product import Product

MOST_BOUND = 1e300  # larger ends would overflow when they are subtracted
SMALLEST_WIDTH = 1e-300  # of bounds: its inverse, a column's scale, is finite


def _pair(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def ordered(value: tuple[float, float]) -> tuple[float, float]:
    """The bounds, refused where they are not two finite numbers in order."""
    low, high = value
    if not (abs(low) < MOST_BOUND and abs(high) < MOST_BOUND and low < high):
        raise ValueError(f"bounds must be two finite numbers, low < high, got {list(value)}")
    if high - low < max(SMALLEST_WIDTH, 1e-9 * max(abs(low), abs(high))):  # a billionth: below it a double tells few values apart
        raise ValueError(f"bounds must be further apart than {list(value)}: between them numbers can hardly be told from each other")
    return value


Bounds = Annotated[tuple[float, float], BeforeValidator(_pair)]
DISCOVER = "discover"
DISCOVERY = "`nightfit discover` asks for them, at the cost of `privacy: {discover: ...}`, once; refits then use what it told, free"
UNTOLD = ("(to be discovered)",)  # in the place of levels that were not told yet
MOST_DISCOVERED = 10_000  # levels of one column: more are features by the thousand, which no budget fits
Policy = Literal["mean", "indicator", "drop"]


class Spline(Section):
    knots: list[float] = Field(min_length=1, description="where the fitted line bends, in the column's own units")


class NumberColumn(Section):
    """A number: any integer, float, decimal or boolean, or text that is one."""

    kind: Literal["number"] = "number"
    bounds: Bounds | None = Field(None, description="public facts [low, high]: values beyond are clamped; no scale follows from them")
    transform: Literal["none", "log1p", "log", "sqrt"] = Field("none", description="of the clamped value")
    missing: Policy | float = Field("mean", description="what a missing value counts as: mean, indicator, drop or a number")
    spline: Spline | None = Field(None, description="{knots: [18, 25, 30]}: where the fitted line may bend")

    @field_validator("bounds")
    @classmethod
    def _in_order(cls, value: Any) -> Any:
        return None if value is None else ordered(value)

    def made(self, folder: Path) -> Column:
        knots = () if self.spline is None else tuple(self.spline.knots)
        outside = next((knot for knot in knots if self.bounds is not None and not self.bounds[0] <= knot < self.bounds[1]), None)
        if outside is not None:
            raise ValueError(f"the knot {outside:g} lies outside of the bounds {list(self.bounds or ())}: no line bends there; remove it")
        return Number(bounds=self.bounds, transform=self.transform, missing=self.missing, knots=knots)


class BooleanColumn(Section):
    """A yes or no: a boolean, or an integer that is 0 or 1."""

    kind: Literal["boolean"] = "boolean"
    missing: Policy = Field("mean", description="what a missing value counts as: mean, indicator or drop")

    def made(self, folder: Path) -> Column:
        return Boolean(missing=self.missing)


class CategoryColumn(Section):
    """Text, a dictionary, booleans, or numbers as codes, which are read by their digits."""

    kind: Literal["category"] = "category"
    levels: list[str | int] | str | None = Field(
        None,
        description="the public levels: a list, or a file with one level per line; any other value is the level `other`. Or `discover`: "
        "those that many units have, which `nightfit discover` pays for",
    )
    at_most: int | None = Field(None, ge=1, le=MOST_DISCOVERED, description="with levels: discover, how many levels are told at most")
    per_person: int | None = Field(
        None, ge=1, le=100, description="with levels: discover, in how many levels a person counts at most (default: 4)"
    )
    reference: str | int | None = Field(None, description="a level that has no coefficient: those of the others are differences to it")
    missing: str | int = Field("other", description="what a missing value counts as: a level, indicator or drop")

    @field_validator("levels", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        listed = value if isinstance(value, list) else []
        for odd in (one for one in listed if isinstance(one, bool) or not isinstance(one, (str, int))):
            raise ValueError(f"YAML reads a level as {odd!r}, which is neither text nor a whole number: write it in quotes")
        return value

    @model_validator(mode="after")
    def _discovered(self) -> "CategoryColumn":
        if self.discovers and self.at_most is None:
            raise ValueError("levels are to be discovered: state how many at most, as in `at_most: 40`")
        if not self.discovers and not (self.at_most is None and self.per_person is None):
            raise ValueError("at_most and per_person are for `levels: discover`: remove them")
        if self.discovers and self.reference not in (None, OTHER):
            raise ValueError("a level that is to be discovered may not be told, so it cannot be the reference: remove it, or write other")
        if self.discovers and self.missing not in (OTHER, *Missing):
            raise ValueError("a level that is to be discovered may not be told: missing is other, indicator or drop")
        return self

    @property
    def discovers(self) -> bool:
        """Whether its levels are a paid question."""
        return self.levels == DISCOVER

    def told(self, levels: tuple[str, ...]) -> "CategoryColumn":
        """The same column with levels that a discovery told."""
        return self.model_copy(update={"levels": list(levels), "at_most": None, "per_person": None})

    def made(self, folder: Path) -> Column:
        if self.discovers:
            raise ValueError(f"its levels are still to be discovered: {DISCOVERY}")
        if self.levels is None:
            raise ValueError("levels are missing: list what is publicly known to occur, or name a file with one level per line")
        listed = self.levels if isinstance(self.levels, list) else lines_of(folder / self.levels)
        reference = None if self.reference is None else str(self.reference)
        return Category(levels=tuple(map(str, listed)), reference=reference, missing=str(self.missing))


def _date(value: Any) -> Any:
    """A date that is written in quotes; YAML reads one without as a date."""
    try:
        return date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"{value!r} is not a date: write one such as 2020-01-01") from None


class DaysSince(Section):
    days_since: Annotated[date, BeforeValidator(_date)] = Field(
        description="a public date such as 2020-01-01; the part is the number of days since then"
    )


def _part(value: Any) -> str:
    return "<named>" if isinstance(value, str) else "<since>"


PartChoice = Annotated[
    Annotated[Literal["year", "month", "weekday", "hour"], Tag("<named>")] | Annotated[DaysSince, Tag("<since>")], Discriminator(_part)
]


class DateColumn(Section):
    """A date or time stamp, or text such as 2026-01-31 or 2026-01-31T23:59:59Z."""

    kind: Literal["date"] = "date"
    parts: list[PartChoice] = Field(min_length=1, description="year, month, weekday, hour, {days_since: 2020-01-01}")
    zone: str = Field("UTC", description="time stamps with a zone are read by the wall clock of this one, such as Europe/Berlin")
    missing: Policy = Field("mean", description="what a missing value counts as: mean, indicator or drop")

    @field_validator("parts")
    @classmethod
    def _one_start(cls, value: list[Any]) -> list[Any]:
        if sum(isinstance(part, DaysSince) for part in value) > 1:
            raise ValueError("days since two dates are the same number but for a constant: keep one of them")
        return value

    def made(self, folder: Path) -> Column:
        since = [part.days_since.isoformat() for part in self.parts if isinstance(part, DaysSince)]
        named = tuple(part for part in self.parts if isinstance(part, str))
        return Date(parts=named, days_since=since[0] if since else None, zone=self.zone, missing=self.missing)


class ProductColumn(Section):
    """An interaction: the product of each feature of one column with each feature of another."""

    kind: Literal["product"] = "product"
    of: list[str] = Field(min_length=2, max_length=2, description="the two columns")

    def made(self, folder: Path) -> Column:
        return Product(of=(self.of[0], self.of[1]))


SECTIONS: dict[str, type[Section]] = {
    "number": NumberColumn,
    "boolean": BooleanColumn,
    "category": CategoryColumn,
    "date": DateColumn,
    "product": ProductColumn,
}
TAGS = {f"<{name}>": section for name, section in SECTIONS.items()} | {"<since>": DaysSince}


def _kind(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return f"<{kind}>"


ColumnChoice = Annotated[
    Annotated[NumberColumn, Tag("<number>")]
    | Annotated[BooleanColumn, Tag("<boolean>")]
    | Annotated[CategoryColumn, Tag("<category>")]
    | Annotated[DateColumn, Tag("<date>")]
    | Annotated[ProductColumn, Tag("<product>")],
    Discriminator(
        _kind,
        custom_error_type="column_kind",
        custom_error_message="every column has a kind: number, category, date, boolean or product, as in {kind: number}",
    ),
]


def lines_of(path: Path) -> list[str]:
    """The levels in a file, one per line; empty lines and a byte order mark do not count."""
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    except FileNotFoundError:
        raise ValueError(f"there is no file of levels at {path}: list the levels, or write the file, one level per line") from None
    except (OSError, ValueError):
        raise ValueError(f"the file of levels {str(path)!r} cannot be read as UTF-8 text: write it with one level per line") from None
