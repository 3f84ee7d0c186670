"""Earlier releases of a model that a refit may start from. Imports release, plan and the ledger."""

from collections.abc import Callable, Iterator
from pathlib import Path

from nightfit.ledger import Found, Ledger, LedgerError
from nightfit.methods.warm_start import Previous
from nightfit.planning.plan import Plan
from nightfit.planning.specification import Specification
from nightfit.release.release import Release, releases_in


def started(said: Specification, plan_from: Callable[[Previous], Plan], folder: Path, ledger: Ledger | None, begun: Found | None) -> Plan:
    """The plan that starts at the newest release in `folder` that fits; for a run that has begun, at the one it started from.

    The ledger keeps a plan's digest, and the start is part of it: so that of a run that has begun is the one with its digest.
    """
    plans = (plan_from(start) for start in _starts(said, folder, ledger))
    if begun is None:
        return next(plans)
    for plan in plans:
        if plan.digest() == begun.plan:
            return plan
    raise LedgerError(
        f"run {begun.run} cannot be gone on with or returned: the release that it started from is not in {folder.name} any more, or the "
        "configuration changed since; restore them, or use --again (`nightfit ledger abandon` gives up a run that is not finished)"
    )


def _starts(said: Specification, folder: Path, ledger: Ledger | None) -> Iterator[Previous]:
    """Every model that may be started from, the last one paid first, and in the end none."""
    if ledger is not None:
        fitting = [release for _, release in releases_in(folder) if _fits(release, said, ledger)]
        for release in sorted(fitting, key=lambda release: int(release.content["receipt"]["seq"]), reverse=True):
            coef = tuple(float(release.content["coef"][name]) for name in said.preprocessing.features)
            yield Previous(run=release.run_id, coef=coef, intercept=float(release.content["intercept"]))
    yield Previous()


def _fits(release: Release, said: Specification, ledger: Ledger) -> bool:
    """Whether it is a private release of the same model, paid for by an entry that this ledger holds."""
    receipt, shape, plan = release.receipt, said.preprocessing, release.content["plan"]
    if not release.private or receipt is None or release.of_columns:
        return False
    then = release.preprocessing
    same = (release.name, plan["data_set"], plan["loss"]["kind"]) == (said.name, said.data_set, said.loss.name)
    alike = all(getattr(then, part) == getattr(shape, part) for part in ("features", "target", "intercept", "target_domain"))
    return same and alike and receipt.ledger_id == ledger.ledger_id and ledger.holds(receipt.seq, receipt.digest)
