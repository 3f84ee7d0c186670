"""A night of several configurations, by their files: planned, compared with separate refits, run and told. Imports together and below."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightfit.config import Config, configurations, load
from nightfit.nightly.alerts.watch import tell_completion, tell_failure
from nightfit.nightly.groups import Failed, Group, prepare_together
from nightfit.nightly.job import Show
from nightfit.nightly.preparation import ledger_and_policy, prepare
from nightfit.nightly.publication import Published, as_dict
from nightfit.nightly.together import Result, run_together
from nightfit.privacy.accounting import Cost, epsilon_of
from nightfit.types import NightfitError


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a night costs a data set, in epsilon at its lifetime's delta (without a lifetime, at that of the first model).

    Attributes
    ----------
    data_set : str
        Whose budget.
    models : tuple of str
        That are fitted on it.
    together, separately : float
        Epsilon of all models with shared queries, and of as many refits by themselves.
    """

    data_set: str
    models: tuple[str, ...]
    together: float
    separately: float

    def words(self) -> str:
        """In one sentence."""
        models = f"{len(self.models)} model{'' if len(self.models) == 1 else 's'} on {self.data_set}"
        return f"{models}: epsilon {self.together:.4g} together, {self.separately:.4g} as separate refits."


def prepare_files(paths: Sequence[Path], *, again: bool = False) -> tuple[list[Group], list[Failed]]:
    """Plan the configurations of files and folders; those that cannot be planned are told apart. No row is read."""
    configs: list[Config] = []
    failed = []
    for path in configurations(paths):
        try:
            configs.append(load(path))
        except NightfitError as error:
            failed.append(Failed(model=path.name, error=error))
    groups, refused = prepare_together(configs, again=again)
    return groups, [*failed, *refused]


def compared(groups: Sequence[Group]) -> list[Comparison]:
    """For each data set, the cost of its models together and by themselves."""
    jobs = [job for group in groups for job in group.jobs]
    return [_of_data_set(name, groups) for name in dict.fromkeys(job.config.data_set for job in jobs)]


def _of_data_set(data_set: str, groups: Sequence[Group]) -> Comparison:
    here = [group for group in groups if group.jobs[0].config.data_set == data_set]
    jobs = [job for group in here for job in group.jobs]
    _, policy = ledger_and_policy(jobs[0].config)
    budget = jobs[0].plan.specification.budget
    alone = [prepare(job.config, again=True).plan.cost for job in jobs]
    shared = [group.rows.plan.cost for group in here if group.rows is not None]
    own = [job.plan.own_cost for job in jobs]

    def epsilon(costs: Sequence[Cost]) -> float:
        return epsilon_of(sum(costs, Cost()), policy.delta if policy else budget.delta, budget.currency, budget.renyi_order)

    return Comparison(
        data_set=data_set, models=tuple(job.config.name for job in jobs), together=epsilon([*shared, *own]), separately=epsilon(alone)
    )


def run_files(
    paths: Sequence[Path],
    *,
    again: bool = False,
    unsafe: bool = False,
    show: Show = lambda _: None,
    planned: Callable[[Sequence[Group]], None] = lambda _: None,
) -> Iterator[Result]:
    """Plan, reserve, fit and publish the configurations of files and folders; each end is told to whom its configuration names.

    Parameters
    ----------
    paths : sequence of Path
        Files and folders.
    again, unsafe, show
        As of a refit.
    planned : callable
        Called with what was planned, before anything is reserved.

    Yields
    ------
    Published or Failed
        For each model.
    """
    groups, failed = prepare_files(paths, again=again)
    planned(groups)
    for result in itertools.chain(failed, run_together(groups, again=again, unsafe=unsafe, show=show)):
        if isinstance(result, Failed) and result.config is not None:
            tell_failure(result.config, result.error)
        if isinstance(result, Published):
            tell_completion(result.config, as_dict(result))
        yield result


def result_as_dict(result: Result) -> dict[str, Any]:
    """A result as plain data: a published refit, or a failure in words."""
    return as_dict(result) if isinstance(result, Published) else {"model": result.model, "error": str(result.error)}
