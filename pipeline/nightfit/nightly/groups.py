"""Which models of a night are fitted side by side, and what they share. Imports preparation and below.

Models whose rows are the same but for their targets are one group: their records are decoded once, and they ask in step. Where all of a
group's `auto` fits have the same split and budget, one more run, `rows-...`, pays for what they ask about rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nightfit.config import Config, ConfigError
from nightfit.methods.auto.shared_rows import RowQueries, without_target
from nightfit.nightly.execution import draws_of
from nightfit.nightly.job import Job, Purpose
from nightfit.nightly.preparation import prepare, refit_plan
from nightfit.planning.plan import Plan
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.none import NoPenalty
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import WHOLE, NightfitError

ROWS = Purpose(plan=refit_plan)
DIGITS = 8  # of a plan's digest, in the name of what asks about rows: it keeps two sets of columns of one window apart


@dataclass(frozen=True, kw_only=True)
class Group:
    """Models that are fitted side by side.

    Attributes
    ----------
    jobs : tuple of Job
        The models.
    rows : Job, optional
        What pays for the queries that they share; None where each asks everything by itself.
    """

    jobs: tuple[Job, ...]
    rows: Job | None = None

    @property
    def queries(self) -> RowQueries:
        """The queries that are shared."""
        shared = self.jobs[0].plan.shared_rows
        assert shared is not None
        return shared

    @property
    def columns(self) -> Preprocessing:
        """Rows with the targets of all models side by side."""
        shapes = tuple(job.plan.specification.preprocessing for job in self.jobs)
        return replace(without_target(shapes[0]), several=shapes)


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A model whose night failed, and why. The others are fitted.

    Attributes
    ----------
    model : str
        Its name, or its file where that is no configuration.
    error : NightfitError
        In words.
    config : Config, optional
        Whom to tell.
    """

    model: str
    error: NightfitError
    config: Config | None = None


def prepare_together(configs: Sequence[Config], *, again: bool = False) -> tuple[list[Group], list[Failed]]:
    """Plan several models, and find which share rows or the queries about them. No row is read.

    Parameters
    ----------
    configs : sequence of Config
        One for each model.
    again : bool
        Refit finished windows once more.

    Returns
    -------
    tuple of list of Group and list of Failed
        The groups, and the models that cannot be planned.

    Raises
    ------
    ConfigError
        If two configurations have one name.
    """
    names = [config.name for config in configs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"two configurations have the name {twice[0]}: runs and releases of a model are found by it; name each once")
    jobs, failed = [], []
    for config in configs:
        try:
            jobs.append(prepare(config, again=again, shares_rows=True))
        except NightfitError as error:
            failed.append(Failed(model=config.name, error=error, config=config))
    asking = [job for job in jobs if job.plan.shared_rows is not None]
    sharing = [group for group in _alike(asking, _asked_rows) if _shares(group)]
    taken = {job.config.name for group in sharing for job in group}
    others = [job if job.plan.shared_rows is None else prepare(job.config, again=again) for job in jobs if job.config.name not in taken]
    beside = _alike([job for job in others if _is_staged_whole(job)], _staged_rows)
    alone = [job for job in others if not _is_staged_whole(job)]
    return [
        *(Group(jobs=group, rows=_rows_job(group[0])) for group in sharing),
        *(Group(jobs=group) for group in beside),
        *(Group(jobs=(job,)) for job in alone),
    ], failed


def _alike(jobs: Sequence[Job], facts: Callable[[Job], tuple[Any, ...]]) -> list[tuple[Job, ...]]:
    """The jobs in groups of which these facts are the same, in the order of their first ones."""
    groups: list[tuple[tuple[Any, ...], list[Job]]] = []
    for job in jobs:
        found, here = facts(job), [group for known, group in groups if known == facts(job)]
        here[0].append(job) if here else groups.append((found, [job]))
    return [tuple(group) for _, group in groups]


def _shares(jobs: Sequence[Job]) -> bool:
    """Whether one run asks about rows for these models: there are several, or a run has begun with shared answers."""
    return len(jobs) > 1 or any(job.begun is not None and job.begun.shares is not None for job in jobs)


def _staged_rows(job: Job) -> tuple[Any, ...]:
    """What must be the same where rows are decoded once: the records, the columns, the ledger that holds their keys, and the cluster."""
    config, columns = job.config, without_target(job.plan.specification.preprocessing)
    files = (config.source, job.manifest.identity(), job.blocks, job.division)
    return (config.ledger_url, config.data_set, config.cluster, *files, columns)


def _asked_rows(job: Job) -> tuple[Any, ...]:
    """What must be the same where queries about rows are shared: the rows, the queries, the window and the noise."""
    return (*_staged_rows(job), job.plan.shared_rows, job.plan.shared_events, job.window, job.config.unsafe)


def _is_staged_whole(job: Job) -> bool:
    """Whether a model's rows are decoded whole, with all columns, for a target of its own.

    They are not where samples are prefetched, for local reports, nor where records of many levels are kept as codes, which is faster alone.
    """
    config, columns = job.config, job.plan.specification.preprocessing
    coded = columns.layout is not None and columns.unit is None
    if columns.target is None or config.privacy.trust == "local" or config.performance_report or coded:
        return False
    return {*draws_of(job)} <= {WHOLE}


def _rows_job(job: Job) -> Job:
    """The job that asks and pays for what a model shares with others."""
    queries = job.plan.shared_rows
    assert queries is not None
    specification = replace(
        job.plan.specification,
        name="rows",
        preprocessing=queries.preprocessing,
        loss=Squared(),
        penalty=NoPenalty(),
        start=None,
        evaluate=None,
        shares_rows=False,
    )
    plan = Plan(specification=specification, units=job.plan.units, procedure=queries)
    name = f"rows-{plan.digest()[:DIGITS]}"
    plan = replace(plan, specification=replace(specification, name=name))
    return replace(job, config=job.config.model_copy(update={"name": name}), plan=plan, purpose=ROWS, begun=None, resume=None)
