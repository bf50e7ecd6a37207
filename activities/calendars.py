"""A user's agenda between two times, from the .ics files of a calendar."""

from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field

from activities import ics_files, occurrences, plain
from activities.plain import Skipped

# In bytes of UTF-8, so that it holds for characters too: a longer result is cut in its middle on its way to the model.
ANSWER = 60_000
ATTENDEES_SHOWN = 20

Range = Literal["today", "week"]


class Event(BaseModel):
    """One event, or one instance of a recurring one. end: exclusive; the day after the last if all-day."""

    id: str
    title: str
    start: str
    end: str
    all_day: bool
    location: str
    description: str
    attendees: list[str]
    calendar: str | None
    notes: list[str]


class Agenda(BaseModel):
    """The events of a day or a week, by start, all-day ones first. until: exclusive."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    range: Range
    since: str = Field(alias="from")
    until: str = Field(alias="to")
    timezone: str
    events: list[Event]
    notes: list[str]
    skipped: list[Skipped]


def span(range_: Range, now: datetime) -> tuple[datetime, datetime]:
    """The day of `now`, or it and the six days after, from midnight to midnight of its zone."""
    days = 1 if range_ == "today" else 7
    first, last = now.date(), now.date() + timedelta(days=days)
    return datetime.combine(first, time.min, now.tzinfo), datetime.combine(last, time.min, now.tzinfo)


def read(path: Path, *, start: datetime, end: datetime, zone: ZoneInfo) -> Agenda:
    """What happens between `start` and `end` in the .ics file or the folder of them at `path`."""
    skipped: list[Skipped] = []
    calendars = ics_files.read(path, skipped)
    start, end = start.astimezone(zone), end.astimezone(zone)
    found = sorted(occurrences.between(calendars, start, end, skipped), key=lambda each: _order(each, start))
    return _fitting([_event(each) for each in found], start, end, zone, plain.capped(skipped))


def _order(found: occurrences.Found, start: datetime) -> tuple[date, bool, str, str]:
    """Day by day, all-day events first; what began before the range counts for its first day."""
    day = found.start.date() if isinstance(found.start, datetime) else found.start
    instant = found.start.astimezone(UTC) if isinstance(found.start, datetime) else found.start
    return max(day, start.date()), not found.all_day, instant.isoformat(), found.id


def _event(found: occurrences.Found) -> Event:
    notes = list(found.notes)
    return Event(
        id=plain.line(found.id, 250),
        title=plain.line(found.title, 300) or "(no title)",
        start=found.start.isoformat(),
        end=found.end.isoformat(),
        all_day=found.all_day,
        location=plain.line(found.location, 200),
        description=plain.paragraphs(found.description, 500, notes),
        attendees=_attendees(found.attendees),
        calendar=found.calendar,
        notes=list(dict.fromkeys(notes)),
    )


def _attendees(people: list[str]) -> list[str]:
    rest = len(people) - ATTENDEES_SHOWN
    return people[:ATTENDEES_SHOWN] + ([f"and {rest} more"] if rest > 0 else [])


def _fitting(events: list[Event], start: datetime, end: datetime, zone: ZoneInfo, skipped: list[Skipped]) -> Agenda:
    """The answer under its limit: the latest events go first."""
    agenda = Agenda(
        range="today" if end - start <= timedelta(hours=25) else "week",
        since=start.isoformat(),
        until=end.isoformat(),
        timezone=zone.key,
        events=events,
        notes=[],
        skipped=skipped,
    )
    kept = _kept(events, ANSWER - len(agenda.model_copy(update={"events": []}).model_dump_json().encode()) - 200)
    if kept == len(events):
        return agenda
    note = f"{len(events) - kept} later events are left out: the answer would be too long"
    return agenda.model_copy(update={"events": events[:kept], "notes": [note]})


def _kept(events: list[Event], room: int) -> int:
    for number, event in enumerate(events):
        room -= len(event.model_dump_json().encode()) + 1
        if room < 0:
            return number
    return len(events)
