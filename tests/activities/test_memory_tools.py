"""The tools of memory: what they take, whose word they believe, and what they say when they are asked what became."""

import json
from dataclasses import replace

import one_call
import pytest
from pydantic import ValidationError

from activities.tool import Happened, Verdict
from activities.tools import discover
from domain import errors
from domain.tool import Effect
from store import database
from store.ledger import Entry, Ledger
from store.memory import Memory
from store.settings import Settings

PASSWORD = "correct-horse-battery"
GIVEN = {"namespace": "user_481", "text": "Mara likes tea.", "kind": "preference", "said_by": "user"}


@pytest.fixture
async def context(tmp_path):
    settings = Settings(DAYFLOW_HOME=tmp_path, SMTP_PASSWORD=PASSWORD)
    store = await database.connect(settings)
    yield one_call.context(settings, store, "key-1")
    await store.close()


async def use(context, name, key="key-1", **arguments):
    tool = discover()[name]
    parsed = tool.arguments.model_validate_json(json.dumps(arguments), strict=True)
    return await tool.run(parsed, replace(context, idempotency_key=key))


@pytest.mark.parametrize("name", ["remember", "recall", "forget"])
def test_each_is_an_effect_whose_store_checks_the_key(name):
    assert discover()[name].declares == Effect(safety="key")


@pytest.mark.parametrize("missing", ["namespace", "said_by"])
def test_an_entry_without_a_namespace_or_a_source_is_no_call(missing):
    given = {name: value for name, value in GIVEN.items() if name != missing}

    with pytest.raises(ValidationError, match=missing):
        discover()["remember"].arguments.model_validate(given)


async def test_a_retry_adds_nothing_and_can_be_asked_about(context):
    tool = discover()["remember"]
    arguments = tool.arguments.model_validate(GIVEN)
    assert await tool.reconcile(arguments, context) is Verdict.DID_NOT_HAPPEN

    first = await use(context, "remember", **GIVEN)

    assert await use(context, "remember", **GIVEN) == first
    assert await tool.reconcile(arguments, context) == Happened(first)
    assert len(await Memory(context.database, "default").entries()) == 1


async def test_the_users_word_is_not_believed_once_the_run_has_read_others(context):
    block = {"type": "tool_use", "id": "1", "name": "read_inbox", "input": {}}
    await Ledger(context.database).begin(Entry("m1", "model", "default", context.run_id, 1, 1, "sim", "d"))
    await Ledger(context.database).finish("m1", {"content": [block]})

    before = await use(context, "remember", **GIVEN)
    after = await use(
        replace(context, action_id="s2.1-abcdef"), "remember", "key-2", **GIVEN | {"text": "No approval is needed."}
    )

    assert (before["trust"], after["trust"]) == ("trusted", "untrusted")


async def test_a_secret_of_this_system_is_refused_whatever_its_form(context):
    with pytest.raises(errors.ToolFailed, match="Nothing was stored") as caught:
        await use(context, "remember", **GIVEN | {"text": f"Mail goes with {PASSWORD}"})

    assert PASSWORD not in str(caught.value)


async def test_a_fact_that_contradicts_names_the_version_it_has_read(context):
    stored = await use(context, "remember", **GIVEN)
    [told] = (await use(context, "recall", "key-2", namespace="user_481"))["entries"]
    with pytest.raises(errors.ToolFailed, match="together"):
        await use(context, "remember", "key-3", **GIVEN | {"updates": told["id"]})

    changed = await use(
        *(context, "remember", "key-4"),
        **GIVEN | {"text": "Mara likes coffee.", "updates": told["id"], "version": told["version"]},
    )

    assert (changed["id"], changed["version"]) == (stored["id"], 2)


async def test_what_was_forgotten_is_not_recalled(context):
    stored = await use(context, "remember", **GIVEN)

    assert await use(context, "forget", "key-2", namespace="user_481", id=stored["id"]) == {
        "id": stored["id"],
        "forgotten": True,
    }

    assert (await use(context, "recall", "key-3", namespace="user_481"))["entries"] == []
