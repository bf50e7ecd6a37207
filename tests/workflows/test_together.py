"""What comes together, in one task of the workflow, counts as if it had come one after the other.

The SDK works the signals and updates of a task in first, and only then its cancel, its timers and the results of
activities. The hands go on working here while the mind is away; see `payers`.
"""

import asyncio
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest
from asked import until
from payers import (
    World,
    asked,
    begin,
    cancelled,
    hands,
    happened,
    mind,
    pay,
    rulings,
    say,
    statuses,
)
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from client.converter import CONVERTER
from domain.agent import Limits
from domain.tool import ToolResult
from workflows import steps
from workflows.agent_run import AgentRun

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOSS = "boss@example.com"
ENDED = ("activity_task_completed_event_attributes", "activity_task_failed_event_attributes")


async def events(handle, *kinds):
    return [event async for event in handle.fetch_history_events() if any(event.HasField(kind) for kind in kinds)]


async def one_more(handle, gate):
    """Let an activity go on, and wait until its end is in the history."""
    before = len(await events(handle, *ENDED))
    gate.set()
    async with asyncio.timeout(30):
        while len(await events(handle, *ENDED)) == before:  # noqa: ASYNC110  the server has no event for its events
            await asyncio.sleep(0.02)


async def answered(server, world):
    """A run whose model has answered, and nobody has worked that in."""
    async with mind(server.client, world):
        handle = await begin(server.client, world)
        await world.at_model.wait()
    await one_more(handle, world.model_gate)
    return handle


@asynccontextmanager
async def back(server, world, handle):
    """The mind, after all of it came; in the end, what it did has to replay, and no task may have failed."""
    async with mind(server.client, world):
        yield
    assert await events(handle, "workflow_task_failed_event_attributes") == []
    replayer = Replayer(workflows=[AgentRun], data_converter=CONVERTER, workflow_runner=UnsandboxedWorkflowRunner())
    await replayer.replay_workflow(await handle.fetch_history())


# A cancel


@pytest.mark.parametrize("first", ["cancel", "result"])
async def test_an_effect_whose_result_comes_with_a_cancel_is_known_to_be_done(server, first):
    world = World([[pay(40)]], pay_gate=asyncio.Event())
    async with hands(server.client, world):
        async with mind(server.client, world):
            handle = await begin(server.client, world)
            await say(handle, "approve", (await asked(handle))["action_id"])
            await world.at_pay.wait()
        if first == "cancel":
            await handle.cancel()
        await one_more(handle, world.pay_gate)
        if first == "result":
            await handle.cancel()

        async with back(server, world, handle):
            assert (await cancelled(handle))["status"] == "cancelled"
            [action] = await handle.query("actions")
    assert (action["status"], action["result"], action["from_ledger"]) == ("done", "paid 40", False)
    assert world.paid == [40]


@pytest.mark.parametrize("outcome", ["unknown", "conflict", "not entitled"])
async def test_an_effect_that_says_with_a_cancel_that_it_is_not_done_is_told_so(server, outcome):
    world = World([[pay(40)]], pay_gate=asyncio.Event(), outcomes=[ToolResult(content="no", outcome=outcome)])
    async with hands(server.client, world):
        async with mind(server.client, world):
            handle = await begin(server.client, world)
            await say(handle, "approve", (await asked(handle))["action_id"])
            await world.at_pay.wait()
        await handle.cancel()
        await one_more(handle, world.pay_gate)

        async with back(server, world, handle):
            await cancelled(handle)
            assert await statuses(handle) == ["unknown" if outcome == "unknown" else "cancelled"]
    assert world.paid == [40]


async def closing(server, world):
    """A run that has come to its end, and of which somebody's wish for another budget is still looked up."""
    async with mind(server.client, world):
        handle = await begin(server.client, world)
        await world.at_model.wait()
        await handle.signal("raise_budget", {"by": BOSS, "steps": 9})
        await happened(lambda: world.checked)
        world.model_gate.set()
        await until(handle, lambda record: record["status"] in ("done", "failed"))
    return handle


def wished(**more):
    return World([], budget_role="boss", model_gate=asyncio.Event(), check_gate=asyncio.Event(), **more)


async def test_a_cancel_that_comes_when_the_run_is_done_comes_too_late(server):
    world = wished()
    async with hands(server.client, world):
        handle = await closing(server, world)
        await handle.cancel()
        world.check_gate.set()

        async with back(server, world, handle):
            record = await handle.result()
            assert await rulings(handle) == [(False, "too late: the run is done")]
    assert record["status"] == "done"


