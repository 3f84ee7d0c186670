"""What all commands share: the two consoles, common arguments, plain text. Imports rich and typer."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nightfit.types import NightfitError

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

LONGEST_NAME = 200  # bytes: file systems allow 255, and what is being written has a longer name until it is whole
ConfigPath = Annotated[Path, typer.Argument(metavar="REFIT.YAML", help="The refit's configuration.")]
ConfigPaths = Annotated[
    list[Path],
    typer.Argument(metavar="REFIT.YAML...", help="The refit's configuration; several, or a folder of them, for a night of models."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines, and nothing else.")]
LedgerUrl = Annotated[str | None, typer.Option("--ledger", help="SQLAlchemy URL of the ledger, such as sqlite:///ledger.db.")]
FromConfig = Annotated[Path | None, typer.Option("--config", help="Take the ledger from this refit.yaml.")]


def here(given: str | Path) -> Path:
    """A path to write to; refused if it is no name of a file, or a URL, which would become a folder named after its scheme."""
    text = str(given)
    if "://" in text:
        raise NightfitError(f"{text} is a URL, and this is written on this machine: name a path here, and copy it from there")
    if not text.strip() or not text.isprintable() or any(len(os.fsencode(part)) > LONGEST_NAME for part in Path(text).parts):
        raise NightfitError(f"{text[:40]!r} is no name of a file: name one that can be printed, of at most {LONGEST_NAME} bytes")
    return Path(text)


def plain(text: str) -> str:
    """Text as it is, without Rich's markup."""
    return text.replace("[", r"\[")
