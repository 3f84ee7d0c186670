"""Step 1: plan a refit or a search from public facts. Imports every package below."""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from nightfit.config import Config, ConfigError
from nightfit.config.grid import settings
from nightfit.evaluation import Earlier
from nightfit.ledger import BudgetExceeded, Ledger, LedgerError, NoLedger, Policy, RunRecord
from nightfit.ledger.windows import payable, window_of
from nightfit.methods.warm_start import Previous
from nightfit.nightly import search
from nightfit.nightly.fit import fit
from nightfit.nightly.job import Job, Purpose
from nightfit.nightly.selection import Selection, check_stated_policy, select
from nightfit.nightly.told_levels import resolved
from nightfit.planning.evaluated import why_not_by_default
from nightfit.planning.plan import Plan, make, max_units
from nightfit.planning.specification import Evaluate, Specification
from nightfit.privacy.accounting import Currency
from nightfit.queries.base import bits_for
from nightfit.release.comparable import comparable
from nightfit.release.previous_release import warm_started
from nightfit.shards.manifest import Manifest


def refit_plan(
    config: Config,
    manifest: Manifest,
    units: int,
    currency: Currency,
    policy: Policy | None,
    start: Previous | None,
    *,
    evaluate: Evaluate | None = None,
    shares_rows: bool = False,
) -> Plan:
    """The plan of one refit of the manifest's rows, from this start, which is evaluated and shares queries about rows as is said."""
    spec = replace(config.specification(manifest, currency, policy), start=start, evaluate=evaluate, shares_rows=shares_rows)
    return make(spec, units, manifest.rows)


def search_plan(config: Config, manifest: Manifest, units: int, currency: Currency, policy: Policy | None, start: Previous | None) -> Plan:
    """The plan of a search over the configuration's grid. Each fit starts at zero and costs one refit and a score."""
    grid = settings(config)
    if start is not None:
        raise ConfigError("every setting of a search starts at zero: search with `model: {start: zero}`, and refit with `previous`")
    section = config.search
    assert section is not None
    base = config.specification(manifest, currency, policy)
    score = search.Score(
        loss=base.loss,
        most=config.largest_loss(base),
        multiplier=1 / math.sqrt(section.score * base.budget.mu_squared()),
        units=units,
        bits=bits_for(max_units(base, max(units, manifest.rows))),
        adjacency=base.budget.adjacency,
    )
    tried = [
        search.Setting(values=point, plan=refit_plan(one, manifest, units, currency, policy, None), scored=score) for point, one in grid
    ]
    return search.make(tried, epsilon=section.epsilon, payment=section.payment, mean=section.repetitions, policy=policy)


REFIT = Purpose(plan=refit_plan, fit=fit)
SEARCH = Purpose(plan=search_plan, fit=search.fit)


def prepare_search(config: Config, *, again: bool = False, resume: str | None = None) -> Job:
    """Plan a search. It has a name of its own in the ledger, because it is not a refit of the model.

    Parameters
    ----------
    config : Config
        A configuration with a `search` section.
    again : bool
        Search a finished window once more.
    resume : str, optional
        The run to resume, on the blocks that it reserved.

    Returns
    -------
    Job
    """
    return prepare(config.model_copy(update={"name": f"{config.name}-search"}), again=again, resume=resume, purpose=SEARCH)


def prepare(config: Config, *, again: bool = False, resume: str | None = None, purpose: Purpose = REFIT, shares_rows: bool = False) -> Job:
    """Plan a refit from public facts: configuration, footers, policy and balances. No row is read, and no ledger is needed.

    Parameters
    ----------
    config : Config
        The configuration.
    again : bool
        Refit a finished window once more.
    resume : str, optional
        The run to resume, on the blocks that it reserved.
    purpose : Purpose
        A refit, or a search.
    shares_rows : bool
        Whether `auto` takes what it asks about rows from a run that several models share. A run that has begun keeps what it began with.

    Returns
    -------
    Job

    Raises
    ------
    ConfigError
        If configuration, data and policy do not fit together.
    BudgetExceeded
        If `data.exhausted` is `skip` and no block can pay.
    """
    ledger, policy = ledger_and_policy(config)
    if purpose.fit is not None:
        config = resolved(config, ledger)
    selected = select(config, ledger, policy, again=again, resume=resume)
    check_stated_policy(config, policy)
    shares = shares_rows if selected.earlier is None else selected.earlier.shares is not None
    plan_blocks = partial(_planned, config, selected, ledger, policy, purpose, resume, shares)
    job = plan_blocks(selected.blocks)
    if policy is None or ledger is None:
        return job
    if selected.earlier is None and config.data.exhausted == "skip":
        job = _without_exhausted(job, selected, policy, plan_blocks)
    now = ledger.spent_by_block(config.data_set, sorted({*selected.existing, *job.blocks}))
    cost, limit = policy.cost(job.plan.events), policy.limit()
    return replace(job, nights=window_of(config.data.window).nights_left(job.blocks, selected.existing, now, cost, limit))


