"""Which release is in use: decided after a night by the paid comparison, or by hand; recorded in the ledger. Imports release, ledger and
below.
"""

import secrets
from collections.abc import Sequence

from nightfit.config import Config
from nightfit.ledger import Claim, Ledger, LedgerError
from nightfit.ledger.promotions import Decision, Promotion, current, decide, roll_back, with_current
from nightfit.nightly.copies import copy_releases
from nightfit.nightly.journal import now
from nightfit.nightly.registry import follow_promotion
from nightfit.release import Release
from nightfit.release.current import Pointer, write_pointers
from nightfit.release.metrics import Evaluation, evaluation_of
from nightfit.release.shifts import Shift, shifted

BY_HAND = "by hand"
MOST_NAMED = 3  # checks in a reason; the history has all


def settle(config: Config, ledger: Ledger, release: Release, changes: Sequence[Shift] = ()) -> str:
    """Decide after a night whether its release comes into use, once for each run, and say so in words.

    Parameters
    ----------
    config : Config
        Its `promote` is the rule.
    ledger : Ledger
        That paid for the release, and records the decision.
    release : Release
        As it was published.
    changes : sequence of Shift
        Paid checks that changed since the release in use. Where they say that the export is poorer, `when better` promotes nothing: a
        fit of a broken export may well be the better one on units of the same export.

    Returns
    -------
    str
        The decision and its reason; empty where none is due: of releases that are not private, of searches, and `by hand`.
    """
    rule = config.promote
    if rule == BY_HAND or not release.private or "search" in release.content:
        return ""
    evaluation = evaluation_of(release)

    def judge(in_use: str | None) -> tuple[Decision, str]:
        if in_use is None:
            return "promoted", "it is the first private release"
        return ("promoted", "every release is promoted") if rule == "always" else _by_comparison(evaluation, in_use, changes)

    made = decide(ledger, release.claim, judge, rule=rule, time=now(), token=_automatic(release.claim))
    point(config, ledger)
    return in_words(made)


def changes_since_current(config: Config, ledger: Ledger, release: Release) -> tuple[Shift, ...]:
    """The paid checks of a release that changed since the one in use; none where the ledger does not vouch for that."""
    run = current(ledger, config.name, config.data_set)
    path = config.output_folder / str(run) / "release.json"
    if run is None or run == release.run_id or not path.exists():
        return ()
    before = Release.load(path)
    return shifted(evaluation_of(before), evaluation_of(release)) if ledger.check_release(before.claim).trusted else ()


def _by_comparison(evaluation: Evaluation | None, in_use: str, changes: Sequence[Shift]) -> tuple[Decision, str]:
    """Better than the current release, by the interval of the paid comparison with it, and of an export that is no poorer; or not."""
    poorer = [one.words() for one in changes if one.suspect]
    if poorer:
        return "kept", f"the export looks poorer than that of {in_use}: {', '.join(poorer[:MOST_NAMED])}"
    if evaluation is None or evaluation.previous is None:
        return "kept", f"no paid comparison with {in_use}"
    compared = evaluation.previous
    if compared.run != in_use:
        return "kept", f"it was compared with {compared.run}, and {in_use} is in use"
    words = {True: "better", False: "worse", None: "no difference beyond the interval"}[compared.better]
    return "promoted" if compared.better else "kept", f"{words}: {evaluation.change_words()}"


def promote(config: Config, ledger: Ledger, run: str, reason: str) -> Promotion:
    """Put the release of a run in use, by hand.

    Raises
    ------
    ReleaseError
        If the output folder has no release of the run.
    LedgerError
        If the release is not a private one that this ledger vouches for, or is of another model.
    """
    release = Release.load(config.output_folder / run / "release.json")
    check_is_of(config, release)
    made = decide(ledger, release.claim, lambda _: ("promoted", reason), rule=BY_HAND, time=now(), token=secrets.token_hex(8))
    point(config, ledger)
    follow_promotion(config, ledger)
    copy_releases(config)
    return made


def rollback(config: Config, ledger: Ledger, reason: str) -> Promotion:
    """Put the release in use that was before the current one.

    Raises
    ------
    LedgerError
        If there was none.
    """
    made = roll_back(ledger, config.name, config.data_set, reason=reason, time=now(), token=secrets.token_hex(8))
    point(config, ledger)
    follow_promotion(config, ledger)
    copy_releases(config)
    return made


def point(config: Config, ledger: Ledger) -> None:
    """Write `current` in the output folder as the ledger says: a pointer that a crash left behind is mended by the next night."""
    folder = config.output_folder

    def write(latest: dict[tuple[str, str], Promotion]) -> None:
        here = {
            one.model: Pointer(run=one.current, release=f"{one.current}/release.json", entry=one.seq, time=one.time, reason=one.reason)
            for one in sorted(latest.values(), key=lambda one: one.seq)
            if one.current is not None and (folder / one.current / "release.json").exists()
        }
        if here:
            write_pointers(folder, here)

    with_current(ledger, write)


def in_words(made: Promotion) -> str:
    """promoted (better: R2 ...)."""
    return f"{'not promoted' if made.decision == 'kept' else made.decision} ({made.reason})"


def check_is_of(config: Config, release: Release) -> None:
    """Refuse a release of another model or data set: it would come into use under a name that is not its own."""
    data_set = release.content["plan"]["data_set"]
    if (release.name, data_set) != (config.name, config.data_set):
        raise LedgerError(
            f"run {release.run_id} is of {release.name} on {data_set}, not of {config.name} on {config.data_set}: "
            "give the configuration of that model"
        )


def _automatic(claim: Claim) -> str:
    """A run is decided about once by itself; a release that is made anew from the same answers is another one."""
    return f"{claim.run} {claim.binding.content}"
