"""The contract of every link."""

import warnings

import numpy as np
import pytest

from nightfit.plugins import members
from nightfit.problem import links
from nightfit.problem.links import Link

MARGINS = np.concatenate([[-np.inf, -1e308], np.linspace(-800, 800, 3201), [1e308, np.inf]])
every_link = pytest.mark.parametrize(
    "link", [pytest.param(link, id=repr(link)) for examples in members(links).values() for link in examples]
)


@every_link
def test_a_prediction_never_falls_with_the_margin_and_rises_near_zero(link: Link) -> None:
    predicted = link.inverse(MARGINS)
    assert not np.isnan(predicted).any()
    assert np.all(predicted[1:] >= predicted[:-1])
    assert np.all(np.diff(link.inverse(np.linspace(-5, 5, 101))) > 0)


@every_link
def test_a_probability_lies_between_zero_and_one_and_is_a_half_at_no_margin(link: Link) -> None:
    if not link.probability:
        pytest.skip("declared to give no probability")
    predicted = link.inverse(MARGINS)
    assert np.all((predicted >= 0) & (predicted <= 1))
    assert link.inverse(np.zeros(1))[0] == 0.5


@every_link
def test_any_margin_is_answered_in_silence_and_nan_stays(link: Link) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predicted = link.inverse(np.array([*MARGINS, np.nan]))
    assert predicted.dtype == np.float64
    assert np.isnan(predicted[-1])
    assert link.inverse(np.empty(0)).shape == (0,)
