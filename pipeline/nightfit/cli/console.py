"""What all commands share: the two consoles, sentences on them, common arguments, plain text. Imports rich and typer."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

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


def width(of: Console = out) -> int | None:
    """How many characters a line of the screen has; None where another program reads, and lines stay whole.

    COLUMNS says it where there is no terminal.
    """
    return of.width if of.is_terminal or "COLUMNS" in os.environ else None


def say(text: str, to: Console = out) -> None:
    """Print sentences, on a screen broken between words; what continues an indented line is indented further."""
    most = width(to)
    for line in text.split("\n"):
        words = Text.from_markup(line, emoji=False)
        blank = len(words.plain) - len(words.plain.lstrip())
        further = blank + 2 if blank else 0
        breaks = [] if most is None else list(_breaks(words.plain, most, further))
        for place, part in enumerate(words.divide(breaks)):
            part.rstrip()
            to.print(Text(" " * (further if place else 0)) + part)


def _breaks(line: str, most: int, further: int) -> Iterator[int]:
    """Where words of a line begin that are to stand on a line of their own, of which each but the first is indented."""
    begun, room = 0, most
    for word in re.finditer(r"\S+", line):
        if word.end() - begun > room and line[begun : word.start()].strip():
            begun, room = word.start(), most - further
            yield begun


def warn(text: str) -> None:
    """Say it on the standard error."""
    say(text, err)
