"""Reading a user's calendar: every claim of `activities.calendars` on real files."""

import json
import os
import time
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities import calendars, ics_files, occurrences
from activities.plain import Skipped
from activities.tool import Context
from activities.tools import read_calendar
from domain import errors
from store import database
from store.settings import SAMPLES, Settings

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2026, 11, 30, tzinfo=BERLIN)
ODD_ZONE = """BEGIN:VTIMEZONE
TZID:Office
BEGIN:STANDARD
DTSTART:19700101T000000
TZOFFSETFROM:{0}
TZOFFSETTO:{0}
END:STANDARD
END:VTIMEZONE
"""


def event(*lines: str, uid: str = "e1", title: str = "tea") -> str:
    return "\n".join(["BEGIN:VEVENT", f"UID:{uid}", f"SUMMARY:{title}", *lines, "END:VEVENT", ""])


def calendar(*blocks: str) -> str:
    return "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:test\n" + "".join(blocks) + "END:VCALENDAR\n"


def stored(where: Path, *texts: str | bytes) -> Path:
    where.mkdir(exist_ok=True)
    for number, text in enumerate(texts):
        data = text if isinstance(text, bytes) else text.replace("\n", "\r\n").encode()
        (where / f"{number}.ics").write_bytes(data)
    return where


def agenda(
    path: Path, range_: calendars.Range = "today", *, now: datetime = MONDAY, zone: ZoneInfo = BERLIN
) -> calendars.Agenda:
    start, end = calendars.span(range_, now.astimezone(zone))
    return calendars.read(path, start=start, end=end, zone=zone)


def starts(found: calendars.Agenda) -> list[str]:
    return [each.start for each in found.events]


def test_the_answer_has_the_shape_that_the_tool_promises(tmp_path: Path) -> None:
    block = event(
        "DTSTART;TZID=Europe/Berlin:20261130T093000",
        "DTEND;TZID=Europe/Berlin:20261130T100000",
        "LOCATION:Café\\, hinten",
        "DESCRIPTION:Zeile 1\\nZeile 2",
        'ATTENDEE;CN="Zoé":mailto:zoe@example.com',
        "ATTENDEE:mailto:bo@example.com",
    )
    path = stored(tmp_path / "cal", calendar("X-WR-CALNAME:Büro\\, oben\n", block))

    assert json.loads(agenda(path).model_dump_json()) == {
        "range": "today",
        "from": "2026-11-30T00:00:00+01:00",
        "to": "2026-12-01T00:00:00+01:00",
        "timezone": "Europe/Berlin",
        "events": [
            {
                "id": "e1",
                "title": "tea",
                "start": "2026-11-30T09:30:00+01:00",
                "end": "2026-11-30T10:00:00+01:00",
                "all_day": False,
                "location": "Café, hinten",
                "description": "Zeile 1\nZeile 2",
                "attendees": ["Zoé", "bo@example.com"],
                "calendar": "Büro, oben",
                "notes": [],
            }
        ],
        "notes": [],
        "skipped": [],
    }


