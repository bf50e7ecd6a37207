"""A run that pays, with what stands in for its activities: they say what they would have said, when they are let."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any, Protocol

import pytest
from asked import until
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from domain.agent import EVENTS, Definition, Limits, Rule
from domain.decisions import Authority, Objection, Standing
from domain.model import ModelAnswer, ModelCall
from domain.raises import Raise
from domain.request import LoadRequest
from domain.spend import Usage
from domain.tool import Effect, Preparation, Prepared, Read, ToolCall, ToolResult, ToolSpec
from workflows.agent_run import AgentRun
from workflows.runner import CheckedRunner

LEAD, CLERK, DESK = "lead@example.com", "clerk@example.com", "desk@example.com"
# A task that goes to a worker which has just left comes back after this long.
TASK_TIMEOUT = timedelta(seconds=2)
EFFECT = Effect(safety="key")
TOOLS = [
    ToolSpec(name="pay", description="", input_schema={}, declares=EFFECT),
    ToolSpec(name="note", description="", input_schema={}, declares=EFFECT),
    ToolSpec(name="look", description="", input_schema={}, declares=Read()),
]
Calls = list[tuple[str, dict[str, Any]]]
Run = WorkflowHandle[Any, Any]


def open_gate() -> asyncio.Event:
    """A gate that holds nobody up."""
    gate = asyncio.Event()
    gate.set()
    return gate


@dataclass
class World:
    """What the stand-ins say, and what they were told. `pay` needs a lead, `note` and `look` need nobody.

    turns: the calls of each step. outcomes: how the next attempts of `pay` end; then it is done. may_not: why an
    approver may not decide. prepare_gate: for the actions of these amounts, what `prepare_action` waits for.
    failures: of these kinds the next answers of the model are.
    """

    turns: list[Calls]
    on_deny: str = "tell"
    from_amount: Decimal | None = None
    expires_s: float = 7 * 24 * 3600.0
    outcomes: list[ToolResult | ApplicationError] = field(default_factory=list)
    prepared: dict[int, Prepared] = field(default_factory=dict)
    may_not: dict[str, str] = field(default_factory=dict)
    prepare_gates: dict[int, asyncio.Event] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    budget_role: str | None = None
    limits: Limits = field(default_factory=Limits)
    events: int = EVENTS
    model_gate: asyncio.Event = field(default_factory=open_gate)
    pay_gate: asyncio.Event = field(default_factory=open_gate)
    check_gate: asyncio.Event = field(default_factory=open_gate)
    ran: list[ToolCall] = field(default_factory=list)
    at_model: asyncio.Event = field(default_factory=asyncio.Event)
    at_pay: asyncio.Event = field(default_factory=asyncio.Event)
    preparing: set[int] = field(default_factory=set)
    checked: list[Authority | Raise] = field(default_factory=list)
    resolved: list[Standing] = field(default_factory=list)
    name: str = field(default_factory=lambda: f"people-{uuid.uuid4().hex}")

    def activities(self) -> list[Callable[..., Any]]:
        """All of them."""
        looked_up = [self.load, self.prepare, self.check, self.check_raise, self.resolve]
        return [*looked_up, self.answer, self.pay, self.note, self.look]

    @activity.defn(name="load_agent")
    async def load(self, asked: LoadRequest) -> Definition:
        """An agent that asks before it pays."""
        rule = Rule(
            tool="pay",
            role="lead",
            on_deny=self.on_deny,
            from_amount=self.from_amount,
            expires_s=self.expires_s,
        )
        return Definition(
            run=asked.run,
            agent="payer",
            instructions="",
            task="Pay.",
            model="m",
            max_tokens=100,
            tools=TOOLS,
            limits=self.limits,
            budget_role=self.budget_role,
            events=self.events,
            rules=[rule],
            price=None,
            requested_by=DESK,
        )

    @activity.defn(name="call_model")
    async def answer(self, call: ModelCall) -> ModelAnswer:
        """The next turn, unless the model fails."""
        self.at_model.set()
        await self.model_gate.wait()
        if self.failures:
            raise ApplicationError("no answer", type=self.failures.pop(0), non_retryable=True)
        if call.step > len(self.turns):
            text: list[dict[str, Any]] = [{"type": "text", "text": "That is all."}]
            return ModelAnswer(content=text, stop_reason="end_turn", usage=Usage(), model="m")
        content = [
            {"type": "tool_use", "id": f"t{call.step}.{n}", "name": name, "input": arguments}
            for n, (name, arguments) in enumerate(self.turns[call.step - 1], start=1)
        ]
        return ModelAnswer(content=content, stop_reason="tool_use", usage=Usage(), model="m")

    @activity.defn(name="prepare_action")
    async def prepare(self, wanted: Preparation) -> Prepared:
        """The intent is what it pays for."""
        amount = wanted.arguments.get("amount", 0)
        self.preparing.add(amount)
        if gate := self.prepare_gates.get(amount):
            await gate.wait()
        return self.prepared.get(amount) or Prepared(intent=f"pay:{amount}", amount=Decimal(amount))

    @activity.defn(name="check_authority")
    async def check(self, asked: Authority) -> Objection:
        """Everybody may, except for whom there is a reason."""
        self.checked.append(asked)
        await self.check_gate.wait()
        return Objection(why=self.may_not.get(asked.decision.approver))

    @activity.defn(name="check_raise")
    async def check_raise(self, asked: Raise) -> Objection:
        """The same."""
        self.checked.append(asked)
        await self.check_gate.wait()
        return Objection(why=self.may_not.get(asked.by))

    @activity.defn(name="resolve_effect")
    async def resolve(self, asked: Standing) -> Objection:
        """The same."""
        self.resolved.append(asked)
        return Objection(why=self.may_not.get(asked.resolution.by))

    @activity.defn(name="pay")
    async def pay(self, call: ToolCall) -> ToolResult:
        """Pay, or end as is said."""
        self.at_pay.set()
        await self.pay_gate.wait()
        self.ran.append(call)
        outcome = self.outcomes.pop(0) if self.outcomes else ToolResult(content=f"paid {call.arguments['amount']}")
        if isinstance(outcome, ApplicationError):
            raise outcome
        return outcome

    @activity.defn(name="note")
    async def note(self, call: ToolCall) -> ToolResult:
        """Write it down."""
        self.ran.append(call)
        return ToolResult(content="noted")

    @activity.defn(name="look")
    async def look(self, call: ToolCall) -> ToolResult:
        """Look."""
        self.ran.append(call)
        return ToolResult(content="seen")

    @property
    def paid(self) -> list[int]:
        """The amounts that were paid."""
        return [call.arguments["amount"] for call in self.ran if call.tool == "pay"]


class Played(Protocol):
    """Stand-ins, and the task queue on which they play."""

    name: str

    def activities(self) -> list[Callable[..., Any]]:
        """All of them."""


@asynccontextmanager
async def working(client: Client, world: Played, *, cached: int = 10) -> AsyncIterator[None]:
    """The worker of a world; one that is to be replaced keeps no run in its memory."""
    worker = Worker(
        client,
        task_queue=world.name,
        workflows=[AgentRun],
        activities=world.activities(),
        workflow_runner=CheckedRunner(),
        max_cached_workflows=cached,
    )
    async with worker:
        yield


async def begin(client: Client, world: Played) -> Run:
    return await client.start_workflow(
        "AgentRun", {"agent": "payer"}, id=world.name, task_queue=world.name, task_timeout=TASK_TIMEOUT
    )


@asynccontextmanager
async def running(env: WorkflowEnvironment, world: Played, *, cached: int = 10) -> AsyncIterator[Run]:
    """A run of this world, and its worker."""
    async with working(env.client, world, cached=cached):
        yield await begin(env.client, world)


async def happened(what: Callable[[], Any]) -> None:
    """Wait until a stand-in was told something."""
    async with asyncio.timeout(30):
        while not what():  # noqa: ASYNC110  it is a stand-in that is waited for, and it has many sides
            await asyncio.sleep(0.01)


def asks(record: dict[str, Any]) -> bool:
    return record["status"] == "awaiting_approval"


async def asked(handle: Run) -> dict[str, Any]:
    """The one action that waits."""
    [pending] = (await until(handle, asks))["pending_actions"]
    return pending


async def say(handle: Run, verdict: str, action_id: str, approver: str = LEAD, **more: Any) -> dict[str, Any]:
    """Decide, and hear what becomes of it."""
    decision = {"action_id": action_id, "verdict": verdict, "approver": approver, **more}
    answer: dict[str, Any] = await handle.execute_update("decide", decision)
    return answer


async def rulings(handle: Run) -> list[tuple[bool, str]]:
    return [(one["accepted"], one["reason"]) for one in await handle.query("decisions")]


async def statuses(handle: Run) -> list[str]:
    return [one["status"] for one in await handle.query("actions")]


async def told(handle: Run, step: int = 1) -> list[tuple[str, bool, str]]:
    """What the model was told of each call of a step."""
    results = (await handle.query("steps", {"from": step, "to": step}))["steps"][0]["tool_results"]
    return [(one["tool_use_id"], one.get("is_error", False), one["content"][0]["text"]) for one in results]


def pay(amount: int) -> tuple[str, dict[str, Any]]:
    return ("pay", {"amount": amount})


def hands(client: Client, world: World) -> Worker:
    """Carries the activities out, whether anybody works on the run or not."""
    return Worker(client, task_queue=world.name, activities=world.activities())


def mind(client: Client, world: World) -> Worker:
    """Works on the run alone: while it is away, what comes is there in one task when it is back."""
    return Worker(
        client,
        task_queue=world.name,
        workflows=[AgentRun],
        workflow_runner=CheckedRunner(),
        max_cached_workflows=0,
    )


@asynccontextmanager
async def away(server: WorkflowEnvironment, world: World) -> AsyncIterator[tuple[Run, str]]:
    """A run that waits, while no worker is up: what is said meanwhile comes in one task, in its order."""
    async with working(server.client, world, cached=0):
        handle = await begin(server.client, world)
        action_id = (await asked(handle))["action_id"]
    yield handle, action_id


async def cancel(handle: Run) -> None:
    """Cancel, and wait until the activity that runs is asked to stop."""
    await handle.cancel()
    async with asyncio.timeout(30):
        while not any(  # noqa: ASYNC110  the server has no event for its events
            event.HasField("activity_task_cancel_requested_event_attributes")
            for event in (await handle.fetch_history()).events
        ):
            await asyncio.sleep(0.02)


async def cancelled(handle: Run) -> dict[str, Any]:
    """The record of a run that was cancelled."""
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, CancelledError)
    record: dict[str, Any] = await handle.query("record")
    return record
