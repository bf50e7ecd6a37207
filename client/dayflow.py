"""The typed client: start runs, look at them, talk to them. What the command does, a program can do by this."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution as ExecutionId
from temporalio.api.enums.v1 import EventType, ResetReapplyExcludeType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from client import history, workers
from client.replay import Replayed, replay, worked_in
from client.run import Run
from domain import commands, errors
from domain.model import ModelCall
from domain.request import missing_key
from workflows.agent_run import AGENT
from workflows.steps import TASK_TIMEOUT

TASK_QUEUE = "dayflow"
RUNS = 'WorkflowType = "AgentRun"'


class Dayflow:
    """Runs on one Temporal namespace."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def start(self, run_id: str, request: dict[str, Any], task_queue: str = TASK_QUEUE) -> None:
        """Start a run; `errors.Refused` if the id is in use."""
        try:
            await self.client.start_workflow(
                "AgentRun",
                request,
                id=run_id,
                task_queue=task_queue,
                task_timeout=TASK_TIMEOUT,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            )
        except WorkflowAlreadyStartedError:
            await self.check_unused(run_id)
            raise errors.BadRequest(f"the id {run_id!r} is that of another workflow; choose another --id") from None

    async def check_unused(self, run_id: str) -> None:
        """`errors.BadRequest` if there is a run of this id, or was one."""
        try:
            told = await self._describe(run_id, None)
        except errors.NotFound:
            return
        if told.status is WorkflowExecutionStatus.RUNNING:
            on = commands.line("resume", run_id)
            raise errors.BadRequest(f"the run id {run_id!r} is in use; `{on}` goes on with it, or choose another --id")
        show = commands.line("show", run_id)
        raise errors.BadRequest(f"the run id {run_id!r} was used before (`{show}`); choose another --id")

    async def get(self, run_id: str, execution: str | None = None) -> Run:
        """A run by its id, its newest execution unless one is named; `errors.NotFound` if there is none."""
        told = await self._describe(run_id, execution)
        return await self._look(told, await self._events(told))

    async def last(self, run_id: str, execution: str | None = None) -> Run:
        """The same, but for a start that was refused because the id was used: then the run that it belongs to."""
        told = await self._begun(run_id, execution)
        return await self._look(told, await self._events(told))

    async def executions(self, run_id: str, execution: str | None = None) -> list[Run]:
        """The executions that a run went through by continuing as new, oldest first, up to `last`; those still kept."""
        return [await self._look(told, events) for told, events in await self._histories(run_id, execution)]

    async def events(self, run_id: str, execution: str | None = None) -> list[HistoryEvent]:
        """The whole history of a run's execution."""
        return await self._events(await self._describe(run_id, execution))

    async def newest(self, *, unfinished: bool) -> str | None:
        """The id of the newest run."""
        query = RUNS + (' AND ExecutionStatus = "Running"' if unfinished else "")
        async for found in self.client.list_workflows(query, limit=1):
            return found.id
        return None

    async def unfinished(self, limit: int) -> list[str]:
        """The ids of runs that are open, the newest first."""
        query = RUNS + ' AND ExecutionStatus = "Running"'
        return [found.id async for found in self.client.list_workflows(query, limit=limit)]

    async def runs(self, limit: int, *, agent: str | None = None) -> tuple[list[Run], list[str]]:
        """The newest runs first, each once; and why others of them cannot be read."""
        ids: dict[str, WorkflowExecution] = {}
        query = RUNS + (f' AND DayflowAgent = "{agent}"' if agent else "")
        async for found in self.client.list_workflows(query):
            ids.setdefault(found.id, found)
            if len(ids) >= limit:
                break
        all_ = await asyncio.gather(*map(self._readable, ids))
        runs = sorted((one for one in all_ if isinstance(one, Run)), key=lambda run: run.started_at, reverse=True)
        return runs, [one for one in all_ if isinstance(one, str)]

    async def follow(self, run_id: str) -> AsyncIterator[Run]:
        """The run, again and again as it changes, until it is closed. Costs the run nothing: only its history is read.

        Replaying takes longer the longer the history is; in between it rests for three times as long as that took.
        """
        execution: str | None = None
        while True:
            last = None
            async for last in self._follow(await self._describe(run_id, execution)):
                yield last
            if last is None or last.went_on_in is None:
                return
            execution = last.went_on_in

    async def _follow(self, told: WorkflowExecution) -> AsyncIterator[Run]:
        """One execution, until it is closed."""
        events: list[HistoryEvent] = []
        grown = asyncio.Event()
        feed = asyncio.create_task(self._feed(told, events, grown))
        try:
            while not feed.done():
                await _either(grown, feed)
                grown.clear()
                began = time.monotonic()
                yield await self._run(told, list(events))
                await asyncio.sleep(3 * (time.monotonic() - began))
            feed.result()
            yield await self.get(told.id, told.run_id)
        finally:
            feed.cancel()

    async def signal(self, run_id: str, name: str, content: dict[str, Any]) -> None:
        """Send a signal; `errors.NotFound` if the run is unknown or closed."""
        try:
            await self._handle(run_id).signal(name, content)
        except RPCError as error:
            raise _not_found(error, run_id) from None

    async def cancel(self, run_id: str) -> None:
        """Ask a run to stop; effects that are under way come to their end first. The server takes it of any run."""
        if (await self._describe(run_id, None)).status is not WorkflowExecutionStatus.RUNNING:
            raise _closed(run_id)
        try:
            await self._handle(run_id).cancel()
        except RPCError as error:
            raise _not_found(error, run_id) from None

    async def queue(self, run_id: str) -> str:
        """The task queue of a run; `errors.NotFound` if there is none."""
        return (await self._describe(run_id, None)).task_queue

    async def decide(self, run_id: str, decision: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a decision and wait for what becomes of it; the same `decision_id` again is the same decision."""
        handle = self._handle(run_id)
        try:
            answer: dict[str, Any] = await handle.execute_update(
                "decide", decision, id=str(decision["decision_id"]), rpc_timeout=timedelta(seconds=seconds)
            )
        except WorkflowUpdateFailedError:
            return {"accepted": False, "reason": "the run was reset, or ended, before it was judged"}
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            raise errors.Unreachable(
                f"{run_id} did not answer within {seconds:g} s, and may still take the decision. See that a worker is "
                f"up (`dayflow up`); then `{commands.line('decisions', run_id)}` shows what became of it"
            ) from None
        except RPCError as error:
            raise _not_found(error, run_id) from None
        return answer

    async def waiting(self) -> tuple[list[dict[str, Any]], list[str]]:
        """What waits for a person, over all runs, and why others cannot be read; from what the runs publish."""
        statuses = '"awaiting_approval", "awaiting_resolution", "paused"'
        query = f'{RUNS} AND DayflowStatus IN ({statuses}) AND ExecutionStatus = "Running"'
        rows: list[dict[str, Any]] = []
        lost: list[str] = []
        async for found in self.client.list_workflows(query, page_size=1000):
            pending = (await found.memo()).get("pending", [])
            if key := missing_key([pending]):
                lost.append(_unreadable(found.id, errors.MissingKey(key)))
            else:
                rows += [{"run_id": found.id, **one} for one in pending]
        return rows, lost

    async def reset_failed(self, run: Run) -> None:
        """Let a failed run go on: reset to the workflow task that scheduled the activity that failed.

        One that was ended from outside goes on from its newest workflow task that scheduled an activity.
        """
        events = await self.events(run.run_id, run.execution)
        point = history.newest_task(events) if run.forced_end else history.failed_task(events)
        if point is None:
            raise errors.Refused(f"{run.run_id} failed by itself, not by a part that failed; start a new run instead")
        await self.reset(run.run_id, run.execution, point)

    async def reset_point(self, run_id: str, step: int) -> tuple[str, int]:
        """The execution that asked the model for a step, and the workflow task in it that did."""
        for told, events in reversed(await self._histories(run_id)):
            for event in events:
                call = event.activity_task_scheduled_event_attributes
                if call.activity_type.name == "call_model":
                    asked = (await self.client.data_converter.decode(call.input.payloads, [ModelCall]))[0]
                    if asked.step == step:
                        return told.run_id, call.workflow_task_completed_event_id
        listed = commands.line("steps", run_id)
        raise errors.NotFound(f"{run_id} has no step {step} to go on from; `{listed}` lists them")

    async def reset(self, run_id: str, execution: str, point: int) -> None:
        """Reset a run. What people decided after the point is not decided again by itself."""
        none_again = [
            ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL,
            ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
        ]
        await self.client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=self.client.namespace,
                workflow_execution=ExecutionId(workflow_id=run_id, run_id=execution),
                reason="dayflow reset",
                workflow_task_finish_event_id=point,
                request_id=str(uuid.uuid4()),
                reset_reapply_exclude_types=none_again,
            )
        )

    async def has_worker(self, task_queue: str, *, besides: str | None = None) -> bool:
        """Whether a worker asks for the work of this task queue, besides the one of this identity."""
        return any(one != besides for one in await workers.asking(self.client, task_queue))

    async def divergence(self, run_id: str) -> str | None:
        """Where today's code leaves a run's history, in any of its executions; None if it nowhere does."""
        for _, events in await self._histories(run_id):
            whole = await self._replay(run_id, events)
            if whole.divergence:
                return whole.divergence
        return None

    async def _histories(
        self, run_id: str, execution: str | None = None
    ) -> list[tuple[WorkflowExecutionDescription, list[HistoryEvent]]]:
        """Each execution of a run that is still kept, and its history, oldest first."""
        told = await self._begun(run_id, execution)
        found = [(told, await self._events(told))]
        with contextlib.suppress(errors.NotFound):
            while earlier := history.came_from(found[-1][1]):
                told = await self._describe(run_id, earlier)
                found.append((told, await self._events(told)))
        return found[::-1]

    def _handle(self, run_id: str, execution: str | None = None) -> WorkflowHandle[Any, Any]:
        if not run_id:
            raise errors.BadRequest("the run id is empty; `dayflow runs` lists those that exist")
        return self.client.get_workflow_handle(run_id, run_id=execution)

    async def _events(self, told: WorkflowExecution) -> list[HistoryEvent]:
        handle = self._handle(told.id, told.run_id)
        return [event async for event in handle.fetch_history_events()]

    async def _readable(self, run_id: str) -> Run | str:
        try:
            return await self.get(run_id)
        except (errors.Lost, errors.MissingKey) as error:
            return _unreadable(run_id, error)

    async def _begun(self, run_id: str, execution: str | None) -> WorkflowExecutionDescription:
        """The execution that is named, else the newest one that has an agent; one that was refused never has."""
        told = await self._describe(run_id, execution)
        if execution is None and told.status is WorkflowExecutionStatus.FAILED and not _agent(told):
            async for other in self._of(run_id):
                if _agent(other):
                    return await self._describe(run_id, other.run_id)
        return told

    async def _describe(self, run_id: str, execution: str | None) -> WorkflowExecutionDescription:
        try:
            told = await self._handle(run_id, execution).describe()
        except RPCError as error:
            raise _not_found(error, run_id) from None
        if told.workflow_type != "AgentRun":
            raise errors.NotFound(f"{run_id!r} is a workflow of type {told.workflow_type}, not a run of Dayflow")
        return told

    async def _replay(self, run_id: str, events: Sequence[HistoryEvent]) -> Replayed:
        return await replay(run_id, self.client.namespace, events, self.client.data_converter)

    async def _look(self, told: WorkflowExecutionDescription, events: list[HistoryEvent]) -> Run:
        """The run, and which of its parts are tried again or lost at this moment."""
        run = await self._run(told, events)
        pending = told.raw_description.pending_activities
        again = (one for one in pending if one.attempt > 1 and one.HasField("last_failure"))
        run.retrying = [await history.retrying(one, self.client.data_converter) for one in again]
        run.lost = [one.activity_type.name for one in pending if history.lost(one)]
        return run

    async def _run(self, told: WorkflowExecution, events: list[HistoryEvent]) -> Run:
        recorded = worked_in(events)
        ahead = events[len(recorded) :]
        replayed = await self._replay(told.id, recorded)
        end = history.ENDS.get(events[-1].event_type) if events else None
        said = replayed.state is not None and replayed.state.closed
        came_from = history.came_from(events)
        if replayed.state is None and came_from:  # no worker has taken this execution up yet
            replayed.state = (await self.get(told.id, came_from)).state
        went_on_in = history.went_on_in(events)
        return Run(
            run_id=told.id,
            execution=told.run_id,
            task_queue=told.task_queue,
            open=end is None,
            started_at=replayed.state.started_at if replayed.state else told.start_time,
            state=replayed.state,
            forced_end=end if not said and not went_on_in else None,
            warning=await history.failing_task(events, self.client.data_converter),
            unheard=history.sent(ahead),
            task_open=any(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED for event in ahead),
            other_executions=await self._others(told),
            came_from=came_from,
            went_on_in=went_on_in,
        )

    async def _feed(self, told: WorkflowExecution, events: list[HistoryEvent], grown: asyncio.Event) -> None:
        """Append to `events` what the history gains, until the execution is closed.

        A task that is tried again is sent while it is under way, and sent anew under the same ids once it is recorded.
        """
        handle = self._handle(told.id, told.run_id)
        async for event in handle.fetch_history_events(wait_new_event=True):
            while events and events[-1].event_id >= event.event_id:
                events.pop()
            events.append(event)
            grown.set()

    async def _others(self, told: WorkflowExecution) -> list[str]:
        """Other executions of the same id: before a reset, or before a hand-over."""
        return [other.run_id async for other in self._of(told.id) if other.run_id != told.run_id]

    def _of(self, run_id: str) -> AsyncIterator[WorkflowExecution]:
        """The executions of an id, the newest first."""
        return self.client.list_workflows(f'WorkflowId = "{run_id.replace(chr(34), "")}"', limit=50)


def _agent(told: WorkflowExecution) -> str | None:
    return told.typed_search_attributes.get(AGENT)


async def _either(event: asyncio.Event, task: asyncio.Task[None]) -> None:
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _unreadable(run_id: str, error: errors.DayflowError) -> str:
    return f"{run_id} cannot be read: {error}"


def _closed(run_id: str) -> errors.NotFound:
    return errors.NotFound(f"the run {run_id!r} is closed; `{commands.line('show', run_id)}` shows how it ended")


def _not_found(error: RPCError, run_id: str) -> errors.DayflowError:
    """NOT_FOUND may mean the run or the whole namespace: read the text before believing it."""
    if error.status is RPCStatusCode.NOT_FOUND and "amespace" not in error.message:
        if "already completed" in error.message:
            return _closed(run_id)
        return errors.NotFound(f"there is no run {run_id!r}; `dayflow runs` lists those that exist")
    return errors.Unreachable(f"the Temporal server could not answer: {error.message}")
