"""Which alerts a night gives. Imports the night and alerts."""

from nightfit.config import Config, ConfigError
from nightfit.config.sections.notify import Occasion
from nightfit.ledger import BudgetExceeded
from nightfit.nightly.alerts import Alert
from nightfit.nightly.journal import Note, State, now
from nightfit.nightly.night import Night, nights_in_words
from nightfit.release.shifts import DRIFT
from nightfit.types import NightfitError

MOST_CHANGES = 5  # in an alert; the history has all
LOOK = "`nightfit history` and the log on that machine say more"


def of_night(config: Config, night: Night) -> list[Alert]:
    """Alerts about a night that ended with a new release: few nights left, a metric that fell beyond its interval, checks that changed."""
    notify, found = config.notify, night.evaluation
    if notify is None or not night.new:
        return []
    alerts = []
    if not night.goes_on and night.nights_left < notify.nights:
        words = f"{nights_in_words(night.nights_left, False)}: {night.balance.share_left:.1%} of the budget of {config.data_set} is left."
        alerts.append(_alert(config, "budget", words, night.release.run_id))
    if found is not None and found.previous is not None and found.previous.better is False:
        alerts.append(
            _alert(config, "drop", f"{found.change_words()}, at {found.level:.0%}: worse by more than noise.", night.release.run_id)
        )
    changes = [one.words() for one in night.shifted if not one.name.startswith(DRIFT)]
    if changes:
        words = f"The held-out data changed since the release in use: {', '.join(changes[:MOST_CHANGES])}."
        alerts.append(_alert(config, "data", words, night.release.run_id))
    return alerts


def of_failure(config: Config, error: BaseException) -> tuple[Note, Alert]:
    """What the journal notes, with the text of an error that is ours, and what is told, with its kind alone."""
    refused = isinstance(error, BudgetExceeded | ConfigError)
    state: State = "refused" if refused else "failed"
    kind = type(error).__name__
    words = f"The night was refused ({kind}); nothing was spent. {LOOK}." if refused else f"The night failed ({kind}). {LOOK}."
    return (
        Note(time=now(), model=config.name, state=state, reason=_reason(error)),
        _alert(config, "refusal" if refused else "failure", words),
    )


def of_completion(config: Config, run: str, words: str) -> Alert:
    """A night that ended with a release, new or unchanged."""
    return _alert(config, "completion", words, run)


def of_missed(config: Config, due: list[str]) -> list[Alert]:
    """One alert about nights that were due and did not begin."""
    if not due:
        return []
    when = due[0] if len(due) == 1 else f"{due[0]} to {due[-1]}"
    words = (
        f"{len(due):,} night{'' if len(due) == 1 else 's'} missed ({when}): nothing served the schedule. "
        "The next refit, a late one that begins now or that of the next night, takes what is new; nothing is paid twice."
    )
    return [_alert(config, "missed", words)]


def of_overlap(config: Config, due: str) -> Alert:
    """A night that was due while the one before it still ran."""
    return _alert(config, "overlap", f"The night due at {due} waits, because the one before it still runs; it begins when that has ended.")


def _alert(config: Config, occasion: Occasion, words: str, run: str | None = None) -> Alert:
    return Alert(occasion=occasion, model=config.name, data_set=config.data_set, time=now(), words=words, run=run)


def _reason(error: BaseException) -> str:
    """The message of an error of ours, which is made of public facts; of any other, its kind."""
    return str(error) if isinstance(error, NightfitError) else f"an unexpected {type(error).__name__}"
