"""The command search. Imports nightly, lazily."""

import json
from typing import Annotated

import typer

from nightfit.cli.console import ConfigPath, Json, plain, say
from nightfit.cli.results import progress, show_plan, show_result
from nightfit.types import NightfitError


def search(
    config: ConfigPath,
    plan_only: Annotated[bool, typer.Option("--plan", help="Say what the search would cost and do; read no row, charge nothing.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Search a finished window once more; this spends again.")] = False,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Continue this search, on the blocks that it reserved.")] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Allow the configuration's `unsafe` section; the release is not private.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Try the settings of the configuration's `search` section and release the best fit; every fit is paid for.

    An interrupted search is resumed; a finished one is returned and not paid twice.
    """
    from nightfit import nightly
    from nightfit.config import load
    from nightfit.release.words import in_words

    if again and resume is not None:
        raise NightfitError("--resume continues a run, --again starts a new one: give one of them")
    planned = nightly.prepare_search(load(config), again=again, resume=resume)
    if not as_json:
        show_plan(planned)
    if plan_only:
        if as_json:
            typer.echo(json.dumps({**planned.plan.as_dict(), "epsilon": planned.plan.epsilon}, indent=2))
        return
    ledger = nightly.open_ledger(planned.config)
    run = nightly.reserve(planned, ledger, again=again, unsafe=unsafe)
    with progress(as_json, planned.plan.units, "searching") as show:
        release = nightly.run_fit(planned, ledger, run, show)
    result = nightly.as_dict(nightly.publish(planned, ledger, release))
    if as_json:
        typer.echo(json.dumps(result, indent=2))
        return
    found = result["search"]
    for tried in found["scores"]:
        say(plain(f"Score {tried['score']:.4g} (noise {found['score_noise']:.2g}): {in_words(tried['setting'])}"))
    say(plain(f"Best: {in_words(found['chosen'])}"))
    show_result(result)
