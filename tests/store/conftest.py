"""Every test of the store runs on SQLite and on Postgres."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from postgres import Postgres

from store import database
from store.database import Database
from store.settings import Settings


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A home with a SQLite file, or a schema of Postgres, of its own."""
    if request.param == "sqlite":
        return Settings(DAYFLOW_HOME=tmp_path / "home")
    server: Postgres = request.getfixturevalue("postgres")
    return Settings(DAYFLOW_HOME=tmp_path / "home", DAYFLOW_DATABASE_URL=server.schema())


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Database]:
    """The store, with its tables."""
    opened = await database.connect(settings)
    yield opened
    await opened.close()
