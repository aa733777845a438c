"""Run by alembic; the connection comes from `storage/database.py`, inside whose transaction everything happens."""

from alembic import context

from plimsoll.storage.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
