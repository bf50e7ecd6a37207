"""Run by test_adding.py inside the copy that has the examples: what each tool of docs/adding.md promises."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import update
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

import activities
from activities.runner import Runner
from activities.tools import discover
from domain import agent
from domain.tool import ToolCall
from store import database
from store.schema import ledger
from store.settings import Settings

KEY = "dayflow-" + "ab" * 32
CREDIT = {"customer_id": "cus_1", "cents": 500, "reason": "The parcel was late."}
NO_ANSWER = "no answer"


@dataclass
class Provider:
    """A destination on loopback; `commits` is its journal, `fails` what the next answers are instead."""

    commits: dict[str, dict[str, Any]] = field(default_factory=dict)
    posts: list[Any] = field(default_factory=list)
    fails: list[Any] = field(default_factory=list)
    port: int = 0

    async def credit(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        made = self.commits.setdefault(
            request.headers["Idempotency-Key"],
            {
                "id": "cbtxn_1",
                "object": "customer_balance_transaction",
                "amount": int(form["amount"]),
                "currency": form["currency"],
                "metadata": {"dayflow_key": form["metadata[dayflow_key]"]},
            },
        )
        return self._answer(request, made)

    async def credits(self, request: web.Request) -> web.Response:
        data = list(self.commits.values())
        return web.json_response({"object": "list", "data": data, "has_more": False, "url": request.path})

    async def chat(self, request: web.Request) -> web.Response:
        self.posts.append(await request.json())
        return self._answer(request, {})

    def _answer(self, request: web.Request, made: dict[str, Any]) -> web.Response:
        failing = self.fails.pop(0) if self.fails else None
        if failing == NO_ANSWER:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(made, status=failing if isinstance(failing, int) else 200)


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Provider]:
    one, app = Provider(), web.Application()
    place = "/v1/customers/{customer}/balance_transactions"
    app.add_routes([web.post(place, one.credit), web.get(place, one.credits), web.post("/chat", one.chat)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    one.port = runner.addresses[0][1]
    monkeypatch.setenv("CHAT_WEBHOOK_URL", f"http://127.0.0.1:{one.port}/chat")
    yield one
    await runner.cleanup()


@dataclass
class Bench:
    """A runner on a store of its own."""

    runner: Runner
    store: database.Database
    home: Path

    async def act(self, tool: str, arguments: dict[str, Any], key: str = KEY) -> Any:
        call = ToolCall(
            step=2, position=1, action_id="s2.1-abcdef", tool=tool, arguments=arguments, idempotency_key=key
        )
        return await ActivityEnvironment().run(self.runner.run, discover()[tool], call)

    async def age(self, by: timedelta) -> None:
        """Let everything in the ledger have happened so long ago."""
        then = datetime.now(UTC) - by
        async with self.store.transaction() as connection:
            await connection.execute(update(ledger).values(began_at=then, last_sent_at=then))


@pytest.fixture
async def bench(tmp_path: Path, provider: Provider) -> AsyncIterator[Bench]:
    settings = Settings(
        DAYFLOW_HOME=tmp_path,
        DAYFLOW_DATABASE_URL=None,
        STRIPE_API_KEY="sk_test_example",
        STRIPE_BASE_URL=f"http://127.0.0.1:{provider.port}",
    )
    store = await database.connect(settings)
    yield Bench(Runner(settings, store), store, tmp_path)
    await store.close()


def test_it_is_the_copy_that_is_looked_at():
    assert Path(activities.__file__ or "").is_relative_to(os.environ["DAYFLOW_COPY"])


def test_every_example_is_found():
    assert {"days_until", "grant_credit", "save_report", "post_to_chat"} <= set(discover())
    assert set(agent.find("countdown").tools) <= set(discover())


@pytest.mark.parametrize("name", ["days_until", "grant_credit", "save_report", "post_to_chat"])
def test_a_tool_has_a_prompt_and_refuses_unknown_fields(name):
    spec = discover()[name].spec

    assert len(spec.description) > 20
    assert spec.input_schema["additionalProperties"] is False


async def test_days_are_counted_and_a_day_that_is_over_is_refused(bench):
    counted, over = (
        await bench.act("days_until", {"day": "2090-01-01"}),
        await bench.act("days_until", {"day": "2020-01-01"}),
    )

    assert json.loads(counted.content)["days"] > 20_000
    assert over.outcome == "failed"
    assert "is over" in over.content


async def test_a_key_that_is_sent_again_is_one_credit(bench, provider):
    provider.fails = [NO_ANSWER]
    with pytest.raises(ApplicationError):
        await bench.act("grant_credit", CREDIT)
    again = await bench.act("grant_credit", CREDIT)

    assert again.outcome == "done"
    assert json.loads(again.content) == {"id": "cbtxn_1", "cents": 500, "currency": "eur"}
    assert list(provider.commits) == [KEY]


async def test_a_key_that_may_be_forgotten_is_not_sent_again(bench, provider):
    provider.fails = [NO_ANSWER]
    with pytest.raises(ApplicationError):
        await bench.act("grant_credit", CREDIT)
    await bench.age(timedelta(hours=25))
    sent = len(provider.commits)
    provider.fails = [500]
    found = await bench.act("grant_credit", CREDIT)

    assert found.outcome == "done"
    assert provider.fails == [500]
    assert len(provider.commits) == sent == 1


async def test_a_report_is_saved_once(bench):
    first = await bench.act("save_report", {"title": "One", "text": "Text."})
    second = await bench.act("save_report", {"title": "One", "text": "Text."})

    assert (first.content, second.from_ledger) == (second.content, True)
    assert len(list((bench.home / "reports").iterdir())) == 1


@pytest.mark.parametrize("happened", [True, False])
async def test_a_report_of_a_killed_worker_is_looked_for(bench, happened):
    arguments = {"title": "One", "text": "Text."}
    tool = discover()["save_report"]
    saved = tool.run

    def killed(given: Any, context: Any) -> None:
        if happened:
            saved(given, context)
        raise RuntimeError("as if it had been killed")

    killed.__name__ = tool.name
    broken = replace(tool, run=killed)
    call = ToolCall(
        step=2, position=1, action_id="s2.1-abcdef", tool="save_report", arguments=arguments, idempotency_key=KEY
    )
    with pytest.raises(ApplicationError):
        await ActivityEnvironment().run(bench.runner.run, broken, call)
    await bench.age(timedelta(minutes=1))
    result = await bench.act("save_report", arguments)

    assert result.outcome == "done"
    assert len(list((bench.home / "reports").iterdir())) == 1


async def test_a_lost_post_is_unknown_and_is_not_sent_again(bench, provider):
    provider.fails = [NO_ANSWER]
    with pytest.raises(ApplicationError):
        await bench.act("post_to_chat", {"text": "Hello"})
    result = await bench.act("post_to_chat", {"text": "Hello"})

    assert result.outcome == "unknown"
    assert provider.posts == [{"text": "Hello"}]


async def test_a_refused_post_is_told_to_the_model(bench, provider):
    provider.fails = [403]
    result = await bench.act("post_to_chat", {"text": "Hello"})

    assert result.outcome == "failed"
    assert "Nothing was posted" in result.content


async def test_no_secret_is_in_what_a_failure_says(bench, provider, monkeypatch):
    monkeypatch.setenv("CHAT_WEBHOOK_URL", "http://127.0.0.1:1/secret-path")
    with pytest.raises(ApplicationError) as raised:
        await bench.act("post_to_chat", {"text": "Hello"})

    assert "secret-path" not in str(raised.value)
