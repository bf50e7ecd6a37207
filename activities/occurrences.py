"""What of a calendar's events takes place between two times: recurrence, exceptions, cancellations."""

import re
import threading
import zoneinfo
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

import icalendar
import recurring_ical_events

from activities import ics_files, plain, recurrence
from activities.plain import Skipped

INSTANCES = 200
WALKED = 150_000
BUDGET = 3_000_000
EVENTS = 10_000
YEARLY = re.compile(r"FREQ=YEARLY|BY(MONTH|DAY|MONTHDAY)=[^;]+|UNTIL=[^;]+|COUNT=\d+|INTERVAL=[1-9]\d*|WKST=\w+")
# icalendar keeps the zones it has read in one place for the whole process.
_ZONES = threading.Lock()


@dataclass(frozen=True)
class Found:
    """One instance; its times are in the user's zone, or plain days.

    id: the UID, with the original start if it recurs.
    """

    id: str
    start: date
    end: date
    title: str
    location: str
    description: str
    attendees: list[str]
    calendar: str | None
    notes: list[str]

    @property
    def all_day(self) -> bool:
        """Whether it has days and no times."""
        return not isinstance(self.start, datetime)


class NotExpanded(Exception):
    """A series or an event is left out, for the reason in the message."""


@dataclass
class _Series:
    """All events of one UID, with the file of the first."""

    id: str
    source: ics_files.Calendar
    events: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def recurs(self) -> bool:
        return any(name in event for event in self.events for name in ("RRULE", "RDATE", "RECURRENCE-ID"))

    @property
    def rules(self) -> list[tuple[date, recurrence.Rule]]:
        """Each rule with the start it counts from."""
        return [(event["DTSTART"].dt, rule) for event in self.events for rule in _listed(event.get("RRULE"))]


def between(
    calendars: Sequence[ics_files.Calendar],
    start: datetime,
    end: datetime,
    skipped: list[Skipped],
    *,
    most: int = EVENTS,
) -> Iterator[Found]:
    """Every instance between the two times; what cannot be read or expanded is added to `skipped`.

    The zone of `start` is the user's: days and floating times are meant there. most: events that are looked at.
    """
    budget = BUDGET
    near = _near(calendars, start, end, most, skipped)
    for series in _read(calendars, near, skipped):
        try:
            budget -= _cost(series, start, end)
            if budget < 0:
                raise NotExpanded("more recurring events than can be worked out")
            yield from _instances(series, start, end, skipped)
        except Exception as error:  # one broken event must not hide the others
            skipped.append(_skip(series.source, series.id, error))


def _read(calendars: Sequence[ics_files.Calendar], near: dict[str, None], skipped: list[Skipped]) -> list[_Series]:
    """The series of these UIDs; copies of one event in several files are one."""
    found: dict[str, _Series] = {}
    with _ZONES:
        for calendar in calendars:
            _read_zones(calendar, skipped)
            for uid in [uid for uid in near if uid in calendar.events]:
                _read_events(found.setdefault(uid, _Series(uid, calendar)), calendar, skipped)
    return list(found.values())


def _near(
    calendars: Sequence[ics_files.Calendar], start: datetime, end: datetime, most: int, skipped: list[Skipped]
) -> dict[str, None]:
    """The UIDs that may have an instance between the two times."""
    near: dict[str, None] = {}
    for calendar in calendars:
        uids = [
            uid
            for uid, blocks in calendar.events.items()
            if not all(ics_files.far(block, start, end) for block in blocks)
        ]
        taken = uids[: most - len(near)]
        near.update(dict.fromkeys(taken))
        if len(taken) < len(uids):
            why = f"{len(uids) - len(taken)} events are left out: more than {most} would have to be worked out"
            skipped.append(Skipped(file=calendar.file, why=why))
    return near


def _read_zones(calendar: ics_files.Calendar, skipped: list[Skipped]) -> None:
    icalendar.use_zoneinfo()  # type: ignore[no-untyped-call]  # forgets the zones of the file before
    for block in calendar.zones:
        try:
            text = block.decode("utf-8", "replace")
            _check_zone(text)
            icalendar.Timezone.from_ical(text)
        except Exception as error:  # its events are then read in the user's zone, with a note
            skipped.append(Skipped(file=calendar.file, why=f"time zone: {_why(error)}"))


def _read_events(series: _Series, calendar: ics_files.Calendar, skipped: list[Skipped]) -> None:
    for block in calendar.events[series.id]:
        try:
            event = icalendar.Event.from_ical(plain.decode(block, "utf-8", series.notes))
            _check(event)
            event["UID"] = icalendar.vText(series.id)  # copies that have none belong together
            series.events.append(event)
        except Exception as error:  # one broken event must not hide the others
            skipped.append(_skip(calendar, series.id, error))


