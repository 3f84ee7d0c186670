"""The earlier release of a model that a refit starts from. Imports planning and the ledger."""

from collections.abc import Callable, Iterator
from pathlib import Path

from nightfit.ledger import Ledger, LedgerError, RunRecord
from nightfit.methods.warm_start import Previous
from nightfit.planning.plan import Plan
from nightfit.planning.specification import Specification
from nightfit.release.document import Release, releases_in


def warm_started(
    specification: Specification, plan_from: Callable[[Previous], Plan], folder: Path, ledger: Ledger | None, begun: RunRecord | None
) -> Plan:
    """The plan that starts at the newest release that fits, or at zero.

    Parameters
    ----------
    specification
        Of the refit.
    plan_from
        The plan from a start.
    folder
        Where releases lie.
    ledger
        That must have paid for the release; without one the refit starts at zero.
    begun
        A run that has begun keeps its start: the ledger holds its plan's digest, and the start is part of it.

    Raises
    ------
    LedgerError
        If the release that `begun` started from is not there any more.

    Notes
    -----
    Guarantee: a release that is started from is, to the last digit, what its run closed, so it is post-processing of paid answers. A
    release without a recorded digest is started from only by a run whose own plan digest already covers its numbers. Broken by
    test_an_edited_release_is_not_started_from.
    """
    plans = (plan_from(start) for start in _starts(specification, folder, ledger, trusted_only=begun is None))
    if begun is None:
        return next(plans)
    for plan in plans:
        if plan.digest() == begun.plan:
            return plan
    raise LedgerError(
        f"run {begun.run} cannot be resumed or returned: the release that it started from is not in {folder.name} any more, or the "
        "configuration changed since; restore them, or use --again (`nightfit ledger abandon` gives up a run that is not finished)"
    )


def _starts(specification: Specification, folder: Path, ledger: Ledger | None, *, trusted_only: bool) -> Iterator[Previous]:
    """Every model that may be started from, the last one paid first, and in the end none."""
    if ledger is not None:
        fitting = [
            release
            for _, release in releases_in(folder, specification.name)
            if _fits(release, specification, ledger, trusted_only=trusted_only)
        ]
        for release in sorted(fitting, key=lambda release: int(release.content["receipt"]["seq"]), reverse=True):
            coef = tuple(float(release.content["coef"][name]) for name in specification.preprocessing.features)
            yield Previous(run=release.run_id, coef=coef, intercept=float(release.content["intercept"]))
    yield Previous()


def _fits(release: Release, specification: Specification, ledger: Ledger, *, trusted_only: bool) -> bool:
    """Whether it is a private release of the same model that this ledger paid for."""
    if not same_model(release, specification):
        return False
    check = ledger.check_release(release.claim)
    return check.problem is None and (check.bound or not trusted_only)


def same_model(release: Release, specification: Specification) -> bool:
    """Whether it is a private release of a model with the same name, data set, loss, features and target."""
    if not release.private or release.of_columns:
        return False
    plan = release.content["plan"]
    if (release.name, plan["data_set"], plan["loss"]["kind"]) != (specification.name, specification.data_set, specification.loss.name):
        return False
    before, now = release.preprocessing, specification.preprocessing
    return all(getattr(before, part) == getattr(now, part) for part in ("features", "target", "intercept", "target_domain"))
