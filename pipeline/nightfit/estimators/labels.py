"""The declared labels of a classification, two or more, and a target in terms of them. Imports packages below.

Labels are declared because those that occur are a fact about the records. A record of another label counts as zeros; it is no error.
"""

import functools
import numbers
from typing import Any

import numpy as np

from nightfit.estimators import inputs
from nightfit.estimators.inputs import InputError
from nightfit.planning.plan import PlanError
from nightfit.types import Array

DEFAULT = (0, 1)
DECLARE = "declare the two labels, negative first, as in classes=('well', 'ill') or (0, 1)"
COMPARED = inputs.NUMBERS + "US"  # kinds of types whose values numpy compares with a label


def declared(classes: Any) -> tuple[Any, ...]:
    """The negative and the positive label, or all labels of several classes."""
    if classes is None:
        return DEFAULT
    if not isinstance(classes, (tuple, list, np.ndarray)) or len(classes) < 2:
        raise PlanError(f"classes must be at least two labels: {DECLARE}")
    for place, label in enumerate(classes):
        if not _same(label, label):
            raise PlanError(f"{label!r} is no label, because it equals nothing: {DECLARE}")
        if any(_same(label, other) for other in classes[:place]):
            raise PlanError(f"two labels of classes are equal: {DECLARE}")
    return tuple(classes)


def as_classes(labels: tuple[Any, ...]) -> Any:
    """The labels as an array that keeps their type."""
    kept = np.empty(len(labels), dtype=object)
    kept[:] = labels
    plain = np.array(labels) if len({type(label) for label in labels}) == 1 else kept
    return plain if plain.ndim == 1 else kept


def target(estimator: Any, y: Any) -> Any:
    """The place of each label among those declared, NaN for any other, by array or lazy array."""
    labels = declared(estimator.classes)
    inputs.check_given(estimator, y)
    inputs.check_not_masked("y", y)
    if not (inputs.is_labelled(y) or hasattr(y, "__dask_graph__")):
        y = np.asarray(y)
    for where, dtype in inputs.declared_types("y", y):
        _check_type(where, dtype, labels, stated=estimator.classes is not None)
    encode = functools.partial(_encoded, labels=labels)
    y = inputs.one_column(_array(y))
    return y.map_blocks(encode, dtype=np.float64, meta=np.empty(0)) if hasattr(y, "__dask_graph__") else encode(y)


def _check_type(where: str, dtype: Any, labels: tuple[Any, ...], *, stated: bool) -> None:
    """Refuse a declared type that cannot hold the declared labels."""
    inputs.check_not_complex(where, dtype)
    if not stated and dtype.kind != "b":  # a boolean's type says which labels there are
        raise InputError(f"{where} holds {inputs.words(dtype)}, and its labels are not declared: {DECLARE}")
    if dtype.kind in inputs.NUMBERS:
        fitting = all(isinstance(label, (numbers.Real, np.bool_)) for label in labels)
    elif issubclass(dtype.type, (str, bytes)):
        fitting = all(isinstance(label, bytes if issubclass(dtype.type, bytes) else str) for label in labels)
    else:
        fitting = dtype.kind == "O"
    if not fitting:
        raise InputError(f"{where} holds {inputs.words(dtype)}, and classes declares labels of another type: declare labels of y's type")


def _array(y: Any) -> Any:
    """The labels as an array, of objects where they are no numbers."""
    if not inputs.is_labelled(y):
        return y
    if all(dtype.kind in inputs.NUMBERS for _, dtype in inputs.declared_types("y", y)):
        return inputs.numbers("y", y)
    if hasattr(y, "to_dask_array"):
        return inputs.of_dask_frame(y.astype(object), counted=True)
    return y.to_numpy(dtype=object)


def _encoded(y: Any, labels: tuple[Any, ...]) -> Array:
    """The numbers of a block of labels."""
    places = np.full(len(y), np.nan)
    for place, label in enumerate(labels):
        equal = y == label if y.dtype.kind in COMPARED else np.array([_same(value, label) for value in y], dtype=bool)
        places[equal] = place
    return places


def _same(value: Any, label: Any) -> bool:
    """Whether a value is the label; one that cannot be compared is not."""
    try:
        return bool(value == label)
    except Exception:
        return False
