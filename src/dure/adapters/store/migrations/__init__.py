"""Alembic migrations, run from code: `upgrade` to the newest schema, `downgrade` to a named one.

Each version says by `serves` which is the oldest schema whose program still works on it. That is kept in the
database, so that a program which finds a newer schema than it knows can tell whether it may go on: replicas of two
versions then work side by side while one is replaced by the other, forward and back.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from dure.adapters.store.rows import upsert
from dure.adapters.store.tables import settings

# In the settings.
SERVES = "schema-serves"
# Two replicas that start at once migrate one after the other; any number that nobody else uses.
_LOCK = 742_000_001


def upgrade(engine: Engine, revision: str = "head") -> None:
    with engine.begin() as connection:
        config = _config(connection)
        command.upgrade(config, revision)
        _mark(connection, config)


def downgrade(engine: Engine, revision: str) -> None:
    with engine.begin() as connection:
        config = _config(connection)
        command.downgrade(config, revision)
        _mark(connection, config)


def revisions() -> tuple[str, ...]:
    """All that this program knows, oldest first."""
    found = [script.revision for script in ScriptDirectory.from_config(_plain_config()).walk_revisions()]
    return tuple(reversed(found))


def _config(connection: Connection) -> Config:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    config = _plain_config()
    config.attributes["connection"] = connection
    return config


def _plain_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    return config


def _mark(connection: Connection, config: Config) -> None:
    current = MigrationContext.configure(connection).get_current_revision()
    if current is None:
        return
    serves: str = ScriptDirectory.from_config(config).get_revision(current).module.serves
    upsert(connection, settings, {"name": SERVES, "value": serves.encode()}, ("name",))
