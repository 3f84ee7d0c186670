"""One refit from its configuration: prepare, reserve, fit, publish. The steps that a flow strings together. Imports every room below."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import report
from pipeline.config import Config, ConfigError
from pipeline.fit import fit, order_of
from pipeline.iteration import Progress
from pipeline.local.questions import Question as Reports
from pipeline.local.tape import Key
from pipeline.plan import Plan, make
from pipeline.privacy.accounting import Cost, Currency, epsilon_of
from pipeline.privacy.events import Event
from pipeline.privacy.ledger import Ledger, LedgerError, Policy, Run
from pipeline.query import Question
from pipeline.release import Release, releases_in, write_whole
from pipeline.report import Balance
from pipeline.shards.cluster import connected
from pipeline.shards.collection import Shards
from pipeline.shards.manifest import Manifest, check_unchanged, scan
from pipeline.types import Integers


@dataclass(frozen=True, kw_only=True)
class Job:
    """A planned refit: made from the configuration, the footers and the ledger's policy; no row was read."""

    config: Config
    manifest: Manifest
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class Published:
    """Where a refit's results are, and what the ledger holds now."""

    release: Release
    release_path: Path
    report_path: Path
    balance: Balance


LACKING = "a finished run lacks an answer: its ledger was changed; run `nightfit ledger verify`"


class AllAnswered:
    """The records of a run whose every answer is stored: nothing may be read again."""

    def total(self, query: Question) -> Integers:
        raise LedgerError(LACKING)

    def reported(self, question: Reports, key: Key) -> Integers:
        raise LedgerError(LACKING)


def prepare(config: Config) -> Job:
    """The plan, from public facts: configuration, footers and policy."""
    manifest = scan(config.data_path)
    specification = config.specification(manifest, currency_of(config))
    return Job(config=config, manifest=manifest, plan=make(specification, config.units(manifest)))


def currency_of(config: Config) -> Currency:
    """That of the data set's policy, stated in the configuration or kept in the ledger."""
    stated = config.policy()
    if stated is not None:
        return stated.currency
    try:
        kept = Ledger.open(config.ledger_url).policies().get(config.data_set)
    except LedgerError:
        kept = None
    usual = Currency.PURE if config.privacy.trust == "local" else Currency.GAUSSIAN
    return kept.currency if kept else usual


def open_ledger(config: Config) -> Ledger:
    """The configured ledger, with the policy that the configuration states; refused if the releases beside it were paid elsewhere."""
    ledger = Ledger.open(config.ledger_url)
    for name, release in releases_in(config.output_folder):
        receipt = release.receipt
        if receipt is None or receipt.ledger_id != ledger.ledger_id:
            raise LedgerError(f"{config.output}/{name} was paid in another ledger: use that ledger, or another output folder for this one")
        if not ledger.holds(receipt.seq, receipt.digest):
            raise LedgerError(
                f"{config.output}/{name} was paid by an entry that this ledger does not have: it is an older copy, and spending on would "
                "forget that charge; restore the newest copy (`nightfit ledger verify --releases` lists what is missing)"
            )
    stated = config.policy()
    if stated is not None:
        kept = ledger.policies().get(config.data_set)
        if kept is None:
            ledger.set_policy(stated)
        elif kept != stated:
            raise LedgerError(
                f"privacy.lifetime differs from the policy that the ledger keeps for {config.data_set!r} "
                f"(epsilon {kept.epsilon:g}, delta {kept.delta:g}, "
                f"{kept.adjacency}, {kept.currency}): state the same, remove it, or tighten the policy with `nightfit ledger policy set`"
            )
    return ledger


def reserve(job: Job, ledger: Ledger, *, again: bool = False, unsafe: bool = False) -> Run:
    """Set the plan's whole cost aside, or find the run that did so before."""
    if job.config.unsafe is not None and not unsafe:
        raise ConfigError(
            "the configuration has an `unsafe` section (seeded or no noise): it is for tests; remove it, or allow it with --unsafe"
        )
    if not job.plan.procedure.private and job.config.noise().private:
        raise ConfigError(
            "this method is a baseline that is not private: to compare with it add `unsafe: {noise: none}` and use --unsafe; "
            "its releases are stamped private: false"
        )
    identity = job.manifest.identity()
    order = order_of(
        job.plan,
        window=job.config.data.window or identity,
        manifest=identity,
        files=job.manifest.fingerprints(),
        private=job.config.noise().private,
    )
    return ledger.reserve(order, again=again)


def run_fit(job: Job, ledger: Ledger, run: Run, show: Callable[[Progress], None] = lambda _: None) -> Release:
    """Ask the plan's questions on the configured cluster; what is answered already is not asked again, nor a cluster started for it."""
    noise, preprocessing = job.config.noise(), job.plan.specification.preprocessing
    with ledger.hold(run.run_id):
        if run.complete():
            return fit(job.plan, AllAnswered(), run, noise, show)
        check_unchanged(job.manifest)
        with (
            connected(job.config.cluster_of()) as client,
            Shards(job.manifest, preprocessing, client, passes=job.plan.procedure.passes) as shards,
        ):
            shards.ready()
            return fit(job.plan, shards, run, noise, show)


def publish(job: Job, ledger: Ledger, release: Release) -> Published:
    """Write release and report, and tell the balance."""
    folder = job.config.output_folder / release.run_id
    path = release.save(folder)
    balance = balance_of(ledger, job.config.data_set, job.plan.events)
    write_whole(folder / "report.html", report.page(release, balance))
    return Published(release=release, release_path=path, report_path=folder / "report.html", balance=balance)


def balance_of(ledger: Ledger, data_set: str, events: tuple[Event, ...] = ()) -> Balance:
    """What a data set's lifetime budget holds, in epsilon at the policy's delta, and how many more runs of these events fit."""
    policy: Policy = ledger.policies()[data_set]
    spent, limit = ledger.spent(data_set), policy.limit()
    left = limit - spent
    one = policy.cost(events)
    fit_in = left.amount // one.amount if one.amount else None
    return Balance(
        data_set=data_set,
        epsilon_spent=epsilon_of(spent, policy.delta, policy.currency, policy.tariff if ledger.sampled(data_set) else None),
        epsilon_lifetime=policy.epsilon,
        delta=policy.delta,
        epsilon_left=epsilon_of(Cost(left.amount, 0), policy.delta, policy.currency),
        runs=sum(1 for run in ledger.runs() if run["data_set"] == data_set),
        runs_left=fit_in,
    )


def as_dict(published: Published) -> dict[str, Any]:
    """For machines: where the results are, what was released, what is left."""
    content, balance = published.release.content, published.balance
    return {
        "run": published.release.run_id,
        "private": published.release.private,
        "release": str(published.release_path),
        "report": str(published.report_path),
        "guarantee": content["guarantee"],
        **{name: content[name] for name in ("mean", "coef", "intercept") if name in content},
        "balance": {
            "data_set": balance.data_set,
            "epsilon_spent": balance.epsilon_spent,
            "epsilon_lifetime": balance.epsilon_lifetime,
            "delta": balance.delta,
            "epsilon_left": balance.epsilon_left,
            "runs_left": balance.runs_left,
        },
    }
