"""A tool that reads a store which cannot be used is run again until it can, on a clock that jumps."""

from typing import Any

import pytest
from temporalio import activity
from temporalio.worker import Worker

from domain import errors
from domain.agent import Definition, Limits
from domain.model import ModelAnswer, ModelCall
from domain.request import LoadRequest
from domain.spend import Usage
from domain.tool import Read, ToolCall, ToolResult, ToolSpec
from workflows import steps
from workflows.agent_run import AgentRun
from workflows.runner import CheckedRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOOK = ToolSpec(name="look", description="", input_schema={}, declares=Read())
# More attempts than a tool has that ends its worker.
AWAY = 2 * (steps.READ_RETRIES.maximum_attempts or 0) + 1


@activity.defn(name="load_agent")
async def load(asked: LoadRequest) -> Definition:
    """An agent that only looks."""
    return Definition(
        run=asked.run,
        agent="looker",
        instructions="",
        task="Look.",
        model="m",
        max_tokens=100,
        tools=[LOOK],
        limits=Limits(),
        rules=[],
        price=None,
    )


@activity.defn(name="call_model")
async def answer(call: ModelCall) -> ModelAnswer:
    """Look, then end."""
    use: list[dict[str, Any]] = [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]
    content = use if call.step == 1 else [{"type": "text", "text": "I have looked."}]
    reason = "tool_use" if call.step == 1 else "end_turn"
    return ModelAnswer(content=content, stop_reason=reason, usage=Usage(), model="m")


async def test_a_reading_tool_waits_for_the_store_and_no_model_hears_of_it(server):
    attempts = []

    @activity.defn(name="look")
    async def look(call: ToolCall) -> ToolResult:
        attempts.append(call)
        if len(attempts) <= AWAY:
            raise errors.Unreachable("the store cannot be used")
        return ToolResult(content="found")

    async with Worker(
        server.client,
        task_queue="store-away",
        workflows=[AgentRun],
        activities=[load, answer, look],
        workflow_runner=CheckedRunner(),
    ):
        run = await server.client.start_workflow(
            "AgentRun", {"agent": "looker"}, id="store-away", task_queue="store-away"
        )
        record = await run.result()
        [action] = await run.query("actions")

    assert (record["status"], action["status"], action["result"]) == ("done", "done", "found")
    assert len(attempts) == AWAY + 1
