"""The command predict. Imports the API, lazily."""

from pathlib import Path
from typing import Annotated

import typer

from nightfit.cli.console import here, plain, say, warn


def predict(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE.JSON", help="A released model, or a folder of releases, of which the current one is used.")
    ],
    data: Annotated[str, typer.Argument(metavar="NEW.PARQUET", help="File, glob or folder of records to score.")],
    output: Annotated[Path, typer.Option("--output", "-o", parser=here, metavar="<path>", help="The Parquet file to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file if it exists.")] = False,
    of: Annotated[str | None, typer.Option("--model", help="With a folder that holds several models: whose current release.")] = None,
) -> None:
    """Score records with a released model, out of core. Uses the release alone: no ledger, no budget."""
    from nightfit.api import write_predictions
    from nightfit.release.current import load_current

    model = load_current(release, of)
    suspicion = model.tampering()
    if suspicion is not None:
        warn(plain(f"warning: {release} {suspicion}"))
    rows = write_predictions(model, data, output, overwrite=overwrite)
    say(f"Scored {rows:,} rows into {output}.")
