"""One measured run: started, waited for, and read from the timestamps of its own history."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import mean, median

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from bench import by_value, hosting, nothing, scenario
from bench.hosting import Contender
from store.settings import Settings

FIRSTS = {"call_model", by_value.CALL_MODEL, nothing.FIRST}


@dataclass(frozen=True)
class Run:
    """What a run left behind. starts: when each step's first activity was scheduled. error: why it died, if it did."""

    steps: int
    events: int
    bytes: int
    starts: list[datetime]
    error: str | None = None

    @property
    def durations(self) -> list[float]:
        """Milliseconds of each step."""
        return [(after - before).total_seconds() * 1000 for before, after in pairwise(self.starts)]

    @property
    def step_ms(self) -> float:
        """Milliseconds a step over the whole run."""
        return mean(self.durations)

    def window(self, first: int, last: int) -> float:
        """Median milliseconds a step from step `first` to step `last`."""
        return median(self.durations[first - 1 : last])


async def measure(client: Client, settings: Settings, contender: Contender, steps: int) -> Run:
    """One run of one contender by a worker of its own in this process."""
    async with hosting.host(client, settings, contender, steps):
        handle = await start(client, contender, steps)
        try:
            await handle.result()
            error = None
        except WorkflowFailureError as failure:
            error = str(failure.cause)
        return await read(handle, steps, error)


async def start(client: Client, contender: Contender, steps: int) -> WorkflowHandle[object, object]:
    """Start one run."""
    arguments = {"AgentRun": {"agent": "bench"}, "ByValue": scenario.task(steps), "Nothing": steps}
    id_ = f"{contender.workflow}-{contender.model}-{steps}-{uuid.uuid4().hex[:8]}"
    return await client.start_workflow(
        contender.workflow, arguments[contender.workflow], id=id_, task_queue=scenario.TASK_QUEUE
    )


async def read(handle: WorkflowHandle[object, object], steps: int, error: str | None = None) -> Run:
    """The figures of a run that has ended."""
    info = (await handle.describe()).raw_description.workflow_execution_info
    starts = [
        event.event_time.ToDatetime()
        async for event in handle.fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        and event.activity_task_scheduled_event_attributes.activity_type.name in FIRSTS
    ]
    return Run(steps, info.history_length, info.history_size_bytes, starts, error)