@pytest.mark.parametrize("kind", ["missing", "empty folder", "folder of other files", "loop of links"])
def test_what_is_no_calendar_says_what_to_set(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "thing"
    match kind:
        case "empty folder":
            path.mkdir()
        case "folder of other files":
            path.mkdir()
            (path / "notes.txt").write_text("no calendar")
        case "loop of links":
            path.symlink_to(path)

    with pytest.raises(errors.ToolFailed, match=r"set DAYFLOW_CALENDAR or --calendar to an \.ics file"):
        agenda(path)


def test_one_file_is_read_as_well_as_a_folder(tmp_path: Path) -> None:
    path = stored(tmp_path / "cal", calendar(event("DTSTART:20261130T080000Z")))

    assert starts(agenda(path)) == starts(agenda(path / "0.ics")) == ["2026-11-30T09:00:00+01:00"]


@pytest.mark.parametrize(
    ("before", "start", "shown", "note"),
    [
        ("", ":20261130T080000Z", "09:00", None),
        ("", ";TZID=America/New_York:20261130T080000", "14:00", None),
        # a name of Windows
        ("", ";TZID=W. Europe Standard Time:20261130T080000", "08:00", None),
        # a name with its maker's prefix, and no definition
        ("", ";TZID=/citadel.org/20070129_1/Asia/Tokyo:20261130T160000", "08:00", None),
        # defined in the file, and nowhere else
        (ODD_ZONE.format("+0530"), ";TZID=Office:20261130T133000", "09:00", None),
        ("", ';TZID="Office":20261130T080000', "08:00", "unknown time zone 'Office'"),
        # a floating time is meant where the user is
        ("", ":20261130T080000", "08:00", None),
        # or where the calendar says it is
        ("X-WR-TIMEZONE:America/New_York\n", ":20261130T080000", "14:00", None),
        ("X-WR-TIMEZONE:Nowhere/Else\n", ":20261130T080000", "08:00", None),
    ],
)
def test_a_time_is_shown_in_the_users_zone(
    before: str, start: str, shown: str, note: str | None, tmp_path: Path
) -> None:
    found = agenda(stored(tmp_path / "cal", calendar(before, event(f"DTSTART{start}"))))

    assert starts(found) == [f"2026-11-30T{shown}:00+01:00"]
    assert bool(note) == bool(found.events[0].notes)
    assert (note or "") in " ".join(found.events[0].notes)


def test_a_zone_of_one_file_is_not_taken_for_that_of_another(tmp_path: Path) -> None:
    texts = [
        calendar(ODD_ZONE.format(offset), event("DTSTART;TZID=Office:20261130T120000", uid=offset))
        for offset in ("+0200", "+0500")
    ]

    found = agenda(stored(tmp_path / "cal", *texts))

    assert starts(found) == ["2026-11-30T08:00:00+01:00", "2026-11-30T11:00:00+01:00"]


DAILY = ("DTSTART;TZID=Europe/Berlin:20261101T093000", "DURATION:PT15M", "RRULE:FREQ=DAILY")
ALL_WEEK = ["30T09:30", "01T09:30", "02T09:30", "03T09:30", "04T09:30", "05T09:30", "06T09:30"]


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([event(*DAILY)], ALL_WEEK),
        ([event(*DAILY, "EXDATE;TZID=Europe/Berlin:20261201T093000")], [ALL_WEEK[0], *ALL_WEEK[2:]]),
        # the same moment, said in UTC
        ([event(*DAILY, "EXDATE:20261201T083000Z,20261202T083000Z")], [ALL_WEEK[0], *ALL_WEEK[3:]]),
        ([event("DTSTART:20261101T080000Z", "RDATE:20261130T080000Z,20261204T080000Z")], ["30T09:00", "04T09:00"]),
        ([event("DTSTART:20261101T080000Z", "RRULE:FREQ=WEEKLY;BYDAY=MO,WE;COUNT=9")], ["30T09:00"]),
        ([event("DTSTART:20261101T080000Z", "RRULE:FREQ=DAILY;UNTIL=20261201T080000Z")], ["30T09:00", "01T09:00"]),
        # UNTIL without a time, though the start has one
        ([event(DAILY[0], "RRULE:FREQ=DAILY;UNTIL=20261202")], ALL_WEEK[:2]),
        ([event("DTSTART:20261031T080000Z", "RRULE:FREQ=MONTHLY;BYDAY=-1MO")], ["30T09:00"]),
        # one instance is moved within the week
        (
            [
                event(*DAILY),
                event("RECURRENCE-ID;TZID=Europe/Berlin:20261201T093000", "DTSTART:20261201T150000Z"),
            ],
            [ALL_WEEK[0], "01T16:00", *ALL_WEEK[2:]],
        ),
        # moved out of the week
        (
            [event(*DAILY), event("RECURRENCE-ID:20261201T083000Z", "DTSTART:20261225T150000Z")],
            [ALL_WEEK[0], *ALL_WEEK[2:]],
        ),
        # moved into the week, of a series that is long over
        (
            [
                event("DTSTART:20250101T080000Z", "RRULE:FREQ=DAILY;COUNT=3"),
                event("RECURRENCE-ID:20250102T080000Z", "DTSTART:20261202T150000Z"),
            ],
            ["02T16:00"],
        ),
        # one instance is cancelled, in one of the two ways
        (
            [
                event(*DAILY),
                event("RECURRENCE-ID:20261201T083000Z", "DTSTART:20261201T083000Z", "STATUS:CANCELLED"),
            ],
            [ALL_WEEK[0], *ALL_WEEK[2:]],
        ),
        ([event("DTSTART:20261130T080000Z", "STATUS:CANCELLED")], []),
        # from one instance on, all are later
        (
            [
                event(*DAILY),
                event("RECURRENCE-ID;RANGE=THISANDFUTURE:20261204T083000Z", "DTSTART:20261204T100000Z"),
            ],
            [*ALL_WEEK[:4], "04T11:00", "05T11:00", "06T11:00"],
        ),
        # the newest copy of an event counts
        (
            [
                event("DTSTART:20261130T080000Z", "SEQUENCE:1"),
                event("DTSTART:20270130T080000Z", "SEQUENCE:2"),
            ],
            [],
        ),
    ],
)
def test_recurrence(blocks: list[str], expected: list[str], tmp_path: Path) -> None:
    found = agenda(stored(tmp_path / "cal", calendar(*blocks)), "week")

    assert [each.start[8:16] for each in found.events] == expected
    assert found.skipped == []
    assert len({each.id for each in found.events}) == len(found.events)


