"""The columns of a pandas data frame as the features of an encoding. Imports pyarrow.

Whether a column can be read depends on its declared type alone: a column of Python objects counts as text.
"""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from nightfit.records.columns import ABSENT, Levels, occurs
from nightfit.records.encoding import Encoding
from nightfit.shards.manifest import DataError
from nightfit.shards.raw_columns import read
from nightfit.types import Array

ASTYPE = {"boolean": "boolean", "number": "float64", "date": "datetime64[us]"}
"""A declared type of pandas that each kind reads."""


def encoded_frame(frame: Any, encoding: Encoding) -> Array:
    """The features of a frame (rows x features), NaN where missing.

    Raises
    ------
    DataError
        If a column is missing, or has a type that its kind cannot read.
    """
    out = np.empty((len(frame), len(encoding.features)))
    for name, reading in encoding.readings.items():
        if name not in frame.columns:
            raise DataError(f"column {name!r} is missing in X: the model was described with it")
        values, column = _arrow(frame[name]), encoding.described[name]
        kind = str(values.type)
        if kind != ABSENT and not column.accepts(kind):
            raise DataError(
                f"column {name!r} of X holds {frame[name].dtype}, which the kind {column.name} cannot read: give it another kind, or "
                f"another type, as in X.astype({{{name!r}: {ASTYPE.get(column.name, 'str')!r}}})"
            )
        never = next((level for level in reading.levels if not occurs(level, kind)), None) if isinstance(reading, Levels) else None
        if never is not None:
            raise DataError(
                f"column {name!r} of X holds {frame[name].dtype}, in which the level {never!r} cannot occur: write the level as the "
                "column's values are written, or leave it out"
            )
        encoding.fill(name, read(values, reading), out)
    encoding.combine(out)
    return out


def _arrow(series: Any) -> Any:
    """A series as an Arrow array. Python objects become their text: a type that followed from the values would tell about them."""
    if series.dtype == object:
        return pa.array(
            [None if value is None or value is pd.NaT or value is pd.NA or value != value else _word(value) for value in series],
            pa.string(),
        )
    found = pa.array(series, from_pandas=True)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _word(value: Any) -> str:
    """A Python object as the text that it has in Parquet: whole numbers by their digits, booleans as true and false."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
