"""The state of a run from its history alone: replayed here, with today's code, whether a worker is up or not."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Replayer,
    UnsandboxedWorkflowRunner,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from client.codec import SealingCodec
from client.converter import CONVERTER
from domain import errors
from domain.state import RunState
from store import payloads
from workflows.agent_run import AgentRun

# What a run does not read of its own history: what it asked for, and what it handed over in the end.
_UNREAD = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
}
# What a workflow task leaves in the history, right after its completion.
_LEFT_BY_A_TASK = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED,
    EventType.EVENT_TYPE_TIMER_STARTED,
    EventType.EVENT_TYPE_TIMER_CANCELED,
    EventType.EVENT_TYPE_MARKER_RECORDED,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
    EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
}


class _Keeper(Interceptor):
    """Keeps hold of the workflow object that a replay builds."""

    def __init__(self) -> None:
        self.kept: AgentRun | None = None

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        keeper = self

        class Inbound(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                instance = workflow.instance()
                if isinstance(instance, AgentRun):
                    keeper.kept = instance
                return await super().execute_workflow(input)

        return Inbound


class Replayed:
    """What a replay gave: the state, if the run had begun, and where the history and the code part ways, if so."""

    def __init__(self, state: RunState | None, divergence: str | None) -> None:
        self.state = state
        self.divergence = divergence


def worked_in(events: Sequence[HistoryEvent]) -> Sequence[HistoryEvent]:
    """The history as far as a worker has worked it in. What came after would be foretold, not told."""
    tasks = [i for i, event in enumerate(events) if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    if not tasks:
        return ()
    end = tasks[-1] + 1
    while end < len(events) and events[end].event_type in _LEFT_BY_A_TASK:
        end += 1
    return events[:end]


async def replay(
    run_id: str, namespace: str, events: Sequence[HistoryEvent], converter: DataConverter = CONVERTER
) -> Replayed:
    """Replay a whole or a partial history.

    `errors.Lost` if a payload of it cannot be had, `errors.MissingKey` where its key is not here.
    """
    if not any(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED for event in events):
        return Replayed(None, None)
    codec = converter.payload_codec.again() if isinstance(converter.payload_codec, SealingCodec) else None
    converter = dataclasses.replace(converter, payload_codec=codec)
    if codec:
        codec.check(events)
    if storage := converter.external_storage:
        await payloads.check(storage, (one for one in events if one.event_type not in _UNREAD))
        # A replay makes all commands once more; to look at a run writes nothing.
        converter = dataclasses.replace(converter, external_storage=payloads.read_only(storage))
    keeper = _Keeper()
    replayer = Replayer(
        workflows=[AgentRun],
        namespace=namespace,
        data_converter=converter,
        interceptors=[keeper],
        workflow_runner=UnsandboxedWorkflowRunner(),
        build_id="dayflow",
        debug_mode=True,  # a replay may take as long as it takes; without this, two seconds count as a deadlock
    )
    result = await replayer.replay_workflow(WorkflowHistory(run_id, list(events)), raise_on_replay_failure=False)
    if result.replay_failure and codec and codec.missed:  # what is kept outside of the history wanted it
        raise errors.MissingKey(codec.missed)
    divergence = str(result.replay_failure) if result.replay_failure else None
    return Replayed(keeper.kept.state if keeper.kept else None, divergence)
