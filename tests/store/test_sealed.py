"""The store with keys: what holds words of mail, arguments or answers is sealed, and all of it works as before."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import MetaData, text

from domain import errors
from domain.memory import Source
from store import database, schema, seal
from store.effects import Effects
from store.ledger import Entry, Ledger
from store.memory import Fact, Memory
from store.orders import Orders
from store.schema import SealedJson, SealedWords
from store.tasks import Tasks

ONE, OTHER = seal.new_key("one"), seal.new_key("other")
SECRET = "SENTINEL"
NOW = datetime(2026, 12, 1, tzinfo=UTC)
EFFECT = Entry("e1", "effect", "default", "r1", 1, 1, "send_email", "d", "s1.1-abc", {"body": SECRET}, "mail:r1:s1.1")
TASK = {"title": f"Call {SECRET}", "source_id": "m1", "due": None, "notes": f"sealed:{SECRET}"}


def keyed(settings, *keys):
    """The same home for whoever has these keys."""
    given = type(settings)(DAYFLOW_ENCRYPTION_KEYS=",".join(keys) or None)
    return settings.model_copy(update={"encryption_keys": given.encryption_keys})


@pytest.fixture
async def opened(settings):
    """Stores of this home, each for whoever has these keys."""
    stores = []

    async def make(*keys):
        stores.append(await database.connect(keyed(settings, *keys)))
        return stores[-1]

    yield make
    for store in stores:
        await store.close()


async def raw(store) -> str:
    """Every row of every table, as it is kept."""
    found: list[Any] = []
    async with store.reading() as connection:
        for table in schema.metadata.sorted_tables:
            found += (await connection.execute(text(f"SELECT * FROM {table.name}"))).all()
    return repr(found)


async def fill(store) -> None:
    ledger, effects = Ledger(store), Effects(store)
    await ledger.begin(Entry("m1", "model", "default", "r1", 1, 1, "sim", "d"))
    await ledger.finish("m1", {"content": [{"type": "text", "text": SECRET}]}, {"input_tokens": 1})
    await effects.begin(EFFECT)
    await effects.stumble("e1", f"it said {SECRET}")
    await Tasks(store, "default").create("k1", "r1", **TASK)
    await Orders(store, "default").ensure_samples()
    memory = Memory(store, "default")
    said = await memory.remember(
        "r1", NOW, Fact("user_1", f"It was {SECRET}", "fact", Source(said_by="user"), "trusted")
    )
    await memory.edit(said["id"], NOW, text=f"It is {SECRET}")


async def read(store) -> list[Any]:
    """What the parts say that read the store."""
    ledger, orders = Ledger(store), Orders(store, "default")
    return [
        (await ledger.ended("m1")).result,
        [(row["arguments"], row["error"]) for row in await ledger.rows("default", "r1")],
        (await Tasks(store, "default").list())[0],
        await Tasks(store, "default").answer("k1"),
        await orders.customer("cus_sample_lindqvist"),
        await orders.order("1038"),
        await Memory(store, "default").show(1),
    ]


async def test_with_keys_no_word_is_kept_in_clear_and_all_is_read(opened):
    store = await opened(ONE)

    await fill(store)

    kept, told = await raw(store), repr(await read(store))
    assert SECRET not in kept
    assert "Mara" not in kept
    assert "Mara" in told
    assert told.count(SECRET) == 9
    for name in ("mail:r1:s1.1", "send_email", "s1.1-abc", "'m1'"):
        assert name in kept


async def test_without_keys_the_rows_are_those_of_before(opened):
    store = await opened()

    await fill(store)

    kept = await raw(store)
    assert '{"body": "SENTINEL"}' in kept
    assert f"sealed:not:sealed:{SECRET}" in kept
    assert "sealed:" not in kept.replace("sealed:not:", "").replace(f"sealed:{SECRET}", "")


async def test_rows_from_before_encryption_are_read(opened):
    await fill(await opened())
    before = await read(await opened())

    assert await read(await opened(ONE)) == before


async def test_after_a_rotation_old_rows_and_new_ones_are_read(opened):
    await fill(await opened(ONE))
    rotated = await opened(OTHER, ONE)

    await Tasks(rotated, "default").create("k2", "r1", **TASK | {"source_id": "m2"})

    rows, _ = await Tasks(rotated, "default").list()
    assert [row["title"] for row in rows] == [TASK["title"]] * 2


@pytest.mark.parametrize("keys", [(), (OTHER,)], ids=["no key", "another key"])
async def test_a_row_whose_key_is_not_here_names_it(opened, keys):
    await fill(await opened(ONE))
    store = await opened(*keys)

    with pytest.raises(errors.MissingKey, match="'one' is missing"):
        await Ledger(store).ended("m1")
    with pytest.raises(errors.MissingKey, match="'one' is missing"):
        await Effects(store).begin(EFFECT)


async def test_one_intent_has_one_holder_with_keys_too(opened):
    effects = Effects(await opened(ONE))
    first = Entry("a", "effect", "default", "r1", 1, 1, "t", "d", "a1", {}, "refund:1", "refund:1")
    await effects.begin(first)

    with pytest.raises(errors.IntentHeld):
        await effects.begin(Entry("b", "effect", "default", "r2", 1, 1, "t", "d", "a2", {}, "refund:1", "refund:1"))


def test_nothing_that_is_sealed_is_looked_for():
    metadata: MetaData = schema.metadata
    for table in metadata.sorted_tables:
        indexed = {column for index in table.indexes for column in index.columns} | set(table.primary_key.columns)
        indexed |= {column for one in table.constraints for column in getattr(one, "columns", ())}
        assert not [one for one in indexed if isinstance(one.type, SealedJson | SealedWords)]
