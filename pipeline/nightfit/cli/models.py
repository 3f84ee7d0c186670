"""The commands predict and generate. Imports the API and shards, lazily."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from nightfit.cli.console import err, out, plain
from nightfit.types import NightfitError


def predict(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE.JSON", help="A released model, or a folder of releases, of which the current one is used.")
    ],
    data: Annotated[str, typer.Argument(metavar="NEW.PARQUET", help="File, glob or folder of records to score.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The Parquet file to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file if it exists.")] = False,
    of: Annotated[str | None, typer.Option("--model", help="With a folder that holds several models: whose current release.")] = None,
) -> None:
    """Score records with a released model, out of core. Uses the release alone: no ledger, no budget."""
    from nightfit.api import write_predictions
    from nightfit.release.current import load_current

    model = load_current(release, of)
    suspicion = model.tampering()
    if suspicion is not None:
        err.print(plain(f"warning: {release} {suspicion}"))
    rows = write_predictions(model, data, output, overwrite=overwrite)
    out.print(f"Scored {rows:,} rows into {output}.")


def generate(
    folder: Annotated[Path, typer.Argument(help="Where to write the shards.")],
    rows: Annotated[int, typer.Option(help="Rows in all.")] = 100_000,
    columns: Annotated[int, typer.Option(help="Feature columns x0, x1, ...; the target is y.")] = 10,
    shards: Annotated[int, typer.Option(help="Files.")] = 8,
    task: Annotated[Literal["linear", "logistic"], typer.Option(help="linear or logistic.")] = "linear",
    noise: Annotated[
        Literal["normal", "student", "lognormal", "pareto"], typer.Option(help="normal, student, lognormal or pareto.")
    ] = "student",
    noise_tail: Annotated[float, typer.Option(help="Degrees of freedom, log standard deviation or Pareto index.")] = 3.0,
    features: Annotated[Literal["gaussian", "student"], typer.Option(help="gaussian or student.")] = "gaussian",
    seed: Annotated[int, typer.Option(help="The same seed writes the same shards.")] = 0,
) -> None:
    """Write heavy-tailed synthetic shards of any size, one at a time."""
    from nightfit.shards.synthetic import Synthetic

    try:
        made = Synthetic(
            rows=rows,
            columns=columns,
            shards=shards,
            task=task,
            noise=noise,
            noise_tail=noise_tail,
            features=features,
            seed=seed,
        )
        written = made.write(folder)
    except (ValueError, FileExistsError) as error:
        raise NightfitError(str(error)) from None
    out.print(f"Wrote {len(written)} shards, {rows:,} rows, to {folder}.")
