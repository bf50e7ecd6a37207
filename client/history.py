"""What the events of a history say, and the failures in them."""

from collections.abc import Sequence
from typing import Any

from temporalio.api.enums.v1 import EventType, PendingActivityState, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import DataConverter
from temporalio.exceptions import FailureError

from client import workers
from client.codec import key_of
from domain import errors

# The last event of an execution that is closed; the text where the run itself could not say how it ended.
ENDS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: "completed",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "failed",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: "cancelled",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "terminated from outside",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "timed out",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: "continued as new",
}


def came_from(events: Sequence[HistoryEvent]) -> str | None:
    """The execution that this one continues."""
    first = events[0] if events else HistoryEvent()
    return first.workflow_execution_started_event_attributes.continued_execution_run_id or None


def went_on_in(events: Sequence[HistoryEvent]) -> str | None:
    """The execution that continues this one."""
    last = events[-1] if events else HistoryEvent()
    return last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id or None


def sent(events: Sequence[HistoryEvent]) -> list[str]:
    """The names of the signals among them, and `cancel` for the wish that it ends."""
    return [name for name in map(_sent, events) if name]


def _sent(event: HistoryEvent) -> str:
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
        return "cancel"
    return event.workflow_execution_signaled_event_attributes.signal_name


def failed_task(events: list[HistoryEvent]) -> int | None:
    """The workflow task that scheduled the activity that failed last."""
    by_id = {event.event_id: event for event in events}
    for event in reversed(events):
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
            scheduled = by_id[event.activity_task_failed_event_attributes.scheduled_event_id]
            return scheduled.activity_task_scheduled_event_attributes.workflow_task_completed_event_id
    return None


def newest_task(events: list[HistoryEvent]) -> int | None:
    """The newest workflow task that scheduled an activity, else the first one of an execution that went on."""
    points = (event.activity_task_scheduled_event_attributes.workflow_task_completed_event_id for event in events)
    done = (event for event in events if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
    first = next((event.event_id for event in done), None)
    return max((point for point in points if point), default=first)


async def failing_task(events: list[HistoryEvent], converter: DataConverter) -> str | None:
    """The message of the newest workflow task, if it failed; a reset ends one as failed, too, and is no trouble."""
    for event in reversed(events):
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return None
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            failed = event.workflow_task_failed_event_attributes
            reset = failed.cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
            return None if reset else await _why(failed.failure, converter)
    return None


async def retrying(pending: PendingActivityInfo, converter: DataConverter) -> dict[str, Any]:
    """A part that is tried again, with why."""
    why = await _why(pending.last_failure, converter)
    return {"activity": pending.activity_type.name, "attempt": pending.attempt, "error": why}


def lost(pending: PendingActivityInfo) -> bool:
    """Whether the worker of a part has ended while it ran; the server has not noticed yet."""
    began = pending.last_started_time.ToMicroseconds() / 1e6
    running = pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    return running and not workers.lives(pending.last_worker_identity, began)


async def _why(failed: Failure, converter: DataConverter) -> str:
    """What is wrong, and what was behind it."""
    failure = Failure()
    failure.CopyFrom(failed)
    error: BaseException | None = await converter.decode_failure(failure)
    if key := key_of(failure.encoded_attributes):
        return str(errors.MissingKey(key))
    told = []
    while error is not None:
        told.append(error.message if isinstance(error, FailureError) else str(error))
        error = error.__cause__
    return ": ".join(told)
