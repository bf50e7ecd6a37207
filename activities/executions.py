"""The executions that the Temporal server still has: closed ones, those of a run, what they refer to; and their end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from google.protobuf.message import Message
from temporalio.api.common.v1 import WorkflowExecution as ExecutionId
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from domain import errors

# The server deletes in the background; it is asked again after this long.
LOOKS_EVERY_S = 0.1


@dataclass(frozen=True)
class Page:
    """The ids of runs that were closed, each once, by which executions, and where the next page begins."""

    runs: list[str]
    executions: set[str]
    next: bytes | None


class Executions:
    """The executions of one namespace."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def closed(self, kinds: Sequence[str], before: datetime, size: int, token: bytes | None) -> Page:
        """Workflows of these types that were closed before; one that went on in another execution is told by that."""
        old, these = f'CloseTime < "{before.isoformat()}"', ", ".join(f'"{kind}"' for kind in kinds)
        query = f'WorkflowType IN ({these}) AND ExecutionStatus != "ContinuedAsNew" AND {old}'
        found = self._client.list_workflows(query, page_size=size, next_page_token=token)
        await found.fetch_next_page()
        told = found.current_page or ()
        runs, executions = dict.fromkeys(one.id for one in told), {one.run_id for one in told}
        return Page(list(runs), executions, found.next_page_token or None)

    async def newest(self, run_id: str, execution: str | None = None) -> WorkflowExecution | None:
        """The newest execution of a run, or the one that is named; None if the server has none."""
        try:
            return await self._client.get_workflow_handle(run_id, run_id=execution).describe()
        except RPCError as error:
            if _is_gone(error):
                return None
            raise

    async def delete(self, run_id: str) -> None:
        """Let the server delete all executions of a closed run, the newest last; `gone` waits for it."""
        newest = await self.newest(run_id)
        if newest and newest.close_time is None:
            raise errors.Again("it goes on again, and stays")
        others = [one.run_id async for one in self._of(run_id) if newest is None or one.run_id != newest.run_id]
        for execution in [*others, *([newest.run_id] if newest else [])]:
            await self._delete(run_id, execution)

    async def gone(self, run_id: str) -> None:
        """Wait until the server has a run no more; seen: up to ten seconds, however many are deleted at once."""
        while True:
            if await self.newest(run_id) is None:
                return
            await asyncio.sleep(LOOKS_EVERY_S)

    async def told(self) -> AsyncIterator[tuple[str, Message]]:
        """Everything that the server still has of any workflow, with its id: memos, and the events of histories."""
        async for one in self._client.list_workflows():
            yield one.id, one.raw_info
            handle = self._client.get_workflow_handle(one.id, run_id=one.run_id)
            try:
                async for event in handle.fetch_history_events():
                    yield one.id, event
            except RPCError as error:
                if not _is_gone(error):
                    raise

    async def _of(self, run_id: str) -> AsyncIterator[WorkflowExecution]:
        async for one in self._client.list_workflows(f'WorkflowId = "{run_id.replace(chr(34), "")}"'):
            if one.close_time is not None:
                yield one

    async def _delete(self, run_id: str, execution: str) -> None:
        wanted = ExecutionId(workflow_id=run_id, run_id=execution)
        try:
            await self._client.workflow_service.delete_workflow_execution(
                DeleteWorkflowExecutionRequest(namespace=self._client.namespace, workflow_execution=wanted)
            )
        except RPCError as error:
            if not _is_gone(error):
                raise


def _is_gone(error: RPCError) -> bool:
    """Whether the execution is not there; a namespace that is not there is another thing."""
    return error.status is RPCStatusCode.NOT_FOUND and "amespace" not in error.message
