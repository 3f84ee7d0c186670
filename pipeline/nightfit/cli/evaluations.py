"""The command evaluate. Imports nightly, release and ledger, lazily."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from nightfit.cli.console import Json, LedgerUrl, plain, say, warn
from nightfit.cli.tables import columns_of, show
from nightfit.types import NightfitError

EXACT = "Exact numbers are of the target itself, in its units, with every record counted once."


def evaluate(
    release: Annotated[Path, typer.Argument(metavar="RELEASE.JSON", help="A released model.")],
    data: Annotated[str, typer.Argument(metavar="TEST", help="File, glob or folder of labelled records.")],
    epsilon: Annotated[float, typer.Option(help="What it may cost.")],
    ledger: LedgerUrl = None,
    name: Annotated[str | None, typer.Option("--data-set", help="Whose policy pays; by default named like the file or folder.")] = None,
    units: Annotated[int | None, typer.Option(help="The public number of persons, or under add_remove of records.")] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Tell the metrics for each level of this category of the model's columns too.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="By default a tenth of the policy's.")] = None,
    trusted: Annotated[bool, typer.Option("--trusted", help="Exact numbers, for the data's owner only; needs --unsafe.")] = False,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Allow numbers that are not private.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Ask once more of the same files; this spends again.")] = False,
    as_json: Json = False,
) -> None:
    """Judge a released model on labelled data of its own. Its data set's lifetime budget pays; nothing is fitted."""
    from nightfit.config import resolved
    from nightfit.config.model import folder_name
    from nightfit.ledger import Ledger
    from nightfit.nightly.evaluation import TestData, prepare_evaluation, run_evaluation
    from nightfit.release import Release
    from nightfit.release.metrics import scale_of

    if trusted and not unsafe:
        raise NightfitError("--trusted shows exact numbers, which are not private: add --unsafe if nobody but the data's owner sees them")
    model = Release.load(release)
    suspicion = model.tampering()
    if suspicion is not None:
        warn(plain(f"warning: {release} {suspicion}"))
    opened = Ledger.open(resolved(ledger or "sqlite:///ledger.db", Path.cwd()))
    asked = TestData(source=data, name=name or folder_name(data), units=units, by=by)
    planned = prepare_evaluation(model, asked, opened, epsilon=epsilon, delta=delta, trusted=trusted)
    found, path = run_evaluation(planned, opened, release.parent, again=again)
    if as_json:
        typer.echo(json.dumps({**found, "path": str(path)}, indent=2))
        return
    _show(found, path, scale_of(model))


def _show(found: dict[str, Any], path: Path, scale: str) -> None:

    from nightfit.release.evaluation_section import scale_in_words
    from nightfit.release.metrics import Range, metric_name

    evaluation, guarantee = found["evaluation"], found["guarantee"]
    title = f"value ({evaluation['level']:.0%} interval)"
    exact: dict[str, float] = evaluation.get("exact", {})
    headings, rows = ("metric", title, "best constant", *(["exact"] if exact else [])), []
    for name, stored in evaluation["metrics"].items():
        constant = evaluation["constant"].get(name)
        cells = ["" if constant is None else f"{constant['value']:.3g}", f"{exact[name]:.6g}" if name in exact else ""]
        rows.append((metric_name(name), Range.of(stored).words(), *cells))
    show(f"Run {found['run']}", columns_of(headings, rows, right=False))
    if scale:
        say(plain(scale_in_words(scale)))
    if exact:
        say(EXACT)
    for group, metrics in ((evaluation.get("by") or {}).get("groups") or {}).items():
        words = ", ".join(f"{metric_name(name)} {Range.of(stored).words()}" for name, stored in metrics["metrics"].items())
        say(plain(f"{evaluation['by']['column']} {group}: {words}."))
    if guarantee is None:
        say("[bold red]NOT PRIVATE[/]: exact numbers, for the data's owner only; never show or store them elsewhere.")
    else:
        say(
            f"Guarantee: ({guarantee['epsilon']:.4g}, {guarantee['delta']:g})-differential privacy for one {guarantee['unit']} "
            f"of {plain(found['data_set'])} under {guarantee['adjacency']}."
        )
    say(plain(f"Evaluation: {path}"))
