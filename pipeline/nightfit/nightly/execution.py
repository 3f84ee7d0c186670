"""Step 3: ask a reserved plan's queries on the configured cluster. Imports every package below."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from nightfit.ledger import Ledger, LedgerError, Run
from nightfit.ledger.policy import buckets_of
from nightfit.ledger.windows import number_of
from nightfit.nightly.job import Job, Show
from nightfit.nightly.pruning import kept_release
from nightfit.numerics.keystream import Key
from nightfit.numerics.prf import Buckets
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import Query
from nightfit.records.preprocessing import Preprocessing
from nightfit.release import Release
from nightfit.shards.cluster import chosen, connected
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.diagnostics import performance_report
from nightfit.shards.manifest import check_unchanged
from nightfit.shards.prefetch import UpcomingDraws
from nightfit.types import Draw, Integers

MISSING_ANSWER = "a finished run lacks an answer: its ledger was changed; run `nightfit ledger verify`"


class NoRecords:
    """The records of a run whose answers are all stored: every query is refused, because nothing may be read again."""

    def aggregate(self, query: Query) -> Integers:
        raise LedgerError(MISSING_ANSWER)

    def reported(self, question: ReportQuery, key: Key) -> Integers:
        raise LedgerError(MISSING_ANSWER)


def run_fit(job: Job, ledger: Ledger, run: Run, show: Show = lambda _: None) -> Release:
    """Ask the plan's queries on the configured cluster and return the release.

    Stored answers are not asked for again; if all are stored, no cluster is started and no file is read. A run that fails before its first
    query is asked gives its reservation back.

    Parameters
    ----------
    job : Job
        The planned refit.
    ledger : Ledger
        The ledger that holds the run.
    run : Run
        The reserved run.
    show : callable
        Called with a `Progress` after each step.

    Returns
    -------
    Release
    """
    noise, asked = job.config.noise(), job.purpose.fit
    if asked is None:
        raise TypeError("this job fits no model")
    with ledger.hold(run.run_id), refunded_if_unasked(ledger, run):
        if run.pruned():
            return kept_release(job, ledger, run)
        if run.complete():
            return asked(job.plan, NoRecords(), run, noise, show)
        check_unchanged(job.manifest)
        upcoming = UpcomingDraws(run.key, draws_of(job))
        passes, preprocessing = job.plan.passes, run_preprocessing(job, ledger)
        with (
            connected(chosen(job.read_on, job.manifest.rows * preprocessing.dense_row_bytes)) as client,
            performance_report(client, job.config.performance_report),
            ShardedDataset(job.manifest, preprocessing, client, passes=passes, upcoming=upcoming) as records,
        ):
            records.stage()
            return asked(job.plan, records, run, noise, show)


@contextlib.contextmanager
def refunded_if_unasked(ledger: Ledger, run: Run) -> Iterator[None]:
    """Give the reservation back if the work fails, for any reason, before a query was asked.

    The failure itself is raised. If the ledger cannot be used, it is not waited for once more: the next night of the model gives the
    reservation back.
    """
    try:
        yield
    except LedgerError:
        raise
    except BaseException:
        with contextlib.suppress(LedgerError):
            ledger.abandon_unasked(run.run_id)
        raise


def draws_of(job: Job) -> tuple[Draw, ...]:
    """The draws that rows are prefetched for: none where units are held out, because another key decides there who is drawn."""
    return () if job.plan.evaluation is not None else tuple(event.draw for event in job.plan.events)


def run_preprocessing(job: Job, ledger: Ledger) -> Preprocessing:
    """The plan's preprocessing, restricted to the job's hash buckets if the data set is divided so."""
    preprocessing, count = job.plan.specification.preprocessing, buckets_of(job.division)
    if count is None:
        return preprocessing
    chosen = tuple(number_of(block) for block in job.blocks)
    return replace(preprocessing, buckets=Buckets(count=count, chosen=chosen, key=ledger.bucket_key(job.config.data_set)))
