"""The memory store: one commit for each key, nothing lost, found by its words, out once and back within its grace."""

import asyncio
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from sqlalchemy import func, select, text

from activities.retention import Entries
from domain import digest, errors
from domain.memory import GRACE, REVIEW_EVERY, UNTRUSTED_FOR, UNUSED_FOR, Source
from domain.retention import Batch, Look, Plan, judge_entry
from store import database, seal
from store.ledger import Entry, Ledger
from store.memory import LARGEST_ID, Fact, Memory
from store.schema import memory, memory_commits, memory_versions
from store.settings import Settings

NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)
MARA = "user_481/preferences"
GERMAN = "Mara wants her briefs in German."
FRENCH = "Mara wants her briefs in French."


@pytest.fixture
def kept(store):
    return Memory(store, "default")


def fact(words=GERMAN, scope=MARA, trust="inferred", said_by="model", **more):
    return Fact(scope, words, "preference", Source(said_by=said_by, run_id="r1", action_id="s1.1-a"), trust, **more)


async def add(kept, *texts, now=NOW, **more):
    return [(await kept.remember(key(one, more), now, fact(one, **more)))["id"] for one in texts]


def key(*of):
    return digest.sha256(repr(of))


async def found(kept, query="", nth=1, now=NOW, scope=MARA, **more):
    told = await kept.recall(key(query, nth, now, scope), "r2", now, scope=scope, query=query, **more)
    return [one["quote"] for one in told["entries"]]


async def rows_of(store, table):
    async with store.reading() as connection:
        return (await connection.execute(select(func.count()).select_from(table))).scalar_one()


async def test_an_entry_is_kept_with_its_source_and_its_terms(kept):
    answer = await kept.remember("k1", NOW, fact())

    assert answer == {"id": answer["id"], "version": 1, "trust": "inferred", "created": True}
    [entry] = await kept.entries()
    assert (entry.text, entry.namespace, entry.kind) == (GERMAN, MARA, "preference")
    assert entry.source == Source(said_by="model", run_id="r1", action_id="s1.1-a")
    assert (entry.created, entry.changed, entry.last_used) == (NOW, NOW, None)
    assert (entry.review_after, entry.expires) == (NOW + REVIEW_EVERY, None)


# One key: one commit.


async def test_of_fifty_at_once_with_one_key_one_commits_and_all_get_its_answer(kept, store):
    answers = await asyncio.gather(*(kept.remember("k1", NOW, fact()) for _ in range(50)))

    assert all(answer == answers[0] for answer in answers)
    assert (await rows_of(store, memory), await rows_of(store, memory_commits)) == (1, 1)


@pytest.mark.parametrize("changed", [{"words": FRENCH}, {"scope": "user_482"}, {"said_by": "user"}, {"updates": 1}])
async def test_other_arguments_under_a_key_are_an_error_by_name(kept, store, changed):
    await kept.remember("k1", NOW, fact())

    with pytest.raises(errors.ArgumentsChanged, match="with other arguments"):
        await kept.remember("k1", NOW, fact(**changed))

    assert await rows_of(store, memory) == 1


async def test_the_same_words_again_are_the_same_entry(kept):
    first = await kept.remember("k1", NOW, fact())

    again = await kept.remember("k2", NOW, fact("  mara wants her briefs\nin GERMAN. "))

    assert again == first | {"created": False}


async def test_what_is_refused_leaves_nothing(kept, store):
    for words in ("Order 1042 is shipped", "Her card is 4242 4242 4242 4242"):
        with pytest.raises(errors.ToolFailed, match="Nothing was stored"):
            await kept.remember(words, NOW, fact(words))
    with pytest.raises(errors.ToolFailed, match="no namespace"):
        await kept.remember("k1", NOW, fact(scope="../user"))

    assert (await rows_of(store, memory), await rows_of(store, memory_commits)) == (0, 0)


# A fact that contradicts


async def test_a_contradiction_changes_the_entry_in_place_and_keeps_what_it_said(kept):
    [entry_id] = await add(kept, GERMAN)

    answer = await kept.remember("k2", NOW + DAY, fact(FRENCH, updates=entry_id, version=1))

    entry, before = await kept.show(entry_id)
    assert answer == {"id": entry_id, "version": 2, "trust": "inferred", "created": False}
    assert (entry.text, entry.version, entry.created, entry.changed) == (FRENCH, 2, NOW, NOW + DAY)
    assert [(one.text, one.version) for one in before] == [(GERMAN, 1)]
    assert await found(kept, "French") == [FRENCH]
    assert await found(kept, "German") == []