def test_an_instance_is_named_by_when_the_series_had_it(tmp_path: Path) -> None:
    moved = event("RECURRENCE-ID;TZID=Europe/Berlin:20261130T093000", "DTSTART:20261130T150000Z", title="later")
    path = stored(tmp_path / "cal", calendar(event(*DAILY), moved))

    assert [(each.id, each.title) for each in agenda(path).events] == [("e1@2026-11-30T09:30:00+01:00", "later")]


def test_an_exception_in_a_file_of_its_own_is_applied(tmp_path: Path) -> None:
    moved = event("RECURRENCE-ID;TZID=Europe/Berlin:20261130T093000", "DTSTART:20261130T150000Z")
    path = stored(tmp_path / "cal", calendar(event(*DAILY)), calendar(moved))

    assert starts(agenda(path)) == ["2026-11-30T16:00:00+01:00"]


@pytest.mark.parametrize(
    ("lines", "now", "zone", "expected"),
    [
        # one day; the end of the day before is not in it
        (["DTSTART;VALUE=DATE:20261130"], MONDAY, "Europe/Berlin", ("2026-11-30", "2026-12-01")),
        (["DTSTART;VALUE=DATE:20261129"], MONDAY, "Europe/Berlin", None),
        # a trip of several days, seen from its middle and from its last day
        (
            ["DTSTART;VALUE=DATE:20261127", "DTEND;VALUE=DATE:20261201"],
            MONDAY,
            "Europe/Berlin",
            ("2026-11-27", "2026-12-01"),
        ),
        (["DTSTART;VALUE=DATE:20261127", "DTEND;VALUE=DATE:20261130"], MONDAY, "Europe/Berlin", None),
        # a day has no zone: it is the user's day, east and west
        (
            ["DTSTART;VALUE=DATE:20261130"],
            datetime(2026, 11, 30, 12, tzinfo=ZoneInfo("Pacific/Kiritimati")),
            "Pacific/Kiritimati",
            ("2026-11-30", "2026-12-01"),
        ),
        (
            ["DTSTART;VALUE=DATE:20261130"],
            datetime(2026, 11, 30, 12, tzinfo=ZoneInfo("Pacific/Pago_Pago")),
            "Pacific/Pago_Pago",
            ("2026-11-30", "2026-12-01"),
        ),
        (
            ["DTSTART;VALUE=DATE:20200101", "RRULE:FREQ=MONTHLY;BYMONTHDAY=30"],
            MONDAY,
            "Europe/Berlin",
            ("2026-11-30", "2026-12-01"),
        ),
        (
            ["DTSTART;VALUE=DATE:20001130", "RRULE:FREQ=YEARLY", "EXDATE;VALUE=DATE:20261130"],
            MONDAY,
            "Europe/Berlin",
            None,
        ),
    ],
)
def test_all_day_events(
    lines: list[str], now: datetime, zone: str, expected: tuple[str, str] | None, tmp_path: Path
) -> None:
    found = agenda(stored(tmp_path / "cal", calendar(event(*lines))), now=now, zone=ZoneInfo(zone))

    assert [(each.start, each.end) for each in found.events] == ([expected] if expected else [])
    assert all(each.all_day for each in found.events)


