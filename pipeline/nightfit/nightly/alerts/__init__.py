"""What is told about a night, and to whom: a command, a webhook, a mail. One way of telling per file. Imports config and release.

- `occasions`: which alerts a night gives
- `command`, `webhook`, `email`: ways of telling
- `watch`: a refit whose failure is noted and told
- `prometheus`: a text file of a night's public numbers

Guarantee: an alert holds names from the configuration, the run, the name of an exception and numbers of a private release, and nothing
else: no text of an exception, because some texts name files and columns that need not go to a third party. Broken by
test_an_alert_says_the_kind_of_a_failure_and_none_of_its_text.
"""

import warnings
from dataclasses import asdict, dataclass
from typing import Protocol

from nightfit.config import Config
from nightfit.config.sections.notify import Occasion
from nightfit.nightly.alerts.command import Command
from nightfit.nightly.alerts.email import Email
from nightfit.nightly.alerts.webhook import Webhook

__all__ = ["Alert", "Channel", "tell"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """Something about a night that a person should know.

    Parameters
    ----------
    occasion
        In a word of `notify.on`.
    model, data_set
        Of the configuration.
    time
        In UTC.
    words
        What happened, in one sentence.
    run
        In the ledger, if there is one.
    """

    occasion: Occasion
    model: str
    data_set: str
    time: str
    words: str
    run: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        """As JSON has it."""
        return asdict(self)

    def subject(self) -> str:
        """visits: failure."""
        return f"nightfit {self.model}: {self.occasion}"


class Channel(Protocol):
    """A way of telling."""

    @property
    def name(self) -> str:
        """Its key in `notify`."""

    def send(self, content: dict[str, str | None], subject: str) -> None:
        """Tell; any exception means that it was not told."""


def tell(config: Config, alerts: list[Alert]) -> None:
    """Send alerts by every configured way.

    What cannot be sent is warned of, by the way and the kind of the error alone: the error's text may hold a secret. It never fails the
    night.
    """
    notify = config.notify
    if notify is None:
        return
    for alert in alerts:
        if alert.occasion not in notify.on:
            continue
        for channel in _channels(config):
            try:
                channel.send(alert.as_dict(), alert.subject())
            except Exception as error:
                warnings.warn(f"the alert {alert.occasion!r} could not be sent by {channel.name} ({type(error).__name__})", stacklevel=2)


def _channels(config: Config) -> list[Channel]:
    notify = config.notify
    assert notify is not None
    found: list[Channel] = []
    if notify.command is not None:
        found.append(Command(words=tuple(notify.command), folder=config.folder))
    if notify.webhook is not None:
        found.append(Webhook(url=notify.webhook.url, folder=config.folder))
    if notify.email is not None:
        found.append(Email(section=notify.email, folder=config.folder))
    return found
