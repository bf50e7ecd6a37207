"""Timetables: when an agent is due, which run that is, and what is too late."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from domain import errors, timetable
from domain.request import RunRequest
from domain.timetable import CATCH_UP, DAYS, ON_TIME, Firing, Timetable

BERLIN = ZoneInfo("Europe/Berlin")


def table(**more):
    given = {"name": "brief", "at": "07:30", "time_zone": "Europe/Berlin", "request": RunRequest(agent="brief")}
    return Timetable(**{**given, **more})


def due(at, zone=BERLIN, *, late=timedelta(0), **more):
    return timetable.due(Firing(timetable=table(**more), at=at, now=at + late), zone)


def utc(*when):
    return datetime(*when, tzinfo=UTC)


@pytest.mark.parametrize(("text", "meant"), [("07:30", "07:30"), ("7:30", "07:30"), (" 23:59 ", "23:59")])
def test_a_time_of_day_is_taken_as_people_write_it(text, meant):
    assert timetable.clock(text) == meant


@pytest.mark.parametrize("text", ["24:00", "7", "7.30", "07:30:00", "7:30pm", "-1:00", "07:60", "", "٠٧:٣٠"])
def test_what_is_no_time_of_day_is_refused_with_an_example(text):
    with pytest.raises(errors.BadRequest, match="such as 07:30"):
        timetable.clock(text)


WEEKS = [
    ("mon-fri", "mon tue wed thu fri", "mon-fri"),
    ("Monday,wed, saturday", "mon wed sat", "mon,wed,sat"),
    ("fri-mon", "mon fri sat sun", "mon,fri-sun"),
    ("sun", "sun", "sun"),
    ("mon-sun", "mon tue wed thu fri sat sun", "every day"),
    ("sat,sun,sat", "sat sun", "sat,sun"),
]


@pytest.mark.parametrize(("text", "meant", "shown"), WEEKS)
def test_days_are_taken_as_people_write_them_and_shown_as_they_can_be_typed(text, meant, shown):
    found = timetable.days(text)

    assert found == tuple(meant.split())
    assert timetable.in_words(found) == shown
    assert shown == "every day" or timetable.days(shown) == found


@pytest.mark.parametrize("text", ["", "mo", "workdays", "mon-", "mon..fri", "mon-fri-sun", "someday"])
def test_what_names_no_days_is_refused_with_an_example(text):
    with pytest.raises(errors.BadRequest, match="mon-fri"):
        timetable.days(text)


def test_the_run_of_a_day_is_named_by_agent_and_day_and_that_of_a_second_schedule_by_its_name_too():
    assert table().run_id(date(2026, 11, 30)) == "brief-2026-11-30"
    assert table(name="evening").run_id(date(2026, 11, 30)) == "brief-evening-2026-11-30"


def test_half_past_seven_is_the_same_day_in_winter_and_in_summer():
    assert due(utc(2027, 3, 27, 6, 30)).run_id == "brief-2027-03-27"
    assert due(utc(2027, 3, 28, 5, 30)).run_id == "brief-2027-03-28"


def test_the_hour_that_there_is_twice_has_one_run():
    first, second = utc(2027, 10, 31, 0, 30), utc(2027, 10, 31, 1, 30)

    assert first.astimezone(BERLIN).time() == second.astimezone(BERLIN).time()
    assert due(first).run_id == due(second).run_id == "brief-2027-10-31"


def test_the_day_is_that_of_the_zone_and_of_when_it_was_meant_to_begin():
    meant = utc(2026, 11, 29, 22, 30)

    assert due(meant).day == date(2026, 11, 29)
    assert due(meant, late=timedelta(hours=2)).day == date(2026, 11, 29)
    assert due(meant, ZoneInfo("Asia/Tokyo")).day == date(2026, 11, 30)


@pytest.mark.parametrize(("missed", "patience"), [("catch-up", CATCH_UP), ("skip", ON_TIME)])
def test_what_is_late_is_caught_up_or_skipped_as_asked(missed, patience):
    meant = utc(2026, 11, 30, 6, 30)

    assert due(meant, late=patience, missed=missed).missed is None
    too_late = due(meant, late=patience + timedelta(seconds=1), missed=missed).missed
    assert "due at 07:30" in too_late


def test_a_time_that_a_change_of_the_clocks_leaves_out_is_replaced_by_the_one_an_hour_later():
    left_out = list(table(at="02:30").replaced(BERLIN, 2027))

    assert [f"{at:%Y-%m-%d %H:%M}" for at in left_out[:2]] == ["2027-03-28 03:30", "2028-03-26 03:30"]
    assert len(left_out) == timetable.YEARS + 1


def test_only_on_days_that_it_is_meant_for_and_only_where_it_is_left_out():
    assert list(table(at="02:30", days=("mon", "tue")).replaced(BERLIN, 2027)) == []
    assert list(table(at="07:30").replaced(BERLIN, 2027)) == []
    assert list(table(at="02:30").replaced(ZoneInfo("Asia/Tokyo"), 2027)) == []


def test_a_timetable_goes_through_json_unchanged():
    whole = table(days=("mon", "fri"), missed="skip", inbox="/mail", request=RunRequest(agent="brief", task="All."))

    assert timetable.parse([whole.model_dump(mode="json", exclude_none=True)]) == whole
    assert timetable.parse([table().model_dump(mode="json")]).days == DAYS


# What is no timetable, and what the message says.
REFUSED = [
    ([], "0 inputs"),
    ([{}, {}], "2 inputs"),
    ([7], "cannot be used"),
    ([None], "cannot be used"),
    ([{"name": "brief"}], "at: Field required"),
    ([{**table().model_dump(mode="json"), "at": "7:30"}], "at: it has to match"),
    ([{**table().model_dump(mode="json"), "days": []}], "days"),
    ([{**table().model_dump(mode="json"), "days": ["noon"]}], "days.0"),
    ([{**table().model_dump(mode="json"), "more": 1}], "more"),
    ([{**table().model_dump(mode="json"), "request": {"agent": "brief", "task": ""}}], "request.task"),
]


@pytest.mark.parametrize(("raw", "why"), REFUSED)
def test_what_is_no_timetable_is_refused_with_what_is_wrong(raw, why):
    with pytest.raises(errors.BadRequest, match=why):
        timetable.parse(raw)


def test_one_under_a_key_that_is_missing_waits_for_the_key():
    sealed = {"undecodable": "binary/encrypted", "sha256": "0", "excerpt": "", "key": "k1"}

    with pytest.raises(errors.MissingKey, match="'k1'"):
        timetable.parse([sealed])


@pytest.mark.parametrize("text", ["", "-x", "Brief", "a b", "x" * 61, "ä"])
def test_a_name_that_ids_cannot_have_is_refused(text):
    with pytest.raises(errors.BadRequest, match="no name for a schedule"):
        timetable.name(text)
