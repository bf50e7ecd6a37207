"""A run and its limits: what it may not spend it does not spend, and a person gives it more.

The workflow is the real one, on Temporal's own test server, whose clock jumps; what stands in for the activities says
what they would have said.
"""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import payers
import pytest
from asked import until
from payers import Run, begin
from temporalio import activity

from domain.agent import Definition, Limits, Rule
from domain.decisions import Authority, Objection
from domain.model import ModelAnswer, ModelCall
from domain.raises import Raise
from domain.request import LoadRequest
from domain.spend import Usage
from domain.tool import Effect, Preparation, Prepared, Read, ToolCall, ToolResult, ToolSpec

LEAD, CLERK, DESK = "lead@example.com", "clerk@example.com", "desk@example.com"
TOOLS = [
    ToolSpec(name="look", description="", input_schema={}, declares=Read()),
    ToolSpec(name="pay", description="", input_schema={}, declares=Effect(safety="key")),
]
SMALL, LAST = Usage(input_tokens=100, output_tokens=44), Usage(input_tokens=130, output_tokens=50)
END = Usage(input_tokens=190, output_tokens=10)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Turn:
    """What the model answers in a step: its calls, what they cost, and whether the first try is cut."""

    calls: list[tuple[str, dict[str, Any]]]
    usage: Usage = SMALL
    cut: bool = False


@dataclass
class World:
    """What the stand-ins say, and what they were told. gate: what the calls of `look` wait for."""

    turns: list[Turn]
    limits: Limits
    role: str | None = None
    max_tokens: int = 100
    may_not: dict[str, str] = field(default_factory=dict)
    gate: asyncio.Event | None = None
    asked: list[ModelCall] = field(default_factory=list)
    looked: list[ToolCall] = field(default_factory=list)
    checked: list[Raise] = field(default_factory=list)
    name: str = field(default_factory=lambda: f"budget-{uuid.uuid4().hex}")

    def activities(self) -> list[Callable[..., Any]]:
        """All of them."""
        return [self.load, self.answer, self.prepare, self.check, self.check_raise, self.look, self.pay]

    @activity.defn(name="load_agent")
    async def load(self, asked: LoadRequest) -> Definition:
        """An agent that asks a lead before it pays."""
        return Definition(
            run=asked.run,
            agent="payer",
            instructions="",
            task="Pay.",
            model="m",
            max_tokens=self.max_tokens,
            tools=TOOLS,
            limits=self.limits,
            budget_role=self.role,
            rules=[Rule(tool="pay", role="lead")],
            price=None,
            requested_by=DESK,
        )

    @activity.defn(name="call_model")
    async def answer(self, call: ModelCall) -> ModelAnswer:
        """The next turn."""
        self.asked.append(call)
        if call.step > len(self.turns):
            text: list[dict[str, Any]] = [{"type": "text", "text": "That is all."}]
            return ModelAnswer(content=text, stop_reason="end_turn", usage=END, model="m")
        turn = self.turns[call.step - 1]
        content = [
            {"type": "tool_use", "id": f"t{call.step}.{n}", "name": name, "input": arguments}
            for n, (name, arguments) in enumerate(turn.calls, start=1)
        ]
        reason = "max_tokens" if turn.cut and call.ask == 1 else "tool_use"
        return ModelAnswer(content=content, stop_reason=reason, usage=turn.usage, model="m")

    @activity.defn(name="prepare_action")
    async def prepare(self, wanted: Preparation) -> Prepared:
        """It can be done."""
        return Prepared()

    @activity.defn(name="check_authority")
    async def check(self, asked: Authority) -> Objection:
        """Everybody may."""
        return Objection()

    @activity.defn(name="check_raise")
    async def check_raise(self, asked: Raise) -> Objection:
        """Everybody may, except for whom there is a reason."""
        self.checked.append(asked)
        return Objection(why=self.may_not.get(asked.by))

    @activity.defn(name="look")
    async def look(self, call: ToolCall) -> ToolResult:
        """Look; the same is seen wherever the same is looked at."""
        self.looked.append(call)
        if self.gate:
            await self.gate.wait()
        return ToolResult(content="seen it now.")

    @activity.defn(name="pay")
    async def pay(self, call: ToolCall) -> ToolResult:
        """Pay."""
        return ToolResult(content="paid 40 to Ana")


