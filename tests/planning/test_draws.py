"""Which records steps read, and how they share the budget."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightfit.methods.loop.solvers.phased import Phased
from nightfit.methods.loop.solvers.proximal_gradient import ProximalGradient
from nightfit.methods.loop.solvers.proximal_sgd import ProximalSgd
from nightfit.planning.draws import multipliers_of, usual_sample
from nightfit.planning.specification import Budget
from nightfit.types import WHOLE, Adjacency, Part, Sample, parts_of

BUDGET = Budget(epsilon=1.0, delta=1e-6)
EDGES = st.lists(st.integers(0, 8), min_size=2, max_size=2, unique=True).map(sorted)


@settings(max_examples=100, deadline=None)
@given(edges=st.lists(EDGES, min_size=1, max_size=6))
def test_the_steps_that_read_one_record_cost_at_most_the_budget(edges):
    parts = tuple(Part(low * 2**29, high * 2**29) for low, high in edges)
    multipliers = multipliers_of(BUDGET, parts)
    for record in range(0, 2**32, 2**29):
        spent = sum(z**-2 for part, z in zip(parts, multipliers, strict=True) if part.low <= record < part.high)
        assert spent <= BUDGET.mu_squared() * (1 + 1e-12)


@pytest.mark.parametrize(("draws", "share"), [((WHOLE,) * 5, 5), (parts_of(5), 1), (Phased(steps=8, step_size=1.0).prescribed_draws(), 2)])
def test_steps_on_the_same_records_share_the_budget_and_steps_on_others_do_not(draws, share):
    assert multipliers_of(BUDGET, draws) == pytest.approx([(share / BUDGET.mu_squared()) ** 0.5] * len(draws))


def test_poisson_samples_need_an_adjacency_with_an_accountant():
    with pytest.raises(ValueError, match="zero_out or add_remove"):
        multipliers_of(BUDGET, (Sample(0.1, 0),))
    zeroed = Budget(epsilon=1.0, delta=1e-6, adjacency=Adjacency.ZERO_OUT)
    assert len(set(multipliers_of(zeroed, (Sample(0.1, 0), Sample(0.1, 1))))) == 1


def test_a_solver_of_samples_reads_all_records_where_a_sample_would_be_empty():
    assert usual_sample(ProximalSgd(steps=1, step_size=1.0), 1000) == 10
    assert usual_sample(ProximalSgd(steps=1, step_size=1.0), 99) == "full"
    assert usual_sample(ProximalGradient(steps=1, step_size=1.0), 1000) == "full"
