"""Use the levels that a discovery told. Imports config, release and the ledger."""

from nightfit.config import Config, ConfigError
from nightfit.ledger import Ledger
from nightfit.release.discovered import Discovered, discovered_in


def resolved(config: Config, ledger: Ledger | None) -> Config:
    """The configuration with levels in the place of every `discover` that an earlier discovery of the data set answered.

    Guarantee: levels are taken from a release of the same data set that is private and, to the last digit, what its run closed in this
    ledger: they are post-processing of a paid answer. The one that was paid last counts. Broken by
    test_an_edited_or_foreign_discovery_is_not_used.
    """
    if not config.data.to_discover or ledger is None:
        return config
    fitting = [found for _, found in discovered_in(config.output_folder) if _fits(found, config, ledger)]
    told: dict[str, tuple[str, ...]] = {}
    for found in sorted(fitting, key=lambda found: int(found.content["receipt"]["seq"])):
        told |= found.levels
    for name in config.data.to_discover.keys() & told.keys():
        if not told[name]:
            raise ConfigError(
                f"data.columns.{name}: the discovery told no level, because none is had by enough units: list the levels that are publicly "
                "known, exclude the column, or discover again with a larger privacy.discover.epsilon (`nightfit discover --again`)"
            )
    return config.model_copy(update={"data": config.data.with_levels(told)})


def _fits(found: Discovered, config: Config, ledger: Ledger) -> bool:
    """Whether it is of the same data set and this ledger paid for it; one that is not private serves runs that are not."""
    allowed = bool(found.content["private"]) or config.unsafe is not None
    return allowed and found.content["data_set"] == config.data_set and ledger.check_release(found.claim).trusted