def test_an_event_over_midnight_is_on_both_days(tmp_path: Path) -> None:
    path = stored(tmp_path / "cal", calendar(event("DTSTART:20261130T220000Z", "DTEND:20261201T010000Z")))

    days = [agenda(path, now=MONDAY + timedelta(days=day)) for day in (-1, 0, 1, 2)]

    assert [len(day.events) for day in days] == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("now", "expected", "hours"),
    [
        # the clock goes forward at 02:00: 02:30 does not exist and is read with the offset from before
        (datetime(2026, 3, 29, 12, tzinfo=BERLIN), ["2026-03-29T02:30:00+01:00", "2026-03-29T09:30:00+02:00"], 23),
        # the clock goes back at 03:00: 02:30 comes twice, the first is meant
        (datetime(2026, 10, 25, 12, tzinfo=BERLIN), ["2026-10-25T02:30:00+02:00", "2026-10-25T09:30:00+01:00"], 25),
        (datetime(2026, 10, 26, 12, tzinfo=BERLIN), ["2026-10-26T02:30:00+01:00", "2026-10-26T09:30:00+01:00"], 24),
    ],
)
def test_recurring_events_keep_their_wall_clock_over_a_change_of_the_clock(
    now: datetime, expected: list[str], hours: int, tmp_path: Path
) -> None:
    night = event("DTSTART;TZID=Europe/Berlin:20260101T023000", "RRULE:FREQ=DAILY", uid="night")
    morning = event("DTSTART;TZID=Europe/Berlin:20260101T093000", "RRULE:FREQ=DAILY", uid="morning")
    path = stored(tmp_path / "cal", calendar(night, morning))

    found = agenda(path, now=now)

    assert starts(found) == expected
    first, last = calendars.span("today", now)
    assert last.timestamp() - first.timestamp() == hours * 3_600
    assert found.range == "today"


@pytest.mark.parametrize(
    ("range_", "now", "first", "last"),
    [
        ("today", MONDAY, "2026-11-30T00:00:00+01:00", "2026-12-01T00:00:00+01:00"),
        ("today", MONDAY.replace(hour=23, minute=59), "2026-11-30T00:00:00+01:00", "2026-12-01T00:00:00+01:00"),
        ("week", MONDAY, "2026-11-30T00:00:00+01:00", "2026-12-07T00:00:00+01:00"),
        # the offset changes within the week
        ("week", datetime(2026, 10, 22, 8, tzinfo=BERLIN), "2026-10-22T00:00:00+02:00", "2026-10-29T00:00:00+01:00"),
        ("week", datetime(2026, 12, 28, tzinfo=BERLIN), "2026-12-28T00:00:00+01:00", "2027-01-04T00:00:00+01:00"),
    ],
)
def test_a_range_goes_from_midnight_to_midnight(range_: calendars.Range, now: datetime, first: str, last: str) -> None:
    assert [each.isoformat() for each in calendars.span(range_, now)] == [first, last]


