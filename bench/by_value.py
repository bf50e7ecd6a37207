"""For comparison: the same run, whose model call gets the whole list of messages as its argument; and a bare loop.

`ByValue` is Dayflow's own run and differs in that alone. `BareLoop` is what one writes first: it loads no agent, has no
state to ask for, no search attributes and no people. Neither has a ledger; the activities have Dayflow's timeouts,
heartbeats, retries and summaries.
"""

import asyncio
from typing import Any

from temporalio import workflow

from domain import transcript
from domain.model import ModelAnswer
from domain.tool import Read, ToolCall, ToolSpec
from domain.transcript import Message

with workflow.unsafe.imports_passed_through():
    from workflows import steps
    from workflows.agent_run import AgentRun

CALL_MODEL = "call_model_with_messages"


@workflow.defn(name="ByValue")
class ByValue(AgentRun):
    """A run of Dayflow's that passes its transcript instead of its length and digest."""

    @workflow.init
    def __init__(self, *raw: Any) -> None:
        super().__init__(*raw)

    @workflow.run
    async def run(self, *raw: Any) -> dict[str, Any]:
        """The record."""
        return await super().run(*raw)

    async def _ask(self) -> ModelAnswer:
        return await _call_model(self.state.step + 1, self.state.transcript.messages)


@workflow.defn(name="BareLoop")
class BareLoop:
    """Ask, run what was asked for, append, ask again."""

    @workflow.run
    async def run(self, task: str) -> str:
        """The model's last words."""
        messages = [transcript.user_text(task)]
        step = 0
        while True:
            step += 1
            answer = await _call_model(step, messages)
            messages.append(transcript.assistant(answer.content))
            calls = answer.blocks("tool_use")
            if not calls:
                return answer.text
            results = await asyncio.gather(*(self._tool(step, at, call) for at, call in enumerate(calls, 1)))
            messages.append(transcript.user(list(results)))

    async def _tool(self, step: int, position: int, call: dict[str, Any]) -> dict[str, Any]:
        name, arguments = call["name"], call["input"]
        asked = ToolCall(step=step, position=position, action_id=f"s{step}.{position}", tool=name, arguments=arguments)
        tool = ToolSpec(name=name, description="", input_schema={}, declares=Read())
        result = await steps.start_tool(asked, tool)
        return transcript.tool_result(call["id"], result.content, is_error=result.is_error)


async def _call_model(step: int, messages: list[Message]) -> ModelAnswer:
    answer: ModelAnswer = await workflow.execute_activity(
        CALL_MODEL,
        messages,
        result_type=ModelAnswer,
        start_to_close_timeout=steps.MODEL_ATTEMPT,
        heartbeat_timeout=steps.HEARTBEAT,
        retry_policy=steps.MODEL_RETRIES,
        summary=f"step {step}",
    )
    return answer
