"""How a run asks people, on a clock that jumps: expiry, a no that is told or that ends the run, a conflict in between.

The workflow is the real one, in its sandbox, on Temporal's own test server; what stands in for the activities says what
they would have said.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from domain.agent import Definition, Limits, Rule
from domain.decisions import Authority, Objection
from domain.model import ModelAnswer, ModelCall
from domain.request import LoadRequest
from domain.spend import Usage
from domain.tool import Conflict, Effect, Preparation, Prepared, ToolCall, ToolResult, ToolSpec
from workflows.agent_run import AgentRun
from workflows.runner import CheckedRunner

OPEN_S = 3 * 24 * 3600.0
LEAD = "lead@example.com"
TOOL = ToolSpec(name="pay", description="", input_schema={}, declares=Effect(safety="key"))


@dataclass
class World:
    """What the stand-ins say, and what they were told. turns: the calls of each step, by their arguments."""

    turns: list[list[dict[str, Any]]]
    on_deny: str = "tell"
    held: dict[str, Conflict] = field(default_factory=dict)
    paid: list[dict[str, Any]] = field(default_factory=list)

    def activities(self) -> list[Callable[..., Any]]:
        """All of them."""
        return [self.load, self.answer, self.prepare, self.check, self.pay]

    @activity.defn(name="load_agent")
    async def load(self, asked: LoadRequest) -> Definition:
        """An agent that has one tool, and asks before it uses it."""
        rule = Rule(tool="pay", role="lead", expires_s=OPEN_S, on_deny=self.on_deny)
        return Definition(
            run=asked.run,
            agent="payer",
            instructions="",
            task="Pay.",
            model="m",
            max_tokens=100,
            tools=[TOOL],
            limits=Limits(),
            rules=[rule],
            price=None,
            requested_by="desk@example.com",
        )

    @activity.defn(name="call_model")
    async def answer(self, call: ModelCall) -> ModelAnswer:
        """The next turn."""
        if call.step > len(self.turns):
            content: list[dict[str, Any]] = [{"type": "text", "text": "That is all."}]
            return ModelAnswer(content=content, stop_reason="end_turn", usage=Usage(), model="m")
        content = [
            {"type": "tool_use", "id": f"t{call.step}.{n}", "name": "pay", "input": arguments}
            for n, arguments in enumerate(self.turns[call.step - 1])
        ]
        return ModelAnswer(content=content, stop_reason="tool_use", usage=Usage(), model="m")

    @activity.defn(name="prepare_action")
    async def prepare(self, wanted: Preparation) -> Prepared:
        """The intent is whom it pays."""
        to = wanted.arguments["to"]
        return Prepared(intent=f"pay:{to}", conflict=self.held.get(to))

    @activity.defn(name="check_authority")
    async def check(self, asked: Authority) -> Objection:
        """Everybody may."""
        return Objection()

    @activity.defn(name="pay")
    async def pay(self, call: ToolCall) -> ToolResult:
        """Pay, unless another action has paid in the meantime and nobody said `again`."""
        held = self.held.get(call.arguments["to"])
        if held and not (call.grant and call.grant.again):
            return ToolResult(content="held", outcome="conflict", attempts=0, conflict=held)
        self.paid.append(call.arguments)
        return ToolResult(content="paid")


@asynccontextmanager
async def running(env: WorkflowEnvironment, world: World) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    """A run of this world."""
    name = f"asking-{id(world)}"
    async with Worker(
        env.client,
        task_queue=name,
        workflows=[AgentRun],
        activities=world.activities(),
        workflow_runner=CheckedRunner(),
    ):
        yield await env.client.start_workflow("AgentRun", {"agent": "payer"}, id=name, task_queue=name)


async def until(handle: WorkflowHandle[Any, Any], look: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Wait until the record is as wanted."""
    async with asyncio.timeout(20):
        while True:
            record: dict[str, Any] = await handle.query("record")
            if look(record):
                return record
            await asyncio.sleep(0.02)


def asks(record: dict[str, Any]) -> bool:
    return record["status"] == "awaiting_approval"


async def said(handle: WorkflowHandle[Any, Any], verdict: str, action_id: str, **more: Any) -> dict[str, Any]:
    """Decide, and hear what becomes of it."""
    decision = {"action_id": action_id, "verdict": verdict, "approver": LEAD, **more}
    answer: dict[str, Any] = await handle.execute_update("decide", decision)
    return answer


