"""Which records each step of the loop reads, and its share of the budget. Imports specification and packages below."""

import math

from nightfit.methods.loop.solvers import Solver
from nightfit.planning.specification import Budget, Specification
from nightfit.privacy.accounting import sampled_multiplier
from nightfit.types import WHOLE, Adjacency, Draw, Part, Sample, parts_of

MAX_STEPS = 100_000  # a plan and its reservation list the queries of every step


def draws_of(spec: Specification, solver: Solver, units: int) -> tuple[Draw, ...]:
    """The records that each step reads: as the solver prescribes, the method says, or is usual for the solver."""
    if solver.steps > MAX_STEPS:
        raise ValueError(f"a fit has at most {MAX_STEPS:,} steps, got {solver.steps}")
    draws = solver.prescribed_draws()
    if draws is None:
        batch = spec.method.batch or usual_sample(solver, units)
        draws = _draws_of_batch(batch, solver.steps, units)
    return draws


def _draws_of_batch(batch: str | int, steps: int, units: int) -> tuple[Draw, ...]:
    if batch == "full":
        return (WHOLE,) * steps
    if batch == "splits":
        return parts_of(steps)
    if isinstance(batch, int) and 1 <= batch < units:
        return tuple(Sample(batch / units, step) for step in range(steps))
    raise ValueError(f"batch must be full, splits or a number of records below {units}, got {batch!r}")


def usual_sample(solver: Solver, units: int) -> str | int:
    """The expected size of the solver's usual Poisson sample, or "full" if it reads all records or would read none."""
    size = int(solver.usual_sampling_rate * units)
    return "full" if solver.usual_sampling_rate == 1.0 or size < 1 else size


def multipliers_of(budget: Budget, draws: tuple[Draw, ...], spent: float = 0.0) -> list[float]:
    """The noise of each step, in sensitivities, such that all steps together cost what is left of the budget after `spent` of its mu^2.

    Guarantee: the steps that read one record cost at most the whole budget. A step on a part gets 1 / k of it if no record of the part
    is read by more than k steps, itself included: of the at most k steps that read a record, each gets at most 1 / k. Poisson samples
    are calibrated together, by their privacy loss distribution. Broken by
    test_the_steps_that_read_one_record_cost_at_most_the_budget.
    """
    if any(isinstance(draw, Sample) for draw in draws):
        if budget.adjacency is Adjacency.REPLACE_ONE:
            raise ValueError("Poisson samples are accounted for under zero_out or add_remove: set privacy.adjacency to one of them")
        beside = spent * budget.mu_squared()
        one = sampled_multiplier(draws[0].fraction, len(draws), budget.epsilon, budget.delta, budget.adjacency, beside)
        return [one] * len(draws)
    parts = [draw for draw in draws if isinstance(draw, Part)]
    edges = sorted({part.low for part in parts})
    readers = {edge: sum(part.low <= edge < part.high for part in parts) for edge in edges}
    most = {part: max(count for edge, count in readers.items() if part.low <= edge < part.high) for part in set(parts)}
    return [math.sqrt(most[part] / ((1 - spent) * budget.mu_squared())) for part in parts]
