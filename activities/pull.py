"""The transcript, pulled by the model's activity from its own workflow and checked against its digest.

What this process itself answered and ran since the last call is put together first; the digest says whether it was so.
Where it was not, or where others had a part in it, the rest comes by query, which leaves no trace in history.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from domain import digest, transcript
from domain.agent import Definition
from domain.model import ModelAnswer, ModelCall
from domain.tool import ToolCall, ToolResult
from domain.transcript import Message, Page

CACHE_BYTES = 64_000_000
QUERY_TIMEOUT = timedelta(seconds=10)


@dataclass
class Turn:
    """What the model said last, and what the tools answered to it, by position: as far as it was in this process."""

    said: list[dict[str, Any]] = field(default_factory=list)
    results: dict[int, ToolResult] = field(default_factory=dict)

    def messages(self) -> list[Message]:
        """The two messages that it makes, if every result is here; else none."""
        calls = [block for block in self.said if block.get("type") == "tool_use"]
        if not calls or sorted(self.results) != list(range(1, len(calls) + 1)):
            return []
        found = [(call["id"], self.results[position]) for position, call in enumerate(calls, start=1)]
        results = [transcript.tool_result(id, one.content, is_error=one.is_error) for id, one in found]
        return [transcript.assistant(self.said), transcript.user(results)]


@dataclass
class Copy:
    """What this process has of one transcript; `heads[n]` is the digest over the definition and n messages."""

    definition: Definition
    epoch: int
    heads: list[str]
    messages: list[Message] = field(default_factory=list)
    size: int = 0
    turn: Turn = field(default_factory=Turn)

    def foresee(self, call: ModelCall) -> None:
        """Add the last turn, if the call says that it was so."""
        known, turn = len(self.messages), self.turn.messages()
        self.turn = Turn()
        for message in turn:
            self.append(message)
        if not self.agrees(call):
            self.cut(known)

    def cut(self, length: int) -> None:
        """Drop what comes after so many messages."""
        self.size -= sum(len(digest.canonical(message)) for message in self.messages[length:])
        del self.messages[length:], self.heads[length + 1 :]

    def append(self, message: Message) -> None:
        """Add the next message."""
        data = digest.canonical(message)
        self.messages.append(message)
        self.heads.append(digest.link(self.heads[-1], data))
        self.size += len(data)

    def agrees(self, call: ModelCall) -> bool:
        """Whether the first `length` messages are the ones that the call means."""
        return self.epoch == call.epoch and len(self.messages) >= call.length and self.heads[call.length] == call.digest


class Transcripts:
    """A small cache of transcripts, by execution, of at most so many runs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._copies: OrderedDict[str, Copy] = OrderedDict()

    async def pull(self, call: ModelCall) -> tuple[Definition, list[Message]]:
        """The definition and exactly the messages that the call names.

        A copy that does not agree is thrown away and pulled anew; if that one disagrees too, the attempt fails.
        """
        execution = _execution()
        handle = activity.client().get_workflow_handle(activity.info().workflow_id or "", run_id=execution)
        copy = self._copies.pop(execution, None)
        if copy is not None:
            copy.foresee(call)
            await _extend(handle, copy, call)
        if copy is None or not copy.agrees(call):
            copy = await _begin(handle, call)
            await _extend(handle, copy, call)
        if not copy.agrees(call):
            raise ApplicationError(f"the transcript of step {call.step} is not the one that was meant", type="broken")
        self._keep(execution, copy)
        return copy.definition, copy.messages[: call.length]

    def loaded(self, definition: Definition) -> None:
        """A run begins: with its definition, and its task as the first message."""
        copy = Copy(definition, 0, [digest.sha256(definition.model_dump(mode="json"))])
        copy.append(transcript.user_text(definition.task))
        self._keep(_execution(), copy)

    def answered(self, answer: ModelAnswer) -> None:
        """The model said this to a run."""
        if copy := self._copies.get(_execution()):
            copy.turn = Turn(answer.content)

    def acted(self, call: ToolCall, result: ToolResult) -> None:
        """A tool answered this to a run."""
        if copy := self._copies.get(_execution()):
            copy.turn.results[call.position] = result

    def _keep(self, execution: str, copy: Copy) -> None:
        self._copies[execution] = copy
        while len(self._copies) > 1 and self._full():
            self._copies.popitem(last=False)

    def _full(self) -> bool:
        return len(self._copies) > self._most or sum(kept.size for kept in self._copies.values()) > CACHE_BYTES


class Foresight(Interceptor):
    """Lets the transcripts see what the activities of this process answer."""

    def __init__(self, transcripts: Transcripts) -> None:
        self._transcripts = transcripts

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Stand before each activity."""
        return _Seeing(next, self._transcripts)


class _Seeing(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, transcripts: Transcripts) -> None:
        super().__init__(next)
        self._transcripts = transcripts

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        result = await super().execute_activity(input)
        match result, *input.args:
            case Definition(), *_:
                self._transcripts.loaded(result)
            case ModelAnswer(), *_:
                self._transcripts.answered(result)
            case ToolResult(), ToolCall() as call:
                self._transcripts.acted(call, result)
        return result


def _execution() -> str:
    return activity.info().workflow_run_id or ""


async def _begin(handle: WorkflowHandle[Any, Any], call: ModelCall) -> Copy:
    definition = await _ask(handle, "definition")
    return Copy(Definition.model_validate(definition), call.epoch, [digest.sha256(definition)])


async def _extend(handle: WorkflowHandle[Any, Any], copy: Copy, call: ModelCall) -> None:
    while copy.epoch == call.epoch and len(copy.messages) < call.length:
        wanted = {"from": len(copy.messages), "to": call.length}
        page = Page.model_validate(await _ask(handle, "transcript", wanted))
        if page.epoch != call.epoch or not page.messages:
            return
        for message in page.messages:
            copy.append(message)


async def _ask(handle: WorkflowHandle[Any, Any], query: str, *args: Any) -> Any:
    """Ask the workflow; give up when this worker shuts down, for it may be the one that has to answer."""
    asked = asyncio.ensure_future(handle.query(query, *args, rpc_timeout=QUERY_TIMEOUT))
    stopping = asyncio.ensure_future(activity.wait_for_worker_shutdown())
    try:
        await asyncio.wait({asked, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise ApplicationError("the worker shuts down", type="worker shutdown")
        return asked.result()
    finally:
        asked.cancel()
        stopping.cancel()
