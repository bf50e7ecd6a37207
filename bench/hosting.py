"""The bench's worker: composed like the real one, with the model activity that a contender asks for."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker

import worker
from activities.heartbeat import Heartbeats
from activities.model import Model
from activities.pull import Foresight, Transcripts
from activities.runner import Runner
from bench import nothing, scenario
from bench.by_value import BareLoop, ByValue
from bench.models import HttpByValue, Stub, StubByValue
from bench.nothing import Nothing
from domain import request
from domain.agent import Definition
from domain.request import LoadRequest
from store import database
from store.ledger import Ledger
from store.settings import Settings
from store.streams import Files, Streams
from workflows.agent_run import AgentRun
from workflows.runner import CheckedRunner


@dataclass(frozen=True)
class Contender:
    """What is measured: a workflow, and how much of a model call is real.

    model: `bare` answers at once; `pull` pulls the transcript first; `ledger` commits as well; `http` is the real one.
    """

    workflow: Literal["AgentRun", "ByValue", "BareLoop", "Nothing"]
    model: Literal["bare", "pull", "ledger", "http"] = "bare"
    eager: bool = True

    @property
    def by_value(self) -> bool:
        """Whether the model call gets the whole list of messages."""
        return self.workflow in ("ByValue", "BareLoop")


def quiet() -> None:
    """Let the SDK tell of errors only: a dying script warns at every step."""
    errors = LoggingConfig(filter=TelemetryFilter(core_level="ERROR", other_level="ERROR"))
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=errors)))
    logging.getLogger("temporalio").setLevel(logging.ERROR)


def _usual(client: Client) -> Client:
    """Without what Dayflow does with large payloads, as whoever passes the list by value begins."""
    return Client(client.service_client, namespace=client.namespace, data_converter=pydantic_data_converter)


@asynccontextmanager
async def host(client: Client, settings: Settings, contender: Contender, steps: int) -> AsyncIterator[None]:
    """A worker for runs of `steps` steps of one contender, in this process."""
    store = await database.connect(settings)
    ledger, transcripts = Ledger(store), Transcripts(worker.CACHED)
    tools = Runner(settings, store).activities(scenario.TOOLS)
    model = _model(contender, steps, settings, ledger, transcripts)
    process = Worker(
        _usual(client) if contender.by_value else client,
        task_queue=scenario.TASK_QUEUE,
        workflows=[AgentRun, ByValue, BareLoop, Nothing],
        workflow_runner=CheckedRunner(),
        activities=[_load(steps), model, *tools, nothing.nothing, nothing.nothing_beside],
        interceptors=[Heartbeats()] if contender.by_value else [Heartbeats(), Foresight(transcripts)],
        sticky_queue_schedule_to_start_timeout=worker.STICKY_TIMEOUT,
        max_heartbeat_throttle_interval=worker.HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=worker.HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=worker.GRACE,
        workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(worker.POLLERS),
        max_concurrent_workflow_tasks=worker.SLOTS,
        max_concurrent_activities=worker.SLOTS,
        disable_eager_activity_execution=not contender.eager,
    )
    try:
        async with process:
            yield
    finally:
        await store.close()


def _load(steps: int) -> Callable[..., Any]:
    @activity.defn(name="load_agent")
    async def load(asked: LoadRequest) -> Definition:
        request.parse(asked.raw)
        return scenario.definition(asked.run, steps)

    return load


def _model(
    contender: Contender, steps: int, settings: Settings, ledger: Ledger, transcripts: Transcripts
) -> Callable[..., Any]:
    if contender.by_value:
        return HttpByValue(steps, settings).call if contender.model == "http" else StubByValue(steps).call
    if contender.model == "http":
        return Model(settings, ledger, transcripts, Streams(Files(settings.home))).call
    kept = ledger if contender.model == "ledger" else None
    pulled = transcripts if contender.model != "bare" else None
    return Stub(steps, transcripts=pulled, ledger=kept).call
