"""The one database: a SQLite file by default, Postgres by `DAYFLOW_DATABASE_URL`."""

import asyncio
import fcntl
import hashlib
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any

from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    InternalError,
    InvalidRequestError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from domain import errors
from store import crash, schema
from store.settings import Settings

MIGRATIONS = Path(__file__).parent / "migrations"
BUSY_S = 10.0
# Connections of one process to a Postgres.
CONNECTIONS = 10
# A transaction of a process that stopped, or of a machine that went away, lets go of its locks after this long.
IDLE_S = 30.0
# A Postgres that went away without a word is noticed by these.
NETWORK: dict[str, int] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
AGAIN_S = 0.25
MIGRATION_LOCK = 7_230_001
CROWDED = f"Raise its max_connections, or run fewer workers, each of which takes up to {CONNECTIONS}"
# What a person can do about a store that says this.
HINTS = {
    "disk is full": "Make room on its disk",
    "disk I/O error": "See that its disk has room and is sound",
    "No space left": "Make room on its disk",
    "locked": "Another program has it locked: find that one, and end it",
    "lock timeout": "Another program has it locked: find that one, and end it",
    "too many": CROWDED,
    "connection slots": CROWDED,
    "read-only": "Let DAYFLOW_DATABASE_URL name the primary server",
}
OTHERWISE = "See that it is up, and that DAYFLOW_HOME and DAYFLOW_DATABASE_URL are right"

_LOCK = text("SELECT pg_advisory_xact_lock(:lock)")
_SNAPSHOT = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}


