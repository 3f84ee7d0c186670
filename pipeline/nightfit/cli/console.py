"""What all commands share: the two consoles, common arguments, plain text. Imports rich and typer."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

ConfigPath = Annotated[Path, typer.Argument(metavar="REFIT.YAML", help="The refit's configuration.")]
ConfigPaths = Annotated[
    list[Path],
    typer.Argument(metavar="REFIT.YAML...", help="The refit's configuration; several, or a folder of them, for a night of models."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines, and nothing else.")]
LedgerUrl = Annotated[str | None, typer.Option("--ledger", help="SQLAlchemy URL of the ledger, such as sqlite:///ledger.db.")]
FromConfig = Annotated[Path | None, typer.Option("--config", help="Take the ledger from this refit.yaml.")]


def plain(text: str) -> str:
    """Text as it is, without Rich's markup."""
    return text.replace("[", r"\[")
