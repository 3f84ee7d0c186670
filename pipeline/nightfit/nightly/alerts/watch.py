"""A refit whose failure is noted in the journal and told. Imports alerts."""

import contextlib
from collections.abc import Iterator

from nightfit.config import Config
from nightfit.nightly.alerts import tell
from nightfit.nightly.alerts.occasions import of_failure
from nightfit.nightly.journal import append


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
