"""Rows of runs that are over are found by age, page by page; what is begun or unknown is neither found nor deleted."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from domain.memory import Source
from store.effects import Effects
from store.expiry import Expiry
from store.ledger import Entry, Ledger
from store.memory import Fact, Memory
from store.runs import Runs
from store.schema import claims, ledger, memory_commits, task_commits
from store.tasks import Tasks

LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def expiry(store):
    return Expiry(store, "default")


def entry(key, kind="effect", run_id="r1", namespace="default"):
    names = {"name": "create_task", "digest": "d", "intent": None, "holds": None}
    return Entry(key=key, kind=kind, namespace=namespace, run_id=run_id, step=1, position=1, **names)


async def effects_of_every_kind(store):
    """One effect of each standing; their keys say which."""
    effects = Effects(store)
    for key in ("begun", "unknown", "done", "failed"):
        await effects.begin(entry(key, run_id=key))
    await effects.unknown("unknown", "nobody can tell")
    await effects.finish("done", {"content": "x"})
    await effects.fail("failed", "no")


async def keys(store):
    async with store.reading() as connection:
        return set((await connection.execute(select(ledger.c.key))).scalars())


async def test_only_effects_of_which_it_is_certain_are_found_and_only_they_are_deleted(store, expiry):
    await effects_of_every_kind(store)

    found = await expiry.old_effects(LATER, "", 10)
    await expiry.delete_effects(["begun", "unknown", "done", "failed"])

    assert found == [("done", "done"), ("failed", "failed")]
    assert await keys(store) == {"begun", "unknown"}
    assert await expiry.with_open_effects(["begun", "unknown", "done", "failed"]) == {"begun", "unknown"}


async def test_what_ended_later_or_is_of_another_namespace_is_not_found(store, expiry):
    await effects_of_every_kind(store)
    other = Expiry(store, "prod")

    assert await expiry.old_effects(datetime.now(UTC) - timedelta(days=1), "", 10) == []
    assert await other.old_effects(LATER, "", 10) == []
    assert await other.with_open_effects(["unknown"]) == set()


async def test_an_effect_that_is_settled_late_is_as_young_as_that(store, expiry):
    await effects_of_every_kind(store)
    async with store.transaction() as connection:
        long_ago = datetime.now(UTC) - timedelta(days=400)
        await connection.execute(update(ledger).values(began_at=long_ago, last_sent_at=long_ago))

    assert await expiry.old_effects(datetime.now(UTC) - timedelta(days=365), "", 10) == []


async def test_pages_follow_one_another_by_the_key(store, expiry):
    calls = Ledger(store)
    for n in range(7):
        await calls.begin(entry(f"model-{n}", "model"))
        await calls.finish(f"model-{n}", {"text": "x"})

    first = await expiry.old_calls(LATER, "", 4)
    second = await expiry.old_calls(LATER, first[-1][0], 4)
    await expiry.delete_calls([key for key, _ in first])

    assert [key for key, _ in first + second] == [f"model-{n}" for n in range(7)]
    assert await keys(store) == {"model-4", "model-5", "model-6"}


async def test_model_calls_are_not_deleted_as_effects_nor_effects_as_model_calls(store, expiry):
    await effects_of_every_kind(store)
    await Ledger(store).begin(entry("model-1", "model"))

    await expiry.delete_calls(["done"])
    await expiry.delete_effects(["model-1"])

    assert {"done", "model-1"} <= await keys(store)


async def test_with_an_effect_goes_what_the_task_store_answered_and_the_task_stays(store, expiry):
    tasks, effects = Tasks(store, "default"), Effects(store)
    for key in ("done", "begun"):
        await effects.begin(entry(key))
        await tasks.create(key, "r1", title="Call Ana", source_id=key, due=None, notes=None)
    await effects.finish("done", {"content": "x"})

    await expiry.delete_effects(["done", "begun"])

    async with store.reading() as connection:
        assert list((await connection.execute(select(task_commits.c.idempotency_key))).scalars()) == ["begun"]
    assert len((await tasks.list())[0]) == 2


def said(text, run_id):
    return Fact("user_481", text, "fact", Source(said_by="user", run_id=run_id), "trusted")


async def test_what_memory_committed_goes_by_age_and_its_entry_stays(store, expiry):
    kept, now = Memory(store, "default"), datetime.now(UTC)
    await effects_of_every_kind(store)
    for key in ("begun", "unknown", "done", "failed", "person"):
        await kept.remember(key, now, said(f"She likes {key}.", None if key == "person" else key))
    await kept.remember("young", LATER, said("She likes tea.", "young"))
    await Memory(store, "prod").remember("other", now, said("She likes tea.", "other"))

    first = await expiry.old_commits(LATER, "", 2)
    second = await expiry.old_commits(LATER, first[-1][0], 2)
    await expiry.delete_commits([key for key, _ in first + second])

    # Whether what is begun or unknown has happened, the memory store may still be asked.
    assert first + second == [("done", "done"), ("failed", "failed"), ("person", None)]
    async with store.reading() as connection:
        left = set((await connection.execute(select(memory_commits.c.idempotency_key))).scalars())
    assert left == {"begun", "unknown", "young", "other"}
    assert len(await kept.entries()) == 6


async def test_a_claim_goes_when_the_ledger_has_nothing_of_its_run(store, expiry):
    runs = Runs(store, "default")
    for run in ("done", "other"):
        await runs.claim(run, "first")
    await effects_of_every_kind(store)

    found = await expiry.old_claims(LATER, "", 10)
    await expiry.delete_claims(["other"])

    assert found == [("other", "other")]
    assert await runs.claim("other", "second") is None
    async with store.reading() as connection:
        assert set((await connection.execute(select(claims.c.run_id))).scalars()) == {"done", "other"}


async def test_the_other_namespaces_of_a_store_are_known_by_their_runs(store, expiry):
    for namespace in ("default", "prod", "test"):
        await Runs(store, namespace).claim("r1", "first")

    assert await expiry.other_namespaces() == {"prod", "test"}


async def test_a_mark_stays_where_it_is_set_twice_and_who_keeps_a_run_takes_it_off(expiry):
    at = datetime(2026, 11, 30, tzinfo=UTC)
    await expiry.mark(["r1", "r2"], at)
    await expiry.mark(["r1"], at)
    await expiry.keep("r2", "ana")

    marks = await expiry.marks(["r1", "r2", "r3"])
    assert (marks["r1"].marked_at, marks["r1"].kept_by) == (at, None)
    assert (marks["r2"].marked_at, marks["r2"].kept_by) == (None, "ana")
    assert "r3" not in marks

    await expiry.keep("r2", None)
    await expiry.forget("r1")
    assert {run: mark.kept_by for run, mark in (await expiry.marks(["r1", "r2"])).items()} == {"r2": None}
