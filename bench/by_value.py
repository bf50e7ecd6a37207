"""The usual script for comparison: the same loop, whose model call gets the whole list of messages as its argument."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow

from domain import transcript
from domain.model import ModelAnswer
from domain.tool import ToolCall, ToolResult

CALL_MODEL = "call_model_with_messages"
TIMEOUT = timedelta(minutes=30)


@workflow.defn(name="ByValue")
class ByValue:
    """Ask, run what was asked for, append, ask again: no ledger, no state, no search attributes, no people."""

    @workflow.run
    async def run(self, task: str) -> str:
        """The model's last words."""
        messages = [transcript.user_text(task)]
        step = 0
        while True:
            step += 1
            answer = await self._call_model(messages)
            messages.append(transcript.assistant(answer.content))
            calls = answer.blocks("tool_use")
            if not calls:
                return answer.text
            results = await asyncio.gather(*(self._tool(step, at, call) for at, call in enumerate(calls, 1)))
            messages.append({"role": "user", "content": list(results)})

    async def _call_model(self, messages: list[dict[str, Any]]) -> ModelAnswer:
        answer: ModelAnswer = await workflow.execute_activity(
            CALL_MODEL, messages, result_type=ModelAnswer, start_to_close_timeout=TIMEOUT
        )
        return answer

    async def _tool(self, step: int, position: int, call: dict[str, Any]) -> dict[str, Any]:
        asked = ToolCall(
            step=step, position=position, action_id=f"s{step}.{position}", tool=call["name"], arguments=call["input"]
        )
        result: ToolResult = await workflow.execute_activity(
            call["name"], asked, result_type=ToolResult, start_to_close_timeout=TIMEOUT
        )
        return transcript.tool_result(call["id"], result.content, is_error=result.is_error)
