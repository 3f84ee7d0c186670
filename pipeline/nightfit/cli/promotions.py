"""The commands promote and rollback. Imports nightly, lazily."""

from pathlib import Path
from typing import Annotated

import typer

from nightfit.cli.console import plain, say

Config = Annotated[Path, typer.Option("--config", help="The model's configuration.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is recorded in the ledger.")]


def promote(
    run: Annotated[str, typer.Argument(help="The run whose release comes into use.")],
    config: Config = Path("refit.yaml"),
    reason: Reason = "by hand",
) -> None:
    """Put the release of a run in use: `releases/current` points to it. Only a private release that the ledger vouches for."""
    from nightfit.config import load
    from nightfit.nightly import open_ledger, promotion

    settings = load(config)
    made = promotion.promote(settings, open_ledger(settings), run, reason)
    say(plain(f"{settings.name}: {made.current} is in use, by entry {made.seq} of the ledger."))


def rollback(config: Config = Path("refit.yaml"), reason: Reason = "by hand") -> None:
    """Put the release in use that was before the current one."""
    from nightfit.config import load
    from nightfit.nightly import open_ledger, promotion

    settings = load(config)
    made = promotion.rollback(settings, open_ledger(settings), reason)
    say(plain(f"{settings.name}: {made.run} is given up and {made.current} is in use, by entry {made.seq} of the ledger."))
