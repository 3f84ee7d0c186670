"""`nightfit audit`: attack a configuration and show what is proved of its epsilon. Imports nightly, lazily."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from nightfit.cli.console import ConfigPath, Json, say
from nightfit.cli.tables import columns_of, show
from nightfit.types import NightfitError


def audit(
    path: ConfigPath,
    runs: Annotated[int, typer.Option(min=20, help="Refits on each of the two neighbours.")] = 300,
    confidence: Annotated[float, typer.Option(min=0.5, max=1 - 1e-12, help="With which the bound holds.")] = 0.99,
    epsilon: Annotated[
        float | None, typer.Option(min=0.001, max=30.0, help="Claim this epsilon instead: a large one shows an error in fewer runs.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Attack a configuration on small data that are made here, through gate and ledger, and bound its epsilon from below.

    Reads no record and charges nothing. The exit code is 1 if more is proved than was claimed.
    """
    from nightfit.config import load
    from nightfit.nightly.audit import audit as audited

    made = audited(load(path), runs=runs, confidence=confidence, epsilon=epsilon)
    attack, budget = made.attack, made.plan.specification.budget
    if as_json:
        typer.echo(json.dumps({**asdict(attack), "reached": {query.label: query.share for query in made.reached}}, indent=2))
    else:
        how = f"{runs} + {runs} refits on neighbours {attack.neighbours}, confidence {confidence:g}"
        rows = [(f"epsilon at delta {attack.delta:g}", f"{attack.claimed:.4g}", f"{attack.bound.epsilon:.4g}", how)]
        for query in made.reached:
            rows.append((f"sensitivity of {query.label}", "100%", f"{query.share:.2%}", "the farthest neighbour that was tried"))
        headings = ("what", "claimed", "proved at least", "how")
        show(f"One {budget.unit} under {budget.adjacency}, of {made.plan.units}", columns_of(headings, rows, left=4))
        say(f"The ledger let {attack.nights} of these refits pass for a lifetime of one. No record was read, nothing was charged.")
    if made.violated:
        raise NightfitError("more is proved than was claimed: the guarantee of this configuration does not hold; please report it")
    if not as_json:
        say("Nothing proves more than was claimed, which is no proof of the claim: small errors are beyond an attack.")
