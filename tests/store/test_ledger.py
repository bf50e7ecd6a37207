"""The ledger of model calls: a row before anything leaves, each attempt counted, and the first answer stands."""

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, insert, inspect, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine

from domain import errors
from store import database, schema
from store.database import Database
from store.ledger import Entry, Ledger, model_key
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


@pytest.fixture
def ledger(store):
    return Ledger(store)


async def row(ledger, entry=CALL):
    (found,) = [row for row in await ledger.rows(entry.namespace, entry.run_id) if row["key"] == entry.key]
    return found


# One key


async def test_a_first_attempt_begins_a_row_before_anything_leaves(ledger):
    before = datetime.now(UTC)

    begun = await ledger.begin(CALL)

    assert (begun.attempt, begun.result, begun.possibly_paid, begun.failures) == (1, None, [], 0)
    assert before <= begun.began_at <= datetime.now(UTC)
    assert (await row(ledger))["status"] == "begun"


async def test_of_fifty_at_once_one_is_the_first_and_each_has_a_number_of_its_own(ledger):
    begun = await asyncio.gather(*(ledger.begin(CALL) for _ in range(50)))

    assert sorted(one.attempt for one in begun) == list(range(1, 51))
    assert (await row(ledger))["attempts"] == 50


async def test_fifty_keys_at_once_do_not_wait_for_each_other_for_ever(ledger):
    keys = [replace(CALL, key=f"model-{n}") for n in range(50)]

    begun = await asyncio.gather(*map(ledger.begin, keys))

    assert {one.attempt for one in begun} == {1}


async def test_of_fifty_answers_at_once_one_stands_and_everyone_gets_that_one(ledger):
    await ledger.begin(CALL)

    answers = await asyncio.gather(*(ledger.finish(CALL.key, {"n": n}) for n in range(50)))

    assert all(answer == answers[0] for answer in answers)
    assert (await row(ledger))["result"] == answers[0]


async def test_an_answer_is_the_answer_of_every_later_attempt(ledger):
    await ledger.begin(CALL)
    await ledger.finish(CALL.key, {"content": "paid"}, {"input_tokens": 5})

    again = await ledger.begin(CALL)

    assert again.result == {"content": "paid"}
    assert again.attempt == 1
    assert (await row(ledger))["usage"] == {"input_tokens": 5}


async def test_an_attempt_that_comes_back_late_does_not_replace_the_answer(ledger):
    await ledger.begin(CALL)
    await ledger.begin(CALL)
    await ledger.finish(CALL.key, "first", {"input_tokens": 1})

    told = await ledger.finish(CALL.key, "late", {"input_tokens": 2})

    assert told == "first"
    kept = await row(ledger)
    assert kept["result"] == "first"
    assert kept["possibly_paid"][-1] == {"input_tokens": 2}


async def test_an_attempt_that_fails_late_does_not_undo_the_answer(ledger):
    await ledger.begin(CALL)
    await ledger.finish(CALL.key, "done")

    await ledger.fail(CALL.key, "TimeoutError")

    assert (await ledger.begin(CALL)).result == "done"


# A crash leaves the row as it was; the next attempt finds it.


async def test_an_attempt_that_never_came_back_may_have_been_paid(ledger):
    await ledger.begin(CALL)

    second = await ledger.begin(CALL)
    third = await ledger.begin(CALL)

    assert (second.attempt, second.possibly_paid) == (2, [{}])
    assert (third.attempt, third.possibly_paid) == (3, [{}, {}])
    assert third.began_at == second.began_at


async def test_what_an_attempt_was_seen_to_use_survives_it(ledger):
    await ledger.begin(CALL)
    await ledger.saw(CALL.key, {"input_tokens": 7})

    again = await ledger.begin(CALL)

    assert again.possibly_paid == [{"input_tokens": 7}]


async def test_the_usage_of_one_attempt_is_not_taken_for_that_of_the_next(ledger):
    await ledger.begin(CALL)
    await ledger.saw(CALL.key, {"input_tokens": 7})
    await ledger.begin(CALL)

    third = await ledger.begin(CALL)

    assert third.possibly_paid == [{"input_tokens": 7}, {}]


async def test_an_attempt_that_failed_before_it_was_sent_is_not_counted_as_paid(ledger):
    await ledger.begin(CALL)
    await ledger.fail(CALL.key, "ConnectionError")

    again = await ledger.begin(CALL)

    assert (again.attempt, again.failures, again.possibly_paid) == (2, 1, [])


async def test_an_attempt_that_failed_in_the_middle_is_counted_once(ledger):
    await ledger.begin(CALL)
    await ledger.saw(CALL.key, {"input_tokens": 7})
    await ledger.fail(CALL.key, "ReadError", {"input_tokens": 7})

    again = await ledger.begin(CALL)

    assert again.possibly_paid == [{"input_tokens": 7}]
    assert (await row(ledger))["status"] == "begun"


async def test_failures_add_up_and_crashes_do_not_count_among_them(ledger):
    for _ in range(3):
        await ledger.begin(CALL)
        await ledger.fail(CALL.key, "RuntimeError")
        await ledger.begin(CALL)  # and a crash

    assert (await ledger.begin(CALL)).failures == 3


# The words of a request are not bound to the key.


async def test_a_stored_answer_is_the_answer_whatever_the_words_of_the_request(ledger):
    await ledger.begin(CALL)
    await ledger.finish(CALL.key, "old", {"input_tokens": 3})

    anew = await ledger.begin(replace(CALL, digest="b" * 64))

    assert (anew.attempt, anew.result, anew.possibly_paid) == (1, "old", [])
    assert (await row(ledger))["digest"] == "a" * 64


