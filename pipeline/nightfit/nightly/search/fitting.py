"""From a search's plan, records and a reserved run to the release of the best fit. Imports release and below."""

from collections.abc import Callable
from dataclasses import replace

from nightfit.ledger import Run
from nightfit.methods.procedure import Progress
from nightfit.nightly.fit import release_of
from nightfit.nightly.search.procedure import Search
from nightfit.planning.plan import Plan
from nightfit.privacy.gate import Gate, Records
from nightfit.privacy.noise import Noise
from nightfit.release import Release


def fit(plan: Plan, records: Records, run: Run, noise: Noise, show: Callable[[Progress], None] = lambda _: None) -> Release:
    """Search as the plan says and release the best fit, with the guarantee of the whole search.

    Parameters
    ----------
    plan : Plan
        A plan of `search.make`.
    records : Records
        Where integer sums come from.
    run : Run
        The reserved run; stored answers are used again.
    noise : Noise
        The source of noise.
    show : callable
        Called with a `Progress` after each setting, where all are charged.

    Returns
    -------
    Release
    """
    search = plan.procedure
    assert isinstance(search, Search)
    found = search.payment.search(search.settings, Gate(account=run, records=records, noise=noise), show)
    best = search.settings[found.index]
    specification = replace(best.plan.specification, budget=plan.specification.budget)
    chosen = replace(plan, specification=specification, procedure=replace(search, chosen=found.index), theorem=best.plan.theorem)
    summary = {
        "payment": search.payment.name,
        "chosen": best.values,
        "scores": [{"setting": search.settings[index].values, "score": score} for index, score in found.scores.items()],
        "score_noise": best.scored.noise,
    }
    return release_of(chosen, found.outcome, run, noise, plan_digest=plan.digest(), search=summary)
