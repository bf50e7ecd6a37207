"""Schedules that are made and kept as wanted; that of the nightly clean-up is, by each worker that starts."""

import dataclasses
import logging
from datetime import timedelta
from typing import Any, cast

from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleCalendarSpec,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from client import codec
from client.dayflow import TASK_QUEUE
from domain import digest
from store.settings import Settings
from workflows.steps import TASK_TIMEOUT

ID = "dayflow-retention"
HOUR = 3
# Many homes on one server do not begin in the same second.
JITTER = timedelta(minutes=10)
# The one of last night is made up for, and no older one.
CATCH_UP = timedelta(days=1)

log = logging.getLogger(__name__)


async def keep(client: Client, settings: Settings) -> None:
    """Make the schedule, mend it, or delete it where the settings switch it off. Without the right to, go on."""
    try:
        await (put(client, ID, daily(settings)) if settings.retention == "on" else _delete(client))
    except RPCError as error:
        log.warning("nothing old is deleted by itself: %s", error)


def daily(settings: Settings) -> Schedule:
    """Each night. The input is empty: how long each is kept is read from the settings of the worker that does it."""
    return Schedule(
        action=ScheduleActionStartWorkflow("Retention", {}, id=ID, task_queue=TASK_QUEUE, task_timeout=TASK_TIMEOUT),
        spec=ScheduleSpec(
            calendars=[ScheduleCalendarSpec(hour=[ScheduleRange(HOUR)])],
            jitter=JITTER,
            time_zone_name=settings.timezone.key,
        ),
        policy=SchedulePolicy(catchup_window=CATCH_UP),
    )


async def put(client: Client, name: str, wanted: Schedule) -> None:
    """Make a schedule, or let one that is there do what is wanted when it is wanted.

    Whether a person paused it stays. One that is as it should be is left alone: what it missed just before an update
    would not be caught up. Its input stays with the server, whatever its size: no run refers to what a schedule holds.
    """
    action = _action(wanted)
    action.args = await dataclasses.replace(client.data_converter, external_storage=None).encode(list(action.args))

    async def mend(found: ScheduleUpdateInput) -> ScheduleUpdate | None:
        schedule = found.description.schedule
        if await _shape(client, schedule) == await _shape(client, wanted):
            return None
        return ScheduleUpdate(dataclasses.replace(wanted, state=schedule.state))

    try:
        await client.create_schedule(name, wanted)
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(name).update(mend)


async def given(client: Client, schedule: Schedule) -> list[Any]:
    """The input of what a schedule starts."""
    return await client.data_converter.decode([cast("Payload", one) for one in _action(schedule).args])


async def _shape(client: Client, schedule: Schedule) -> bytes:
    """What a schedule does and when, to be compared; and under which key its input is."""
    action, args = _action(schedule), await given(client, schedule)
    keys = [codec.key_of(cast("Payload", one)) for one in action.args]
    what = (action.workflow, args, keys, action.id, action.task_queue, action.task_timeout)
    spec = {**dataclasses.asdict(schedule.spec), "cron_expressions": list(schedule.spec.cron_expressions)}
    return digest.canonical([*what, spec, dataclasses.asdict(schedule.policy)])


def _action(schedule: Schedule) -> ScheduleActionStartWorkflow:
    return cast("ScheduleActionStartWorkflow", schedule.action)


async def _delete(client: Client) -> None:
    try:
        await client.get_schedule_handle(ID).delete()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
