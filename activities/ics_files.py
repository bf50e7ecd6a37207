"""The events of .ics files, cut out line by line: only what a day's agenda needs is kept."""

import hashlib
import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from activities import local_files, plain
from activities.plain import Skipped
from domain import errors
from store import files

WHAT_TO_DO = "set DAYFLOW_CALENDAR or --calendar to an .ics file or a folder of them"
FILE_READ = 20_000_000
EVENT_READ = 100_000
LINE_READ = 8_000
TEXTS = {"SUMMARY", "LOCATION", "DESCRIPTION", "ATTENDEE"}
TIMES = {"DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID"}
KEPT = {"UID", "STATUS", "SEQUENCE"} | TIMES | TEXTS
NAME = re.compile(rb"[A-Za-z0-9-]+")
DATE = re.compile(rb":(\d{8})(T\d{6}Z?)?\s*$")
# A name with the maker's prefix, such as /example.org/20070129_1/Europe/Berlin.
PREFIXED = re.compile(rb"(?<=TZID=)/[^:;]+")


@dataclass
class Calendar:
    """One file, cut up. Blocks are unfolded lines; events are by UID, and one without goes by its digest."""

    file: str
    name: str | None = None
    zone: str | None = None
    zones: list[bytes] = field(default_factory=list)
    events: dict[str, list[bytes]] = field(default_factory=dict)


def read(path: Path, skipped: list[Skipped]) -> list[Calendar]:
    """Each file at `path`; `errors.ToolFailed` when there is none to look at."""
    try:
        root = path.resolve(strict=True)
        found = [Path(root)] if root.is_file() else list(_folder(root, skipped))
    except (OSError, RuntimeError) as error:
        why = local_files.reason(error) if isinstance(error, OSError) else "a loop of links"
        why = "does not exist" if isinstance(error, FileNotFoundError) else why
        raise errors.ToolFailed(f"No calendar can be read at {str(path)!r}: {why}; {WHAT_TO_DO}.") from None
    if not found and not skipped:
        raise errors.ToolFailed(f"{str(path)!r} holds no calendar; {WHAT_TO_DO}.")
    return [calendar for file in found if (calendar := _file(file, skipped))]


def far(block: bytes, start: datetime, end: datetime) -> bool:
    """Whether this single event is surely not between the two times, whatever its time zone."""
    lines = {_name(each): each for each in block.split(b"\n")}
    first, last = _day(lines.get("DTSTART", b"")), _day(lines.get("DTEND", lines.get("DTSTART", b"")))
    if {"RRULE", "RDATE", "DURATION"} & lines.keys() or not first or not last:
        return False
    margin = timedelta(days=2)
    return first > f"{end + margin:%Y%m%d}".encode() or last < f"{start - margin:%Y%m%d}".encode()


def _folder(root: Path, skipped: list[Skipped]) -> Iterator[Path]:
    for entry in local_files.entries(root, root):
        name = entry.file if isinstance(entry, Skipped) else entry.name
        if not name.lower().endswith(".ics"):
            continue
        if isinstance(entry, Skipped):
            skipped.append(entry)
        else:
            yield Path(entry.path)


def _file(file: Path, skipped: list[Skipped]) -> Calendar | None:
    calendar = Calendar(plain.name_of(file.name))
    try:
        size = file.stat().st_size
        if size <= FILE_READ:
            if _cut(file, calendar, skipped):
                return calendar
            why = "no calendar in it"
        else:
            why = f"{size} bytes, more than {FILE_READ}"
    except OSError as error:
        why = local_files.reason(error)
    skipped.append(Skipped(file=calendar.file, why=why))
    return None


def _lines(file: Path) -> Iterator[bytes]:
    """Unfolded lines."""
    whole: list[bytes] = []
    with files.open_regular(file) as opened:
        for raw in opened:
            if raw[:1] in (b" ", b"\t"):
                whole.append(raw[1:].rstrip(b"\r\n"))
                continue
            yield b"".join(whole)
            whole = [raw.rstrip(b"\r\n")]
    yield b"".join(whole)


def _cut(file: Path, calendar: Calendar, skipped: list[Skipped]) -> bool:
    """Fill `calendar`; whether there is one in the file."""
    seen = False
    inside: list[str] = []
    block: list[bytes] = []
    for line in _lines(file):
        name, value = _name(line), line.partition(b":")[2].strip().upper().decode("ascii", "replace")
        if name == "BEGIN":
            if value in ("VCALENDAR", "VEVENT", "VTIMEZONE"):
                _unended(inside, calendar, skipped)
                inside, block, seen = ([] if value == "VCALENDAR" else ["VCALENDAR"]), [], True
            inside.append(value)
        if inside[1:2] == ["VTIMEZONE"] or (inside[1:] == ["VEVENT"] and name in KEPT | {"BEGIN", "END"}):
            block.append(_shorter(name, line))
        elif len(inside) <= 1:
            _property(name, line, calendar)
        if name == "END" and value in inside:
            if value == "VCALENDAR":
                _unended(inside, calendar, skipped)
            inside = inside[: inside.index(value)]
            if value in ("VEVENT", "VTIMEZONE"):
                _ended(value, b"\n".join(block), calendar, skipped)
    _unended(inside, calendar, skipped)
    return seen


def _unended(inside: list[str], calendar: Calendar, skipped: list[Skipped]) -> None:
    if "VEVENT" in inside:
        skipped.append(Skipped(file=calendar.file, why="an event without an end"))


def _ended(kind: str, block: bytes, calendar: Calendar, skipped: list[Skipped]) -> None:
    if len(block) > EVENT_READ:
        skipped.append(Skipped(file=calendar.file, why=f"an event or time zone of {len(block)} bytes"))
    elif kind == "VTIMEZONE":
        calendar.zones.append(block)
    else:
        found = re.search(rb"^UID[^:\n]*:(.*)$", block, re.MULTILINE | re.IGNORECASE)
        uid = plain.line(found[1].decode("utf-8", "replace"), 200) if found else ""
        key = uid or "sha256:" + hashlib.sha256(block).hexdigest()[:16]
        calendar.events.setdefault(key, []).append(block)


def _property(name: str, line: bytes, calendar: Calendar) -> None:
    value = plain.line(line.partition(b":")[2].decode("utf-8", "replace").replace("\\,", ","), 100)
    if name == "X-WR-CALNAME":
        calendar.name = value or None
    elif name == "X-WR-TIMEZONE":
        calendar.zone = value or None


def _shorter(name: str, line: bytes) -> bytes:
    line = PREFIXED.sub(lambda found: _known(found[0]), line) if name in TIMES else line
    if name in TEXTS and len(line) > LINE_READ:
        return line[:LINE_READ].decode("utf-8", "ignore").encode()
    return line


def _known(prefixed: bytes) -> bytes:
    """The zone that a name with a maker's prefix ends in, or the name as it is."""
    path = prefixed.decode("utf-8", "replace").strip("/").split("/")
    endings = ("/".join(path[first:]) for first in range(len(path)))
    return next((each.encode() for each in endings if each in _zones()), prefixed.strip(b"/"))


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _name(line: bytes) -> str:
    found = NAME.match(line.removeprefix(b"\xef\xbb\xbf"))
    return found[0].decode("ascii").upper() if found else ""


def _day(line: bytes) -> bytes | None:
    found = DATE.search(line)
    return found[1] if found else None
