"""The transcript, pulled by the model's activity from its own workflow and checked against its digest."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import WorkflowHandle
from temporalio.exceptions import ApplicationError

from domain import digest
from domain.agent import Definition
from domain.model import ModelCall
from domain.transcript import Message, Page

CACHE_BYTES = 64_000_000
CACHED = 80
QUERY_TIMEOUT = timedelta(seconds=10)


@dataclass
class Copy:
    """What this process has of one transcript; `heads[n]` is the digest over the definition and n messages."""

    definition: Definition
    epoch: int
    heads: list[str]
    messages: list[Message] = field(default_factory=list)
    size: int = 0

    def append(self, message: Message) -> None:
        """Add the next message."""
        self.messages.append(message)
        self.heads.append(digest.chain(self.heads[-1], message))
        self.size += len(digest.canonical(message))

    def agrees(self, call: ModelCall) -> bool:
        """Whether the first `length` messages are the ones that the call means."""
        return self.epoch == call.epoch and len(self.messages) >= call.length and self.heads[call.length] == call.digest


class Transcripts:
    """A small cache of transcripts, by execution. What it lacks comes by query, which leaves no trace in history."""

    def __init__(self) -> None:
        self._copies: OrderedDict[str, Copy] = OrderedDict()

    async def pull(self, call: ModelCall) -> tuple[Definition, list[Message]]:
        """The definition and exactly the messages that the call names.

        A copy that does not agree is thrown away and pulled anew; if that one disagrees too, the attempt fails.
        """
        info = activity.info()
        execution = info.workflow_run_id or ""
        handle = activity.client().get_workflow_handle(info.workflow_id or "", run_id=execution)
        copy = self._copies.pop(execution, None)
        if copy is not None:
            await _extend(handle, copy, call)
        if copy is None or not copy.agrees(call):
            copy = await _begin(handle, call)
            await _extend(handle, copy, call)
        if not copy.agrees(call):
            raise ApplicationError(f"the transcript of step {call.step} is not the one that was meant", type="broken")
        self._keep(execution, copy)
        return copy.definition, copy.messages[: call.length]

    def _keep(self, execution: str, copy: Copy) -> None:
        self._copies[execution] = copy
        while len(self._copies) > 1 and self._full():
            self._copies.popitem(last=False)

    def _full(self) -> bool:
        return len(self._copies) > CACHED or sum(kept.size for kept in self._copies.values()) > CACHE_BYTES


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
