"""Columns of a data frame described by kind, as `data.columns` of a configuration describes them. Imports config and packages below."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from nightfit.config.sections.columns import ColumnChoice
from nightfit.methods.auto.constants.budget import MOST_COLUMNS
from nightfit.planning.plan import PlanError
from nightfit.planning.specification import PAID, Method
from nightfit.records.columns import Column, Feature
from nightfit.records.encoding import Encoding

SECTION: TypeAdapter[Any] = TypeAdapter(ColumnChoice)


def encoding_of(described: Mapping[str, Any], X: Any) -> Encoding:
    """The encoding of a pandas data frame: columns as described, the others by their declared types."""
    if not hasattr(X, "iloc") or hasattr(X, "to_dask_array") or getattr(X, "ndim", 0) != 2:
        raise PlanError("columns are for a pandas data frame: give X as one, with a name for each column, or use Parquet shards")
    names = [str(name) for name in X.columns]
    made: dict[str, Column] = {name: _made(name, described[name] if name in described else _proposed(name, X.dtypes.iloc[at]))
                               for at, name in enumerate(names)}  # fmt: skip
    made |= {name: _made(name, fields) for name, fields in described.items() if name not in made}
    for name, column in made.items():
        if name not in names and not column.of:
            raise PlanError(f"columns describes {name!r}, and X has no such column: remove it, or name one of {', '.join(names[:20])}")
    try:
        return Encoding.in_order(made)
    except ValueError as error:
        raise PlanError(f"columns: {error}") from None


def public_scales(method: Method, encoding: Encoding, *, fit_intercept: bool) -> tuple[list[tuple[float, float]], tuple[float, ...], bool]:
    """The pair of each feature from which centre and scale follow, its reach, and whether missing values are imputed at once. An indicator
    stays zero or one.
    """
    if method.scales == PAID and len(encoding.features) + fit_intercept <= MOST_COLUMNS:
        return [(-1.0, 1.0)] * len(encoding.features), tuple(1.0 if one.indicator else math.inf for one in encoding.features), False
    unbounded = next((name for name, made in encoding.made.items() if any(_pair(one) is None for one in made)), None)
    if unbounded is not None:
        raise PlanError(f"public scales need public bounds of {unbounded!r}: state them in columns, as in 'bounds': [0, 100]")
    pairs = [(-1.0, 1.0) if one.indicator else _pair(one) for one in encoding.features]
    return [pair for pair in pairs if pair is not None], (), True


def _pair(feature: Feature) -> tuple[float, float] | None:
    if feature.indicator:
        return (0.0, 1.0)
    return None if feature.low is None or feature.high is None else (feature.low, feature.high)


def _made(name: str, fields: Any) -> Column:
    try:
        column: Column = SECTION.validate_python(fields).made(Path())
        return column
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise PlanError(f"columns[{name!r}]: {first['msg'].removeprefix('Value error, ')}") from None
    except ValueError as error:
        raise PlanError(f"columns[{name!r}]: {error}") from None


def _proposed(name: str, dtype: Any) -> dict[str, Any]:
    """The fields of a column of this declared type."""
    if dtype.kind == "b":
        return {"kind": "boolean"}
    if dtype.kind in "iuf":
        return {"kind": "number"}
    if dtype.kind == "M":
        return {"kind": "date", "parts": ["weekday", "month"]}
    raise PlanError(
        f"column {name!r} of X holds {dtype}, and what occurs in it is not public: describe it, as in "
        f"columns={{{name!r}: {{'kind': 'category', 'levels': ['a', 'b']}}}}, or leave it out"
    )
