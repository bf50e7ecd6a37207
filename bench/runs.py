"""One measured run: started, waited for, and read from the timestamps of its own history."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from statistics import mean, median
from typing import Any, TypeVar

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from bench import by_value, hosting, nothing, scenario
from bench.hosting import Contender
from bench.stack import Stack

FIRSTS = {"call_model", by_value.CALL_MODEL, nothing.FIRST}
PATIENCE_S = 900.0

K = TypeVar("K")
T = TypeVar("T")
Handle = WorkflowHandle[Any, Any]
Measure = Callable[[], Awaitable["Run"]]


@dataclass(frozen=True)
class Run:
    """What a run left behind.

    starts: when each step's first activity was scheduled. cpu_s: what this process, with its worker, used meanwhile.
    error: why it died, if it did.
    """

    events: int
    bytes: int
    starts: list[datetime]
    error: str | None = None
    cpu_s: float = 0.0

    @property
    def steps(self) -> int:
        """How many steps it finished."""
        return max(len(self.starts) - 1, 1)

    @property
    def durations(self) -> list[float]:
        """Milliseconds of each step."""
        return [(after - before).total_seconds() * 1000 for before, after in pairwise(self.starts)]

    @property
    def step_ms(self) -> float:
        """Milliseconds a step, without the first, which opens connections."""
        return mean(self.durations[1:])

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of the worker's CPU a step; other programs on the machine change it little."""
        return self.cpu_s / self.steps * 1000

    def window(self, first: int, last: int) -> float:
        """Median milliseconds a step from step `first` to step `last`."""
        return median(self.durations[first - 1 : last])


async def measure(stack: Stack, contender: Contender, steps: int) -> Run:
    """One run of one contender by a worker of its own in this process."""
    async with hosting.host(stack.client, stack.settings, contender, steps):
        began = time.process_time()
        handle = await start(stack.client, contender, steps)
        error = await end(handle)
        used = time.process_time() - began
        return replace(await read(handle), error=error, cpu_s=used)


async def start(client: Client, contender: Contender, steps: int) -> Handle:
    """Start one run."""
    run = {"agent": "bench"}
    arguments = {"AgentRun": run, "ByValue": run, "BareLoop": scenario.task(steps), "Nothing": steps}
    id_ = f"{contender.workflow}-{contender.model}-{steps}-{uuid.uuid4().hex[:8]}"
    return await client.start_workflow(
        contender.workflow, arguments[contender.workflow], id=id_, task_queue=scenario.TASK_QUEUE
    )


async def end(handle: Handle) -> str | None:
    """Wait for the end of a run; says why it died, if it did."""
    try:
        await asyncio.wait_for(handle.result(), PATIENCE_S)
    except WorkflowFailureError as failure:
        return str(failure.cause)
    except TimeoutError:
        await handle.terminate("the bench has waited long enough")
        return f"no end within {PATIENCE_S:g} seconds"
    return None


async def read(handle: Handle) -> Run:
    """The figures of a run that has ended."""
    info = (await handle.describe()).raw_description.workflow_execution_info
    starts = [
        event.event_time.ToDatetime()
        async for event in handle.fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        and event.activity_task_scheduled_event_attributes.activity_type.name in FIRSTS
    ]
    return Run(info.history_length, info.history_size_bytes, starts)


async def interleave(rounds: int, measures: Mapping[K, Callable[[], Awaitable[T]]]) -> dict[K, list[T]]:
    """A B C, A B C, …: what slows the machine down for a while slows all of them."""
    found: dict[K, list[T]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measured in measures.items():
            found[name].append(await measured())
    return found


def ratio(above: list[float], below: list[float]) -> float:
    """The median of the ratios, round by round."""
    return median(one / other for one, other in zip(above, below, strict=True))
