"""One refit from its configuration: prepare, reserve, fit, publish. The steps that a flow strings together. Imports every room below."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from nightfit.config import Config, ConfigError
from nightfit.config.grid import settings
from nightfit.ledger import BudgetExceeded, Ledger, LedgerError, Policy, Run, RunRecord
from nightfit.ledger.policy import ALL, buckets_of
from nightfit.ledger.windows import buckets_named, candidates, check_suits, nights_left, nights_said, number_of, payable, times, window_of
from nightfit.methods.procedure import Progress
from nightfit.methods.warm_start import Previous
from nightfit.nightly import search
from nightfit.nightly.fit import fit, order_of
from nightfit.numerics.keystream import Key
from nightfit.numerics.prf import Buckets
from nightfit.planning.plan import Plan, make, max_units
from nightfit.privacy.accounting import Cost, Currency, epsilon_of
from nightfit.privacy.events import Event
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import Query, bits_for
from nightfit.release import Release, releases_in, report, write_atomically
from nightfit.release.balance import Balance
from nightfit.release.previous_release import warm_started
from nightfit.shards.cluster import connected
from nightfit.shards.dataset import Shards
from nightfit.shards.manifest import Manifest, check_unchanged, hive_blocks, scan
from nightfit.shards.prefetch import Ahead
from nightfit.types import Integers


@dataclass(frozen=True, kw_only=True)
class Job:
    """A planned refit: made from the configuration, the footers and the ledger; no row was read.

    `blocks` are the blocks of the data set that it reads and charges, `division` how the policy divides it, `window` what its run is
    known by, `nights` how many more such runs the ledger holds (None without a ledger), `resume` the run that must be gone on with.
    """

    config: Config
    manifest: Manifest
    plan: Plan
    division: str = ALL
    blocks: tuple[str, ...] = (ALL,)
    window: str = ""
    nights: int | None = None
    resume: str | None = None

    def explain(self) -> str:
        """In words: the plan, which blocks it reads, and how many nights are left."""
        lines = [self.plan.explain()]
        if self.division != ALL:
            lines.append(f"Window: {_listed(self.blocks)}; each is charged, and has a budget of its own.")
        if self.nights is not None:
            lines.append(nights_said(window_of(self.config.data.window), self.nights))
        return "\n".join(lines)


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

    def aggregate(self, query: Query) -> Integers:
        raise LedgerError(LACKING)

    def reported(self, question: ReportQuery, key: Key) -> Integers:
        raise LedgerError(LACKING)


Planner = Callable[[Config, Manifest, int, Currency, Policy | None, Previous | None], Plan]


def refit_plan(config: Config, read: Manifest, units: int, currency: Currency, policy: Policy | None, start: Previous | None) -> Plan:
    """The plan of one refit of the rows that are read, from this start."""
    return make(replace(config.specification(read, currency, policy), start=start), units, read.rows)


def search_plan(config: Config, read: Manifest, units: int, currency: Currency, policy: Policy | None, start: Previous | None) -> Plan:
    """The plan of a search over the configuration's grid, of which each fit starts at zero and costs what one refit would, and a score."""
    tried = settings(config)
    if start is not None:
        raise ConfigError("every setting of a search starts at zero: search with `model: {start: zero}`, and refit with `previous`")
    said = config.search
    assert said is not None
    base = config.specification(read, currency, policy)
    score = search.Score(
        loss=base.loss,
        most=config.largest_loss(base),
        multiplier=1 / math.sqrt(said.score * base.budget.mu_squared()),
        units=units,
        bits=bits_for(max_units(base, max(units, read.rows))),
        adjacency=base.budget.adjacency,
    )
    plans = [search.Setting(said=point, plan=refit_plan(one, read, units, currency, policy, None), scored=score) for point, one in tried]
    return search.make(plans, epsilon=said.epsilon, payment=said.payment, mean=said.repetitions, policy=policy)


def prepare_search(config: Config, *, again: bool = False, resume: str | None = None) -> Job:
    """The plan of a search, under a name of its own in the ledger: it is no refit of the model."""
    return prepare(config.model_copy(update={"name": f"{config.name}-search"}), again=again, resume=resume, planner=search_plan)