# They keep no run in their memory, so that another one can go on.
working, running = partial(payers.working, cached=0), partial(payers.running, cached=0)


def stands(reason: str) -> Callable[[Any], bool]:
    return lambda record: (record["status"], record["reason"]) == ("paused", reason)


async def approve(handle: Run) -> None:
    [pending] = (await until(handle, lambda record: record["status"] == "awaiting_approval"))["pending_actions"]
    decision = {"action_id": pending["action_id"], "verdict": "approve", "approver": LEAD}
    assert (await handle.execute_update("decide", decision))["accepted"]


async def judged(handle: Run, count: int) -> list[tuple[str, bool, str]]:
    """So many rulings: who, whether taken, why."""
    rows = await until(handle, lambda rows: len(rows) >= count, "decisions")
    return [(row["approver"], row["accepted"], row["reason"]) for row in rows]


def looks(count: int, usage: Usage = SMALL) -> list[Turn]:
    """So many steps, each of which looks at something else."""
    return [Turn([("look", {"at": n})], usage) for n in range(count)]


def total(record: dict[str, Any]) -> int:
    return int(record["totals"]["input_tokens"] + record["totals"]["output_tokens"])


async def test_900_of_1000_are_spent_then_a_wait_and_a_restart_and_the_next_call_of_300_is_not_sent(server):
    world = World([*looks(5), Turn([("pay", {"amount": 40})], LAST)], Limits(tokens=1_000))
    async with working(server.client, world):
        handle = await begin(server.client, world)
        waits = await until(handle, lambda record: record["status"] == "awaiting_approval")
        assert total(waits) == 900

    async with working(server.client, world):
        await approve(handle)
        paused = await until(handle, stands("budget"))
        assert total(paused) == 900
        assert paused["error"]["message"] == "tokens: 900 of 1,000 used, and the next call may take 300"
        assert paused["next_command"] == f"dayflow raise {world.name} --tokens 2000"

        await handle.signal("resume", {"by": "ana"})
        await until(handle, lambda record: record["updated_at"] > paused["updated_at"])
        again = await until(handle, stands("budget"))
        assert again["error"] == paused["error"]
        assert len(world.asked) == 6

    async with working(server.client, world):
        await handle.signal("raise_budget", {"by": "ana", "tokens": 2_000})
        record = await handle.result()

    assert (record["status"], total(record)) == ("done", 900 + END.total)
    assert (record["limits"]["tokens"], record["used"]["tokens"]) == (2_000, 1_100)


async def test_where_the_agent_names_a_role_only_who_has_it_and_did_not_ask_may_raise(server):
    world = World(looks(1), Limits(steps=1), role="lead", may_not={CLERK: "below the needed role"})
    async with running(server, world) as handle:
        record = await until(handle, stands("budget"))
        assert record["next_command"] == f"dayflow raise {world.name} --steps 2 --by NAME"

        for by, steps in ((DESK, 5), (CLERK, 5), (LEAD, 5)):
            await handle.signal("raise_budget", {"by": by, "steps": steps})

        await handle.result()
        assert await judged(handle, 3) == [
            (DESK, False, "own request: who asks for the run may not raise its budget"),
            (CLERK, False, "below the needed role"),
            (LEAD, True, "steps 1 → 5"),
        ]
    assert [asked.by for asked in world.checked] == [CLERK, LEAD]


async def test_less_than_is_used_is_refused_and_changes_nothing(server):
    world = World(looks(2), Limits(steps=2))
    async with running(server, world) as handle:
        await until(handle, stands("budget"))

        await handle.signal("raise_budget", {"by": "ana", "steps": 1})

        assert await judged(handle, 1) == [("ana", False, "steps: 2 are used already, 1 is less")]
        assert (await handle.query("record"))["limits"]["steps"] == 2


