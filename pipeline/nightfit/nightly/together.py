"""Several models of a night in one process: rows are decoded once, and models ask in step. Imports groups, in_step and below.

One run, `rows-...`, pays for the queries about rows that models share; each model has a run of its own, which takes these answers, so it
is resumed, refunded, released and refused by itself.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nightfit.ledger import Binding, Ledger, Run
from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.auto.shared_rows import RowQueries
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates, find_coordinates
from nightfit.nightly.execution import refunded_if_unasked, run_preprocessing
from nightfit.nightly.fit import Asked, FitError, asked_of, released
from nightfit.nightly.groups import Failed, Group
from nightfit.nightly.in_step import Place, in_step
from nightfit.nightly.job import Job, Show
from nightfit.nightly.pruning import kept_release
from nightfit.nightly.publication import Published, publish
from nightfit.nightly.reservation import open_ledger, reserve, reserve_together
from nightfit.nightly.steps import run as run_alone
from nightfit.planning.plan import Plan
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import Noise
from nightfit.queries.parts import Division
from nightfit.records.preprocessing import Preprocessing
from nightfit.release.assembly import claimed
from nightfit.shards.cluster import Cluster, Living, Synchronous, chosen, connected
from nightfit.shards.dataset import RowsOfModel, ShardedDataset
from nightfit.shards.manifest import check_unchanged
from nightfit.types import NightfitError

Result = Published | Failed


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a night is run: as the options of a refit."""

    again: bool
    unsafe: bool
    show: Show


def run_together(groups: Sequence[Group], *, again: bool = False, unsafe: bool = False, show: Show = lambda _: None) -> Iterator[Result]:
    """Reserve, fit and publish every model on one cluster; those of a group ask in step. One model's failure does not stop the others.

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
    options = Options(again=again, unsafe=unsafe, show=show)
    with Clusters() as clusters:
        for group in groups:
            told: set[str] = set()
            try:
                for result in _run_group(group, clusters, options):
                    told.add(result.model)
                    yield result
            except Exception as error:
                yield from (_failed(job, error) for job in group.jobs if job.config.name not in told)


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


def _run_group(group: Group, clusters: Clusters, options: Options) -> Iterator[Result]:
    works = options.again or any(job.begun is None or job.begun.state == "reserved" for job in group.jobs)
    if not works or (group.rows is None and len(group.jobs) == 1):  # where every model has finished, its release is returned
        yield from (_alone(job, clusters, options, works) for job in group.jobs)
        return
    ledger = _opened(group)
    on = clusters.joined(group.jobs[0], group.columns).cluster
    group = replace(group, jobs=tuple(replace(job, cluster=on) for job in group.jobs))
    if group.rows is None:
        yield from _beside(group, ledger, options)
    else:
        yield from _sharing(replace(group, rows=replace(group.rows, cluster=on)), ledger, options)


def _alone(job: Job, clusters: Clusters, options: Options, works: bool) -> Result:
    try:
        on = clusters.joined(job, job.plan.specification.preprocessing) if works else job
        return run_alone(on, again=options.again, unsafe=options.unsafe, show=options.show)
    except Exception as error:
        return _failed(job, error)


def _opened(group: Group) -> Ledger:
    """The ledger of the models, which must have paid for every release of each of their output folders."""
    ledger = open_ledger(group.jobs[0].config)
    for config in {job.config.output_folder: job.config for job in group.jobs[1:]}.values():
        if config.output_folder != group.jobs[0].config.output_folder:
            open_ledger(config)
    return ledger


def _sharing(group: Group, ledger: Ledger, options: Options) -> Iterator[Result]:
    """Models that share the queries about rows: everything is reserved, or nothing."""
    rows = group.rows
    assert rows is not None
    paying, runs = reserve_together(rows, group.jobs, ledger, again=options.again, unsafe=options.unsafe)
    with contextlib.ExitStack() as stack:
        for run in (paying, *runs):  # all are held: what asked nothing is given back if this fails
            stack.enter_context(ledger.hold(run.run_id))
            stack.enter_context(refunded_if_unasked(ledger, run))
        records = stack.enter_context(_staged(group, ledger))
        found = _ask_about_rows(rows, group.queries, RowsOfModel(records=records, place=None), paying)
        yield from _asked_in_step(list(zip(group.jobs, runs, strict=True)), ledger, records, options, found)


def _beside(group: Group, ledger: Ledger, options: Options) -> Iterator[Result]:
    """Models that share the decoded rows alone: each is reserved, or refused, by itself."""
    with contextlib.ExitStack() as stack:
        held: list[tuple[Job, Run]] = []
        for job in group.jobs:
            try:
                run = reserve(job, ledger, again=options.again, unsafe=options.unsafe)
                stack.enter_context(ledger.hold(run.run_id))
            except Exception as error:
                yield _failed(job, error)
                continue
            stack.enter_context(refunded_if_unasked(ledger, run))
            held.append((job, run))
        if held:
            records = stack.enter_context(_staged(replace(group, jobs=tuple(job for job, _ in held)), ledger))
            yield from _asked_in_step(held, ledger, records, options)


@contextlib.contextmanager
def _staged(group: Group, ledger: Ledger) -> Iterator[ShardedDataset]:
    """The group's records with the targets of all its models, decoded once."""
    job = group.jobs[0]
    check_unchanged(job.manifest)
    columns = replace(group.columns, buckets=run_preprocessing(job, ledger).buckets)
    passes = sum(one.plan.passes for one in group.jobs)
    with connected(job.read_on) as client, ShardedDataset(job.manifest, columns, client, passes=passes) as records:
        records.stage()
        yield records


