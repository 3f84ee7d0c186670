"""Step 2: open the ledger and reserve a plan's whole cost before any row is read. Imports ledger, release and below."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from nightfit.config import Config, ConfigError
from nightfit.ledger import Ledger, LedgerError, NoLedger, Reservation, Run
from nightfit.ledger.policy import buckets_of
from nightfit.nightly.fit import reservation_of
from nightfit.nightly.job import Job
from nightfit.nightly.readiness import check_ready
from nightfit.nightly.selection import check_stated_policy, is_hive_key
from nightfit.nightly.witness import check_not_older, remember
from nightfit.release import Release, ReleaseError
from nightfit.release.discovered import discovered_in
from nightfit.release.document import found_in


def open_ledger(config: Config) -> Ledger:
    """Open the configured ledger.

    Parameters
    ----------
    config : Config
        The configuration.

    Returns
    -------
    Ledger

    Raises
    ------
    LedgerError
        If there is no ledger, if a release in the output folder was paid elsewhere or is not in this copy, or if the policy differs.
    """
    ledger = Ledger.open(config.ledger_url)
    check_not_older(ledger)
    _check_releases(config, ledger)
    check_stated_policy(config, ledger.policies().get(config.data_set))
    return ledger


def _check_releases(config: Config, ledger: Ledger) -> None:
    """Refuse a ledger that does not hold every release of the output folder: it is another one, or an older copy."""
    beside, folder = config.output_folder.name, config.output_folder
    found = list(found_in(folder))
    for problem in (one for _, one in found if isinstance(one, ReleaseError)):
        raise LedgerError(f"whether this ledger paid for every release of {beside} cannot be told: {problem}")
    refits = [(name, one.claim) for name, one in found if isinstance(one, Release)]
    for name, claim in [*refits, *((name, told.claim) for name, told in discovered_in(folder))]:
        receipt = claim.receipt
        if receipt is None or receipt.ledger_id != ledger.ledger_id:
            raise LedgerError(f"{beside}/{name} was paid in another ledger: use that ledger, or another output folder for this one")
        if not ledger.holds(receipt.seq, receipt.digest):
            raise LedgerError(
                f"{beside}/{name} was paid by an entry that this ledger does not have: it is an older copy, and spending on would "
                "forget that charge; restore the newest copy (`nightfit ledger verify --releases` lists what is missing)"
            )


def reserve(job: Job, ledger: Ledger, *, again: bool = False, unsafe: bool = False) -> Run:
    """Reserve the plan's whole cost for every block that it reads, or return the run that reserved it before.

    Parameters
    ----------
    job : Job
        A planned refit.
    ledger : Ledger
        An open ledger.
    again : bool
        Reserve a finished window once more.
    unsafe : bool
        Allow the configuration's `unsafe` section; the release is then stamped private: false.

    Returns
    -------
    Run

    Raises
    ------
    ConfigError
        If noise is seeded or absent without `unsafe`, or the output folder cannot be written.
    ClusterError
        If no scheduler answers at the configured address, or a worker there has another version.
    BudgetExceeded
        If a block cannot pay.
    """
    _check_noise(job, unsafe)
    latest = ledger.latest_run(job.config.name, job.config.data_set, job.window)
    check_ready(job.config, job.read_on, answered=latest is not None and latest.state == "finished" and not again)
    _refund_earlier_nights(job, ledger, keep=job.resume or (latest.run if latest else None))
    run = ledger.reserve(_reservation_of(job), again=again, resume=job.resume, first=job.config.policy())
    remember(ledger)
    return run


def reserve_together(rows: Job, jobs: Sequence[Job], ledger: Ledger, *, again: bool = False, unsafe: bool = False) -> tuple[Run, list[Run]]:
    """Reserve the queries about rows once, and what each model asks by itself, in one transaction: everything, or nothing.

    Parameters
    ----------
    rows : Job
        What the models share.
    jobs : sequence of Job
        The models.
    ledger, again, unsafe
        As of `reserve`.

    Returns
    -------
    tuple of Run and list of Run
        The run that pays for what is shared, and that of each model.

    Raises
    ------
    ConfigError, ClusterError, BudgetExceeded
        As of `reserve`.
    """
    for job in (rows, *jobs):
        _check_noise(job, unsafe)
        latest = ledger.latest_run(job.config.name, job.config.data_set, job.window)
        check_ready(job.config, job.read_on, answered=job is not rows)
        _refund_earlier_nights(job, ledger, keep=latest.run if latest else None)
    paying, *taking = ledger.reserve_together(
        _reservation_of(rows), [_reservation_of(job) for job in jobs], again=again, first=rows.config.policy()
    )
    remember(ledger)
    return paying, taking


def check_reservable(job: Job) -> None:
    """Refuse what a refit of this plan would refuse before it reads a row; nothing is written. Without a ledger there is nothing to ask.

    Parameters
    ----------
    job : Job
        A planned refit or search.

    Raises
    ------
    ConfigError
        If the output folder cannot be written.
    LedgerError
        If the ledger, or a release beside it, does not fit the configuration, or an unfinished run has another plan.
    BudgetExceeded
        If a block cannot pay.
    """
    check_ready(job.config, job.read_on, answered=True)
    try:
        ledger = open_ledger(job.config)
    except NoLedger:
        return
    ledger.check(_reservation_of(job), first=job.config.policy())


def check_together(rows: Job | None, jobs: Sequence[Job]) -> None:
    """The same for models that are fitted together, of which all are reserved or none."""
    if rows is None or all(job.begun is not None and job.begun.state == "finished" for job in jobs):
        for job in jobs:
            check_reservable(job)
        return
    check_ready(rows.config, rows.read_on, answered=True)
    try:
        ledger = open_ledger(rows.config)
    except NoLedger:
        return
    ledger.check_together(_reservation_of(rows), [_reservation_of(job) for job in jobs], first=rows.config.policy())


def _reservation_of(job: Job) -> Reservation:
    """What a job asks the ledger to set aside."""
    block_by_file = (
        job.manifest.block_by_file(job.division) if is_hive_key(job.division) else dict.fromkeys(job.manifest.fingerprints(), "")
    )
    reservation = reservation_of(
        job.plan,
        window=job.window,
        manifest=job.manifest.identity(),
        files=tuple(block_by_file),
        private=job.config.noise().private,
        shared_run=job.begun.shares or "" if job.begun is not None else "",
    )
    buckets, shape = buckets_of(job.division), job.plan.specification.preprocessing
    return replace(
        reservation,
        blocks=job.blocks,
        homes=tuple(block_by_file.values()),
        buckets=buckets,
        row_id=shape.row_id if buckets is not None and shape.unit is None else None,
    )


def _refund_earlier_nights(job: Job, ledger: Ledger, keep: str | None) -> None:
    """Give back what earlier nights of this model reserved if their process died before it asked anything.

    The run to `keep` is of the same window and is resumed; a run that another process works on is left alone.
    """
    for run_id in ledger.unasked_runs(job.config.name, job.config.data_set):
        if run_id != keep:
            with contextlib.suppress(LedgerError), ledger.hold(run_id):
                ledger.abandon_unasked(run_id)


def _check_noise(job: Job, unsafe: bool) -> None:
    """Refuse noise that is not private unless it was allowed, and a baseline method with private noise."""
    if job.config.unsafe is not None and not unsafe:
        raise ConfigError(
            "the configuration has an `unsafe` section (seeded or no noise): it is for tests; remove it, or allow it with --unsafe"
        )
    if not job.plan.procedure.private and job.config.noise().private:
        raise ConfigError(
            "this method is a baseline that is not private: to compare with it add `unsafe: {noise: none}` and use --unsafe; "
            "its releases are stamped private: false"
        )
