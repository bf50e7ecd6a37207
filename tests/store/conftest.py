"""Every test of the store runs on SQLite and on Postgres, each on empty tables that are made once."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from postgres import Postgres

from store import database, schema
from store.database import Database
from store.settings import Settings

# Faster than TRUNCATE where there is next to nothing in them.
EMPTY = [f"DELETE FROM {table.name}" for table in reversed(schema.metadata.sorted_tables)]
EMPTY += [f"ALTER SEQUENCE {table}_id_seq RESTART" for table in ("tasks", "memory")]


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the tables."""
    home = tmp_path_factory.mktemp("made")
    _make_tables(Settings(DAYFLOW_HOME=home))
    return home / "dayflow.sqlite"


@pytest.fixture(scope="session")
def address(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A schema of Postgres with the tables."""
    address = postgres.schema()
    _make_tables(Settings(DAYFLOW_HOME=tmp_path_factory.mktemp("made"), DAYFLOW_DATABASE_URL=address))
    return address


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A home on either database."""
    home = tmp_path / "home"
    if request.param == "sqlite":
        home.mkdir(mode=0o700)
        shutil.copy(request.getfixturevalue("file"), home)
        return Settings(DAYFLOW_HOME=home)
    server: Postgres = request.getfixturevalue("postgres")
    address: str = request.getfixturevalue("address")
    server.execute("; ".join(EMPTY), on=address)
    return Settings(DAYFLOW_HOME=home, DAYFLOW_DATABASE_URL=address)


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Database]:
    """The store, with its tables."""
    opened = await database.connect(settings)
    yield opened
    await opened.close()


def _make_tables(settings: Settings) -> None:
    async def open_it() -> None:
        await (await database.connect(settings)).close()

    asyncio.run(open_it())
