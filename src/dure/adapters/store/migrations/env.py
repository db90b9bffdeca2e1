"""Called by Alembic; the connection comes from `upgrade` or `downgrade`, which own the transaction."""

from alembic import context

from dure.adapters.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
