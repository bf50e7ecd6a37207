"""`dayflow memory`: people look after what runs remember, and no server is needed for it."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from homes import Home

from domain.memory import REVIEW_EVERY
from store import database
from store.memory import Memory

GERMAN, FRENCH = "Mara wants her briefs in German.", "Mara wants her briefs in French."


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A home where nothing runs."""
    return Home(tmp_path_factory.mktemp("memory"))


def memory(desk, *arguments, code=0):
    return desk.dayflow("memory", *arguments, code=code)


def added(desk, namespace, text=GERMAN, *more):
    return json.loads(memory(desk, "add", namespace, text, "--json", *more).stdout)["id"]


def listed(desk, *arguments):
    return json.loads(memory(desk, "list", *arguments, "--json").stdout)


def test_a_person_stores_a_fact_and_is_trusted(desk):
    added(desk, "add_1/preferences", GERMAN, "--kind", "preference", "--expires", "2099-01-01")

    [entry] = listed(desk, "add_1")

    assert (entry["text"], entry["kind"], entry["trust"]) == (GERMAN, "preference", "trusted")
    assert entry["source"] == {"said_by": "user", "run_id": None, "action_id": None}
    assert entry["expires"] == "2099-01-01T00:00:00Z"
    assert GERMAN in memory(desk, "list", "add_1").stdout


@pytest.mark.long
def test_a_change_keeps_what_was_said_before(desk):
    entry_id = str(added(desk, "edit_1"))

    memory(desk, "edit", entry_id, FRENCH)

    assert (
        f"before, version 1 of {datetime.now(UTC):%Y-%m-%d}, trusted: {GERMAN}" in memory(desk, "show", entry_id).stdout
    )
    assert json.loads(memory(desk, "show", entry_id, "--json").stdout)["history"][0]["text"] == GERMAN
    assert "version 2 now" in memory(desk, "edit", entry_id, GERMAN, "--version", "1", code=2).stderr


# What is typed, and what the one line says.
REFUSED = [
    (("add", "../user", GERMAN), "such as 'user_481/preferences'"),
    (("add", "user_1", "Order 1042 is shipped."), "live data"),
    (("add", "user_1", "Her card is 4242 4242 4242 4242."), "a card number"),
    (("add", "user_1", GERMAN, "--kind", "rumour"), "kinds are preference, fact"),
    (("list", "User"), "such as 'user_481/preferences'"),
    (("show", "999"), "`dayflow memory list` lists those that exist"),
    (("edit", "999", GERMAN), "`dayflow memory list` lists those that exist"),
    (("edit", "1"), "say what is to change"),
    (("forget", "999"), "`dayflow memory list` lists those that exist"),
    (("restore", "999"), "`dayflow memory list` lists those that exist"),
]


@pytest.mark.parametrize(("arguments", "words"), REFUSED)
def test_what_cannot_be_done_is_one_line_that_says_what_to_do(desk, arguments, words):
    told = memory(desk, *arguments, code=2).stderr

    assert words in told
    assert len(told.strip().splitlines()) == 1


def test_what_was_forgotten_is_put_back_or_deleted_for_good(desk):
    entry_id = str(added(desk, "forget_1"))

    assert f"dayflow memory restore {entry_id}" in memory(desk, "forget", entry_id).stdout
    assert listed(desk, "forget_1") == []
    assert [one["ended_as"] for one in listed(desk, "forget_1", "--ended")] == ["forgotten"]
    memory(desk, "restore", entry_id)
    assert [one["text"] for one in listed(desk, "forget_1")] == [GERMAN]
    memory(desk, "forget", entry_id, "--for-good")

    assert listed(desk, "forget_1", "--ended") == []
    memory(desk, "restore", entry_id, code=2)


def test_what_is_due_is_listed_until_a_person_keeps_it(desk):
    entry_id = added(desk, "review_1")
    assert json.loads(memory(desk, "review", "review_1", "--json").stdout) == []
    asyncio.run(kept_long_ago(desk, entry_id))
    [due] = json.loads(memory(desk, "review", "review_1", "--json").stdout)

    memory(desk, "review", "--keep", str(entry_id))

    assert due["id"] == entry_id
    assert json.loads(memory(desk, "review", "review_1", "--json").stdout) == []


async def kept_long_ago(desk, entry_id):
    """The entry was looked at for the last time when it is due again by now."""
    store = await database.connect(desk.settings)
    await Memory(store, "default").keep(entry_id, datetime.now(UTC) - REVIEW_EVERY - timedelta(days=1))
    await store.close()


def test_everything_is_exported_a_line_each(desk):
    entry_id = str(added(desk, "export_1"))
    memory(desk, "edit", entry_id, FRENCH)
    memory(desk, "forget", entry_id)

    [line] = memory(desk, "export", "export_1").stdout.splitlines()

    whole = json.loads(line)
    assert (whole["text"], whole["ended_as"], whole["history"][0]["text"]) == (FRENCH, "forgotten", GERMAN)
