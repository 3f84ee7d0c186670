"""From one format of the ledger to the next, by Alembic, in the caller's transaction. Imports alembic, sqlalchemy."""

from pathlib import Path

import sqlalchemy as sa

MIGRATIONS = Path(__file__).parent / "migrations"


def to_newest(connection: sa.Connection) -> None:
    """Make the tables, or bring them to the newest format. Format 1 was made before Alembic was used: it is marked first."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    names = sa.inspect(connection).get_table_names()
    if "identity" in names and "alembic_version" not in names:
        command.stamp(config, "format_1")
    command.upgrade(config, "head")