def test_a_week_is_today_and_the_six_days_after(tmp_path: Path) -> None:
    blocks = [
        event(f"DTSTART;TZID=Europe/Berlin:{day}", uid=day)
        for day in ("20261129T235900", "20261130T000000", "20261206T235900", "20261207T000000")
    ]

    found = agenda(stored(tmp_path / "cal", calendar(*blocks)), "week")

    assert (found.range, [each.id for each in found.events]) == ("week", ["20261130T000000", "20261206T235900"])


def test_events_are_in_order_with_all_day_ones_first_on_each_day(tmp_path: Path) -> None:
    blocks = [
        event("DTSTART:20261201T060000Z", uid="d"),
        event("DTSTART;VALUE=DATE:20261201", uid="c"),
        event("DTSTART:20261130T180000Z", uid="b"),
        event("DTSTART;VALUE=DATE:20261128", "DTEND;VALUE=DATE:20261203", uid="a"),
        event("DTSTART:20261129T180000Z", "DTEND:20261130T060000Z", uid="a2"),  # since yesterday
    ]

    found = agenda(stored(tmp_path / "cal", calendar(*blocks)), "week")

    assert [each.id for each in found.events] == ["a", "a2", "b", "c", "d"]


GOOD = event("DTSTART:20261130T080000Z", uid="good")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (calendar(event("DTSTART:not-a-date"), GOOD), "event 'e1': its DTSTART cannot be read"),
        (calendar(event("LOCATION:nowhen"), GOOD), "event 'e1': no start"),
        (calendar(event("DTSTART:20261130T080000Z", "RRULE:FREQ=SOMETIMES"), GOOD), "its RRULE cannot be read"),
        (calendar(event("DTSTART:20261130T080000Z", "DTSTART:20261130T090000Z"), GOOD), "event 'e1': broken"),
        (calendar(event("DTSTART:00010101T000000Z", "DTEND:99991231T235959Z"), GOOD), "event 'e1': broken"),
        (calendar(GOOD, "BEGIN:VEVENT\nUID:cut\nDTSTART:20261130T080000Z\n"), "an event without an end"),
        (calendar("BEGIN:VEVENT\nUID:cut\n", GOOD), "an event without an end"),
        # a file that breaks off
        (calendar(GOOD, "BEGIN:VEVENT\nUID:cut\n").replace("END:VCALENDAR\n", ""), "an event without an end"),
        (calendar(event("DTSTART:20261130T080000Z", "DESCRIPTION:" + "x\n " * 60_000, "RDATE:2"), GOOD), "its RDATE"),
        (calendar(event("DTSTART:20261130T080000Z", *["EXDATE:20261130"] * 9_000), GOOD), "an event or time zone of"),
    ],
)
def test_a_broken_event_is_named_and_the_rest_is_read(text: str, why: str, tmp_path: Path) -> None:
    found = agenda(stored(tmp_path / "cal", text))

    assert [each.id for each in found.events] == ["good"]
    assert [each.file for each in found.skipped] == ["0.ics"]
    assert why in found.skipped[0].why


def test_a_broken_file_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = stored(tmp_path / "cal", calendar(GOOD), b"\x00\xff binary", b"", "not a calendar\n")
    with (path / "big.ics").open("wb") as big:
        big.truncate(20_000_001)
    os.mkfifo(path / "pipe.ics")
    (path / "away.ics").symlink_to("/dev/null")

    found = agenda(path)

    assert [each.id for each in found.events] == ["good"]
    assert {each.file: each.why for each in found.skipped} == {
        "1.ics": "no calendar in it",
        "2.ics": "no calendar in it",
        "3.ics": "no calendar in it",
        "big.ics": "20000001 bytes, more than 20000000",
        "pipe.ics": "not a regular file",
        "away.ics": "a link that leaves the folder",
    }


def test_text_that_is_no_utf8_is_replaced_and_noted(tmp_path: Path) -> None:
    found = agenda(stored(tmp_path / "cal", calendar(event("DTSTART:20261130T080000Z", title="Bü")).encode("latin-1")))

    assert [(each.title, each.notes) for each in found.events] == [("B�", ["some bytes are no utf-8, replaced"])]