async def test_an_entry_is_worth_its_lowest_source(kept):
    [entry_id] = await add(kept, GERMAN, trust="trusted")

    lower = await kept.remember("k2", NOW, fact(FRENCH, trust="untrusted", updates=entry_id, version=1))
    again = await kept.remember("k3", NOW, fact(GERMAN, trust="trusted", updates=entry_id, version=2))

    assert (lower["trust"], again["trust"]) == ("untrusted", "untrusted")
    assert (await kept.show(entry_id))[0].expires == NOW + UNTRUSTED_FOR


async def test_of_two_runs_that_change_an_entry_at_once_one_is_told_and_nothing_is_lost(kept):
    [entry_id] = await add(kept, GERMAN)

    answers = await asyncio.gather(
        *(kept.remember(f"k{n}", NOW, fact(f"In words {n}", updates=entry_id, version=1)) for n in range(20)),
        return_exceptions=True,
    )

    refused = [one for one in answers if isinstance(one, errors.ToolFailed)]
    assert len(refused) == 19
    assert all("it is version 2 now" in str(one) for one in refused)
    entry, before = await kept.show(entry_id)
    assert (entry.version, [one.text for one in before]) == (2, [GERMAN])


async def test_of_two_runs_that_add_at_once_both_are_kept(kept):
    await asyncio.gather(*(kept.remember(f"k{n}", NOW, fact(f"In words {n}")) for n in range(20)))

    assert len(await kept.entries()) == 20


@pytest.mark.parametrize("entry_id", [0, -1, 999, LARGEST_ID + 1, 2**70])
async def test_an_entry_that_is_not_there_is_told_to_the_model(kept, entry_id):
    with pytest.raises(errors.ToolFailed, match="recall lists those that exist"):
        await kept.remember("k1", NOW, fact(updates=entry_id, version=1))


async def test_a_person_who_writes_an_entry_anew_vouches_for_it(kept):
    [entry_id] = await add(kept, GERMAN, trust="untrusted", said_by="tool")

    entry = await kept.edit(entry_id, NOW, text=FRENCH)

    assert (entry.trust, entry.source, entry.version, entry.expires) == ("trusted", Source(said_by="user"), 2, None)
    with pytest.raises(errors.ToolFailed, match="version 2"):
        await kept.edit(entry_id, NOW, text=GERMAN, version=1)


async def test_a_person_who_keeps_an_entry_looks_at_it_again_later_and_changes_nothing_else(kept):
    [entry_id] = await add(kept, GERMAN)
    [before] = await kept.entries()

    looked = NOW + REVIEW_EVERY

    entry = await kept.keep(entry_id, looked)

    assert entry == before.model_copy(update={"review_after": looked + REVIEW_EVERY, "last_used": looked})
    assert await kept.show(entry_id) == (entry, [])


# Recall


async def test_what_is_recalled_is_quoted_with_date_and_source_and_says_how_to_read_it(kept):
    await add(kept, GERMAN, trust="untrusted", said_by="tool")

    told = await kept.recall("q1", "r2", NOW + DAY, scope=MARA, query="german")

    assert "never instructions" in told["how_to_read"]
    [entry] = told["entries"]
    assert (entry["quote"], entry["said_by"], entry["said_on"], entry["run"]) == (GERMAN, "tool", "2026-12-01", "r1")
    assert entry["trust"] == "untrusted"


async def test_a_recall_moves_the_last_use_and_nothing_else(kept):
    await add(kept, GERMAN)
    [before] = await kept.entries()

    for day in (1, 3, 2):
        await found(kept, now=NOW + day * DAY)

    assert await kept.entries() == [before.model_copy(update={"last_used": NOW + 3 * DAY})]


async def test_the_same_key_recalls_the_same_though_the_entry_has_changed(kept, store):
    [entry_id] = await add(kept, GERMAN)
    first = await kept.recall("q1", "r2", NOW, scope=MARA)
    await kept.remember("k2", NOW, fact(FRENCH, updates=entry_id, version=1))

    assert await kept.recall("q1", "r2", NOW + DAY, scope=MARA) == first
    assert await kept.answer("q1") == first
    with pytest.raises(errors.ArgumentsChanged):
        await kept.recall("q1", "r2", NOW, scope="user_482")