def prepare(config: Config, *, again: bool = False, resume: str | None = None, planner: Planner = refit_plan) -> Job:
    """The plan, from public facts: configuration, footers, policy and balances. No row is read, and no ledger is needed."""
    ledger, policy = known(config)
    division = config.data.blocks or (policy.blocks if policy else ALL)
    window = window_of(config.data.window)
    check_suits(window, division)
    count = buckets_of(division)
    if policy is not None and policy.unit != config.data.unit:
        raise ConfigError(
            f"the policy of {config.data_set!r} protects one {policy.unit}, and data.unit is {config.data.unit}: a budget of one does not "
            f"pay for the other; set data.unit to {policy.unit}, or use a data set with a policy of its own"
        )
    if count is not None and config.data.row_id is None and config.data.person is None:
        raise ConfigError(
            f"blocks are {division}: name the column that identifies a record in data.row_id; without it a record would change its bucket "
            "when files are rewritten, and have two budgets"
        )
    there = _there(config, division)
    spent = ledger.spent_by_block(config.data_set, there) if ledger and policy else dict.fromkeys(there, Cost())
    manifest = scan(config.data_path, candidates(window, division, there, spent) if _by_folder(division) else ())
    asked_for = manifest.blocks or candidates(window, division, there, spent)
    key = _window_key(config, division, asked_for, manifest)
    earlier = _earlier(ledger, config, key, again, resume)
    if earlier is not None:
        manifest = scan(config.data_path, earlier.blocks) if _by_folder(division) else manifest
    chosen = earlier.blocks if earlier is not None else asked_for

    def planned(blocks: tuple[str, ...]) -> Job:
        read = manifest.only(blocks) if _by_folder(division) else manifest
        usual = Currency.PURE if config.privacy.trust == "local" else Currency.GAUSSIAN
        units = config.units(read, (len(blocks), count) if count else (1, 1))
        currency = policy.currency if policy else usual
        plan_from = partial(planner, config, read, units, currency, policy)
        if config.model.start == "previous":
            plan = warm_started(config.specification(read, currency, policy), plan_from, config.output_folder, ledger, earlier)
        else:
            plan = plan_from(None)
        return Job(config=config, manifest=read, plan=plan, division=division, blocks=blocks, window=key, resume=resume)

    job = planned(chosen)
    if policy is None or ledger is None:
        return job
    while earlier is None and config.data.exhausted == "skip":
        left = payable(job.blocks, spent, policy.cost(job.plan.events), policy.limit())
        if not left:
            raise BudgetExceeded(
                f"every block of the window of {config.data_set!r} is used up: nothing was read or charged; wait for new ones"
            )
        if left == job.blocks:
            break
        job = planned(left)
    now = ledger.spent_by_block(config.data_set, sorted({*there, *job.blocks}))
    return replace(job, nights=nights_left(window, job.blocks, there, now, policy.cost(job.plan.events), policy.limit()))


def known(config: Config) -> tuple[Ledger | None, Policy | None]:
    """The ledger if there is one, and the data set's policy: that of the ledger, or what the configuration states."""
    try:
        ledger = Ledger.open(config.ledger_url)
    except LedgerError:
        return None, config.policy()
    return ledger, ledger.policies().get(config.data_set) or config.policy()


def _by_folder(division: str) -> bool:
    return division != ALL and buckets_of(division) is None


def _there(config: Config, division: str) -> tuple[str, ...]:
    """Every block of the data set that exists, by name."""
    if division == ALL:
        return (ALL,)
    count = buckets_of(division)
    return hive_blocks(config.data_path, division) if count is None else buckets_named(count)


def _window_key(config: Config, division: str, asked_for: tuple[str, ...], manifest: Manifest) -> str:
    """What tells runs of one model apart: the blocks that the window asks for; where these do not tell, what the files are now, or
    the name that the user gave.
    """
    if _by_folder(division):
        return json.dumps(["blocks", *asked_for])
    if division == ALL:
        return str(config.data.window or manifest.identity())
    return json.dumps([division, str(config.data.window), manifest.identity()])


def _earlier(ledger: Ledger | None, config: Config, key: str, again: bool, resume: str | None) -> RunRecord | None:
    """The run that is to be resumed or returned, whose blocks are chosen already."""
    if ledger is None:
        return None
    if resume is not None:
        return ledger.run_record(resume)
    found = ledger.latest_run(config.name, config.data_set, key)
    return found if found is not None and (found.state == "reserved" or not again) else None


