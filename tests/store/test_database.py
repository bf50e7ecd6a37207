"""The database under the store: its tables are made once, and what is wrong with it is told in words.

A transaction is there whole or not at all, also where its server died or its wire was cut.
"""

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime

import pytest
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, func, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine

from domain import errors
from store import database, schema
from store.database import Database
from store.ledger import Entry, Ledger
from store.settings import Settings

CALL = Entry(
    key="model-1",
    kind="model",
    namespace="default",
    run_id="b1",
    step=1,
    position=1,
    name="m",
    digest="a" * 64,
)


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request, tmp_path):
    """A home on either database, which is empty: here its tables are made, unmade and spoilt."""
    address = request.getfixturevalue("postgres").schema() if request.param == "postgres" else None
    return Settings(DAYFLOW_HOME=tmp_path / "home", DAYFLOW_DATABASE_URL=address)


@pytest.fixture
def ledger(store):
    return Ledger(store)


# Migrations


def migrate(connection, move, revision):
    config = Config()
    config.set_main_option("script_location", str(database.MIGRATIONS))
    config.attributes["connection"] = connection
    move(config, revision)


def described(_object, name, *_more):
    """The index over the words of memory is another one in each database, so no table describes it."""
    return not name.startswith("memory_words")


async def test_the_migrations_make_exactly_the_tables_of_this_version(store):
    def differences(connection):
        from alembic.autogenerate import compare_metadata

        return compare_metadata(
            MigrationContext.configure(connection, opts={"include_object": described}), schema.metadata
        )

    async with store.transaction() as connection:
        assert await connection.run_sync(differences) == []


async def test_the_migrations_go_down_to_nothing_and_up_again(store):
    def tables(connection):
        found = set(inspect(connection).get_table_names()) - {"alembic_version"}
        return {name for name in found if described(None, name)}

    async with store.transaction() as connection:
        await connection.run_sync(migrate, command.downgrade, "base")
        down = await connection.run_sync(tables)
        await connection.run_sync(migrate, command.upgrade, "head")
        up = await connection.run_sync(tables)

    assert down == set()
    assert up == set(schema.metadata.tables)


async def test_ten_openings_at_once_make_the_tables_once_on_however_many_machines(settings, tmp_path):
    machines = [
        Settings(DAYFLOW_HOME=tmp_path / f"machine{n % 5}", DAYFLOW_DATABASE_URL=settings.database) for n in range(10)
    ]
    settings.home.mkdir()

    stores = await asyncio.gather(*map(database.connect, machines))

    begun = [await Ledger(store).begin(CALL) for store in stores]
    assert [one.attempt for one in begun] == list(range(1, 11))
    for store in stores:
        await store.close()


