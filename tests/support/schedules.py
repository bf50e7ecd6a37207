"""Schedules of a home, made by the command, and moved so that nobody waits for a minute of the day."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from homes import Home, until
from temporalio.client import (
    Client,
    ScheduleBackfill,
    ScheduleCalendarSpec,
    ScheduleHandle,
    ScheduleOverlapPolicy,
    ScheduleRange,
    ScheduleUpdate,
    ScheduleUpdateInput,
)

from activities.executions import Executions
from activities.retention import Reports
from client.converter import converter
from client.timetable import PREFIX, Standing, Timetables
from domain.retention import Look, Plan

T = TypeVar("T")


def scheduled(home: Home, agent: str, name: str, *options: str) -> dict[str, Any]:
    """Make or change a schedule; what the command says."""
    told: dict[str, Any] = home.json("schedule", agent, "--name", name, *options)
    return told


def told(home: Home, name: str) -> Standing:
    """How a schedule stands."""
    return _with(home, lambda client: Timetables(client).get(name))


def trigger(home: Home, name: str) -> None:
    """Let the server fire it now, whether or not there is a run of today."""
    _with(home, lambda client: Timetables(client).fire(name))


def backfill(home: Home, name: str, at: datetime) -> None:
    """Let the server fire it once more for that moment."""
    around = ScheduleBackfill(at - timedelta(seconds=1), at + timedelta(seconds=1), ScheduleOverlapPolicy.ALLOW_ALL)
    _with(home, lambda client: _handle(client, name).backfill(around))


def due_at(home: Home, name: str, at: datetime) -> None:
    """Let it be due once a day at this second."""
    parts = {part: [ScheduleRange(getattr(at.astimezone(UTC), part))] for part in ("hour", "minute", "second")}

    def move(found: ScheduleUpdateInput) -> ScheduleUpdate:
        schedule = found.description.schedule
        spec = dataclasses.replace(schedule.spec, calendars=[ScheduleCalendarSpec(**parts)], time_zone_name="UTC")
        return ScheduleUpdate(dataclasses.replace(schedule, spec=spec))

    _with(home, lambda client: _handle(client, name).update(move))
    until(f"{name} is due then", lambda: at in told(home, name).next or datetime.now(UTC) >= at)


def in_seconds(seconds: int) -> datetime:
    """A whole second, so many from now."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)


def outcomes(home: Home, name: str, count: int) -> list[str]:
    """Wait until so many firings came to something; what, the newest first."""

    def all_known() -> list[str] | None:
        took = told(home, name).took
        known = [one.fired.outcome for one in took if one.fired]
        return known if len(took) == len(known) == count else None

    return until(f"{name} fired {count} times", all_known)


def would_go(home: Home) -> list[str]:
    """Which reports a clean-up would delete, were it to keep none."""
    plan = Plan(dry_run=True, at=datetime.now(UTC), days={"reports": 0})

    async def look(client: Client) -> list[str]:
        reports = Reports(Executions(client), None)  # finding them needs no store
        return (await reports.find(Look(kind="reports", plan=plan))).due

    return _with(home, look)


def _handle(client: Client, name: str) -> ScheduleHandle:
    return client.get_schedule_handle(PREFIX + name)


def _with(home: Home, do: Callable[[Client], Awaitable[T]]) -> T:
    async def go() -> T:
        return await do(await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(home.settings)))

    return asyncio.run(go())