def _listed(blocks: Sequence[str]) -> str:
    few = ", ".join(blocks) if len(blocks) <= 4 else f"{blocks[0]}, {blocks[1]} ... {blocks[-1]}"
    return f"{len(blocks)} block{'' if len(blocks) == 1 else 's'} ({few})"


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
                f"{kept.describe()}: state the same, remove it, or tighten the policy with `nightfit ledger policy set`"
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
    homes = job.manifest.homes(job.division) if _by_folder(job.division) else dict.fromkeys(job.manifest.fingerprints(), "")
    order = order_of(
        job.plan,
        window=job.window,
        manifest=job.manifest.identity(),
        files=tuple(homes),
        private=job.config.noise().private,
    )
    return ledger.reserve(replace(order, blocks=job.blocks, homes=tuple(homes.values())), again=again, resume=job.resume)


def run_fit(job: Job, ledger: Ledger, run: Run, show: Callable[[Progress], None] = lambda _: None) -> Release:
    """Ask the plan's questions on the configured cluster; what is answered already is not asked again, nor a cluster started for it."""
    noise, preprocessing = job.config.noise(), job.plan.specification.preprocessing
    count = buckets_of(job.division)
    if count is not None:
        chosen = tuple(number_of(block) for block in job.blocks)
        preprocessing = replace(preprocessing, buckets=Buckets(count=count, chosen=chosen, key=ledger.bucket_key(job.config.data_set)))
    fitted = search.searched if isinstance(job.plan.procedure, search.AllCharged | search.Repetition) else fit
    with ledger.hold(run.run_id):
        if run.complete():
            return fitted(job.plan, AllAnswered(), run, noise, show)
        check_unchanged(job.manifest)
        with (
            connected(job.config.cluster_of()) as client,
            Shards(job.manifest, preprocessing, client, passes=job.plan.procedure.passes, ahead=_ahead(job.plan, run)) as shards,
        ):
            shards.ready()
            return fitted(job.plan, shards, run, noise, show)


def _ahead(plan: Plan, run: Run) -> Ahead:
    """Which draws its questions will make, in their order."""
    return Ahead(run.key, tuple(event.draw for event in plan.events))


def publish(job: Job, ledger: Ledger, release: Release) -> Published:
    """Write release and report, and tell the balance."""
    folder = job.config.output_folder / release.run_id
    path = release.save(folder)
    balance = balance_of(ledger, job.config.data_set, job.plan.events, job.blocks)
    write_atomically(folder / "report.html", report.page(release, balance))
    return Published(release=release, release_path=path, report_path=folder / "report.html", balance=balance)


def balance_of(ledger: Ledger, data_set: str, events: tuple[Event, ...] = (), blocks: Sequence[str] = ()) -> Balance:
    """What a data set's lifetime budget holds, in epsilon at the policy's delta, and how many more runs of these events fit: in the
    most used of these blocks, or of all that were ever charged.
    """
    policy: Policy = ledger.policies()[data_set]
    accounts = ledger.spent_by_block(data_set, blocks) if blocks else (ledger.accounts(data_set) or {ALL: Cost()})
    block = max(accounts, key=lambda name: (accounts[name].amount, accounts[name].mass))
    spent, limit = accounts[block], policy.limit()
    left = limit - spent
    one = policy.cost(events)
    return Balance(
        data_set=data_set,
        epsilon_spent=epsilon_of(spent, policy.delta, policy.currency, policy.renyi_order if ledger.single_order(data_set) else None),
        epsilon_lifetime=policy.epsilon,
        delta=policy.delta,
        epsilon_left=epsilon_of(Cost(left.amount, 0), policy.delta, policy.currency),
        runs=sum(1 for run in ledger.runs() if run["data_set"] == data_set),
        runs_left=times(spent, one, limit) if one.amount else None,
        block="" if policy.blocks == ALL else block,
        blocks=len(accounts),
        per_year=policy.per == "year",
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
        **({"search": content["search"]} if "search" in content else {}),
        **{name: content[name] for name in ("mean", "coef", "intercept", "intervals") if name in content},
        "balance": {
            "data_set": balance.data_set,
            "epsilon_spent": balance.epsilon_spent,
            "epsilon_lifetime": balance.epsilon_lifetime,
            "delta": balance.delta,
            "epsilon_left": balance.epsilon_left,
            "runs_left": balance.runs_left,
            "scope": balance.scope(),
        },
    }
