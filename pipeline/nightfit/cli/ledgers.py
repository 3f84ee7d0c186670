"""The commands `nightfit ledger ...`: init, upgrade, policy, show, export, verify, abandon, prune. Imports ledger and nightly, lazily."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightfit.cli.console import FromConfig, Json, LedgerUrl, here, plain, say
from nightfit.cli.tables import columns_of, show
from nightfit.types import NightfitError

if TYPE_CHECKING:
    from nightfit.release.balance import Balance
    from nightfit.release.burndown import BlockBudget

SHOWN = 30  # blocks in a table: a month of days
RUN_FIELDS = ("run", "model", "data_set", "state", "private", "started")

app = typer.Typer(help="The privacy ledger: what was spent on which data, what is left.", no_args_is_help=True)
policies = typer.Typer(help="Lifetime budgets of data sets.", no_args_is_help=True)
app.add_typer(policies, name="policy")


@app.command("init")
def ledger_init(ledger: LedgerUrl = None, config: FromConfig = None) -> None:
    """Make a new, empty ledger; the only way to get one, because a lost ledger must not become a fresh budget."""
    from nightfit.ledger import Ledger

    made = Ledger.create(_ledger_url(ledger, config))
    say(f"Made ledger {made.ledger_id} at {made.place}. Back it up: it is the only record of what was spent.")


@app.command("upgrade")
def ledger_upgrade(ledger: LedgerUrl = None, config: FromConfig = None) -> None:
    """Bring a ledger of an older format to the newest, in one transaction. Back it up first."""
    from nightfit.ledger import Ledger

    before, after = Ledger.upgrade(_ledger_url(ledger, config))
    say(f"The ledger has format {after}" + ("; there was nothing to do." if before == after else f", brought up from format {before}."))


@policies.command("set")
def policy_set(
    data_set: Annotated[str, typer.Argument(help="The data set's name.")],
    epsilon: Annotated[float, typer.Option(help="Of everything ever released of it.")],
    delta: Annotated[float, typer.Option(help="Of everything ever released of it.")],
    adjacency: Annotated[str, typer.Option(help="replace_one, zero_out or add_remove.")] = "replace_one",
    unit: Annotated[str, typer.Option(help="Whom it protects: record, or the column of a person such as patient_id.")] = "record",
    currency: Annotated[str, typer.Option(help="gaussian, zcdp, approximate or (local reports) pure.")] = "gaussian",
    blocks: Annotated[str, typer.Option(help="all, a hive key such as day, or hash:64: each block has a budget of its own.")] = "all",
    row_id: Annotated[str | None, typer.Option(help="For hash:64 of records: the column that identifies a record for life.")] = None,
    per: Annotated[str, typer.Option(help="life, or year: renewed every year, and then protects per year only.")] = "life",
    override: Annotated[str | None, typer.Option(help="Loosen an existing policy, for this recorded reason.")] = None,
    ledger: LedgerUrl = None,
    config: FromConfig = None,
) -> None:
    """Fix the lifetime budget of a data set; it can be tightened, and loosened only with a recorded reason."""
    from nightfit.ledger import Ledger, Policy
    from nightfit.privacy.accounting import Currency
    from nightfit.types import Adjacency

    try:
        if per not in ("life", "year"):
            raise ValueError(f"a budget is per life or per year, got {per!r}")
        policy = Policy(
            data_set=data_set,
            unit=unit,
            adjacency=Adjacency(adjacency),
            epsilon=epsilon,
            delta=delta,
            currency=Currency(currency),
            blocks=blocks,
            per="year" if per == "year" else "life",
            row_id=row_id,
        )
        policy.check()
    except ValueError as error:
        raise NightfitError(str(error)) from None
    Ledger.open(_ledger_url(ledger, config)).set_policy(policy, override)
    each = "" if blocks == "all" else f" for each block of {blocks}"
    say(f"{data_set}: at most epsilon {epsilon:g} at delta {delta:g}{each}, {'for ever' if per == 'life' else 'per year'}.")


@policies.command("migrate")
def policy_migrate(
    data_set: Annotated[str, typer.Argument(help="The data set's name.")],
    unit: Annotated[str | None, typer.Option(help="Whom it protects from now on: the column of a person such as patient_id.")] = None,
    rows_per_person: Annotated[
        int | None, typer.Option(help="The largest number of rows of one person in all that was ever read, as is publicly known.")
    ] = None,
    blocks: Annotated[str | None, typer.Option(help="How it is divided from now on: all, a hive key such as day, or hash:64.")] = None,
    row_id: Annotated[str | None, typer.Option(help="For hash:64 of records: the column that identifies a record for life.")] = None,
    ledger: LedgerUrl = None,
    config: FromConfig = None,
) -> None:
    """Protect persons instead of records, or divide a data set otherwise; what was spent counts for everybody from then on."""
    from nightfit.config import load
    from nightfit.ledger import Ledger
    from nightfit.ledger.policy_migration import Migration
    from nightfit.nightly.migration import migrate_policy
    from nightfit.privacy.accounting import epsilon_of

    opened = Ledger.open(_ledger_url(ledger, config))
    before = opened.policies().get(data_set)
    migration = Migration(
        data_set=data_set,
        unit=unit or (before.unit if before else ""),
        blocks=blocks or (before.blocks if before else ""),
        row_id=row_id,
        rows=rows_per_person,
    )
    started = migrate_policy(opened, migration, None if config is None else load(config))
    policy = opened.policies()[data_set]
    say(plain(f"{data_set} has the policy {policy.describe()}."))
    for year, cost in started.items():
        spent = epsilon_of(cost, policy.delta, policy.currency)
        say(f"Every block starts with what all earlier runs cost one {policy.unit}{year}: epsilon {spent:.4g} of {policy.epsilon:g}.")


@app.command("show")
def ledger_show(
    ledger: LedgerUrl = None,
    config: FromConfig = None,
    as_json: Json = False,
    html: Annotated[
        Path | None, typer.Option(parser=here, metavar="<path>", help="Also write how budgets burned down to this page.")
    ] = None,
) -> None:
    """What was spent on which data, how each block's budget burns down, and what is left."""
    from nightfit.ledger import Ledger
    from nightfit.nightly import balance_of
    from nightfit.release import write_atomically
    from nightfit.release.burndown import block_budgets, page

    opened = Ledger.open(_ledger_url(ledger, config))
    balances = [balance_of(opened, name) for name in opened.policies()]
    blocks = {name: block_budgets(opened, name) for name in opened.policies()}
    if html is not None:
        write_atomically(html, page(opened))
    if as_json:
        content = {
            "ledger": opened.ledger_id,
            "data_sets": [asdict(balance) for balance in balances],
            "blocks": {name: [asdict(block) for block in each] for name, each in blocks.items()},
            "runs": [{name: run[name] for name in RUN_FIELDS} for run in opened.runs()],
        }
        typer.echo(json.dumps(content, indent=2))
        return
    _show_balances(opened.ledger_id, balances)
    _show_runs(opened.runs())
    for name, each in blocks.items():
        if each:
            _show_blocks(name, each)


