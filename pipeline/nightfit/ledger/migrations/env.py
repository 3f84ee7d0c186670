"""How Alembic runs a ledger's migrations: on the connection that it is given, in the transaction that is open. Imports alembic."""

from alembic import context

if hasattr(context, "config"):  # only while Alembic runs it
    context.configure(connection=context.config.attributes["connection"])
    context.run_migrations()
