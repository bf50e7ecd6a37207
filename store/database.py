"""The one database: a SQLite file by default, Postgres by `DAYFLOW_DATABASE_URL`."""

import asyncio
import fcntl
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any

from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidRequestError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from domain import errors
from store import schema
from store.settings import Settings

MIGRATIONS = Path(__file__).parent / "migrations"
BUSY_S = 10.0
MIGRATION_LOCK = 7_230_001
# What a person can do about a store that says this.
HINTS = {
    "disk is full": "Make room on its disk",
    "disk I/O error": "See that its disk has room and is sound",
    "locked": "Another program has it locked: find that one, and end it",
}
OTHERWISE = "See that it is up, and that DAYFLOW_HOME and DAYFLOW_DATABASE_URL are right"

_LOCK = text("SELECT pg_advisory_xact_lock(:lock)")


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
        with _clear_errors():
            engine = self.engine.execution_options(cheap=cheap)
            async with engine.begin() as connection:
                if self.engine.dialect.name == "postgresql":
                    for name in names:
                        await connection.execute(_LOCK, {"lock": _number(name)})
                yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A consistent look that takes no write lock."""
        with _clear_errors():
            async with self.engine.connect() as connection:
                yield await connection.execution_options(reading=True)

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
            pool_pre_ping=url.get_backend_name() != "sqlite",
            hide_parameters=True,
            connect_args=_busy(url),
        )
    except (ArgumentError, InvalidRequestError, ImportError) as error:
        drivers = "it begins with sqlite+aiosqlite:// or postgresql+psycopg://"
        raise errors.BadSetting("DAYFLOW_DATABASE_URL", f"{error} ({drivers})") from None
    schema.seal_by(engine.dialect, settings.seal)
    if url.get_backend_name() == "sqlite":
        event.listen(engine.sync_engine, "connect", _pragmas)
        event.listen(engine.sync_engine, "begin", _begin_immediate)
    try:
        settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        await _migrate(engine, settings.home)
    except (SQLAlchemyError, OSError, CommandError) as error:
        await engine.dispose()
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise errors.Unreachable(
            f"the store at {url.render_as_string(hide_password=True)} cannot be used: {cause}. "
            "Check DAYFLOW_HOME and DAYFLOW_DATABASE_URL, and that the disk has room."
        ) from error
    return Database(engine)


@contextmanager
def _clear_errors() -> Iterator[None]:
    """A store that is locked, full, gone or waited for by too many is a part that does not answer."""
    try:
        yield
    except (OperationalError, PoolTimeout) as error:
        # No cause: its trace is long, and would crowd out the words.
        raise errors.Unreachable(_unusable(str(getattr(error, "orig", error)))) from None


def _unusable(why: str) -> str:
    hint = next((hint for said, hint in HINTS.items() if said in why), OTHERWISE)
    return f"the store cannot be used: {why}. {hint}; what waits for it goes on by itself."


def _number(name: str) -> int:
    """A name as a Postgres lock."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:8], "big", signed=True)


def _busy(url: URL) -> dict[str, Any]:
    """How long a locked SQLite file is waited for, unless its address says so by `?timeout=SECONDS`."""
    return {"timeout": BUSY_S} if url.get_backend_name() == "sqlite" and "timeout" not in url.query else {}


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
    reading = options.get("reading")
    connection.exec_driver_sql(f"PRAGMA synchronous={'NORMAL' if options.get('cheap') else 'FULL'}")
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


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
        connection.execute(_LOCK, {"lock": MIGRATION_LOCK})
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