@pytest.mark.parametrize("end", ["begun", "failed"])
async def test_a_call_without_an_answer_may_be_worded_anew(ledger, end):
    await ledger.begin(CALL)
    if end == "failed":
        await ledger.fail(CALL.key, "ConnectionError")

    anew = await ledger.begin(replace(CALL, digest="b" * 64))

    assert (anew.attempt, anew.result) == (2, None)
    assert (await row(ledger))["digest"] == "b" * 64


# Answers that are to be paid for again


async def test_the_answers_from_a_step_on_are_forgotten_and_nothing_else_is(ledger):
    for step in (1, 2, 3):
        await ledger.begin(replace(CALL, key=f"model-{step}", step=step))
        await ledger.finish(f"model-{step}", f"answer {step}", {"input_tokens": step})
    await ledger.begin(replace(CALL, key="begun", step=4))
    for changed in ({"key": "other run", "run_id": "b2"}, {"key": "an effect", "kind": "effect"}):
        await ledger.begin(replace(CALL, step=3, **changed))
        await ledger.finish(changed["key"], "kept")

    forgotten = await ledger.forget("default", "b1", 2)

    assert forgotten == 2
    kept = [*await ledger.rows("default", "b1"), *await ledger.rows("default", "b2")]
    assert {row["key"]: row["result"] for row in kept} == {
        "model-1": "answer 1",
        "model-2": None,
        "model-3": None,
        "begun": None,
        "other run": "kept",
        "an effect": "kept",
    }


async def test_a_forgotten_answer_is_asked_for_anew_and_what_it_cost_is_not_forgotten(ledger):
    await ledger.begin(CALL)
    await ledger.finish(CALL.key, "answer", {"input_tokens": 7})
    await ledger.forget("default", "b1", 1)

    anew = await ledger.begin(CALL)

    assert (anew.attempt, anew.result, anew.possibly_paid) == (2, None, [{"input_tokens": 7}])


# Rows and keys


async def test_the_rows_of_a_run_come_in_the_order_of_its_steps_and_are_nobody_elses(ledger):
    for step, position in [(2, 1), (1, 2), (1, 1)]:
        await ledger.begin(replace(CALL, key=f"k{step}{position}", step=step, position=position))
    await ledger.begin(replace(CALL, key="other run", run_id="b2"))
    await ledger.begin(replace(CALL, key="other namespace", namespace="prod"))

    assert [row["key"] for row in await ledger.rows("default", "b1")] == ["k11", "k12", "k21"]


async def test_an_end_without_a_beginning_is_a_contradiction(ledger):
    with pytest.raises(errors.Broken, match="no row"):
        await ledger.finish("nothing", "x")


async def test_a_failure_without_a_beginning_changes_nothing(ledger):
    await ledger.fail("nothing", "x")

    assert await ledger.rows("default", "b1") == []


def test_each_ask_of_each_step_of_each_run_has_its_own_key_and_it_never_changes():
    keys = {model_key(run, step, ask) for run in ("a", "b") for step in (1, 11) for ask in (1, 11)}

    assert len(keys) == 8
    assert model_key("run", 1, 1) == "model-1711426337658e91d890b3a4fed105b92219a726e3a5e5d18f112ad9ac4dd8af"


# Words of the model, a mail or an error that a database could choke on.
WORDS = ["\x00", "\ud800", "a\x00b\udfffc", "é👋\u202e", "'; DROP TABLE ledger; --", "x" * 100_000]


@pytest.mark.parametrize("words", WORDS, ids=["NUL", "surrogate", "both", "unicode", "SQL", "long"])
async def test_any_words_can_be_kept(ledger, words):
    await ledger.begin(replace(CALL, intent=words))
    await ledger.fail(CALL.key, words)
    await ledger.finish(CALL.key, {"content": words})

    assert (await ledger.begin(CALL)).result == {"content": words}
    assert (await row(ledger))["intent"] == words.replace("\x00", "\ufffd").replace("\ud800", "\ufffd").replace(
        "\udfff", "\ufffd"
    )


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


async def test_ten_openings_at_once_make_the_tables_once(settings):
    stores = await asyncio.gather(*(database.connect(settings) for _ in range(10)))

    begun = [await Ledger(store).begin(CALL) for store in stores]

    assert [one.attempt for one in begun] == list(range(1, 11))
    for store in stores:
        await store.close()


async def test_a_store_of_a_newer_version_is_refused_in_words(settings, store):
    async with store.transaction() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(errors.Unreachable, match="9999"):
        await database.connect(settings)


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


async def test_a_store_whose_connections_are_all_in_use_for_too_long_is_one_that_does_not_answer(tmp_path):
    engine = create_async_engine(
        Settings(DAYFLOW_HOME=tmp_path).database, pool_size=1, max_overflow=0, pool_timeout=0.1
    )
    store = Database(engine)

    async with store.reading():
        with pytest.raises(errors.Unreachable, match="the store cannot be used: QueuePool limit"):
            await Ledger(store).begin(CALL)

    await store.close()


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


def newer(home):
    with sqlite3.connect(home / "dayflow.sqlite") as file:
        file.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        file.execute("INSERT INTO alembic_version VALUES ('9999')")
    file.close()


UNUSABLE = [(junk, "not a database"), (folder, "unable to open"), (newer, "9999")]


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