async def test_a_store_of_a_newer_version_says_what_to_do_and_is_left_as_it_is(settings, store):
    async with store.transaction() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(errors.Unreachable, match=r"newer version of Dayflow: its tables are 9999, .*Install here the"):
        await database.connect(settings)

    async with store.reading() as connection:
        assert (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar() == "9999"


# Transactions


async def test_a_look_sees_one_moment_whatever_is_written_meanwhile(store, ledger):
    async def seen(connection):
        return (await connection.execute(select(func.count()).select_from(schema.ledger))).scalar_one()

    async with store.reading() as connection:
        before = await seen(connection)
        await ledger.begin(CALL)
        meanwhile = await seen(connection)
    async with store.reading() as connection:
        after = await seen(connection)

    assert (before, meanwhile, after) == (0, 0, 1)


async def test_who_has_a_name_has_it_alone_until_the_transaction_ends(store):
    told = []

    async def take(number):
        async with store.transaction("a name"):
            told.append(number)
            await asyncio.sleep(0.01)
            told.append(number)

    await asyncio.gather(*map(take, range(5)))

    assert told[::2] == told[1::2]


# A store that cannot be used


@pytest.fixture
async def file(tmp_path):
    """A SQLite store that waits for one second only."""
    store = await database.connect(Settings(DAYFLOW_HOME=tmp_path))
    event.listen(store.engine.sync_engine, "connect", lambda raw, _: raw.execute("PRAGMA busy_timeout=1000").close())
    await store.close()
    yield store
    await store.close()


async def test_a_locked_file_is_waited_for(file, tmp_path):
    holder = sqlite3.connect(tmp_path / "dayflow.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    begin = asyncio.create_task(Ledger(file).begin(CALL))
    done, _ = await asyncio.wait({begin}, timeout=0.3)
    holder.execute("ROLLBACK")

    assert not done
    assert (await begin).attempt == 1
    holder.close()


async def test_a_file_that_another_process_never_lets_go_of_is_an_error_in_words_and_nothing_is_written(file, tmp_path):
    code = f"""
        import sqlite3, sys
        file = sqlite3.connect({str(tmp_path / "dayflow.sqlite")!r}, isolation_level=None)
        file.execute("BEGIN IMMEDIATE")
        print("locked", flush=True)
        sys.stdin.read()
    """
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert await holder.stdout.readline() == b"locked\n"

    with pytest.raises(errors.Unreachable, match="the store cannot be used: database is locked"):
        await Ledger(file).begin(CALL)

    await holder.communicate(b"")
    assert await Ledger(file).rows("default", "b1") == []


async def test_a_locked_file_can_still_be_read(file, tmp_path):
    await Ledger(file).begin(CALL)
    holder = sqlite3.connect(tmp_path / "dayflow.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    assert len(await Ledger(file).rows("default", "b1")) == 1
    holder.close()


async def test_a_store_whose_connections_are_all_in_use_for_too_long_is_one_that_does_not_answer(settings, store):
    engine = create_async_engine(settings.database, pool_size=1, max_overflow=0, pool_timeout=0.1)
    narrow = Database(engine)

    async with narrow.reading():
        with pytest.raises(errors.Unreachable, match="the store cannot be used: QueuePool limit"):
            await Ledger(narrow).begin(CALL)

    assert (await Ledger(narrow).begin(CALL)).attempt == 1
    await narrow.close()


async def test_the_address_of_a_file_says_how_long_a_lock_is_waited_for(file, tmp_path):
    address = Settings(DAYFLOW_HOME=tmp_path).database
    patient, impatient = [
        await database.connect(Settings(DAYFLOW_HOME=tmp_path, DAYFLOW_DATABASE_URL=address + more))
        for more in ("", "?timeout=0.5")
    ]

    assert [await waits(patient), await waits(impatient)] == [10_000, 500]


async def waits(store):
    """How long it waits for a lock, in milliseconds; closes it."""
    async with store.reading() as connection:
        found = (await connection.exec_driver_sql("PRAGMA busy_timeout")).scalar()
    await store.close()
    return found


# Fills the disk under a home, then begins a row; prints what came of it.
FULL = """
    import asyncio, os, resource, sys
    from dataclasses import replace
    from pathlib import Path
    from domain import errors
    from store import database
    from store.ledger import Entry, Ledger
    from store.settings import Settings

    home, entry = Path(sys.argv[1]), Entry("k", "model", "default", "b1", 1, 1, "x", "a" * 64)

    def fill():
        if sys.argv[2] == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            return
        with open(home / "filler", "wb", buffering=0) as file:
            for size in (65536, 512, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def free():
        if sys.argv[2] == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        else:
            (home / "filler").unlink()

    async def main():
        store = await database.connect(Settings(DAYFLOW_HOME=home))
        ledger = Ledger(store)
        await ledger.begin(replace(entry, key="before"))
        fill()
        try:
            for n in range(1000):  # until what SQLite had at hand is used up
                await ledger.begin(replace(entry, key=f"k{n}", intent="x" * 2000))
        except errors.Unreachable as error:
            print(f"refused {n}: {error}")
        free()
        rows = await ledger.rows("default", "b1")
        print([row["key"] for row in rows] == ["before", *(f"k{i}" for i in range(n))], "integrity", end=" ")
        async with store.transaction() as connection:
            print((await connection.exec_driver_sql("PRAGMA integrity_check")).scalar())
        print((await ledger.begin(replace(entry, key=f"k{n}"))).attempt)
        await store.close()

    asyncio.run(main())
"""


@pytest.fixture(params=["tmpfs", "limit"])
def small_disk(request, tmp_path):
    """A folder on a disk that can be filled, or one where a limit of the process stands in for it."""
    home = tmp_path / "small"
    home.mkdir()
    if request.param == "limit":
        yield home, "limit"
        return
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", home], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("no tmpfs can be mounted here; the limit stands in for it")
    yield home, "tmpfs"
    subprocess.run(["umount", home], check=True)


def test_a_full_disk_refuses_to_begin_and_nothing_is_half_written(small_disk):
    home, how = small_disk
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert soft == resource.RLIM_INFINITY

    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL), home, how], capture_output=True, text=True, check=False
    )

    refused, integrity, attempt = ran.stdout.splitlines()
    assert "the store cannot be used" in refused
    assert integrity == "True integrity ok"
    assert attempt == "1"


