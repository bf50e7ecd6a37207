"""Timetables: at which time of which days an agent runs, and which run is due when its schedule fires: one a day."""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from domain import errors, request
from domain.request import RunRequest

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
Missed = Literal["catch-up", "skip"]
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
# What was missed is made up for until so much later: a brief of the morning is of no use at night.
CATCH_UP = 6 * HOUR
# Nothing begins on the second; what is not later than this was not missed.
ON_TIME = MINUTE
# For so many years ahead a time of day that a change of the clocks leaves out is replaced.
YEARS = 10

NAME = r"^[a-z0-9][a-z0-9_-]{0,59}$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
ClockTime = Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
Outcome = Literal["started", "there already", "missed"]


class Timetable(BaseModel):
    """When an agent runs, and what it is asked then. It is the input of the workflow that its schedule starts.

    missed: what becomes of a day on which nothing could be started in time. inbox, calendar: where its runs read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    at: ClockTime
    days: Annotated[tuple[Day, ...], Field(min_length=1)] = DAYS
    time_zone: str
    missed: Missed = "catch-up"
    request: RunRequest
    inbox: str | None = None
    calendar: str | None = None

    @property
    def clock(self) -> time:
        """The time of day."""
        return time.fromisoformat(self.at)

    @property
    def patience(self) -> timedelta:
        """How late a run of it may still begin."""
        return CATCH_UP if self.missed == "catch-up" else ON_TIME

    def run_id(self, day: date) -> str:
        """The one run of that day."""
        agent = self.request.agent
        return f"{agent if self.name == agent else f'{agent}-{self.name}'}-{day.isoformat()}"

    def replaced(self, zone: tzinfo, year: int) -> Iterator[datetime]:
        """From that year on: what takes the place of times that a change of the clocks leaves out, as 03:30 of 02:30.

        What there is twice is no matter of the timetable: the second time finds the run of that day.
        """
        day = date(year, 1, 1)
        while day.year <= year + YEARS:
            wanted = datetime.combine(day, self.clock)
            there = wanted.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
            if there.replace(tzinfo=None) != wanted and there.date() == day and DAYS[day.weekday()] in self.days:
                yield there
            day += timedelta(days=1)


class Firing(BaseModel):
    """A timetable's schedule fired. at: when it was meant to. now: when a worker took that up."""

    model_config = ConfigDict(frozen=True)

    timetable: Timetable
    at: datetime
    now: datetime


class Due(BaseModel):
    """The run of a firing. missed: why it is not to be started any more."""

    run_id: str
    day: date
    missed: str | None = None


class Fired(BaseModel):
    """What came of a firing."""

    run_id: str
    day: date
    outcome: Outcome
    why: str | None = None


def due(firing: Firing, zone: tzinfo) -> Due:
    """Which run is due: that of the day on which it was meant to begin, as the zone counts days."""
    at, now, table = firing.at.astimezone(zone), firing.now.astimezone(zone), firing.timetable
    why = None
    if firing.now - firing.at > table.patience:
        within = {"catch-up": f"{CATCH_UP // HOUR} hours", "skip": f"{ON_TIME // MINUTE} minute"}[table.missed]
        why = f"it was due at {at:%H:%M}, and a worker took it up on {now:%Y-%m-%d at %H:%M}, not within {within}"
    return Due(run_id=table.run_id(at.date()), day=at.date(), missed=why)


def parse(raw: Sequence[Any]) -> Timetable:
    """The timetable that a workflow was started with; `errors.BadRequest` says what is wrong with it."""
    if key := request.missing_key(raw):
        raise errors.MissingKey(key)
    try:
        [given] = raw
        return Timetable.model_validate_json(json.dumps(given))
    except ValidationError as error:
        raise errors.BadRequest(f"the timetable cannot be used: {request.explain(error)}") from None
    except (ValueError, TypeError):
        raise errors.BadRequest(f"it takes exactly one timetable, as JSON; {len(raw)} inputs were given") from None


def name(text: str) -> str:
    """A name for a schedule; it becomes part of ids."""
    if not re.fullmatch(NAME, text):
        raise errors.BadRequest(f"{text!r} is no name for a schedule: take up to 60 of a-z, 0-9, - and _")
    return text


def clock(text: str) -> str:
    """A time of day as people write it, as HH:MM."""
    found = re.fullmatch(r"([01]?[0-9]|2[0-3]):([0-5][0-9])", text.strip())
    if not found:
        raise errors.BadRequest(f"{text!r} is no time of day; write it with 24 hours, such as 07:30")
    return f"{int(found[1]):02}:{found[2]}"


def days(text: str) -> tuple[Day, ...]:
    """Days of the week as people write them: `mon-fri`, `mon,wed,sat-sun`."""
    found = {day for part in text.split(",") for day in _range(part, text)}
    return tuple(day for day in DAYS if day in found)


def in_words(which: Sequence[Day]) -> str:
    """The same, as it is shown: `mon-fri`; `every day`."""
    if len(which) == len(DAYS):
        return "every day"
    groups: list[list[Day]] = []
    for day in which:
        follows = groups and DAYS.index(groups[-1][-1]) + 1 == DAYS.index(day)
        groups = [*groups[:-1], [*groups[-1], day]] if follows else [*groups, [day]]
    spans = [[f"{group[0]}-{group[-1]}"] if len(group) > 2 else list(group) for group in groups]
    return ",".join(one for span in spans for one in span)


def _range(part: str, text: str) -> list[Day]:
    """The days of `mon` or of `fri-mon`."""
    first, dash, last = part.partition("-")
    start = _day(first, text)
    end = _day(last, text) if dash else start
    return [DAYS[(start + n) % 7] for n in range((end - start) % 7 + 1)]


def _day(word: str, text: str) -> int:
    word = word.strip().lower()
    for place, name in enumerate(NAMES):
        if len(word) >= len(DAYS[place]) and name.startswith(word):
            return place
    raise errors.BadRequest(f"{text!r} names no days of the week; write them as mon-fri, or mon,wed,sat")