async def test_a_namespace_is_recalled_alone(kept, store):
    await add(kept, GERMAN)
    for scope in ("user_481", "user_481/preferences/food", "user_482"):
        await add(kept, f"{GERMAN} {scope}", scope=scope)
        assert await found(kept, "mara", scope=scope) == [f"{GERMAN} {scope}"]
    assert await found(kept, "mara") == [GERMAN]
    assert await found(Memory(store, "prod"), "mara", nth=2) == []
    with pytest.raises(errors.ToolFailed, match="no namespace"):
        await found(kept, scope="user%481/preferences")


async def test_the_list_of_a_namespace_has_those_below_it(kept):
    await add(kept, "a", scope="user_1")
    await add(kept, "b", scope="user_1/x")
    await add(kept, "c", scope="userx1/x")

    assert [one.text for one in await kept.entries("user_1")] == ["a", "b"]
    assert len(await kept.entries()) == 3


# A query, and what it finds of these, best first.
TEXTS = (
    "The café in Zürich opens at 8",
    "Ana's desk is 12b",
    "会議は午後です",
    "a'b\" OR drop:*; --",
    "tea tea tea",
    "NUL\x00",
)
QUERIES = [
    ("CAFE", [0]),
    ("zur", [0]),
    ("opens desk 8", [0, 1]),
    ("午後", [2]),
    ("drop", [3]),
    ('" OR 1=1 --', [3, 1]),
    ("' | !a & b <-> c :*", [3, 0, 1]),
    ("nothing", []),
    ("***", [5, 4, 3, 2, 1, 0]),
    ("", [5, 4, 3, 2, 1, 0]),
    ("x" * 400, []),
]


@pytest.mark.parametrize("encrypted", [False, True], ids=["clear", "sealed"])
async def test_words_are_found_in_either_database_with_and_without_keys(settings, encrypted):
    keys = type(settings)(DAYFLOW_ENCRYPTION_KEYS=seal.new_key("one") if encrypted else None).encryption_keys
    store = await database.connect(settings.model_copy(update={"encryption_keys": keys}))
    kept = Memory(store, "default")
    ids = await add(kept, *TEXTS)

    told = {}
    for query, _ in QUERIES:
        answer = await kept.recall(key(query), "r2", NOW, scope=MARA, query=query)
        told[query] = [ids.index(one["id"]) for one in answer["entries"]]
    async with store.reading() as connection:
        raw = repr((await connection.execute(text("SELECT * FROM memory"))).all())
    await store.close()

    assert told == dict(QUERIES)
    assert ("desk" in raw) is not encrypted


async def test_without_an_index_the_same_is_found(kept, store):
    await add(kept, *TEXTS)
    with_index = [await found(kept, query) for query, _ in QUERIES]
    if store.engine.dialect.name == "postgresql":
        return  # it always has one
    async with store.transaction() as connection:
        for trigger in ("added", "deleted", "changed"):
            await connection.execute(text(f"DROP TRIGGER memory_words_{trigger}"))
        await connection.execute(text("DROP TABLE memory_words"))

    assert [await found(kept, query, nth=2) for query, _ in QUERIES] == with_index


async def test_what_was_written_before_encryption_is_found_with_it(settings, kept):
    await add(kept, GERMAN)
    keys = type(settings)(DAYFLOW_ENCRYPTION_KEYS=seal.new_key("one")).encryption_keys
    store = await database.connect(settings.model_copy(update={"encryption_keys": keys}))
    sealed = Memory(store, "default")
    await add(sealed, FRENCH)

    told = await found(sealed, "mara")
    await store.close()

    assert sorted(told) == [FRENCH, GERMAN]


async def test_ten_are_recalled_unless_fewer_are_wanted(kept):
    await add(kept, *(f"tea number {n}" for n in range(15)))

    assert len(await found(kept, "tea")) == 10
    assert len(await found(kept, "tea", nth=2, limit=3)) == 3


@effort(deadline=None, max_examples=30)
@given(st.lists(st.text(max_size=30), max_size=5), st.text(max_size=60))
def test_no_words_break_the_search(file, texts, query):
    async def search():
        with tempfile.TemporaryDirectory() as home:
            shutil.copy(file, home)
            store = await database.connect(Settings(DAYFLOW_HOME=Path(home)))
            kept = Memory(store, "default")
            for number, one in enumerate(texts):
                try:
                    await kept.remember(f"k{number}", NOW, fact(one))
                except errors.ToolFailed:
                    continue
            await found(kept, query)
            await store.close()

    asyncio.run(search())


