"""The command export. Imports the release, lazily."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nightfit.cli.console import here, plain, say, warn


def export(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE.JSON", help="A released model, or a folder of releases, of which the current one is used.")
    ],
    format: Annotated[Literal["onnx", "sklearn", "pmml", "sql", "json"], typer.Option("--format", help="For which system.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", parser=here, metavar="<path>", help="The file to write (default: the model's name, here)."),
    ] = None,
    dialect: Annotated[Literal["duckdb", "sqlite"] | None, typer.Option(help="With --format sql: of which database.")] = None,
    table: Annotated[str | None, typer.Option(help="With --format sql: the table that is scored (default: records).")] = None,
    of: Annotated[str | None, typer.Option("--model", help="With a folder that holds several models: whose current release.")] = None,
) -> None:
    """Write a released model for another system: clamps, encodings and link included. Uses the release alone: no ledger, no budget."""
    from nightfit.release.current import load_current
    from nightfit.release.export.files import write

    model = load_current(release, of)
    suspicion = model.tampering()
    if suspicion is not None:
        warn(plain(f"warning: {release} {suspicion}"))
    given: dict[str, Any] = {name: value for name, value in (("dialect", dialect), ("table", table)) if value is not None}
    say(f"Wrote {write(model, format, output, **given)}.")