def _show_balances(ledger_id: str, balances: "list[Balance]") -> None:
    """What each data set has spent, and what one more release could cost at most."""
    rows = [
        (
            balance.data_set,
            str(balance.runs),
            f"{balance.epsilon_spent:.4g}",
            f"{balance.epsilon_lifetime:g}",
            f"{balance.delta:g}",
            f"{balance.epsilon_left:.4g}",
        )
        for balance in balances
    ]
    show(f"Ledger {ledger_id}", columns_of(("data set", "runs", "epsilon spent", "lifetime", "delta", "epsilon left"), rows))


def _show_runs(runs: list[dict[str, Any]]) -> None:
    """Every run, oldest first."""
    rows = [
        (run["run"], run["data_set"], run["state"], "yes" if run["private"] else "NO", run["started"][:19].replace("T", " "))
        for run in runs
    ]
    columns = columns_of(("run", "data set", "state", "private", "started (UTC)"), rows, left=5)
    columns[1] = replace(columns[1], spare=True)
    show("Runs", columns)


def _show_blocks(data_set: str, blocks: "list[BlockBudget]") -> None:
    """The newest blocks and what is left of their budgets."""
    from nightfit.release.burndown import bar

    older = "" if len(blocks) <= SHOWN else f" (the {SHOWN} newest of {len(blocks):,}; --html shows all)"
    rows = [
        (block.block, bar(block.left), f"{block.left:.0%}", f"{block.enforced:.4g}", f"{block.tight:.4g}", f"{block.refits_left:,}")
        for block in blocks[-SHOWN:]
    ]
    headings = ("block", "left", "", "epsilon enforced", "tight", "refits left")
    show(f"Budget left of {data_set}{older}", columns_of(headings, rows, left=2))


