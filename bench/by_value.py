"""The usual script for comparison: the same loop, whose model call gets the whole list of messages as its argument.

Its activities have Dayflow's timeouts, heartbeats, retries and summaries, so that the messages are what differs. It has
no ledger, no state to ask for, no search attributes and no people.
"""

import asyncio
from typing import Any

from temporalio import workflow

from domain import transcript
from domain.model import ModelAnswer
from domain.tool import Read, ToolCall, ToolSpec

with workflow.unsafe.imports_passed_through():
    from workflows import steps

CALL_MODEL = "call_model_with_messages"


@workflow.defn(name="ByValue")
class ByValue:
    """Ask, run what was asked for, append, ask again."""

    @workflow.run
    async def run(self, task: str) -> str:
        """The model's last words."""
        messages = [transcript.user_text(task)]
        step = 0
        while True:
            step += 1
            answer = await self._call_model(step, messages)
            messages.append(transcript.assistant(answer.content))
            calls = answer.blocks("tool_use")
            if not calls:
                return answer.text
            results = await asyncio.gather(*(self._tool(step, at, call) for at, call in enumerate(calls, 1)))
            messages.append({"role": "user", "content": list(results)})

    async def _call_model(self, step: int, messages: list[dict[str, Any]]) -> ModelAnswer:
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

    async def _tool(self, step: int, position: int, call: dict[str, Any]) -> dict[str, Any]:
        name, arguments = call["name"], call["input"]
        asked = ToolCall(step=step, position=position, action_id=f"s{step}.{position}", tool=name, arguments=arguments)
        tool = ToolSpec(name=name, description="", input_schema={}, declares=Read())
        result = await steps.start_tool(asked, tool)
        return transcript.tool_result(call["id"], result.content, is_error=result.is_error)
