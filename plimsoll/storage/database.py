"""A connection to the books: SQLite in the data directory, or PostgreSQL by URL, brought to the schema we know."""

from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import QueuePool
from sqlalchemy.schema import Table

from plimsoll.errors import LedgerAway, SchemaTooNew, UsageError

_READING: Final = "plimsoll_reading"
BUSY_TIMEOUT: Final = 30.0
"""s to wait for another process that is writing to the same SQLite file."""


def engine_of(where: Path | str) -> Engine:
    """An engine for a SQLite file (a Path) or a database URL (`postgresql://…`); its schema is the newest we know.

    Raises SchemaTooNew where a later Plimsoll has been there, LedgerAway where it cannot be reached.
    """
    engine = _sqlite(where) if isinstance(where, Path) else _by_url(where)
    try:
        _migrate(engine)
    except DBAPIError as error:
        engine.dispose()
        raise LedgerAway(f"the ledger at {shown(where)} cannot be used: {told(error)}") from error
    except SchemaTooNew:
        engine.dispose()
        raise
    return engine


def shown(where: Path | str) -> str:
    """Where the books are, without a password."""
    return str(where) if isinstance(where, Path) else make_url(where).render_as_string(hide_password=True)


def told(error: DBAPIError) -> str:
    """What the database said, in one line."""
    return " ".join(str(error.orig).split())


def upsert(connection: Connection, table: Table) -> Any:
    """An INSERT that may say what to do ON CONFLICT, in this database's dialect."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def only_reading(connection: Connection) -> Connection:
    """The same connection before its first statement, which then sees the database as of one instant."""
    if connection.dialect.name == "postgresql":
        return connection.execution_options(isolation_level="REPEATABLE READ")
    return connection.execution_options(**{_READING: True})


def _sqlite(path: Path) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        connect_args={"timeout": BUSY_TIMEOUT, "isolation_level": None, "check_same_thread": False},
        poolclass=QueuePool,  # one connection stays open: each last one that closes writes the whole WAL back
        pool_size=2,  # one posts, one assesses
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")  # a power loss may undo the last commits, whole: they are redone
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        # A writer from the start: never a deadlock between two that first read.
        reads = connection.get_execution_options().get(_READING, False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _by_url(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise UsageError(f"{url!r} is no database URL: give postgresql://user@host/name") from error
    if parsed.get_backend_name() != "postgresql":
        raise UsageError(f"a ledger can be SQLite (in the data directory) or postgresql://…, not {shown(url)}")
    try:
        return create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise UsageError("PostgreSQL needs psycopg: pip install 'plimsoll[postgres]'") from error


def _migrate(engine: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", "plimsoll.storage:migrations")
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    newest = scripts.get_current_head() or "0"
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7281645)")  # two projectors may start at once
        found = MigrationContext.configure(connection).get_current_revision()
        if found == newest:
            return
        if found is not None and int(found) > int(newest):
            raise SchemaTooNew(f"the ledger at {engine.url.render_as_string()}", int(found), int(newest))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
