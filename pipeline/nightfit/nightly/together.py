"""Several models of a night in one process: rows are decoded once, and what needs no target is asked and paid once. Imports this package.

Models of the same columns, window, buckets, split and budget form a group. One run, `rows-...`, pays for the queries about rows; each model
has a run of its own, which takes these answers, so it is resumed, refunded, released and refused by itself.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nightfit.config import Config, ConfigError
from nightfit.ledger import Binding, Ledger, Run
from nightfit.methods.auto.shared_rows import RowQueries
from nightfit.methods.auto.whitened_coordinates import find_coordinates
from nightfit.nightly.execution import NoRecords, refunded_if_unasked, run_preprocessing
from nightfit.nightly.fit import FitError, fit
from nightfit.nightly.job import Job, Purpose, Show
from nightfit.nightly.preparation import prepare, refit_plan
from nightfit.nightly.pruning import kept_release
from nightfit.nightly.publication import Published, publish
from nightfit.nightly.reservation import open_ledger, reserve_together
from nightfit.nightly.steps import run as run_alone
from nightfit.planning.plan import Plan
from nightfit.privacy.gate import Gate
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.none import NoPenalty
from nightfit.queries.parts import Division
from nightfit.records.preprocessing import Preprocessing
from nightfit.release import Release
from nightfit.release.assembly import claimed
from nightfit.shards.cluster import Cluster, Living, Synchronous, chosen, connected
from nightfit.shards.dataset import RowsOfModel, ShardedDataset
from nightfit.shards.manifest import check_unchanged
from nightfit.types import NightfitError

ROWS = Purpose(plan=refit_plan)
DIGITS = 8  # of a plan's digest, in the name of what asks about rows: it keeps two sets of columns of one window apart


@dataclass(frozen=True, kw_only=True)
class Group:
    """Models that are fitted together.

    Attributes
    ----------
    jobs : tuple of Job
        The models.
    rows : Job, optional
        What they share; None where a model is fitted alone.
    """

    jobs: tuple[Job, ...]
    rows: Job | None = None

    @property
    def queries(self) -> RowQueries:
        """The queries that are shared."""
        shared = self.jobs[0].plan.shared_rows
        assert shared is not None
        return shared


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


Result = Published | Failed


def prepare_together(configs: Sequence[Config], *, again: bool = False) -> tuple[list[Group], list[Failed]]:
    """Plan several models, and find which share the queries about rows. No row is read.

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
    sharing: list[list[Job]] = []
    alone: list[Group] = []
    failed = []
    for config in configs:
        try:
            job = prepare(config, again=again, shares_rows=True)
        except NightfitError as error:
            failed.append(Failed(model=config.name, error=error, config=config))
            continue
        if job.plan.shared_rows is None:
            alone.append(Group(jobs=(job,)))
            continue
        group = next((group for group in sharing if _same_rows(group[0], job)), None)
        sharing.append([job]) if group is None else group.append(job)
    groups = [_group(tuple(jobs), again) for jobs in sharing]
    return [*groups, *alone], failed


def _same_rows(one: Job, other: Job) -> bool:
    """Whether two models may share the queries about rows: the same records, queries, noise, ledger and cluster."""

    def facts(job: Job) -> tuple[Any, ...]:
        config = job.config
        where = (config.ledger_url, config.data_set, config.source, config.cluster, config.unsafe)
        return (job.plan.shared_rows, job.plan.shared_events, job.manifest.identity(), job.blocks, job.division, job.window, where)

    return facts(one) == facts(other) and one.plan.specification.preprocessing.unit is None


def _group(jobs: tuple[Job, ...], again: bool) -> Group:
    """The models with what they share; one model alone asks by itself, unless its run has begun with shared answers."""
    begun = any(job.begun is not None and job.begun.shares is not None for job in jobs)
    of_persons = jobs[0].plan.specification.preprocessing.unit is not None
    if (len(jobs) == 1 and not begun) or of_persons:
        return Group(jobs=(prepare(jobs[0].config, again=again),))
    return Group(jobs=jobs, rows=_rows_job(jobs[0]))


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


def run_together(groups: Sequence[Group], *, again: bool = False, unsafe: bool = False, show: Show = lambda _: None) -> Iterator[Result]:
    """Reserve, fit and publish every model, one after the other, on one cluster. One model's failure does not stop the others.

    Parameters
    ----------
    groups : sequence of Group
        From `prepare_together`.
    again, unsafe
        As of a refit.
    show : callable
        Called with a `Progress` after each step.

    Yields
    ------
    Published or Failed
        For each model.
    """
    with Clusters() as clusters:
        for group in groups:
            try:
                yield from _run_group(group, clusters, again=again, unsafe=unsafe, show=show)
            except Exception as error:
                yield from (_failed(job, error) for job in group.jobs)


