"""Features are bounded in one pass, to the bits that NumPy's passes one after the other have."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nightfit.records.bounded_rows import bound_rows
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -(2.0**-1022), 1.7976931348623157e308, -1e308, 1.0, -1.0, 3.0]
numbers = st.one_of(st.sampled_from(SPECIAL), st.floats())


def in_passes(raw: Array, centre: Array, scale: Array, reach: Array, drops: Array, fills: bool, absent: Array) -> tuple[Array, Array]:
    finite = np.isfinite(raw)
    with np.errstate(all="ignore"):
        X = np.clip((raw - centre) / scale, -reach, reach)
    if fills:
        np.copyto(X, absent, where=~finite)
    return np.column_stack([X, np.ones(len(raw))]), (finite | ~drops).all(axis=1)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), fills=st.booleans(), single=st.booleans(), by_column=st.booleans())
def test_rows_have_the_bits_of_the_formula_in_any_layout_and_precision(
    data: st.DataObject, fills: bool, single: bool, by_column: bool
) -> None:
    rows, columns = data.draw(st.sampled_from([0, 1, 5, 63, 64, 65, 130])), data.draw(st.integers(1, 4))
    raw = data.draw(arrays(np.float64, (rows, columns), elements=numbers, fill=numbers))
    facts = arrays(np.float64, columns, elements=st.floats(-10, 10))
    centre, absent, scale = data.draw(facts), data.draw(facts), np.exp(data.draw(facts))
    reach = data.draw(arrays(np.float64, columns, elements=st.sampled_from([1.0, math.inf])))
    drops: npt.NDArray[np.bool_] = data.draw(arrays(np.bool_, columns))
    out, kept = np.empty((rows, columns + 1), dtype=np.float32 if single else np.float64), np.empty(rows, dtype=np.bool_)
    bound_rows(np.asfortranarray(raw) if by_column else raw, centre, scale, reach, drops, fills, absent, out, kept)
    X, expected = in_passes(raw, centre, scale, reach, drops, fills, absent)
    with np.errstate(over="ignore"):
        X = X.astype(out.dtype)
    assert kept.tolist() == expected.tolist()
    assert np.isnan(out).tolist() == np.isnan(X).tolist()
    assert np.where(np.isnan(X), 0.0, out).tobytes() == np.where(np.isnan(X), 0.0, X).tobytes()


@pytest.mark.parametrize("shape", [(3, 2), (4, 3), (5, 3)])
def test_rows_that_do_not_fit_are_refused_before_anything_is_written(shape: tuple[int, int]) -> None:
    shaped = Preprocessing(features=("a", "b", "c"), target=None, centre=(0.0,) * 3, scale=(1.0,) * 3, intercept=False)
    out = np.full(shape, 7.0)
    with pytest.raises(ValueError, match="3 features of"):
        shaped.features_of(np.zeros((3, 3)), out)
    assert (out == 7.0).all()