def test_a_line_folded_within_a_character_is_whole_again(tmp_path: Path) -> None:
    text = calendar(event("DTSTART:20261130T080000Z", title="Bü")).encode().replace(b"\xc3\xbc", b"\xc3\r\n \xbc")

    assert [each.title for each in agenda(stored(tmp_path / "cal", text)).events] == ["Bü"]


@pytest.mark.parametrize(
    ("start", "rule", "shown", "why"),
    [
        ("20261129T230000Z", "FREQ=SECONDLY", 200, "recurs too often"),
        ("20261130T110000Z", "FREQ=SECONDLY", 200, "recurs too often"),
        ("20261129T230000Z", "FREQ=MINUTELY", 200, "recurs too often"),
        ("20261129T230000Z", "FREQ=MINUTELY;INTERVAL=10", 144, None),
        ("20261101T000000Z", "FREQ=SECONDLY", 0, "recurs up to 2588401 times from its start"),
        ("20261101T000000Z", "FREQ=SECONDLY;COUNT=10", 0, None),
        # a whole day of seconds each day
        (
            "20261129T230000Z",
            f"FREQ=DAILY;BYHOUR={','.join(map(str, range(24)))};BYMINUTE={','.join(map(str, range(60)))}",
            200,
            "recurs too often",
        ),
        ("20261101T000000Z", "FREQ=DAILY;INTERVAL=0", 0, "makes no sense"),
        ("20261101T000000Z", "FREQ=DAILY;INTERVAL=-1", 0, "makes no sense"),
        ("20261101T000000Z", "FREQ=DAILY,WEEKLY", 0, "makes no sense"),
        ("20261101T000000Z", "INTERVAL=2", 0, "makes no sense"),
        # more positions than a year has days
        ("20261101T000000Z", f"FREQ=YEARLY;BYDAY=MO;BYSETPOS={'1,' * 400}2", 0, "makes no sense"),
        # would be looked for second by second to the end of time
        ("20261101T000000Z", "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=3", 0, "a SECONDLY rule with"),
        ("20261101T000000Z", "FREQ=HOURLY;BYMONTH=2", 0, "an HOURLY rule with"),
        ("20261101T000000Z", "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", 0, "never comes true"),
        ("20261101T000000Z", "FREQ=YEARLY;BYMONTH=4;BYMONTHDAY=31", 0, "never comes true"),
        # a birthday without a year
        ("16041130T080000Z", "FREQ=YEARLY", 1, None),
        ("16041130T080000Z", "FREQ=YEARLY;BYMONTH=11;BYMONTHDAY=30", 1, None),
        # a clock time outside of a day
        ("20261101T000000Z", "FREQ=DAILY;BYHOUR=99", 0, "broken"),
    ],
)
def test_an_absurd_rule_is_bounded_and_noted(
    start: str, rule: str, shown: int, why: str | None, tmp_path: Path
) -> None:
    path = stored(tmp_path / "cal", calendar(event(f"DTSTART:{start}", f"RRULE:{rule}"), GOOD))

    began = time.process_time()
    found = agenda(path)

    assert time.process_time() - began < 3
    assert len(found.events) == shown + 1 or found.notes
    assert bool(why) == bool(found.skipped)
    assert (why or "") in " ".join(each.why for each in found.skipped)


def test_many_absurd_rules_share_one_budget(tmp_path: Path) -> None:
    blocks = [
        event("DTSTART:20261124T080000Z", "RRULE:FREQ=DAILY;INTERVAL=7;BYDAY=MO", uid=str(number))
        for number in range(30)
    ]

    found = agenda(stored(tmp_path / "cal", calendar(GOOD, *blocks)))

    assert [each.id for each in found.events] == ["good"]
    assert "more recurring events than can be worked out" in found.skipped[0].why