def _failed(job: Job, error: Exception) -> Failed:
    """A failure in words. Of one that is not foreseen only the kind is told: its text might hold a value."""
    if not isinstance(error, NightfitError):
        error = FitError(f"the refit stopped on an unexpected {type(error).__name__}; run it again to resume")
    return Failed(model=job.config.name, error=error, config=job.config)


class Clusters(contextlib.ExitStack):
    """Clusters that were made for one group are used by the next, and closed at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[Cluster, Any]] = []

    def joined(self, job: Job, columns: Preprocessing) -> Job:
        """The job on a cluster that is open; the same where its rows are read in this process."""
        cluster = chosen(job.read_on, job.manifest.rows * columns.dense_row_bytes)
        if isinstance(cluster, Synchronous):
            return replace(job, cluster=cluster)
        client = next((client for known, client in self.opened if known == cluster), None)
        if client is None:
            client = self.enter_context(connected(cluster))
            self.opened.append((cluster, client))
        return replace(job, cluster=Living(client=client))


def _run_group(group: Group, clusters: Clusters, *, again: bool, unsafe: bool, show: Show) -> Iterator[Result]:
    works = again or any(job.begun is None or job.begun.state == "reserved" for job in group.jobs)
    if group.rows is None or not works:  # where every model has finished, its release is returned
        for job in group.jobs:
            on = clusters.joined(job, job.plan.specification.preprocessing) if works else job
            yield run_alone(on, again=again, unsafe=unsafe, show=show)
        return
    ledger, columns = open_ledger(group.rows.config), _columns(group)
    shared = clusters.joined(group.rows, columns)
    jobs = [replace(job, cluster=shared.cluster) for job in group.jobs]
    paying, runs = reserve_together(shared, jobs, ledger, again=again, unsafe=unsafe)
    with contextlib.ExitStack() as stack:
        for run in (paying, *runs):  # all are held: what asked nothing is given back if this fails
            stack.enter_context(ledger.hold(run.run_id))
            stack.enter_context(refunded_if_unasked(ledger, run))
        check_unchanged(shared.manifest)
        client = stack.enter_context(connected(shared.read_on))
        passes = sum(job.plan.passes for job in jobs)
        records = stack.enter_context(ShardedDataset(shared.manifest, _divided(columns, shared, ledger), client, passes=passes))
        records.stage()
        _ask_about_rows(shared, group.queries, RowsOfModel(records=records, place=None), paying)
        for place, (job, run) in enumerate(zip(jobs, runs, strict=True)):
            try:
                with refunded_if_unasked(ledger, run):
                    release = _fitted(job, ledger, run, RowsOfModel(records=records, place=place), show)
                result: Result = publish(job, ledger, release)
            except Exception as error:
                result = _failed(job, error)
            yield result


def _columns(group: Group) -> Preprocessing:
    """Rows with the targets of all models side by side."""
    return replace(group.queries.preprocessing, several=tuple(job.plan.specification.preprocessing for job in group.jobs))


def _divided(columns: Preprocessing, job: Job, ledger: Ledger) -> Preprocessing:
    """The same, restricted to the job's hash buckets if the data set is divided so."""
    return replace(columns, buckets=run_preprocessing(job, ledger).buckets)


def _ask_about_rows(job: Job, queries: RowQueries, records: RowsOfModel, run: Run) -> None:
    """Ask what the models share, and finish its run. Stored answers are not asked for again."""
    noise = job.config.noise()
    division = None if queries.part is None else Division(part=queries.part, key=run.division_key)
    find_coordinates(queries, Gate(account=run, records=records, noise=noise, division=division))
    content = {
        "model": job.config.name,
        "run": run.run_id,
        "manifest": run.manifest_id,
        "time": run.started,
        **claimed(job.plan, private=noise.private),
    }
    run.finish(Binding.of(content))


def _fitted(job: Job, ledger: Ledger, run: Run, records: RowsOfModel, show: Show) -> Release:
    if run.pruned():
        return kept_release(job, ledger, run)
    return fit(job.plan, NoRecords() if run.complete() else records, run, job.config.noise(), show)
