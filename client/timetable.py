"""Schedules by which agents run each day, on the Temporal server: made, changed, listed, paused, fired, removed."""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar, cast

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionResult,
    ScheduleActionStartWorkflow,
    ScheduleCalendarSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    WorkflowExecutionStatus,
    WorkflowFailureError,
)
from temporalio.service import RPCError, RPCStatusCode

from client import schedule
from client.dayflow import TASK_QUEUE
from domain import errors, timetable
from domain.timetable import DAYS, Fired, Timetable
from store import settings
from workflows.steps import TASK_TIMEOUT

T = TypeVar("T")
PREFIX = "dayflow-schedule-"
# How many firings of a schedule are looked at.
LOOKED_AT = 5


@dataclass(frozen=True)
class Took:
    """A firing that the server took. workflow_id: what it started. fired: what came of it, or else why nobody knows."""

    workflow_id: str
    meant: datetime
    fired: Fired | None
    why: str | None = None


@dataclass(frozen=True)
class Standing:
    """A schedule as it stands. missed: days on which the server was not up in time. took: its firings, newest first."""

    timetable: Timetable
    paused: bool
    note: str | None
    next: list[datetime]
    missed: int
    took: list[Took] = field(default_factory=list)


class Timetables:
    """The timetables of one Temporal namespace."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def put(self, wanted: Timetable, year: int) -> Timetable | None:
        """Make a schedule, or change the one of that name; what it was before. year: the one that it is now.

        One that cannot be read here, for want of a key, is not changed either.
        """
        try:
            before = (await self.get(wanted.name, firings=0)).timetable
        except errors.NotFound:
            before = None
        try:
            await schedule.put(self._client, PREFIX + wanted.name, daily(wanted, year))
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            raise errors.Refused(f"the Temporal server does not take this schedule: {error.message}") from None
        return before

    async def all(self, firings: int = 1) -> tuple[list[Standing], list[str]]:
        """Every one, by name, and why others cannot be read. One that was made just now may not be there yet."""
        found, lost = [], []
        listed = [one.id async for one in await self._client.list_schedules() if one.id.startswith(PREFIX)]
        for name in sorted(id_.removeprefix(PREFIX) for id_ in listed):
            try:
                found.append(await self.get(name, firings))
            except errors.MissingKey as error:
                lost.append(f"the schedule {name} cannot be read: {error}")
        return found, lost

    async def get(self, name: str, firings: int = LOOKED_AT) -> Standing:
        """One by its name, with its newest firings; `errors.NotFound` if there is none."""
        told = await self._asked(name, self._client.get_schedule_handle(PREFIX + name).describe())
        recent = told.info.recent_actions[::-1][:firings]
        return Standing(
            timetable=await self._read(told.schedule),
            paused=told.schedule.state.paused,
            note=told.schedule.state.note,
            next=list(told.info.next_action_times),
            missed=told.info.num_actions_missed_catchup_window,
            took=[took for one in recent if (took := await self._took(one))],
        )

    async def pause(self, name: str, by: str) -> None:
        """Let it fire no more; what would have been due until it is resumed is not made up for."""
        await self._asked(name, self._client.get_schedule_handle(PREFIX + name).pause(note=f"by {by}"))

    async def resume(self, name: str, by: str) -> None:
        """Let it fire again."""
        await self._asked(name, self._client.get_schedule_handle(PREFIX + name).unpause(note=f"resumed by {by}"))

    async def fire(self, name: str) -> None:
        """Let it fire now, also while it is paused; the run of today starts if there is none yet."""
        await self._asked(name, self._client.get_schedule_handle(PREFIX + name).trigger())

    async def remove(self, name: str) -> None:
        """Remove it; its runs stay."""
        await self._asked(name, self._client.get_schedule_handle(PREFIX + name).delete())

    async def _asked(self, name: str, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND or "amespace" in error.message:
                raise
            raise errors.NotFound(f"there is no schedule {name!r}; `dayflow schedule list` lists them") from None

    async def _read(self, found: Schedule) -> Timetable:
        return timetable.parse(await schedule.given(self._client, found))

    async def _took(self, one: ScheduleActionResult) -> Took | None:
        """What came of a firing; None where retention has deleted it."""
        action = cast("ScheduleActionExecutionStartWorkflow", one.action)
        handle = self._client.get_workflow_handle(action.workflow_id, run_id=action.first_execution_run_id)
        fired, why = None, None
        try:
            if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
                why = "it waits for a worker: `dayflow up`"
            else:
                fired = Fired.model_validate(await handle.result())
        except WorkflowFailureError as error:
            why = str(error.cause)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None
        return Took(action.workflow_id, one.scheduled_at, fired, why)


def daily(table: Timetable, year: int) -> Schedule:
    """What the server is told. All may overlap: a firing ends at once, and a day does not wait for the day before."""
    id_ = PREFIX + table.name
    return Schedule(
        action=ScheduleActionStartWorkflow(
            "ScheduledStart",
            table.model_dump(mode="json", exclude_none=True),
            id=id_,
            task_queue=TASK_QUEUE,
            task_timeout=TASK_TIMEOUT,
        ),
        spec=ScheduleSpec(
            calendars=[_each_week(table), *map(_once, table.replaced(settings.zone(table.time_zone), year))],
            time_zone_name=table.time_zone,
        ),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL, catchup_window=table.patience),
    )


def _each_week(table: Timetable) -> ScheduleCalendarSpec:
    """The server counts days from Sunday."""
    return ScheduleCalendarSpec(
        hour=[ScheduleRange(table.clock.hour)],
        minute=[ScheduleRange(table.clock.minute)],
        day_of_week=[ScheduleRange((DAYS.index(day) + 1) % len(DAYS)) for day in table.days],
    )


def _once(at: datetime) -> ScheduleCalendarSpec:
    return ScheduleCalendarSpec(
        year=[ScheduleRange(at.year)],
        month=[ScheduleRange(at.month)],
        day_of_month=[ScheduleRange(at.day)],
        hour=[ScheduleRange(at.hour)],
        minute=[ScheduleRange(at.minute)],
    )