async def test_a_limit_that_is_reached_in_the_middle_of_five_tools_lets_them_end(server):
    """B84: tools are no model spend: all of them run and are recorded, and the next call is not sent."""
    five = Turn([("look", {"at": n}) for n in range(5)])
    world = World([five], Limits(steps=50), gate=asyncio.Event())
    async with running(server, world) as handle:
        async with asyncio.timeout(30):
            while len(world.looked) < 5:  # noqa: ASYNC110  it is a stand-in that is waited for
                await asyncio.sleep(0.01)
        await handle.signal("raise_budget", {"by": "ana", "steps": 1})
        await judged(handle, 1)
        world.gate.set()

        await until(handle, stands("budget"))
        [step] = (await handle.query("steps"))["steps"]
        assert [result["tool_use_id"] for result in step["tool_results"]] == [f"t1.{n}" for n in range(1, 6)]
        assert not any(result.get("is_error") for result in step["tool_results"])
    assert len(world.asked) == 1


async def test_days_of_waiting_for_a_person_use_up_no_time(server):
    world = World([Turn([("pay", {"amount": 40})])], Limits(seconds=3_600))
    async with running(server, world) as handle:
        await until(handle, lambda record: record["status"] == "awaiting_approval")
        await server.sleep(timedelta(days=2))
        await approve(handle)

        record = await handle.result()

    assert record["status"] == "done"
    assert record["used"]["seconds"] < 60


async def test_an_answer_that_is_cut_for_want_of_budget_waits_for_more_and_gets_its_whole_room_then(server):
    world = World([Turn([("look", {})], SMALL, cut=True)], Limits(tokens=700), max_tokens=1_000)
    async with running(server, world) as handle:
        record = await until(handle, stands("budget"))
        assert "the answer was cut at" in record["error"]["message"]
        assert record["next_command"].startswith(f"dayflow raise {world.name} --tokens ")
        assert len(world.asked) == 1

        await handle.signal("raise_budget", {"by": "ana", "tokens": 20_000})
        await handle.result()

    first, second, *_ = world.asked
    assert 512 <= first.max_tokens < second.max_tokens == 1_000
    assert [(first.step, first.ask), (second.step, second.ask)] == [(1, 1), (1, 2)]


async def test_the_same_call_again_and_again_is_told_and_then_stands_still_until_a_person_lets_it_go_on(server):
    world = World([Turn([("look", {"at": 1})])] * 7, Limits())
    async with running(server, world) as handle:
        record = await until(handle, stands("looping"))
        assert "look was called 5 times" in record["error"]["message"]
        assert record["next_command"] == f"dayflow resume {world.name}"
        errors = [row["tool_results"][0].get("is_error", False) for row in (await handle.query("steps"))["steps"]]
        assert errors == [False, False, True, True, True]

        await handle.signal("resume", {"by": "ana"})
        await handle.result()

    assert len(world.looked) == 4
    assert len(world.asked) == 8


async def test_three_steps_of_tools_that_do_not_exist_stand_still(server):
    world = World([Turn([("rocket", {"n": n})]) for n in range(4)], Limits())
    async with running(server, world) as handle:
        record = await until(handle, stands("unknown tools"))
        assert record["step"] == 3

        await handle.signal("resume", {"by": "ana"})
        await handle.result()


async def test_the_time_before_a_worker_takes_a_run_up_is_not_used_up(server):
    world = World(looks(1), Limits(seconds=600))
    hour = timedelta(hours=1)
    async with working(server.client, world):
        handle = await server.client.start_workflow(
            "AgentRun", {"agent": "payer"}, id=world.name, task_queue=world.name, start_delay=hour
        )
        await server.sleep(hour)
        record = await until(handle, lambda record: record["status"] in ("done", "paused"))

    assert (record["status"], record["reason"]) == ("done", None)
    assert record["used"]["seconds"] < 60
