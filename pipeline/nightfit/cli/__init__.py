"""The `nightfit` command.

- `refits`: demo, init, plan, refit, serve
- `nights`: plan and refit of several configurations
- `doctor`: doctor
- `searches`: search
- `models`: predict
- `checking`: check
- `discoveries`: discover
- `generation`: generate shards, generate hospital
- `evaluations`: evaluate
- `exports`: export
- `histories`: history, card, site
- `promotions`: promote, rollback
- `verification`: verify, keys new
- `audits`: audit
- `ledgers`: ledger init, upgrade, policy set, show, export, verify, abandon, prune
- `reproduce`: experiments of papers
- `trade_off`: the table of `plan --sweep`
- `results`: how plans, running refits and results are shown
- `console`: the consoles and options that all share

The highest package: it imports every other, lazily, so that help and errors come at once.
"""

import sys
from typing import Annotated

import typer

from nightfit._version import __version__
from nightfit.cli import (
    audits,
    checking,
    discoveries,
    doctor,
    evaluations,
    exports,
    generation,
    histories,
    ledgers,
    models,
    promotions,
    refits,
    searches,
    verification,
)
from nightfit.cli.console import plain, warn
from nightfit.cli.reproduce import reproduce
from nightfit.types import NightfitError

app = typer.Typer(
    name="nightfit",
    help="Refit statistical models every night on sensitive records: out of core, on Dask, with a proven differential-privacy "
    "guarantee and a budget that is never overspent.\n\nStart with `nightfit demo`, or `nightfit init refit.yaml` and "
    "`nightfit plan refit.yaml`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
refitting = (refits.demo, refits.init, checking.check, refits.plan, refits.refit, discoveries.discover, searches.search, refits.serve)
watching = (doctor.doctor, histories.history, histories.card, histories.site, promotions.promote, promotions.rollback)
for command in (*refitting, *watching, models.predict, evaluations.evaluate, exports.export, verification.verify, audits.audit, reproduce):
    app.command()(command)
app.add_typer(generation.app, name="generate")
app.add_typer(ledgers.app, name="ledger")
app.add_typer(verification.keys, name="keys")


def main() -> None:
    """Run the command; an error is one message and a cure, with a traceback only under --debug."""
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]
    try:
        app()
    except NightfitError as error:
        if debug:
            raise
        warn(f"[bold red]error:[/] {plain(str(error))}")
        sys.exit(1)
    except KeyboardInterrupt:
        warn("stopped; run the same command again to resume")
        sys.exit(130)
    except Exception as error:
        if debug:
            raise
        reason = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        warn(f"[bold red]error:[/] an unexpected {type(error).__name__}{reason}; run again with --debug to see where")
        sys.exit(1)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"nightfit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; works at any place of a command.")] = False,
) -> None:
    """Options of every command."""
