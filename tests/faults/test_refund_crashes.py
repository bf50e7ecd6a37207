"""A refund that is killed at any point, its server too, moves the money once and sends one mail."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from checker import check
from homes import Home, pid_of, until
from refunds import LEAD, PLAN, Refund, approve, asked, begin, refunded_once
from script import unique
from temporalio.api.enums.v1 import TimeoutType
from witness import Witness, ends, send, witness
from workers import working

from store import crash

# Where the workers die, one after another. An effect's first passage is the refund, its second the mail; a worker that
# finds the refund in its ledger does not pass its points again.
REFUND = [("effect.begin",), ("effect.begun",), ("effect.committed",), ("effect.done",)]
MAIL = [("effect.begin:2",), ("effect.begun:2",), ("mail.accepted",), ("effect.committed:2",), ("effect.done:2",)]
TWICE = [
    ("effect.begun", "effect.begun"),
    ("effect.committed", "effect.committed"),
    ("effect.begin", "effect.done"),
    ("effect.committed", "effect.committed:2"),
    ("effect.begun:2", "effect.committed"),
    ("mail.accepted", "effect.done"),
]
# A mail that may have left is looked for, but not before the time for sending it is over.
SECONDS = 110


@dataclass(frozen=True)
class Told:
    """A finished run, and its refund."""

    refund: Refund
    seen: Witness


@pytest.fixture(scope="module")
def told(home: Home) -> Iterator[dict[tuple[str, ...], "Future[Told]"]]:
    with side_by_side(home, REFUND + MAIL) as told:
        yield told


@pytest.fixture(scope="module")
def told_twice(home: Home) -> Iterator[dict[tuple[str, ...], "Future[Told]"]]:
    with side_by_side(home, TWICE) as told:
        yield told


@contextmanager
def side_by_side(home: Home, cases: Sequence[tuple[str, ...]]) -> Iterator[dict[tuple[str, ...], "Future[Told]"]]:
    """All cases, each on a task queue of its own: what takes time is to notice a death."""
    with ThreadPoolExecutor(len(cases)) as pool:
        yield {points: pool.submit(killed, home, points) for points in cases}


def killed(home: Home, points: tuple[str, ...]) -> Told:
    """Kill one worker after another at these points; the last one finishes the run."""
    refund = on_its_own_queue("-".join(points).replace(":", ""))
    first, *others = points
    begin(home, refund)
    with working(home, refund.queue, DAYFLOW_CRASH_AT=first) as doomed:
        approve(home, refund.run_id, asked(home, refund)["action_id"])
        doomed.died()
    for point in others:
        with working(home, refund.queue, DAYFLOW_CRASH_AT=point) as doomed:
            doomed.died()
    with working(home, refund.queue):
        ends(home, refund.run_id, seconds=SECONDS)
    return Told(refund, witness(home, refund.run_id))


def on_its_own_queue(name: str) -> Refund:
    run_id = unique(name)
    return Refund(run_id=run_id, queue=run_id)


@pytest.mark.parametrize("points", REFUND, ids=", then ".join)
def test_a_kill_during_the_refund_changes_nothing(home, told, points):
    as_if_nothing_had_happened(home, told[points].result())


@pytest.mark.parametrize("points", MAIL, ids=", then ".join)
def test_a_kill_during_the_mail_changes_nothing(home, told, points):
    as_if_nothing_had_happened(home, told[points].result())


def test_a_kill_before_a_person_is_asked_is_noticed_by_the_heartbeat(home):
    refund = on_its_own_queue("before-asking")
    begin(home, refund)
    with working(home, refund.queue, DAYFLOW_CRASH_AT="prepare.done") as doomed:
        doomed.died()
    with working(home, refund.queue):
        approve(home, refund.run_id, asked(home, refund)["action_id"])
        ends(home, refund.run_id)

    told = Told(refund, witness(home, refund.run_id))
    as_if_nothing_had_happened(home, told)
    assert lost(told.seen, "prepare_action") == [TimeoutType.TIMEOUT_TYPE_HEARTBEAT]


def test_a_kill_while_a_decision_is_checked_is_noticed_by_the_heartbeat(home):
    told = killed(home, ("check.done",))

    as_if_nothing_had_happened(home, told)
    assert lost(told.seen, "check_authority") == [TimeoutType.TIMEOUT_TYPE_HEARTBEAT]


@pytest.mark.long
@pytest.mark.parametrize("points", TWICE, ids=", then ".join)
def test_a_second_kill_during_the_recovery_changes_nothing(home, told_twice, points):
    as_if_nothing_had_happened(home, told_twice[points].result())


def test_every_point_of_an_effect_is_met():
    points = {point for point in crash.POINTS if point.startswith(("effect.", "mail."))}

    assert {points[0].partition(":")[0] for points in REFUND + MAIL} == points


def test_without_a_kill_one_refund_one_mail_and_a_whole_record(staffed):
    refund = Refund()
    begin(staffed, refund)
    pending = asked(staffed, refund)
    approve(staffed, refund.run_id, pending["action_id"])
    ends(staffed, refund.run_id)

    seen = witness(staffed, refund.run_id)
    as_if_nothing_had_happened(staffed, Told(refund, seen))
    assert pending["arguments"] == {"order_id": refund.order.id, "amount": "40.00", "reason": refund.task}
    assert (pending["intent"], pending["role"]) == (f"refund:order-{refund.order.id}", "lead")
    [asked_for, mailed] = [action for action in seen.state.actions.all if action.effect]
    assert pending["idempotency_key"] == asked_for.idempotency_key == seen.refunds[0]["idempotency_key"]
    assert pending["arguments_sha256"] == asked_for.arguments_sha256
    assert seen.record["totals"]["cost_usd"] > 0
    assert [row["action_id"] for row in seen.record["step_results"][3:]] == [asked_for.action_id, mailed.action_id]
    assert seen.refunds[0]["refund_id"] in seen.record["step_results"][3]["result"]


@pytest.mark.timeout(180)
def test_a_server_that_dies_between_approval_and_effect_changes_nothing(new_home):
    home = new_home()
    unseen, held = Refund("nobody-works"), Refund("paused")
    with working(home, "dayflow"):
        for refund in (unseen, held):
            begin(home, refund)
        actions = {refund: asked(home, refund)["action_id"] for refund in (unseen, held)}
    approve(home, unseen.run_id, actions[unseen])

    with working(home, "dayflow"):
        send(home, held.run_id, "pause", {"by": "ana"})
        ends(home, held.run_id, "paused", "by ana")
        approve(home, held.run_id, actions[held])
        until("the approval is taken", lambda: witness(home, held.run_id).record["approved_by"])
        with server_killed(home):
            pass
        send(home, held.run_id, "resume", {"by": "ana"})
        for refund in (unseen, held):
            ends(home, refund.run_id, seconds=60)

    for refund in (unseen, held):
        as_if_nothing_had_happened(home, Told(refund, witness(home, refund.run_id)))


@contextlib.contextmanager
def server_killed(home: Home) -> Iterator[None]:
    """The Temporal server is dead, by SIGKILL, for as long as the block runs."""
    os.kill(pid_of(home, "server"), signal.SIGKILL)
    yield
    home.dayflow("up", "--no-worker")


def lost(seen: Witness, activity: str) -> "list[TimeoutType.ValueType]":
    """How the server noticed that attempts of this activity were lost."""
    scheduled = {
        event.event_id: event.activity_task_scheduled_event_attributes.activity_type.name for event in seen.events
    }
    started = [event.activity_task_started_event_attributes for event in seen.events]
    failures = [one.last_failure for one in started if scheduled.get(one.scheduled_event_id) == activity]
    return [
        failure.timeout_failure_info.timeout_type for failure in failures if failure.HasField("timeout_failure_info")
    ]


def as_if_nothing_had_happened(home: Home, told: Told) -> None:
    check(told.seen)
    refunded_once(home, told.refund.order)
    record, state = told.seen.record, told.seen.state
    assert (record["status"], record["step"], record["current_step"]) == ("done", 6, "5 of 5")
    assert [item["tool"] for item in record["plan"]] == list(PLAN)
    assert [row["status"] for row in record["step_results"]] == ["done"] * 5
    assert [action.status for action in state.actions.all] == ["done"] * 5
    assert [(one["action_id"], one["approver"]) for one in record["approved_by"]] == [
        (state.actions.all[3].action_id, LEAD)
    ]
    assert f"refunded 40.00 EUR (refund {told.seen.refunds[0]['refund_id']})" in record["result"]
    assert record["pending_actions"] == []
    assert record["refused_messages"]["count"] == 0
