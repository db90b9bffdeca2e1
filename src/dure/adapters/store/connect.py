"""Open a store by URL: make the folder, set the database up for safe concurrent use, bring the schema up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from dure.adapters.redact import redact
from dure.adapters.store import audit
from dure.adapters.store.sql import SqlStore
from dure.adapters.store.trouble import translated
from dure.model.errors import DureError, InvalidInput, Permanent

HEAD = "0003"
# A process that is stopped in the middle of a transaction holds its locks; so long, then the server takes them away.
STOPPED_MS = 4000
CACHE_KIB = 512


def open_store(url: str) -> SqlStore:
    """`sqlite:////var/lib/dure/dure.db` or `postgresql://user@host/db`; the schema is migrated when it is older."""
    engine = _engine(url)
    try:
        with translated():
            _migrate(engine)
            with engine.begin() as connection:
                audit.begin(connection)
    except DureError as error:
        engine.dispose()
        raise type(error)(
            error.message,
            where=error.where or _shown(engine),
            remedy=error.remedy or "Check that the database runs, then retry.",
        ) from error
    return SqlStore(engine)


def migrate(url: str, revision: str = HEAD) -> tuple[str, str]:
    """Take the schema to this revision, forward or back; answers where it was and where it is."""
    from dure.adapters.store.migrations import downgrade, revisions, upgrade

    if revision not in revisions():
        raise InvalidInput(f"no schema '{revision}'", remedy=f"This version knows {', '.join(revisions())}.")
    engine = _engine(url)
    try:
        with translated():
            before = _current(engine) or ""
            if before > HEAD:
                raise Permanent(
                    f"the schema {before} is newer than this version, which knows {HEAD}",
                    remedy="Take it back with the version that made it.",
                )
            (downgrade if before > revision else upgrade)(engine, revision)
            return before, revision
    finally:
        engine.dispose()


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "postgresql":
            options = f"-c idle_in_transaction_session_timeout={STOPPED_MS}"
            return create_engine(
                parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args={"options": options}
            )
        if parsed.get_backend_name() != "sqlite":
            raise ArgumentError(parsed.drivername)
    except (ArgumentError, NoSuchModuleError) as error:
        allowed = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        raise InvalidInput(f"cannot open the store '{redact(url)}'", remedy=f"Use {allowed}.") from error
    if parsed.database and parsed.database != ":memory:":
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(parsed, connect_args={"timeout": 30})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """WAL lets readers and the writer work at once; FULL makes an accepted write survive a power cut.

    Every connection of the pool has a cache of its own, which fills for as long as the file grows; the system holds
    the same pages once for all of them.
    """
    connection.isolation_level = None
    cache = f"cache_size=-{CACHE_KIB}"
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000", cache):
        connection.execute(f"PRAGMA {pragma}")


def _begin_immediate(connection: Any) -> None:
    """Take the write lock at once where a write follows; a deferred upgrade could fail half-way."""
    reads = connection.get_execution_options().get("reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _migrate(engine: Engine) -> None:
    """Cheap when there is nothing to do: Alembic is imported only for an older or empty database."""
    current = _current(engine)
    if current == HEAD:
        return
    if current is not None and current > HEAD:
        if _serves(engine) <= HEAD:
            return
        raise Permanent(
            f"the database is of a newer Dure (schema {current}, this version knows {HEAD})",
            where=_shown(engine),
            remedy=f"Start the newer version, or take the schema back with it: dure migrate --to {HEAD}",
        )
    from dure.adapters.store.migrations import upgrade

    upgrade(engine)


def _current(engine: Engine) -> str | None:
    with engine.connect() as connection:
        known = inspect(connection).has_table("alembic_version")
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar() if known else None
    return str(found) if found is not None else None


def _serves(engine: Engine) -> str:
    """The oldest schema whose program works on the one that is there; of an unknown one none does."""
    with engine.connect() as connection:
        found = connection.execute(text("SELECT value FROM settings WHERE name = 'schema-serves'")).scalar()
    return bytes(found).decode() if found is not None else "~"


def _shown(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=True)