# What a run has heard


async def said(store, step, *tools):
    content = [{"type": "tool_use", "id": name, "name": name, "input": {}} for name in tools]
    await Ledger(store).begin(Entry(f"m{step}", "model", "default", "r1", step, 1, "sim", "d"))
    await Ledger(store).finish(f"m{step}", {"content": content})


async def test_a_run_is_trusted_until_it_has_read_what_others_wrote(kept, store):
    assert await kept.heard("r1", 1) == "trusted"

    await said(store, 1, "remember", "propose_plan")
    await said(store, 2, "read_inbox")

    assert await kept.heard("r1", 2) == "trusted"
    assert await kept.heard("r1", 3) == "untrusted"


async def test_a_run_whose_steps_are_not_known_is_not_trusted(kept):
    assert await kept.heard("r1", 2) == "untrusted"


@pytest.mark.parametrize("trust", ["trusted", "inferred", "untrusted"])
async def test_a_run_that_recalled_is_worth_what_it_recalled(kept, store, trust):
    await add(kept, GERMAN, trust=trust)
    await said(store, 1, "recall")

    await kept.recall("q1", "r1", NOW, scope=MARA)

    assert await kept.heard("r1", 2) == trust


# The end


async def tidied(kept, now):
    """What a clean-up of memory does: the ids that it took out, those that a person should look at, and how many go."""
    shelf, plan = Entries(kept), Plan(dry_run=False, at=now, days={})
    found = await shelf.find(Look(kind="memory", plan=plan))
    await shelf.mark(found.new, now)
    done = await shelf.delete(Batch(kind="memory", plan=plan, names=found.due))
    return [int(name) for name in found.new], [int(name) for name in found.review], done.gone


async def test_an_unused_entry_expires_once_and_a_used_one_does_not(kept):
    unused, used = await add(kept, GERMAN, FRENCH)
    await found(kept, "french", now=NOW + DAY)

    first = await tidied(kept, NOW + UNUSED_FOR)
    entries = await kept.entries(ended=True)
    again = await tidied(kept, NOW + UNUSED_FOR + DAY / 2)

    assert first == ([unused], [used], 0)
    assert again == ([], [used], 0)
    assert await kept.entries(ended=True) == entries
    assert [(one.id, one.ended, one.ended_as) for one in entries] == [
        (unused, NOW + UNUSED_FOR, "expired"),
        (used, None, None),
    ]


async def test_of_ten_expiries_at_once_one_takes_an_entry_out(kept):
    [entry_id] = await add(kept, GERMAN)
    times = [NOW + UNUSED_FOR + n * DAY for n in range(10)]

    await asyncio.gather(*(kept.expire([entry_id], now) for now in times))

    [out] = await kept.entries(ended=True)
    assert out.ended in times
    await asyncio.gather(*(kept.expire([entry_id], now) for now in times))
    assert await kept.entries(ended=True) == [out]


async def test_one_that_was_used_or_put_back_meanwhile_is_neither_taken_out_nor_deleted(kept):
    used, back = await add(kept, GERMAN, FRENCH)
    end = NOW + UNUSED_FOR
    await kept.expire([back], end)
    await kept.undo([back], end + GRACE - DAY)
    await found(kept, "german", now=NOW + DAY)

    await kept.expire([used], end)
    no_more = await kept.clear([used, back, 999], end + GRACE)

    assert no_more == 1
    assert [one.id for one in await kept.entries()] == [used, back]


async def test_pages_follow_one_another_by_the_id_and_leave_out_what_is_young(kept):
    ids = await add(kept, *(f"In words {n}" for n in range(5)))
    await add(kept, GERMAN, now=NOW + DAY)

    first = await kept.aged(NOW + REVIEW_EVERY, 0, 3)
    second = await kept.aged(NOW + REVIEW_EVERY, first[-1].id, 3)

    assert [one.id for one in first + second] == ids


async def test_nothing_that_time_has_done_something_to_is_passed_over(kept):
    """What the database finds by its columns is what the rules say of each entry."""
    german, _ = await add(kept, GERMAN, FRENCH)
    await add(kept, "By a mail", trust="untrusted", said_by="tool")
    await add(kept, "Until May", expires=NOW + 150 * DAY)
    await found(kept, "french", now=NOW + 60 * DAY)
    await kept.keep(german, NOW + 20 * DAY)
    for day in range(0, 400, 5):
        now = NOW + day * DAY
        aged = [one.id for one in await kept.aged(now, 0, 100)]
        assert aged == [one.id for one in await kept.entries(ended=True) if judge_entry(one, now) != "young"]
        await tidied(kept, now)


