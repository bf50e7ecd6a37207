"""due_run: which run is due when a schedule fires, by the calendar of its time zone."""

import contextlib
from pathlib import Path

from temporalio import activity
from temporalio.exceptions import ApplicationError

from domain import errors, timetable
from domain.timetable import Due, Firing, Timetable
from store import settings
from store.database import Database
from store.runs import Runs


class Firings:
    """Knows time zones, and tells the store where a run reads from before it is there."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @activity.defn(name="due_run")
    async def due(self, firing: Firing) -> Due:
        """The run of the day on which the schedule was meant to fire."""
        try:
            due = timetable.due(firing, settings.zone(firing.timetable.time_zone))
        except ValueError as error:
            raise ApplicationError(str(error), type="refused", non_retryable=True) from None
        if not due.missed:
            await self._note_sources(firing.timetable, due.run_id)
        return due

    async def _note_sources(self, table: Timetable, run_id: str) -> None:
        inbox, calendar = (Path(path) if path else None for path in (table.inbox, table.calendar))
        if inbox or calendar:
            with contextlib.suppress(errors.BadRequest):  # the run of that day has begun, and reads what it reads
                await Runs(self._database, activity.info().namespace).set_sources(run_id, inbox, calendar)