def _ask_about_rows(job: Job, queries: RowQueries, records: RowsOfModel, run: Run) -> WhitenedCoordinates:
    """Ask what the models share, finish its run, and return what it came to. Stored answers are not asked for again."""
    noise = job.config.noise()
    division = None if queries.part is None else Division(part=queries.part, key=run.division_key)
    found = find_coordinates(queries, Gate(account=run, records=records, noise=noise, division=division))
    content = {
        "model": job.config.name,
        "run": run.run_id,
        "manifest": run.manifest_id,
        "time": run.started,
        **claimed(job.plan, private=noise.private),
    }
    run.finish(Binding.of(content))
    return found


def _asked_in_step(
    held: Sequence[tuple[Job, Run]],
    ledger: Ledger,
    records: ShardedDataset,
    options: Options,
    coordinates: WhitenedCoordinates | None = None,
) -> Iterator[Result]:
    """Ask the queries of all models in step, and publish each model; where they share queries about rows, from these coordinates."""
    plans = [job.plan if coordinates is None else _at(coordinates, job.plan) for job, _ in held]
    works = [
        partial(_asked, plan, job.config.noise(), run, run.pruned(), options.show) for plan, (job, run) in zip(plans, held, strict=True)
    ]
    for number, asked in in_step([run for _, run in held], records, works):
        yield _published(*held[number], ledger, asked)


def _at(coordinates: WhitenedCoordinates, plan: Plan) -> Plan:
    """The plan, where what models share was asked already and came to these coordinates."""
    assert isinstance(plan.procedure, AutoFit)
    return replace(plan, procedure=replace(plan.procedure, coordinates=coordinates))


def _asked(plan: Plan, noise: Noise, run: Run, pruned: bool, show: Show, place: Place) -> Asked | None:
    """What a model's queries came to; None where its answers were pruned."""
    if pruned:
        return None
    return asked_of(plan, Gate(account=place, records=place, noise=noise), run.division_key, show)


def _published(job: Job, run: Run, ledger: Ledger, asked: Asked | Exception | None) -> Result:
    """The model's release and report; what failed before it asked anything is given back."""
    try:
        with refunded_if_unasked(ledger, run):
            if isinstance(asked, Exception):
                raise asked
            release = kept_release(job, ledger, run) if asked is None else released(job.plan, asked, run, job.config.noise())
        return publish(job, ledger, release)
    except Exception as error:
        return _failed(job, error)