class Database:
    """Transactions on the store."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    @asynccontextmanager
    async def transaction(self, *names: str, cheap: bool = False) -> AsyncIterator[AsyncConnection]:
        """One transaction: committed when the block ends, rolled back when it raises.

        It has what is named to itself: in SQLite that is the whole file, in Postgres a lock on each name.
        cheap: it outlives any killed process, but in SQLite not a power cut; for what may be repeated at a cost.
        """
        async with self._connected(self.engine.execution_options(cheap=cheap)) as connection, connection.begin():
            if self._on_server:
                for name in names:
                    await connection.execute(_LOCK, {"lock": _number(name)})
            yield connection
            crash.point("store.commit")

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A consistent look that takes no write lock."""
        async with self._connected(self.engine) as connection:
            yield await connection.execution_options(**(_SNAPSHOT if self._on_server else {"reading": True}))

    @property
    def _on_server(self) -> bool:
        return self.engine.dialect.name == "postgresql"

    @asynccontextmanager
    async def _connected(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        """A connection; a server that is just starting again, or full, is waited for as a locked file is."""
        deadline = time.monotonic() + BUSY_S
        async with AsyncExitStack() as stack:
            stack.enter_context(_clear_errors())
            while True:
                try:
                    connection = await stack.enter_async_context(engine.connect())
                    break
                except OperationalError:
                    if not self._on_server or time.monotonic() > deadline:
                        raise
                await asyncio.sleep(AGAIN_S)
            yield connection

    async def close(self) -> None:
        """Close every connection."""
        await self.engine.dispose()


async def connect(settings: Settings) -> Database:
    """Open the store, with its tables as this version wants them."""
    try:
        url = make_url(settings.database)
        # Parameters are answers and results; they have no place in an error's text.
        engine = create_async_engine(
            url,
            hide_parameters=True,
            **(_file(url) if url.get_backend_name() == "sqlite" else _server(url)),
        )
    except (ArgumentError, InvalidRequestError, ImportError) as error:
        drivers = "it begins with sqlite+aiosqlite:// or postgresql+psycopg://"
        raise errors.BadSetting("DAYFLOW_DATABASE_URL", f"{error} ({drivers})") from None
    schema.seal_by(engine.dialect, settings.seal)
    if url.get_backend_name() == "sqlite":
        event.listen(engine.sync_engine, "connect", _pragmas)
        event.listen(engine.sync_engine, "begin", _begin_immediate)
    else:
        event.listen(engine.sync_engine, "connect", _patience)
    try:
        settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        await _migrate(engine, settings.home)
    except errors.DayflowError:
        await engine.dispose()
        raise
    except (SQLAlchemyError, OSError, CommandError) as error:
        await engine.dispose()
        raise errors.Unreachable(
            f"the store at {url.render_as_string(hide_password=True)} cannot be used: {_told(error)}."
        ) from error
    return Database(engine)


@contextmanager
def _clear_errors() -> Iterator[None]:
    """A store that is locked, full, gone or waited for by too many is a part that does not answer."""
    try:
        yield
    except (OperationalError, InternalError, InterfaceError, PoolTimeout) as error:
        # No cause: its trace is long, and would crowd out the words.
        raise errors.Unreachable(
            f"the store cannot be used: {_told(error)}; what waits for it goes on by itself."
        ) from None


def _told(error: Exception) -> str:
    """What the driver says, and what to do; Postgres goes on with the statement, or with guesses."""
    why = str(error.orig if isinstance(error, DBAPIError) else error).strip().partition("\n")[0]
    return f"{why}. {next((hint for said, hint in HINTS.items() if said in why), OTHERWISE)}"


def _number(name: str) -> int:
    """A name as a Postgres lock."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:8], "big", signed=True)


def _file(url: URL) -> dict[str, Any]:
    """How long a locked SQLite file is waited for, unless its address says so by `?timeout=SECONDS`."""
    return {"connect_args": {} if "timeout" in url.query else {"timeout": BUSY_S}}


def _server(url: URL) -> dict[str, Any]:
    """Few connections, looked at before each use; the address may say otherwise about the network."""
    network = {name: value for name, value in NETWORK.items() if name not in url.query}
    pool = {"pool_size": CONNECTIONS, "max_overflow": 0, "pool_timeout": BUSY_S, "pool_pre_ping": True}
    return {**pool, "connect_args": network}


def _patience(connection: Any, _record: Any) -> None:
    """Wait for a lock as long as for a locked file, and hold none for a process that says nothing any more."""
    cursor = connection.cursor()
    cursor.execute(f"SET lock_timeout = '{BUSY_S:g}s'")
    cursor.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_S:g}s'")
    cursor.close()
    connection.commit()


def _pragmas(connection: Any, _record: Any) -> None:
    """WAL, and durable commits; the driver must not begin transactions on its own."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_immediate(connection: Connection) -> None:
    """Take the write lock at once: a lock that is taken half way cannot be waited for."""
    options = connection.get_execution_options()
    if options.get("reading"):
        connection.exec_driver_sql("BEGIN")
        return
    _synchronous(connection, "NORMAL" if options.get("cheap") else "FULL")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _synchronous(connection: Connection, level: str) -> None:
    """Whether this connection's commits wait for the disk."""
    if connection.info.get("synchronous") != level:
        connection.exec_driver_sql(f"PRAGMA synchronous={level}")
        connection.info["synchronous"] = level


async def _migrate(engine: AsyncEngine, home: Path) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    head = ScriptDirectory.from_config(config).get_current_head()
    async with engine.connect() as connection:
        await connection.execution_options(reading=True)
        if await connection.run_sync(_version) == head:
            return
    async with _locked(home / "migrate.lock"), engine.begin() as connection:
        await connection.run_sync(_upgrade, config)


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _upgrade(connection: Connection, config: Config) -> None:
    from alembic import command

    if connection.dialect.name == "postgresql":
        # Whoever migrates is waited for, however long that takes.
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(_LOCK, {"lock": MIGRATION_LOCK})
    scripts, found = ScriptDirectory.from_config(config), _version(connection)
    if found not in {None, *(script.revision for script in scripts.walk_revisions())}:
        raise errors.Unreachable(
            f"the store was made by a newer version of Dayflow: its tables are {found}, the newest that this version "
            f"knows are {scripts.get_current_head()}. Nothing was changed. Install here the version that the others "
            "have; those that run already go on."
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """One migration at a time on one machine; waited for in a thread, for the holder may need this event loop."""
    file = await asyncio.to_thread(_lock, path)
    try:
        yield
    finally:
        file.close()


def _lock(path: Path) -> IO[str]:
    file = path.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file
