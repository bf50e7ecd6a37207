"""The schedule of the daily clean-up: made and kept as the settings say by each worker that starts, in any number."""

import logging
from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleCalendarSpec,
    ScheduleRange,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from client.dayflow import TASK_QUEUE, TASK_TIMEOUT
from store.settings import Settings

ID = "dayflow-retention"
HOUR = 3
# Many homes on one server do not begin in the same second.
JITTER = timedelta(minutes=10)

log = logging.getLogger(__name__)


async def keep(client: Client, settings: Settings) -> None:
    """Make the schedule, mend it, or delete it where the settings switch it off. Without the right to, go on."""
    try:
        await (_make(client, settings) if settings.retention == "on" else _delete(client))
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
    )


async def _make(client: Client, settings: Settings) -> None:
    wanted = daily(settings)
    try:
        await client.create_schedule(ID, wanted)
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(ID).update(lambda found: _mended(found, wanted))


def _mended(found: ScheduleUpdateInput, wanted: Schedule) -> ScheduleUpdate | None:
    """What it does and when becomes as wanted; whether a person paused it stays."""
    schedule = found.description.schedule
    schedule.action, schedule.spec = wanted.action, wanted.spec
    return ScheduleUpdate(schedule)


async def _delete(client: Client) -> None:
    try:
        await client.get_schedule_handle(ID).delete()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