# What stands in the way, what is done to a home, a part of what the person is told.
def junk(home):
    (home / "dayflow.sqlite").write_bytes(b"this is no database at all, whatever its name says" * 100)


def folder(home):
    (home / "dayflow.sqlite").mkdir()


UNUSABLE = [(junk, "not a database"), (folder, "unable to open")]


@pytest.mark.parametrize(("spoil", "told"), UNUSABLE)
async def test_a_file_that_is_no_store_is_refused_in_words(tmp_path, spoil, told):
    spoil(tmp_path)

    with pytest.raises(errors.Unreachable, match=told) as caught:
        await database.connect(Settings(DAYFLOW_HOME=tmp_path))

    assert "DAYFLOW_HOME" in str(caught.value)
    # The driver leaves the thread of a failed connection to end by itself, and it needs the loop for that.
    for thread in threading.enumerate():
        if "_connection_worker" in thread.name:
            await asyncio.to_thread(thread.join)


async def test_a_home_that_is_a_file_is_refused_in_words(tmp_path):
    (tmp_path / "home").touch()

    with pytest.raises(errors.Unreachable, match="DAYFLOW_HOME"):
        await database.connect(Settings(DAYFLOW_HOME=tmp_path / "home"))


# Addresses of no store that can be used.
ADDRESSES = [
    "nonsense",
    "mysql://localhost/x",  # a driver that is not here
    "sqlite:///x",  # a driver that does not wait politely
    "oracle://x",
]


@pytest.mark.parametrize("address", ADDRESSES)
async def test_an_address_that_cannot_be_used_is_refused_by_the_name_of_its_setting(tmp_path, address):
    with pytest.raises(errors.BadSetting, match="DAYFLOW_DATABASE_URL"):
        await database.connect(Settings(DAYFLOW_HOME=tmp_path, DAYFLOW_DATABASE_URL=address))


async def test_a_server_that_does_not_answer_is_refused_without_its_password(tmp_path):
    address = "postgresql+psycopg://me:sentinel@127.0.0.1:1/x"

    with pytest.raises(errors.Unreachable) as caught:
        await database.connect(Settings(DAYFLOW_HOME=tmp_path, DAYFLOW_DATABASE_URL=address))

    assert "sentinel" not in str(caught.value)


async def test_no_error_of_the_store_holds_what_was_to_be_written(store, ledger):
    await ledger.begin(CALL)
    values = {**CALL.__dict__, "name": "secret words", "status": "begun", "attempts": 1, "began_at": datetime.now(UTC)}

    async def write_it_twice():
        async with store.transaction() as connection:
            await connection.execute(insert(schema.ledger).values(values))

    with pytest.raises(IntegrityError, match=r"(?i)unique") as caught:
        await write_it_twice()

    assert "secret words" not in str(caught.value)


async def test_a_block_that_raises_leaves_nothing_behind(store):
    head = ScriptDirectory(str(database.MIGRATIONS)).get_current_head()

    async def break_off():
        async with store.transaction() as connection:
            await connection.execute(text("DELETE FROM alembic_version"))
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        await break_off()

    async with store.reading() as connection:
        kept = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalars()
        assert list(kept) == [head]