def _without_exhausted(job: Job, selected: Selection, policy: Policy, plan_blocks: Callable[[tuple[str, ...]], Job]) -> Job:
    """The job without the blocks that cannot pay for it; fewer blocks change the plan, so this is repeated until all can pay."""
    while True:
        left = payable(job.blocks, selected.spent, policy.cost(job.plan.events), policy.limit())
        if left == job.blocks:
            return job
        if not left:
            raise BudgetExceeded(
                f"every block of the window of {policy.data_set!r} is used up: nothing was read or charged; wait for new ones"
            )
        job = plan_blocks(left)


def _planned(
    config: Config,
    selected: Selection,
    ledger: Ledger | None,
    policy: Policy | None,
    purpose: Purpose,
    resume: str | None,
    shares_rows: bool,
    blocks: tuple[str, ...],
) -> Job:
    """The job that reads these blocks."""
    manifest = selected.manifest_of(blocks)
    units = config.units(manifest, selected.share_of_buckets(blocks))
    default = Currency.PURE if config.privacy.trust == "local" else Currency.GAUSSIAN
    currency = policy.currency if policy else default
    specified = partial(config.specification, manifest, currency, policy)  # which levels that are still to be discovered have not

    def plan_by(evaluate: Evaluate | None) -> Plan:
        planner = partial(refit_plan, evaluate=evaluate, shares_rows=shares_rows) if purpose is REFIT else purpose.plan
        plan_from = partial(planner, config, manifest, units, currency, policy)
        if config.model.start == "previous":
            return warm_started(specified(), plan_from, config.output_folder, ledger, selected.earlier)
        return plan_from(None)

    evaluate, why_not = _evaluation_of(config, purpose, specified, partial(refit_plan, config, manifest, units, currency, policy, None))
    if evaluate is None:
        plan = replace(plan_by(None), unevaluated=why_not)
    else:
        earlier = [*comparable(specified(), config.output_folder, ledger), None]
        plan = _compared(evaluate, earlier, plan_by, selected.earlier)
    return Job(
        config=config,
        manifest=manifest,
        plan=plan,
        purpose=purpose,
        division=selected.division,
        blocks=blocks,
        window=selected.window,
        resume=resume,
        begun=selected.earlier,
    )


def evaluation_in(config: Config) -> Evaluate | None:
    """How a configuration wants its fits evaluated, by default or because it says so."""
    section = config.evaluation
    return None if section is None else Evaluate(share=section.share, by=section.by, checks=section.checks)


def _evaluation_of(
    config: Config, purpose: Purpose, specified: Callable[[], Specification], without: Callable[[], Plan]
) -> tuple[Evaluate | None, str]:
    """How a refit is evaluated. None where it is not, and why, if that is not what the configuration says."""
    evaluate = evaluation_in(config)
    if evaluate is None or purpose is not REFIT:
        return None, "a search scores its fits on the units that they are fitted on" if evaluate is not None and purpose is SEARCH else ""
    if config.must_evaluate:
        return evaluate, ""
    plan = without()
    why_not = why_not_by_default(replace(specified(), evaluate=evaluate), plan.units, plan.events)
    return (evaluate, "") if why_not is None else (None, why_not)


def _compared(evaluate: Evaluate, found: Sequence[Earlier | None], plan_by: Callable[[Evaluate], Plan], begun: RunRecord | None) -> Plan:
    """The plan that compares with the first of these releases; a run that has begun keeps the one that it began with."""

    def plan_against(earlier: Earlier | None) -> Plan:
        return plan_by(replace(evaluate, earlier=earlier))

    for earlier in found if begun is not None else ():
        with contextlib.suppress(LedgerError):
            plan = plan_against(earlier)
            if begun is not None and plan.digest() == begun.plan:
                return plan
    return plan_against(found[0])


def ledger_and_policy(config: Config) -> tuple[Ledger | None, Policy | None]:
    """The configured ledger if it exists, and the data set's policy: the ledger's, or else the configuration's."""
    try:
        ledger = Ledger.open(config.ledger_url)
    except NoLedger:
        return None, config.policy()
    kept = ledger.policies().get(config.data_set)
    return ledger, kept or config.policy()
