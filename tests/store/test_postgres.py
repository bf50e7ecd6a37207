"""A Postgres that goes away, is full, is locked or is cut off: what was asked is done once, or asked again."""

import asyncio
from datetime import UTC, datetime

import psycopg
import pytest
from postgres import Wire, plain
from sqlalchemy import event, func, make_url, select, text

from domain import errors
from domain.memory import Source
from store import database, schema
from store.effects import Effects
from store.ledger import Entry, Ledger
from store.memory import Fact, Memory
from store.orders import Orders
from store.runs import Runs
from store.settings import Settings
from store.tasks import Tasks

NOW = datetime(2026, 12, 1, tzinfo=UTC)
CALL = Entry("model-1", "model", "default", "r1", 1, 1, "m", "a" * 64)
EFFECT = Entry("dayflow-1", "effect", "default", "r1", 1, 1, "pay", "a" * 64, "s1.1-a", {}, "pay:1", "pay:1")


@pytest.fixture
def address(postgres):
    return postgres.database()


@pytest.fixture
def settings(address, tmp_path):
    return Settings(DAYFLOW_HOME=tmp_path, DAYFLOW_DATABASE_URL=address)


async def impatient(store, **limits):
    """The same store with other limits, so that a test need not wait for ours."""

    def limited(raw, _record):
        for name, value in limits.items():
            raw.cursor().execute(f"SET {name} = '{value}'")
        raw.commit()

    event.listen(store.engine.sync_engine, "connect", limited)
    await store.close()


# A commit whose wire is cut: nobody knows whether it is there, and who asks again finds out.


async def begin_a_call(store):
    return await Ledger(store).begin(CALL)


async def begin_an_effect(store):
    return await Effects(store).begin(EFFECT)


async def create_a_task(store):
    return await Tasks(store, "default").create("k1", "r1", title="Call Ana", source_id="m1", due=None, notes=None)


async def remember(store):
    fact = Fact("user_1", "Mara drinks tea.", "fact", Source(said_by="user"), "trusted")
    return await Memory(store, "default").remember("k1", NOW, fact)


async def claim(store):
    return await Runs(store, "default").claim("r1", "first")


async def take_samples(store):
    return await Orders(store, "default").ensure_samples()


WRITES = [
    (begin_a_call, schema.ledger, 1),
    (begin_an_effect, schema.ledger, 1),
    (create_a_task, schema.tasks, 1),
    (create_a_task, schema.task_commits, 1),
    (remember, schema.memory, 1),
    (remember, schema.memory_commits, 1),
    (claim, schema.claims, 1),
    (take_samples, schema.orders, 6),
]


async def count(store, table):
    async with store.reading() as connection:
        return (await connection.execute(select(func.count()).select_from(table))).scalar_one()


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize(("write", "table", "rows"), WRITES)
async def test_a_commit_of_which_nobody_knows_is_there_once_when_it_is_asked_again(
    address, tmp_path, write, table, rows, cut
):
    armed = []
    with Wire(address, lambda said: armed.pop() if armed and b"INSERT" in said else None) as wire:
        store = await database.connect(Settings(DAYFLOW_HOME=tmp_path, DAYFLOW_DATABASE_URL=wire.address))
        armed.append(cut)

        with pytest.raises(errors.Unreachable, match="the store cannot be used"):
            await write(store)
        left = await count(store, table)
        await write(store)

        assert (wire.cuts, left, await count(store, table)) == (1, 0 if cut == "before" else rows, rows)
        await store.close()


# A server that ends connections


@pytest.fixture
def end_all(postgres, address):
    """End every connection to the database."""
    mine = f"datname = '{make_url(address).database}'"
    return lambda: postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}")


async def test_connections_that_were_ended_meanwhile_are_made_anew(store, end_all):
    await begin_a_call(store)

    end_all()

    assert (await begin_a_call(store)).attempt == 2


async def test_a_transaction_that_loses_its_connection_leaves_nothing_and_is_told_in_words(store, end_all):
    async def lose_it():
        async with store.transaction() as connection:
            await connection.execute(schema.claims.delete())
            end_all()
            await connection.execute(text("SELECT 1"))

    await claim(store)

    with pytest.raises(errors.Unreachable, match="the store cannot be used"):
        await lose_it()

    assert await count(store, schema.claims) == 1


async def test_a_server_that_has_no_connection_left_is_waited_for(postgres, address, store):
    await store.close()
    postgres.execute(f"ALTER ROLE {make_url(address).username} CONNECTION LIMIT 1")

    with psycopg.connect(plain(address)):
        begin = asyncio.create_task(begin_a_call(store))
        done, _ = await asyncio.wait({begin}, timeout=0.6)

    assert not done
    assert (await begin).attempt == 1


# Locks


async def test_a_lock_that_nobody_lets_go_of_is_an_error_in_words(address, store):
    await impatient(store, lock_timeout="300ms")

    with psycopg.connect(plain(address)) as holder:
        holder.execute("LOCK TABLE ledger")
        with pytest.raises(errors.Unreachable, match=r"lock timeout\. Another program has it locked"):
            await begin_a_call(store)

    assert (await begin_a_call(store)).attempt == 1


async def test_who_stops_in_a_transaction_loses_its_locks_and_is_told(store, settings):
    holds, goes_on = asyncio.Event(), asyncio.Event()
    other = await database.connect(settings)
    await impatient(other, idle_in_transaction_session_timeout="300ms")

    async def stop_in_the_middle():
        async with other.transaction(CALL.key) as connection:
            holds.set()
            await goes_on.wait()
            await connection.execute(text("SELECT 1"))

    stopped = asyncio.create_task(stop_in_the_middle())
    await holds.wait()
    begun = await begin_a_call(store)
    goes_on.set()

    assert begun.attempt == 1
    with pytest.raises(errors.Unreachable, match="idle-in-transaction"):
        await stopped
    await other.close()


async def test_locks_are_waited_for_and_held_for_no_longer_than_a_step_is(store):
    async with store.reading() as connection:
        waits = (await connection.execute(text("SHOW lock_timeout"))).scalar()
        held = (await connection.execute(text("SHOW idle_in_transaction_session_timeout"))).scalar()

    assert (waits, held) == ("10s", "30s")


async def test_a_standby_that_takes_no_writes_is_an_error_in_words(store):
    await impatient(store, default_transaction_read_only="on")

    with pytest.raises(errors.Unreachable, match=r"read-only transaction.*name the primary server"):
        await begin_a_call(store)
