"""The composition root: connect, discover, register. No logic.

`python worker.py` runs a worker on the task queue `dayflow`; `dayflow` is the command for everything else.
"""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from temporalio.client import Client

    from activities.tool import Tool
    from store.settings import Settings

# After a kill the next workflow task waits this long for the dead worker's own queue.
STICKY_TIMEOUT = timedelta(seconds=1)
# Sent at the latest this often, so that a heartbeat timeout is never met by chance.
HEARTBEAT_THROTTLE = timedelta(seconds=0.5)
# What a stopping worker gives its activities to come to an end.
GRACE = timedelta(seconds=2)
SLOTS = 100
# With the SDK's 5, what busy runs have next to do waits in the server's database for one that asks.
POLLERS = 20
# Named here, because the SDK would otherwise read and hash every loaded module at each start.
BUILD_ID = "dayflow"
# Runs kept in memory, at about 0.3 MB each; one that waits longer than others is replayed when it goes on.
CACHED = 80


@asynccontextmanager
async def host(
    client: "Client", settings: "Settings", task_queue: str, tools: "Mapping[str, Tool] | None" = None, **options: Any
) -> AsyncIterator[None]:
    """A worker in this process, for as long as the block runs.

    tools: others than those in activities/tools/. options: what else `temporalio.worker.Worker` is told.
    """
    from temporalio.worker import PollerBehaviorSimpleMaximum, Worker

    from activities.agents import Agents
    from activities.compactor import Compactor
    from activities.firings import Firings
    from activities.heartbeat import Heartbeats
    from activities.model import Model
    from activities.people import People
    from activities.pull import Foresight, Transcripts
    from activities.retention import Retention as Tidy
    from activities.runner import Runner
    from activities.tools import discover
    from client import export, schedule, server
    from client.dayflow import TASK_QUEUE
    from store import database, streams
    from store.effects import Effects
    from store.ledger import Ledger
    from store.payloads import Answers
    from store.streams import Streams
    from workflows.agent_run import AgentRun
    from workflows.retention import Retention
    from workflows.runner import CheckedRunner
    from workflows.scheduled_start import ScheduledStart

    store = await database.connect(settings)
    ledger, tools, transcripts = Ledger(store), tools or discover(), Transcripts(CACHED)
    attributes = await server.register_search_attributes(client)
    model = Model(settings, ledger, transcripts, Streams(streams.of(settings, store)))
    people = People(settings, Effects(store))
    agents = Agents(settings, store, tools, search_attributes=attributes)
    if task_queue == TASK_QUEUE:
        await schedule.keep(client, settings)
    tidy = Tidy(settings, client, store, export.exporter(client))
    worker = Worker(
        client,
        task_queue=task_queue,
        workflows=[AgentRun, Retention, ScheduledStart],
        workflow_runner=CheckedRunner(),
        activities=[
            agents.load,
            model.call,
            Compactor(settings, transcripts, model).compact,
            people.check_authority,
            people.check_raise,
            people.resolve_effect,
            Firings(store).due,
            tidy.plan,
            tidy.find,
            tidy.mark,
            tidy.delete,
            *Runner(settings, store).activities(tools),
        ],
        interceptors=[Heartbeats(), Foresight(transcripts), Answers()],
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=GRACE,
        build_id=BUILD_ID,
        max_cached_workflows=CACHED,
        workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(POLLERS),
        max_concurrent_workflow_tasks=SLOTS,
        max_concurrent_activities=SLOTS,
        **options,
    )
    try:
        async with worker:
            yield
    finally:
        await store.close()


def main() -> None:
    """The `dayflow` command, which hosts workers by `host`."""
    try:
        from client import cli

        cli.main(host)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    from client import cli

    cli.main(host, sys.argv[1:] or ["worker"])
