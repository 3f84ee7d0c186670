"""From records to persons, or to other blocks: a policy's migration, with the folders of the data. Imports config, ledger, shards."""

from dataclasses import replace

from nightfit.config import Config, ConfigError
from nightfit.ledger import Ledger
from nightfit.ledger.policy_migration import Migration, migrate
from nightfit.privacy.accounting import Cost
from nightfit.shards.manifest import hive_blocks, scan


def migrate_policy(ledger: Ledger, migration: Migration, config: Config | None) -> dict[str, Cost]:
    """Migrate a policy; hive folders and the files in them are those of the configuration.

    Parameters
    ----------
    ledger : Ledger
        An open ledger.
    migration : Migration
        What the policy becomes.
    config : Config, optional
        The configuration that reads the data; needed where blocks become hive folders.

    Returns
    -------
    dict
        What every block starts with; by year if the budget is renewed.

    Raises
    ------
    ConfigError
        If blocks become folders and no configuration of this data set says where they are.
    """
    if not migration.hive:
        return migrate(ledger, migration)
    if config is None or config.data_set != migration.data_set:
        raise ConfigError(
            f"blocks of {migration.blocks} are folders of the data, and every one that exists starts with what was spent: name the "
            f"configuration that reads {migration.data_set} by --config REFIT.YAML"
        )
    homes = scan(config.source).block_by_file(migration.blocks)
    return migrate(ledger, replace(migration, existing=hive_blocks(config.source, migration.blocks), homes=homes))
