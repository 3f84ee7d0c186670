"""The share of a label, from the mean residual of units of which some do not count."""

import numpy as np
import pytest

from nightfit.methods.auto.complete_rows import believed_share, label_share
from nightfit.methods.procedure import UsedShare


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
@pytest.mark.parametrize("used", [0.2, 0.93, 1.0])
def test_units_that_do_not_count_pull_no_label_towards_a_half(share: float, used: float) -> None:
    paid = UsedShare(used, 1e-9)
    believed = believed_share(paid.share, paid.deviation)
    found = label_share(0.5, used * (share - 0.5) / believed, 1e-9, believed, paid)
    assert abs(found.share - share) < 1e-6
    assert found.deviation < 1e-6


def test_units_that_a_fit_believes_in_pull_no_label_either() -> None:
    paid = UsedShare(0.9, 0.06)
    assert believed_share(paid.share, paid.deviation) == 1.0
    assert label_share(0.5, 0.9 * (0.0 - 0.5), 1e-9, 1.0, paid).share == pytest.approx(0.0)


def test_an_interval_of_a_label_counts_the_noise_of_both_answers() -> None:
    rng, share, used = np.random.default_rng(5), 0.04, 0.95
    for deviation in (0.01, 0.05):
        misses, draws = 0, 2000
        for _ in range(draws):
            paid = UsedShare(used + deviation * rng.normal(), deviation)
            believed = believed_share(paid.share, deviation)
            residual = (used * (share - 0.5) + 0.005 * rng.normal()) / believed
            found = label_share(0.5, residual, 0.005 / believed, believed, paid)
            misses += abs(found.share - share) > 1.96 * found.deviation
        assert misses / draws < 0.08  # 5% and five deviations of 2,000 draws


def test_without_a_share_of_units_all_count() -> None:
    found = label_share(0.5, -0.4, 0.02, 1.0, None)
    assert found.share == pytest.approx(0.1)
    assert found.deviation == 0.02
