"""An agent on a schedule: one run a day, whatever fires, dies or comes late; and a schedule decides about nothing."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from checker import check
from homes import Home, kill_server, until
from orders import Order
from refunds import Refund, approve, asked, payments, ruled
from schedules import backfill, due_at, in_seconds, outcomes, scheduled, told, trigger, would_go
from script import call, conversation, create_task, play, say, unique
from witness import ends, requests, rows, witness
from workers import working

BERLIN = ZoneInfo("Europe/Berlin")
# Here it is never the same day.
BEHIND, AHEAD = "Pacific/Niue", "Pacific/Kiritimati"


@pytest.fixture
def name():
    """A schedule's name, which is the task of its runs."""
    return unique("each-day")


def briefs(home: Home, *names: str) -> None:
    """Let the model create one task in the runs of these schedules."""
    play(home, *(conversation(one, call(create_task(one)), say("That is all.")) for one in names))


def each_day(home: Home, name: str, *options: str) -> str:
    """A schedule in Berlin; what its runs are called before the day."""
    scheduled(home, "brief", name, "--at", "12:00", "--tz", "Europe/Berlin", "--task", name, *options)
    return f"brief-{name}-"


def day(at: datetime) -> date:
    """The day that it is in Berlin."""
    return at.astimezone(BERLIN).date()


def test_a_day_has_one_run_whether_its_hour_comes_again_or_people_or_a_backfill_let_it_fire(staffed, name, tmp_path):
    briefs(staffed, name)
    runs = each_day(staffed, name, "--inbox", str(tmp_path))
    at = in_seconds(2)
    due_at(staffed, name, at)
    assert outcomes(staffed, name, 1) == ["started"]

    trigger(staffed, name)
    assert outcomes(staffed, name, 2) == ["there already", "started"]
    backfill(staffed, name, at)
    assert outcomes(staffed, name, 3) == ["there already"] * 2 + ["started"]
    due_at(staffed, name, in_seconds(2))
    assert outcomes(staffed, name, 4) == ["there already"] * 3 + ["started"]

    run_id = f"{runs}{day(at)}"
    assert {one.fired.run_id for one in told(staffed, name).took} == {run_id}
    ends(staffed, run_id)
    seen = witness(staffed, run_id)
    check(seen)
    assert (len(seen.requests), len(seen.commits), seen.run.other_executions) == (2, 1, [])
    assert seen.record["requested_by"] == f"schedule {name}"
    [source] = rows(staffed, "SELECT inbox FROM sources WHERE run_id = ?", run_id)
    assert source["inbox"] == str(tmp_path)


def test_now_starts_the_run_of_today_also_while_paused_and_no_second_one(staffed, name):
    briefs(staffed, name)
    runs = each_day(staffed, name)
    staffed.dayflow("schedule", "pause", name)

    first = staffed.json("schedule", "now", name)
    again = staffed.dayflow("schedule", "now", name).stdout

    run_id = f"{runs}{day(datetime.now(UTC))}"
    assert (first["run_id"], first["started"]) == (run_id, True)
    assert again.startswith(f"{run_id} is there already")
    assert len(told(staffed, name).took) == 1


def test_a_clean_up_takes_what_came_of_firings_along(staffed, name):
    each_day(staffed, name, "--missed", "skip")
    past = in_seconds(-300)
    due_at(staffed, name, past)
    backfill(staffed, name, past)
    assert outcomes(staffed, name, 1) == ["missed"]

    [took] = told(staffed, name).took

    until("it would go", lambda: took.workflow_id in would_go(staffed))


def test_what_is_late_is_made_up_for_or_left_out_as_asked(staffed, name):
    eager, strict = f"{name}-eager", f"{name}-strict"
    briefs(staffed, eager, strict)
    runs = {one: each_day(staffed, one, "--missed", how) for one, how in ((eager, "catch-up"), (strict, "skip"))}
    past = in_seconds(-300)
    for one in runs:
        due_at(staffed, one, past)

        backfill(staffed, one, past)

    assert outcomes(staffed, strict, 1) == ["missed"]
    [took] = told(staffed, strict).took
    assert took.fired.run_id == f"{runs[strict]}{day(past)}"
    assert took.fired.why.startswith(f"it was due at {past.astimezone(BERLIN):%H:%M}")
    assert outcomes(staffed, eager, 1) == ["started"]

    backfill(staffed, eager, past - timedelta(days=1))

    assert outcomes(staffed, eager, 2) == ["missed", "started"]
    assert requests(staffed, strict) == []


def test_a_server_that_was_killed_and_a_worker_that_was_away_catch_up_with_the_day(new_home, name):
    home = new_home()
    briefs(home, name)
    runs = each_day(home, name)
    at = in_seconds(3)
    due_at(home, name, at)
    kill_server(home)
    until("its time is over", lambda: datetime.now(UTC) > at + timedelta(seconds=1))

    home.dayflow("up", "--no-worker")
    until("the server has fired it", lambda: told(home, name).took)
    [waits] = told(home, name).took
    assert (waits.fired, waits.why) == (None, "it waits for a worker: `dayflow up`")
    with working(home, "dayflow"):
        assert outcomes(home, name, 1) == ["started"]
        ends(home, f"{runs}{day(at)}")

    assert len(requests(home, name)) == 2
    assert told(home, name).missed == 0


def test_a_refund_by_a_schedule_that_fired_on_two_days_waits_for_a_person_who_saw_the_first(staffed, name):
    order = Refund().order
    play(staffed)
    first, second = (fire_in(staffed, zone, name, order) for zone in (BEHIND, AHEAD))

    # The first one still waits, and the second day has its run all the same.
    assert first.run_id != second.run_id
    waits = asked(staffed, second)
    action_id = asked(staffed, first)["action_id"]
    approve(staffed, first.run_id, action_id, f"schedule {name}")
    assert ruled(staffed, first.run_id, 1)[0]["reason"].startswith("own request")
    approve(staffed, first.run_id, action_id)
    ends(staffed, first.run_id)

    approve(staffed, second.run_id, waits["action_id"])

    assert asked_again(staffed, second)["conflict"]["run_id"] == first.run_id
    assert [line["metadata"]["dayflow_run"] for line in payments(staffed, order)] == [first.run_id]


def fire_in(home: Home, zone: str, name: str, order: Order) -> Refund:
    """Let the schedule of a refund fire on the day that it is there."""
    task = f"Order {order.id} arrived broken, refund 40.00 ({name})"
    refund = Refund(order=order, run_id=f"refund-{name}-{datetime.now(ZoneInfo(zone)).date()}")
    scheduled(home, "refund", name, "--at", "12:00", "--tz", zone, "--task", task)
    trigger(home, name)
    until("its run is there", lambda: refund.run_id in [one.fired.run_id for one in told(home, name).took if one.fired])
    return refund


def asked_again(home: Home, refund: Refund) -> dict[str, Any]:
    """What it asks once its approval has met the refund of the other run."""

    def met() -> dict[str, Any] | None:
        waits = asked(home, refund)
        return waits if waits["conflict"] else None

    return until("it met the conflict", met)