async def test_time_goes_on_for_what_nobody_has_the_key_of(settings):
    keys = type(settings)(DAYFLOW_ENCRYPTION_KEYS=seal.new_key("one")).encryption_keys
    with_key = await database.connect(settings.model_copy(update={"encryption_keys": keys}))
    [entry_id] = await add(Memory(with_key, "default"), GERMAN)
    await with_key.close()
    without = await database.connect(settings)
    kept = Memory(without, "default")

    assert await tidied(kept, NOW + UNUSED_FOR) == ([entry_id], [], 0)
    assert await tidied(kept, NOW + UNUSED_FOR + GRACE) == ([], [], 1)
    await without.close()


async def test_what_has_come_to_its_end_is_not_recalled_though_nobody_expired_it_yet(kept):
    await add(kept, GERMAN, trust="untrusted")

    assert await found(kept, now=NOW + UNTRUSTED_FOR - DAY) == [GERMAN]
    assert await found(kept, now=NOW + UNTRUSTED_FOR) == []


async def test_a_clock_that_goes_back_brings_nothing_back(kept):
    await add(kept, GERMAN)
    await tidied(kept, NOW + UNUSED_FOR)

    assert await found(kept, now=NOW) == []


async def test_what_expired_is_put_back_within_its_grace(kept):
    [entry_id] = await add(kept, GERMAN, trust="untrusted")
    out, _, _ = await tidied(kept, NOW + UNTRUSTED_FOR)
    later = NOW + UNTRUSTED_FOR + GRACE - DAY

    [back] = await kept.undo(out, later)

    assert back.ended is None
    assert await kept.undo([entry_id], later) == [back]
    assert await found(kept, now=later) == [GERMAN]
    assert await tidied(kept, later) == ([], [entry_id], 0)


async def test_after_its_grace_an_entry_is_deleted_with_all_that_it_said(kept, store):
    [entry_id] = await add(kept, GERMAN)
    await kept.remember("k2", NOW, fact(FRENCH, updates=entry_id, version=1))
    await kept.recall("q1", "r2", NOW, scope=MARA)
    await tidied(kept, NOW + UNUSED_FOR)

    with pytest.raises(errors.NotFound, match="14 days"):
        await kept.undo([entry_id], NOW + UNUSED_FOR + GRACE)

    assert await tidied(kept, NOW + UNUSED_FOR + GRACE) == ([], [], 1)
    assert (await rows_of(store, memory), await rows_of(store, memory_versions)) == (0, 0)
    assert (await kept.answer("q1"))["entries"] == []
    with pytest.raises(errors.NotFound, match="no memory"):
        await kept.undo([entry_id], NOW)


async def test_what_is_forgotten_is_not_recalled_and_can_be_put_back(kept):
    [entry_id] = await add(kept, GERMAN)

    first = await kept.forget("f1", "r1", NOW, scope=MARA, entry_id=entry_id)

    assert first == await kept.forget("f1", "r1", NOW, scope=MARA, entry_id=entry_id)
    assert await found(kept) == []
    with pytest.raises(errors.ToolFailed, match="has no entry"):
        await kept.forget("f2", "r1", NOW, scope=MARA, entry_id=entry_id)
    await kept.undo([entry_id], NOW + DAY)
    assert await found(kept, now=NOW + DAY) == [GERMAN]


async def test_an_entry_of_another_namespace_cannot_be_forgotten_or_changed(kept):
    [entry_id] = await add(kept, GERMAN)

    with pytest.raises(errors.ToolFailed, match="has no entry"):
        await kept.forget("f1", "r1", NOW, scope="user_482", entry_id=entry_id)
    with pytest.raises(errors.ToolFailed, match="has no entry"):
        await kept.remember("k2", NOW, fact(FRENCH, scope="user_482", updates=entry_id, version=1))

    assert await found(kept) == [GERMAN]


async def test_an_id_is_not_given_twice(kept):
    [entry_id] = await add(kept, GERMAN)
    await kept.delete(entry_id)

    [other] = await add(kept, FRENCH)

    assert other > entry_id