def _check_zone(text: str) -> None:
    """A zone changes by yearly rules; another rule would be walked second by second for each event."""
    for rule in re.findall(r"(?im)^RRULE[^:\n]*:(.*)$", text):
        if not all(YEARLY.fullmatch(part) for part in rule.strip().upper().split(";")):
            raise NotExpanded("a rule that is not yearly")


def _check(event: Any) -> None:
    if not isinstance(event, icalendar.Event) or "DTSTART" not in event:
        raise NotExpanded("no start")
    wrong = [name for name, _ in event.errors if name in ics_files.TIMES]
    if wrong:
        raise NotExpanded(f"its {wrong[0]} cannot be read")


def _cost(series: _Series, start: datetime, end: datetime) -> int:
    """The work of a series; too much of it for one is `NotExpanded`."""
    cost = 1
    for first, rule in series.rules:
        if why := recurrence.refusal(rule):
            raise NotExpanded(why)
        count = recurrence.instances(rule, _local(first, start), end)
        if count > WALKED:
            raise NotExpanded(f"recurs up to {count} times from its start, more than {WALKED}")
        cost += count + recurrence.walk(rule)
    return cost


def _instances(series: _Series, start: datetime, end: datetime, skipped: list[Skipped]) -> Iterator[Found]:
    calendar = icalendar.Calendar()
    if _is_zone(series.source.zone):
        calendar.add("X-WR-TIMEZONE", series.source.zone)
    for event in series.events:
        calendar.add_component(event)
    stop = _stop(series, start, end)
    found: list[Any] = list(recurring_ical_events.of(calendar).between(start, stop))
    found.sort(key=lambda event: _local(event["DTSTART"].dt, start))
    if stop < end or len(found) > INSTANCES:
        skipped.append(
            _skip(series.source, series.id, NotExpanded(f"recurs too often, {INSTANCES} are listed at most"))
        )
    for event in found[:INSTANCES]:
        if _text(event, "STATUS").upper() != "CANCELLED":
            yield _found(event, series, start)


def _stop(series: _Series, start: datetime, end: datetime) -> datetime:
    """`end`, or sooner for a series that has far too many instances before it."""
    stop = end
    for first, rule in series.rules:
        begin = max(start, _local(first, start))
        count = recurrence.instances(rule, begin, end)
        if begin < end and count > 4 * INSTANCES:  # the count is an upper bound
            stop = min(stop, begin + (end - begin) * 2 * INSTANCES / count)
    return stop


def _found(event: Any, series: _Series, start: datetime) -> Found:
    begin, last = event["DTSTART"].dt, event["DTEND"].dt
    mark = f"@{_shown(_original(event), start).isoformat()}" if series.recurs else ""
    return Found(
        id=series.id + mark,
        start=_shown(begin, start),
        end=_shown(last, start),
        title=_text(event, "SUMMARY"),
        location=_text(event, "LOCATION"),
        description=_text(event, "DESCRIPTION"),
        attendees=[plain.line(_person(each), 100) for each in _listed(event.get("ATTENDEE"))],
        calendar=series.source.name,
        notes=[*series.notes, *_unknown_zone(begin, series)],
    )


def _original(event: Any) -> date:
    """When the series had this instance."""
    original = event["RECURRENCE-ID"]
    # With RANGE=THISANDFUTURE all later instances carry the id of the first.
    value: date = event["DTSTART"].dt if "RANGE" in original.params else original.dt
    return value


def _unknown_zone(begin: date, series: _Series) -> list[str]:
    named = [str(event["DTSTART"].params.get("TZID", "")) for event in series.events]
    if isinstance(begin, datetime) and begin.tzinfo is None and any(named):
        return [f"unknown time zone {plain.line(max(named), 60)!r}, read as the user's own"]
    return []


def _local(value: date, like: datetime) -> datetime:
    """`value` in the zone of `like`."""
    if not isinstance(value, datetime):
        return datetime.combine(value, time.min, like.tzinfo)
    return value.astimezone(like.tzinfo) if value.tzinfo else value.replace(tzinfo=like.tzinfo)


def _shown(value: date, like: datetime) -> date:
    return _local(value, like) if isinstance(value, datetime) else value


def _is_zone(name: str | None) -> bool:
    try:
        return bool(name and zoneinfo.ZoneInfo(name))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False


def _text(event: Any, name: str) -> str:
    return str(next(iter(_listed(event.get(name))), ""))


def _person(address: Any) -> str:
    """The name, or else the address."""
    name = getattr(address, "params", {}).get("CN")
    return str(name or re.sub(r"(?i)^mailto:", "", str(address)))


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, NotExpanded) else f"broken ({type(error).__name__})"


def _skip(source: ics_files.Calendar, uid: str, error: Exception) -> Skipped:
    return Skipped(file=source.file, why=plain.line(f"event {uid!r}: {_why(error)}", 300))