def test_a_zone_with_an_absurd_rule_is_not_used(tmp_path: Path) -> None:
    zone = ODD_ZONE.format("+0530").replace("END:STANDARD", "RRULE:FREQ=SECONDLY\nEND:STANDARD")

    found = agenda(stored(tmp_path / "cal", calendar(zone, event("DTSTART;TZID=Office:20261130T080000"))))

    assert starts(found) == ["2026-11-30T08:00:00+01:00"]
    assert [each.why for each in found.skipped] == ["time zone: a rule that is not yearly"]


def test_a_long_calendar_is_read_quickly(tmp_path: Path) -> None:
    past = [event(f"DTSTART:20{number % 20:02}0301T080000Z", uid=str(number)) for number in range(20_000)]

    began = time.process_time()
    found = agenda(stored(tmp_path / "cal", calendar(*past, GOOD)))

    assert time.process_time() - began < 5
    assert [each.id for each in found.events] == ["good"]


def test_more_events_than_can_be_worked_out_are_counted(tmp_path: Path) -> None:
    path = stored(tmp_path / "cal", *[calendar(GOOD.replace("good", str(number))) for number in range(5)])
    skipped: list[Skipped] = []

    files = ics_files.read(path, skipped)
    found = list(occurrences.between(files, MONDAY, MONDAY + timedelta(days=1), skipped, most=3))

    assert len(found) == 3
    assert [each.file for each in skipped] == ["3.ics", "4.ics"]
    assert "1 events are left out" in skipped[0].why


def test_copies_of_an_event_in_several_files_are_shown_once(tmp_path: Path) -> None:
    without_uid = GOOD.replace("UID:good\n", "")

    found = agenda(stored(tmp_path / "cal", calendar(GOOD, without_uid), calendar(GOOD, without_uid)))

    assert [each.id.split(":")[0] for each in found.events] == ["good", "sha256"]


@pytest.mark.parametrize("character", ["x", "語", "\\\\"])
def test_the_whole_answer_stays_under_its_limit_and_the_latest_go(character: str, tmp_path: Path) -> None:
    text = f"DESCRIPTION:{character * 2_000}"
    blocks = [
        event(f"DTSTART:20261130T{number // 60 + 6:02}{number % 60:02}00Z", text, uid=str(number))
        for number in range(400)
    ]

    found = agenda(stored(tmp_path / "cal", calendar(*blocks)))

    assert len(found.model_dump_json().encode()) < 60_000
    assert [each.id for each in found.events] == [str(number) for number in range(len(found.events))]
    assert found.notes == [f"{400 - len(found.events)} later events are left out: the answer would be too long"]
    assert {500} == {len(each.description) for each in found.events}
    assert found.events[0].notes == ["clipped: text is 2000 characters"]


def test_many_attendees_are_counted(tmp_path: Path) -> None:
    people = [f"ATTENDEE:mailto:p{number}@example.com" for number in range(50)]

    found = agenda(stored(tmp_path / "cal", calendar(event("DTSTART:20261130T080000Z", *people))))

    assert found.events[0].attendees[19:] == ["p19@example.com", "and 30 more"]


