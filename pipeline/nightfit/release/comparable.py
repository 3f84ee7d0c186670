"""The earlier releases that a night may be compared with on its own held-out units. Imports planning and the ledger."""

from pathlib import Path
from typing import Any

from nightfit.evaluation import Earlier
from nightfit.ledger import Ledger
from nightfit.ledger.promotions import current
from nightfit.planning.specification import Specification
from nightfit.release.document import Release, releases_in
from nightfit.release.metrics import evaluation_of
from nightfit.release.previous_release import same_model


def comparable(specification: Specification, folder: Path, ledger: Ledger | None) -> list[Earlier]:
    """Private releases of the same model that this ledger bound: the one in use first, then the last ones paid.

    Parameters
    ----------
    specification
        Of the refit.
    folder
        Where releases lie.
    ledger
        That must have paid for them; without one nothing is compared.

    Notes
    -----
    Guarantee: what is compared is, to the last digit, what its run closed, so it is post-processing of paid answers; the plan's digest
    covers its numbers. Broken by test_an_edited_release_is_not_compared.
    """
    if ledger is None or not folder.is_dir():
        return []
    fitting = [release for _, release in releases_in(folder, specification.name) if _fits(release, specification, ledger)]
    in_use = current(ledger, specification.name, specification.data_set)
    ordered = sorted(fitting, key=lambda release: (release.run_id == in_use, int(release.content["receipt"]["seq"])), reverse=True)
    return [_earlier(release) for release in ordered]


def _earlier(release: Release) -> Earlier:
    """What is compared of a release: its predictions, and what its own evaluation told of where they lay."""
    told = evaluation_of(release)
    weights: Any = release.weights.tolist()
    return Earlier(
        run=release.run_id,
        weights=tuple(map(tuple, weights)) if release.classes else tuple(weights),
        preprocessing=release.preprocessing,
        link=release.link,
        scores=None if told is None else told.stored.get("scores"),
    )


def _fits(release: Release, specification: Specification, ledger: Ledger) -> bool:
    """Whether it predicts the same target from the same columns, read in the same way."""
    if not same_model(release, specification) or release.preprocessing.encoded != specification.preprocessing.encoded:
        return False
    if release.classes != specification.class_names:
        return False
    check = ledger.check_release(release.claim)
    return check.problem is None and check.bound
