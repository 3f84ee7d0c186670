"""X and y as arrays of numbers, refused by declared shapes and types alone. Imports scipy, scikit-learn and packages below.

No value is looked at: whether a fit starts must not depend on the records.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning

from nightfit.shards.arrays import FAILED, HashedIds, hash_values, row_count
from nightfit.shards.manifest import DataError

ID_KINDS = "iuOUS"  # kinds of types of ids
NUMBERS = "biuf"  # kinds of types: booleans, integers and floats
RESHAPE = "X must have rows and columns. Reshape your data by X.reshape(-1, 1) if it is one column, by X.reshape(1, -1) if it is one row"
ENCODE = "encode it as numbers or booleans"
DESCRIBE = f"{ENCODE}, or describe it, as in columns={{'sex': {{'kind': 'category', 'levels': ['F', 'M']}}}}"


class InputError(DataError, ValueError):
    """X or y have a shape or a type that no estimator takes."""


def features(X: Any, *, counted: bool = True) -> Any:
    """X as an array of numbers with rows and columns; the rows of a Dask frame are counted if `counted`."""
    X = numbers("X", X, counted=counted)
    if X.ndim != 2:
        raise InputError(f"Expected 2D array, got {X.ndim}D array instead: {RESHAPE}")
    if X.shape[1] == 0:
        raise InputError(f"X has 0 feature(s) (shape={X.shape}) while a minimum of 1 is required: give it a column")
    return X


def target(estimator: Any, y: Any) -> Any:
    """The target of a regression as an array of numbers with one dimension."""
    check_given(estimator, y)
    return one_column(numbers("y", y))


def check_given(estimator: Any, y: Any) -> None:
    """Refuse a target that is None."""
    if y is None:
        name = type(estimator).__name__
        raise InputError(f"{name} requires y to be passed, but the target y is None: give it one value for each row of X")


def check_not_masked(name: str, values: Any) -> None:
    """Refuse a masked array: its hidden values would be read as if they were shown."""
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array, whose hidden values would be used: write them as missing, {name}.filled(numpy.nan)")


def check_rows(X: Any, y: Any, *, public: bool) -> None:
    """Refuse numbers of rows that are unknown, that differ, or that are zero; the last only where the number is public."""
    rows = row_count(X)
    if np.isnan(y.shape[0]):
        raise InputError("the length of y is not known: for a Dask array of unknown chunks call compute_chunk_sizes() first")
    if y.shape[0] != rows:
        said = f"X has {rows} rows and y has {y.shape[0]}" if public else "X and y have different numbers of rows"
        raise InputError(f"{said}: y must have one value for each row of X")
    if public and rows == 0:
        raise InputError(f"X has 0 sample(s) (shape={X.shape}) while a minimum of 1 is required: check what selected the rows")


def numbers(name: str, values: Any, *, counted: bool = True) -> Any:
    """Values as a numpy or Dask array of numbers; a missing value of a nullable type becomes NaN."""
    if issparse(values):
        raise InputError(f"sparse {name} is not supported: make it dense by {name}.toarray()")
    check_not_masked(name, values)
    if not is_labelled(values):
        values = values if hasattr(values, "__dask_graph__") else np.asarray(values)
    for where, dtype in declared_types(name, values):
        check_not_complex(where, dtype)
        if dtype.kind not in NUMBERS:
            raise InputError(f"{where} holds {words(dtype)}: {DESCRIBE if is_frame(values) else ENCODE}")
    if hasattr(values, "to_dask_array"):
        return of_dask_frame(values.astype(np.float64), counted=counted)
    kinds = {dtype for _, dtype in declared_types(name, values)}
    if is_labelled(values) and (len(kinds) > 1 or not all(isinstance(kind, np.dtype) for kind in kinds)):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(values) if is_labelled(values) else values


def check_not_complex(where: str, dtype: Any) -> None:
    """Refuse complex numbers."""
    if dtype.kind == "c":
        raise InputError(f"Complex data not supported: {where} holds {dtype}; give real and imaginary part a column each")


def persons(unit: str | None, ids: Any, names: tuple[str, ...], X: Any) -> HashedIds | None:
    """Hashes of the ids of each row's person, as `hash_ids` makes them; None where records are units.

    An id that is no whole number, text or bytes is none: whose a row is decides no error.
    """
    if unit is None:
        if ids is not None:
            raise InputError("persons are given, and the unit is a record: name them in `unit`, as in unit='patient_id', with `units`")
        return None
    if ids is None:
        raise InputError(f"the unit is one {unit}: give fit the id of each row's person, as in fit(X, y, persons=ids)")
    if unit in names:
        raise InputError(f"X has the column {unit!r}, which identifies persons: drop it from X, and give it as `persons`")
    if any(hasattr(given, "__dask_graph__") for given in (ids, X)):
        raise InputError(
            "rows of a person cannot be brought together from Dask arrays: give arrays in memory, or write Parquet shards and name "
            "data.unit in refit.yaml"
        )
    check_not_masked("persons", ids)
    kept = ids.to_numpy(dtype=object) if is_labelled(ids) else np.asarray(ids)
    if kept.ndim != 1 or kept.dtype.kind not in ID_KINDS:
        raise InputError("persons must be one id for each row: whole numbers, text or bytes")
    if len(kept) != len(X):
        raise InputError("persons and X have different lengths: give one id for each row")
    return hash_values(kept)


def one_column(y: Any) -> Any:
    """An array y with one dimension."""
    if y.ndim == 2 and y.shape[1] == 1:
        said = "A column-vector y was passed when a 1d array was expected: change the shape of y to (n_samples,), for example by ravel()"
        warnings.warn(said, DataConversionWarning, stacklevel=4)
        return y[:, 0]
    if y.ndim == 2:
        raise InputError(f"y has {y.shape[1]} columns, and y should be a 1d array: fit one model for each column")
    if y.ndim != 1:
        raise InputError(f"y should be a 1d array, with one value for each row of X: it has {y.ndim} dimensions")
    return y


def of_dask_frame(frame: Any, *, counted: bool) -> Any:
    """The array of a Dask frame or series. Its rows are counted if `counted`, as a Dask array's chunks would have to be known."""
    try:
        return frame.to_dask_array(lengths=True if counted else None)
    except Exception:
        raise DataError(FAILED) from None


def is_labelled(values: Any) -> bool:
    """Whether values are a frame or series of pandas or Dask."""
    return hasattr(values, "iloc") or hasattr(values, "to_dask_array")


def is_frame(values: Any) -> bool:
    """Whether values are columns with names."""
    return is_labelled(values) and values.ndim == 2


def declared_types(name: str, values: Any) -> Iterator[tuple[str, Any]]:
    """Each declared type, and the words that say whose it is."""
    if is_frame(values):
        yield from ((f"column {column!r} of {name}", dtype) for column, dtype in zip(values.columns, values.dtypes, strict=True))
    else:
        yield name, values.dtype


def words(dtype: Any) -> str:
    """A type in words; the width of a text is that of the longest value, and is not told."""
    return "text" if dtype.kind in "US" else str(dtype)