@app.command("export")
def ledger_export(
    ledger: LedgerUrl = None,
    config: FromConfig = None,
    chain: Annotated[bool, typer.Option("--chain", help="Instead: every entry of the chain, for `nightfit verify --export`.")] = False,
) -> None:
    """Every query that was ever reserved, as JSON, one per line: enough for another accountant to recompute epsilon."""
    from nightfit.ledger import Ledger
    from nightfit.ledger.history import chain_records, exported

    for record in (chain_records if chain else exported)(Ledger.open(_ledger_url(ledger, config))):
        typer.echo(json.dumps(record))


@app.command("verify")
def ledger_verify(
    ledger: LedgerUrl = None,
    config: FromConfig = None,
    releases: Annotated[Path | None, typer.Option(help="Also check that every release in this folder was paid here.")] = None,
) -> None:
    """Check that no entry was edited or removed, that balances add up, and that releases were paid."""
    from nightfit.ledger import Ledger, unbound, verify
    from nightfit.release import damaged_in
    from nightfit.release.discovered import claims_in

    opened = Ledger.open(_ledger_url(ledger, config))
    claims = claims_in(releases) if releases else []
    problems = [*verify(opened, claims), *(damaged_in(releases) if releases else [])]
    if problems:
        raise NightfitError("the ledger is not whole:\n" + "\n".join(f"  {problem}" for problem in problems))
    say(f"Ledger {opened.ledger_id} is whole" + (f", and it paid for every release ({len(claims)})." if releases else "."))
    for name in unbound(opened, claims):
        say(f"{plain(name)} is unbound: it was finished before format 3, so the ledger cannot tell whether it was edited.")


@app.command("abandon")
def ledger_abandon(
    run: Annotated[str, typer.Argument(help="The unfinished run.")], ledger: LedgerUrl = None, config: FromConfig = None
) -> None:
    """Give up an unfinished run; only queries that were never asked are refunded."""
    from nightfit.ledger import Ledger

    refund = Ledger.open(_ledger_url(ledger, config)).abandon(run)
    say(
        f"Run {run} is abandoned; "
        + ("its unasked queries are refunded." if refund.amount else "every query was asked: nothing is refunded.")
    )


@app.command("prune")
def ledger_prune(
    runs: Annotated[list[str] | None, typer.Argument(help="Finished or abandoned runs.")] = None,
    ended: Annotated[bool, typer.Option("--all", help="Every run that has ended.")] = False,
    releases: Annotated[Path | None, typer.Option(help="Where the releases of these runs lie; by default the output of --config.")] = None,
    ledger: LedgerUrl = None,
    config: FromConfig = None,
) -> None:
    """Remove the answers of runs that have ended, whose releases are kept; digests stay. Their releases cannot be made anew then."""
    from nightfit.config import load
    from nightfit.ledger import Ledger
    from nightfit.nightly import prune

    if ended == bool(runs):
        raise NightfitError("name runs, or --all for every run that has ended")
    folder = load(config).output_folder if releases is None and config is not None else releases
    if folder is None:
        raise NightfitError("name the folder where the releases lie by --releases: only runs whose releases are kept are pruned")
    opened = Ledger.open(_ledger_url(ledger, config))
    chosen = runs or [run["run"] for run in opened.runs() if run["state"] != "reserved"]
    removed, waits = prune(opened, folder, chosen), opened.compact()
    say(f"{removed:,} answers of {len(chosen):,} runs are pruned; the chain is whole without them.")
    if waits:
        say(f"The file keeps its size ({plain(waits)}): run this once more when nobody uses the ledger.")


def _ledger_url(ledger: str | None, config: Path | None) -> str:
    from nightfit.config import load, resolved

    if (ledger is None) == (config is None):
        raise NightfitError("name the ledger by --ledger URL or by --config REFIT.YAML")
    return resolved(ledger, Path.cwd()) if ledger is not None else load(config or Path()).ledger_url
