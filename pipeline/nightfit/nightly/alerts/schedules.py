"""Nights that did not begin: noted in the journal and told. Imports alerts."""

from nightfit.config import Config
from nightfit.nightly.alerts import tell
from nightfit.nightly.alerts.occasions import of_missed, of_overlap
from nightfit.nightly.journal import Note, append


def tell_missed(config: Config, due: list[str]) -> str:
    """Note and tell of nights that were due and did not begin; what was told."""
    for time in due:
        append(config.output_folder, Note(time=time, model=config.name, state="missed", reason="nothing served the schedule"))
    alerts = of_missed(config, due)
    tell(config, alerts)
    return " ".join(alert.words for alert in alerts)


def tell_overlap(config: Config, due: str) -> str:
    """Note and tell of a night that was due while the one before it still ran; what was told."""
    alert = of_overlap(config, due)
    append(config.output_folder, Note(time=due, model=config.name, state="overlapped", reason="the one before it still ran"))
    tell(config, [alert])
    return alert.words
