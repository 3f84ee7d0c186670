"""A date or time stamp, by public parts of it. Imports its own package."""

import math
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from nightfit.records.columns import IMPUTED, NEVER, Clock, Column, Feature, Instants, Missing, Reading, check_missing, temporal, textual
from nightfit.records.expressions import Expression, clipped, of
from nightfit.types import Array

DAY = 86_400_000_000  # microseconds
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")
PARTS = ("year", "month", "weekday", "hour")
MOST_DAYS = 3_660_000.0  # ten thousand years: no instant of an int64 that a person could have lived at lies beyond


@dataclass(frozen=True, kw_only=True, slots=True)
class Date:
    """The named parts of a date: `weekday` and `month` as one indicator each, `hour` as a point on a circle, `year` as a number, and
    the days since a public date, `days_since`, written as in ISO 8601.

    Time stamps with a zone are read by the wall clock of `zone`; one without a zone is taken as it is written. Text is
    read as 2026-01-31, 2026-01-31 23:59 or 2026-01-31 23:59:59, with an offset from UTC behind it (Z, +01:00) as a zone.
    """

    name: ClassVar[str] = "date"
    one_hot: ClassVar[bool] = False
    of: ClassVar[tuple[str, ...]] = ()
    parts: tuple[str, ...] = ()
    days_since: str | None = None
    zone: str = "UTC"
    missing: str = Missing.MEAN

    def __post_init__(self) -> None:
        unknown = [part for part in self.parts if part not in PARTS]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not a part of a date: use {', '.join(PARTS)} or days_since")
        if len(set(self.parts)) != len(self.parts) or not (self.parts or self.days_since):
            raise ValueError("a date needs at least one part, and each once")
        check_missing(self.missing)
        try:
            date.fromisoformat(self.days_since or "1970-01-01")
        except ValueError:
            raise ValueError(f"{self.days_since!r} is not a date: write one such as 2020-01-01") from None
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"{self.zone!r} is not a time zone: write one such as Europe/Berlin") from None

    @property
    def start(self) -> int | None:
        """Days from 1970-01-01 to the public date."""
        return None if self.days_since is None else (date.fromisoformat(self.days_since) - date(1970, 1, 1)).days

    @property
    def reading(self) -> Reading:
        return Clock(self.zone)

    @property
    def drops(self) -> bool:
        return self.missing == Missing.DROP

    def accepts(self, arrow_type: str) -> bool:
        return temporal(arrow_type) or textual(arrow_type)

    def features(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Feature, ...]:
        made: list[Feature] = []
        gap = self.missing in IMPUTED
        for part in self.parts:
            if part == "year":
                made.append(Feature(name=f"{name} year", imputed=gap))
            elif part == "hour":
                made += [Feature(name=f"{name} hour {wave}", low=-1.0, high=1.0, imputed=gap) for wave in ("sine", "cosine")]
            else:
                made += [Feature(name=f"{name}={one}", indicator=True, imputed=gap) for one in (MONTHS if part == "month" else WEEKDAYS)]
        if self.days_since is not None:
            made.append(Feature(name=f"{name} days since {self.days_since}", imputed=gap))
        if self.missing == Missing.INDICATOR:
            made.append(Feature(name=f"{name} missing", indicator=True))
        return tuple(made)

    def encode(self, values: Any, out: Array) -> None:
        known = values != NEVER
        instants: Instants = np.where(known, values, 0)
        days = instants // DAY
        months = instants.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
        column = 0
        for part in self.parts:
            if part == "year":
                out[:, column] = 1970 + months // 12
                column += 1
            elif part == "hour":
                angle = (instants - days * DAY) * (2 * math.pi / DAY)
                out[:, column], out[:, column + 1] = np.sin(angle), np.cos(angle)
                column += 2
            else:
                many = 12 if part == "month" else 7
                place = months % 12 if part == "month" else (days + 3) % 7  # 1970-01-01 was a Thursday
                out[:, column : column + many] = place[:, None] == np.arange(many)
                column += many
        if self.start is not None:
            away = days - self.start + (instants - days * DAY) / DAY
            out[:, column] = np.clip(away, -MOST_DAYS, MOST_DAYS)
            column += 1
        out[~known, :column] = np.nan
        if self.missing == Missing.INDICATOR:
            out[:, column] = ~known

    def expressions(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Expression, ...]:
        clock = of("clock", name)
        made: list[Expression] = []
        for part in self.parts:
            if part == "year":
                made.append(of("year", name))
            elif part == "hour":
                made += [of(wave, clock * (2 * math.pi / DAY)) for wave in ("sin", "cos")]
            else:
                place = of(part, name)
                made += [
                    of("when", of("le", 0, place), of("choose", of("eq", place, k), 1, 0)) for k in range(12 if part == "month" else 7)
                ]
        if self.start is not None:
            made.append(clipped(of("days", name) - float(self.start) + clock / float(DAY), -MOST_DAYS, MOST_DAYS))
        return (*made, of("missing", clock)) if self.missing == Missing.INDICATOR else tuple(made)


EXAMPLES: tuple[Column, ...] = (
    Date(parts=("weekday", "month"), days_since="2020-01-01"),
    Date(parts=("year", "hour"), zone="Europe/Berlin", missing=Missing.INDICATOR),
    Date(days_since="1990-06-30", missing=Missing.DROP),
)
