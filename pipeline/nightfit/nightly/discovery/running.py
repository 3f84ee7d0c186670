"""Plan, reserve and ask a discovery. Imports every package below."""

from dataclasses import replace
from pathlib import Path

from nightfit.config import Config, ConfigError
from nightfit.config.sections.columns import UNTOLD
from nightfit.ledger import Ledger, Policy, Run
from nightfit.methods.warm_start import Previous
from nightfit.nightly.discovery.procedure import LEVELS_OF_A_PERSON, Discovery, planned
from nightfit.nightly.execution import NoRecords, refunded_if_unasked, run_preprocessing
from nightfit.nightly.job import Job, Purpose
from nightfit.nightly.preparation import prepare
from nightfit.nightly.reservation import open_ledger, reserve
from nightfit.planning.plan import Plan, max_units
from nightfit.privacy.accounting import Currency
from nightfit.privacy.gate import Gate
from nightfit.release.assembly import claimed
from nightfit.release.discovered import FORMAT, Discovered
from nightfit.shards.levels import RawLevels
from nightfit.shards.manifest import Manifest
from nightfit.shards.schema import check_kinds


def prepare_discovery(config: Config, *, again: bool = False) -> Job:
    """Plan the discovery of every category with `levels: discover`. It has a name of its own in the ledger; no row is read.

    Parameters
    ----------
    config : Config
        A configuration with `privacy.discover`.
    again : bool
        Discover on a finished window once more.

    Returns
    -------
    Job

    Raises
    ------
    ConfigError
        If nothing is to be discovered, or nothing says what it may cost.
    PlanError
        If no level could be told at that cost.
    """
    if not config.data.to_discover:
        raise ConfigError("no column has `levels: discover`: there is nothing to discover")
    if config.privacy.discover is None:
        raise ConfigError("privacy.discover is missing: say what the discovery may cost, as in `discover: {epsilon: 0.5}`; no default")
    if config.privacy.trust == "local":
        raise ConfigError("levels are discovered from records that one place holds, and privacy.trust is local: list the levels")
    model = config.model.model_copy(update={"start": "zero"})
    return prepare(config.model_copy(update={"name": f"{config.name}-levels", "model": model}), again=again, purpose=DISCOVERY)


def discovery_plan(
    config: Config, manifest: Manifest, units: int, currency: Currency, policy: Policy | None, start: Previous | None
) -> Plan:
    """The plan of a discovery: what the refit's would be, with counts of levels in the place of its queries."""
    data, allowed = config.data, config.privacy.discover
    assert allowed is not None
    stood_in = config.model_copy(update={"data": data.with_levels(dict.fromkeys(data.to_discover, UNTOLD))})
    specification = stood_in.specification(manifest, currency, policy)
    assert specification.preprocessing.encoding is not None
    check_kinds(manifest, specification.preprocessing.encoding)
    budget = replace(specification.budget, epsilon=allowed.epsilon)
    persons = data.person is not None
    columns = {
        name: (column.at_most or 1, (column.per_person or LEVELS_OF_A_PERSON) if persons else 1)
        for name, column in data.to_discover.items()
    }
    procedure = planned(columns, budget, units, max_units(specification, max(units, manifest.rows)), policy)
    return Plan(specification=replace(specification, budget=budget), units=units, procedure=procedure)


def explain(job: Job) -> str:
    """The plan of a discovery in words."""
    plan, budget = job.plan, job.plan.specification.budget
    lines = [
        f"Levels of {', '.join(job.config.data.to_discover)} in the data set {job.config.data_set}, of {plan.units:,} units:",
        *plan.procedure.explain(),
        f"Cost: epsilon {plan.epsilon:.4g} at delta {budget.delta:g} under {budget.adjacency} of one {budget.unit}, in the currency "
        f"{budget.currency}. Refits that use what is told pay nothing for it.",
        "Released: the names of the levels above the threshold, sorted. Any other value becomes the level `other`.",
    ]
    return "\n".join(lines)


DISCOVERY = Purpose(plan=discovery_plan)


def discover(job: Job, *, again: bool = False, unsafe: bool = False) -> tuple[Discovered, Path]:
    """Reserve the discovery, count, and release what was told. A finished one is returned and not paid twice.

    Returns
    -------
    tuple of Discovered and Path
        The release and where it lies.
    """
    ledger = open_ledger(job.config)
    run = reserve(job, ledger, again=again, unsafe=unsafe)
    found = _asked(job, ledger, run)
    return found, found.save(job.config.output_folder / found.run_id)


def _asked(job: Job, ledger: Ledger, run: Run) -> Discovered:
    procedure, noise = job.plan.procedure, job.config.noise()
    assert isinstance(procedure, Discovery)
    records = RawLevels(job.manifest, run_preprocessing(job, ledger))
    with ledger.hold(run.run_id), refunded_if_unasked(ledger, run):
        levels = procedure.told(Gate(account=run, records=NoRecords(), noise=noise), records.count)
        content = {
            "nightfit_levels": FORMAT,
            "model": job.config.name,
            "run": run.run_id,
            "data_set": job.config.data_set,
            "manifest": run.manifest_id,
            "time": run.started,
            "levels": {column: list(told) for column, told in levels.items()},
            **claimed(job.plan, private=noise.private),
        }
        found = Discovered(content=content)
        return found.paid(run.finish(found.claim.binding))