async def test_a_cancel_that_comes_when_the_run_has_failed_comes_too_late(server):
    world = wished(failures=["broken"])
    async with hands(server.client, world):
        handle = await closing(server, world)
        await handle.cancel()
        world.check_gate.set()

        async with back(server, world, handle):
            with pytest.raises(WorkflowFailureError, match="Workflow execution failed"):
                await handle.result()
    assert (await handle.describe()).status == WorkflowExecutionStatus.FAILED


# The end


@pytest.mark.parametrize("status", ["done", "failed"])
async def test_what_is_said_to_a_run_at_its_end_changes_nothing_and_leaves_a_trace(server, status):
    world = wished(failures=["broken"] if status == "failed" else [])
    async with hands(server.client, world):
        handle = await closing(server, world)
        await handle.signal("message", {"text": "Wait!", "from": "ann"})
        await handle.signal("pause", {"by": "ann"})
        await handle.signal("resume", {"by": "ann"})
        world.check_gate.set()

        async with back(server, world, handle):
            with suppress(WorkflowFailureError):
                await handle.result()
            record = await handle.query("record")
    assert (await handle.describe()).status.name == ("COMPLETED" if status == "done" else "FAILED")
    assert (record["status"], bool(record["error"])) == (status, status == "failed")
    assert [(one["name"], one["why"]) for one in record["refused_messages"]["last"]] == [
        (name, f"too late: the run is {status}") for name in ("message", "pause", "resume")
    ]


async def test_what_is_said_with_the_last_answer_is_heard(server):
    world = World([], model_gate=asyncio.Event())
    async with hands(server.client, world):
        handle = await answered(server, world)
        await handle.signal("message", {"text": "And the rest?", "from": "ann"})

        async with back(server, world, handle):
            assert (await handle.result())["step"] == 2


async def test_a_decision_that_comes_with_the_last_answer_has_its_answer(server):
    world = World([], model_gate=asyncio.Event())
    async with hands(server.client, world):
        handle = await answered(server, world)
        answer = asyncio.create_task(say(handle, "approve", "s1.1-000000"))
        await handle.describe()  # what was asked first has reached the server when this is answered

        async with back(server, world, handle):
            assert (await answer)["accepted"] is False
            assert (await handle.result())["status"] == "done"


# A pause


async def test_a_wish_to_pause_that_comes_before_the_run_waits_for_a_person_holds_it_there(server):
    """One moment later it would have: what is approved then does not run until somebody lets the run go on."""
    world = World([[pay(40)]], model_gate=asyncio.Event())
    async with hands(server.client, world):
        handle = await answered(server, world)
        await handle.signal("pause", {"by": "ann"})

        async with back(server, world, handle):
            record = await until(handle, lambda record: record["pending_actions"])
            assert (record["status"], record["reason"]) == ("paused", "by ann")
            assert (await say(handle, "approve", record["pending_actions"][0]["action_id"]))["accepted"]
            assert not world.at_pay.is_set()
            await handle.signal("resume", {"by": "ann"})
            await handle.result()
    assert world.paid == [40]


async def test_a_run_that_tries_its_model_again_by_itself_stays_paused_if_somebody_wished_so(server):
    world = World([], failures=["model down"])
    async with hands(server.client, world), mind(server.client, world):
        handle = await begin(server.client, world)
        await until(handle, lambda record: record["reason"] == "model down")
        await handle.signal("pause", {"by": "ann"})
        await server.sleep(steps.MODEL_DOWN_PAUSE + timedelta(seconds=1))

        record = await until(handle, lambda record: record["reason"] != "model down")
        assert (record["status"], record["reason"]) == ("paused", "by ann")
        await handle.signal("resume", {"by": "ann"})
        assert (await handle.result())["status"] == "done"


async def test_a_raise_does_not_let_a_run_go_on_that_somebody_wished_to_pause(server):
    world = World([[("look", {})]], limits=Limits(steps=1))
    async with hands(server.client, world):
        async with mind(server.client, world):
            handle = await begin(server.client, world)
            await until(handle, lambda record: record["reason"] == "budget")
        await handle.signal("raise_budget", {"by": BOSS, "steps": 9})
        await handle.signal("pause", {"by": "ann"})

        async with back(server, world, handle):
            record = await until(handle, lambda record: record["reason"] != "budget")
            assert (record["status"], record["reason"]) == ("paused", "by ann")
            await handle.signal("resume", {"by": "ann"})
            assert (await handle.result())["step"] == 2