async def outcomes(handle: WorkflowHandle[Any, Any]) -> list[tuple[str, str]]:
    """Status and result of each action."""
    return [(one["status"], one["result"]) for one in await handle.query("actions")]


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_request_that_nobody_answers_expires_and_the_model_is_told(server):
    world = World([[{"to": "ana"}]])
    async with running(server, world) as handle:
        asked = await until(handle, asks)

        record = await handle.result()

        [(status, result)] = await outcomes(handle)
        assert (record["status"], status) == ("done", "expired")
        until_when = asked["pending_actions"][0]["expires_at"]
        assert result == f"Nobody decided until {until_when}; the request expired."
        [told] = (await handle.query("steps"))["steps"][0]["tool_results"]
        assert told["is_error"] is True
    assert world.paid == []


async def test_a_decision_after_the_expiry_is_refused_as_expired_and_a_pause_does_not_hold_the_clock(server):
    world = World([[{"to": "ana"}]])
    async with running(server, world) as handle:
        action_id = (await until(handle, asks))["pending_actions"][0]["action_id"]
        await handle.signal("pause", {"by": LEAD})
        await server.sleep(timedelta(seconds=OPEN_S + 1))
        record = await until(handle, lambda record: not record["pending_actions"])

        answer = await said(handle, "approve", action_id)

        assert answer == {"accepted": False, "reason": "expired: nobody decided in time"}
        assert record["status"] == "paused"
        assert [status for status, _ in await outcomes(handle)] == ["expired"]
        await handle.signal("resume", {"by": LEAD})
        assert (await handle.result())["status"] == "done"
    assert world.paid == []


async def test_what_was_denied_is_refused_again_without_asking_again(server):
    world = World([[{"to": "ana"}], [{"to": "ana", "note": "please"}], [{"to": "ben"}]])
    async with running(server, world) as handle:
        denied = (await until(handle, asks))["pending_actions"][0]["action_id"]
        assert (await said(handle, "deny", denied, comment="not her"))["accepted"]

        record = await until(handle, lambda record: record["step"] == 3 and asks(record))

        [pending] = record["pending_actions"]
        assert pending["arguments"] == {"to": "ben"}
        assert (await outcomes(handle))[:2] == [
            ("denied", f"Denied by {LEAD}: not her"),
            ("denied", f"Denied: {LEAD} said no to this before, and it is not asked again."),
        ]
        await said(handle, "approve", pending["action_id"])
        assert (await handle.result())["status"] == "done"
    assert world.paid == [{"to": "ben"}]


async def test_what_was_denied_is_asked_again_after_a_person_has_spoken(server):
    world = World([[{"to": "ana"}], [{"to": "ana"}]])
    async with running(server, world) as handle:
        denied = (await until(handle, asks))["pending_actions"][0]["action_id"]
        await handle.signal("message", {"text": "Try once more, please.", "from": LEAD})
        await said(handle, "deny", denied)

        record = await until(handle, lambda record: record["step"] == 2 and asks(record))

        await said(handle, "approve", record["pending_actions"][0]["action_id"])
        assert (await handle.result())["status"] == "done"
    assert world.paid == [{"to": "ana"}]


async def test_a_no_that_ends_the_run_withdraws_what_else_waits(server):
    world = World([[{"to": "ana"}, {"to": "ben"}]], on_deny="cancel")
    async with running(server, world) as handle:
        record = await until(handle, lambda record: len(record["pending_actions"]) == 2)

        await said(handle, "deny", record["pending_actions"][0]["action_id"])

        record = await handle.result()
        assert (record["status"], record["reason"]) == ("cancelled", f"denied by {LEAD}")
        assert [status for status, _ in await outcomes(handle)] == ["denied", "cancelled"]
    assert world.paid == []


async def test_an_intent_that_was_taken_after_the_approval_is_shown_and_the_same_person_may_approve_again(server):
    world = World([[{"to": "ana"}]])
    async with running(server, world) as handle:
        action_id = (await until(handle, asks))["pending_actions"][0]["action_id"]
        world.held["ana"] = Conflict(run_id="another", action_id="s1.1-000000")
        assert (await said(handle, "approve", action_id))["accepted"]
        record = await until(
            handle, lambda record: record["pending_actions"] and record["pending_actions"][0]["conflict"]
        )

        assert record["pending_actions"][0]["conflict"]["run_id"] == "another"
        assert record["approved_by"] == []
        without = await said(handle, "approve", action_id)
        again = await said(handle, "approve", action_id, again=True)

        assert (without["accepted"], without["reason"][:17]) == (False, "conflict: another")
        assert again == {"accepted": True, "reason": "approved"}
        assert (await handle.result())["status"] == "done"
    assert world.paid == [{"to": "ana"}]