def sound(found: calendars.Agenda) -> bool:
    """Everything can be encoded, and it fits."""
    return len(found.model_dump_json().encode("utf-8", "strict")) < 60_000


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=400))
def test_random_bytes_are_skipped(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = agenda(stored(tmp_path_factory.mktemp("cal"), data))

    assert sound(found)
    assert found.events or found.skipped


PIECES = st.sampled_from(
    [
        *("BEGIN:VEVENT\n", "END:VEVENT\n", "BEGIN:VCALENDAR\n", "END:VCALENDAR\n", "BEGIN:VALARM\n", "END:VALARM\n"),
        *("BEGIN:VTIMEZONE\n", "END:VTIMEZONE\n", "TZID:Z\n", "BEGIN:STANDARD\n", "END:STANDARD\n"),
        *("TZOFFSETFROM:+0100\n", "TZOFFSETTO:+9999\n", "RRULE:FREQ=YEARLY;BYDAY=-1SU\n", "X-WR-TIMEZONE:UTC\n"),
        *("UID:a\n", "UID:\n", "SUMMARY:a\\", "SUMMARY;X=\ud800:b\n", "\n ", "\n", ":", ";", "=", '"', ",", "\x00"),
        *("DTSTART:20261130T080000Z\n", "DTSTART;TZID=Z:20261130T080000\n", "DTSTART;VALUE=DATE:20261130\n"),
        *("DTSTART:00010101T000000\n", "DTEND:99991231T235959Z\n", "DTEND;VALUE=DATE:20261130\n", "DURATION:-P9W\n"),
        *("DURATION:P999999D\n", "RECURRENCE-ID:20261130T080000Z\n", "RECURRENCE-ID;RANGE=THISANDFUTURE:20261130\n"),
        *("RDATE;VALUE=PERIOD:20261130T080000Z/PT1H\n", "EXDATE:20261130\n", "EXDATE;VALUE=DATE:20261130\n"),
        *("RRULE:FREQ=DAILY\n", "RRULE:FREQ=WEEKLY;BYDAY=5MO;BYSETPOS=-1\n", "RRULE:FREQ=HOURLY;BYHOUR=3\n"),
        *("RRULE:FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO\n", "RRULE:FREQ=MONTHLY;UNTIL=2026;COUNT=2\n", "RRULE:COUNT=a\n"),
        *("ATTENDEE;CN=\n", "ATTENDEE:mailto:a\n", "SEQUENCE:x\n", "SEQUENCE:2\n", "STATUS:CANCELLED\n"),
    ]
)


@settings(max_examples=250, deadline=None)
@given(pieces=st.lists(PIECES, max_size=25))
def test_hostile_calendars_never_raise(pieces: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    inner = "".join(pieces)
    text = calendar("BEGIN:VEVENT\nDTSTART:20261130T080000Z\n", inner, "END:VEVENT\n", GOOD)

    found = agenda(stored(tmp_path_factory.mktemp("cal"), text.encode("utf-8", "surrogatepass")), "week")

    assert sound(found)


def test_every_day_has_sample_events() -> None:
    """Also in the years to come, and where the clock changes."""
    for week in range(0, 110, 5):
        now = datetime(2026, 2, 1, 12, tzinfo=BERLIN) + timedelta(weeks=week)
        found = agenda(SAMPLES / "calendar", "week", now=now)

        assert len({each.start[:10] for each in found.events}) == 7
        assert (found.skipped, found.notes) == ([], [])


def test_the_samples_show_an_exception_and_an_override() -> None:
    christmas = agenda(SAMPLES / "calendar", now=datetime(2026, 12, 25, tzinfo=BERLIN))
    first = agenda(SAMPLES / "calendar", now=datetime(2026, 12, 1, tzinfo=BERLIN))

    assert "Stand-up" not in {each.title for each in christmas.events}
    assert [each.title for each in first.events] == [
        "Monatsabschluss für die Buchhaltung",
        "Stand-up (später, wegen der Bühnenprobe)",
        "Café-Runde: Werkstatt",
    ]


async def test_the_tool_reads_the_samples_that_are_shipped(tmp_path: Path) -> None:
    at = Settings(DAYFLOW_HOME=tmp_path, DAYFLOW_CALENDAR=SAMPLES / "calendar", DAYFLOW_TIMEZONE="Europe/Berlin")
    store = await database.connect(at)
    context = Context(
        settings=at,
        database=store,
        namespace="default",
        run_id="run-1",
        action_id="s1.1-abcdef",
        idempotency_key="key",
        attempt=1,
    )

    found = await read_calendar.read_calendar(read_calendar.ReadCalendar(range="week"), context)

    assert (found.range, found.timezone, found.skipped) == ("week", "Europe/Berlin", [])
    assert len(found.events) >= 14
    await store.close()


def test_the_tool_tells_the_model_what_it_takes() -> None:
    spec = read_calendar.TOOL.spec

    assert (spec.name, spec.declares.kind) == ("read_calendar", "read")
    assert spec.input_schema["properties"]["range"]["enum"] == ["today", "week"]
    assert spec.input_schema["properties"]["range"]["description"]
