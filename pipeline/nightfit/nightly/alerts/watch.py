"""A refit whose end is told, and whose failure is noted in the journal. Imports alerts."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nightfit.config import Config, configurations, load
from nightfit.nightly.alerts import tell
from nightfit.nightly.alerts.occasions import of_completion, of_failure
from nightfit.nightly.journal import append, read
from nightfit.types import NightfitError


@contextlib.contextmanager
def watched(config: Config) -> Iterator[None]:
    """Note and tell of any error inside, and raise it; a stop by Ctrl-C or a signal is no failure."""
    try:
        yield
    except Exception as error:
        tell_failure(config, error)
        raise


def tell_failure(config: Config, error: BaseException) -> None:
    """Note a failure in the journal, and tell whom the configuration names."""
    note, alert = of_failure(config, error)
    append(config.output_folder, note)
    tell(config, [alert])


def readable(paths: Sequence[Path]) -> list[Config]:
    """The configurations of files and folders that can be read now; what cannot be read names nobody to be told."""
    found = []
    for path in paths:
        with contextlib.suppress(NightfitError, OSError):  # an empty folder hides no other
            for inside in configurations([path]):
                with contextlib.suppress(NightfitError):
                    found.append(load(inside))
    return found


def tell_crash(paths: Sequence[Path], since: str, error: NightfitError) -> None:
    """Note and tell that a night of several configurations was cut short, for each model of which nothing was noted `since` it began."""
    for config in readable(paths):
        if not any(note.time >= since for note in read(config.output_folder, config.name)):
            tell_failure(config, error)


def tell_completion(config: Config, result: Mapping[str, Any]) -> None:
    """Tell that a night ended well, whom the configuration names and that asked for it; `result` is a published refit as plain data."""
    tell(config, [of_completion(config, result["run"], result["night"]["words"])])
