"""With a full disk under the store nothing begins that cannot be written down; with room it goes on by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from checker import check
from disks import SmallDisk, small_disk
from homes import Home, running, until
from refunds import Refund, approve, asked, begin, nothing_happened, payments, refunded_once, scripted
from script import call, conversation, create_task, play, say, unique
from witness import ends, look, requests, retried, rows, start, witness
from workers import working

FULL = "database or disk is full"


@dataclass(frozen=True)
class Desk:
    """A home with a worker, whose store is on a small disk of its own."""

    home: Home
    disk: SmallDisk


@pytest.fixture(scope="module")
def hired(tmp_path_factory: pytest.TempPathFactory, sample_orders: Path) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("disk")
    with small_disk(folder) as disk:
        home = Home(
            tmp_path_factory.mktemp("home"),
            DAYFLOW_SAMPLE_ORDERS=str(sample_orders),
            DAYFLOW_DATABASE_URL=disk.store,
        )
        with running(home), working(home, "dayflow") as worker:
            worker.ready()
            yield Desk(home, disk)


@pytest.fixture
def desk(hired: Desk) -> Iterator[Desk]:
    """With room on the disk, before and after."""
    yield hired
    hired.disk.free()


def test_an_effect_that_cannot_be_written_down_is_not_started_until_there_is_room(desk):
    refund = Refund("full")
    begin(desk.home, refund)
    action_id = asked(desk.home, refund)["action_id"]
    desk.disk.fill()

    approve(desk.home, refund.run_id, action_id)
    trouble = retried(desk.home, refund.run_id, "issue_refund")

    assert FULL in trouble
    assert "Make room" in trouble
    shown = desk.home.dayflow("show", refund.run_id).stdout
    assert "issue_refund is tried again by itself" in shown
    assert "Make room" in " ".join(shown.split())
    nothing_happened(desk.home, refund.order)
    assert rows(desk.home, "SELECT * FROM ledger WHERE name = 'issue_refund' AND run_id = ?", refund.run_id) == []
    check(witness(desk.home, refund.run_id))

    desk.disk.free()
    ends(desk.home, refund.run_id)
    check(witness(desk.home, refund.run_id))
    refunded_once(desk.home, refund.order)
    assert desk.home.show(refund.run_id)["retrying"] == []


def test_a_disk_that_is_full_after_the_commit_keeps_the_model_waiting_for_the_result(desk):
    refund = Refund("full")
    play(desk.home, scripted(refund))
    slow = {"kind": "slow", "seconds": 2, "match": refund.order.charge}
    desk.home.sandbox("PUT", "/sandbox/payments/faults", [slow])
    begin(desk.home, refund)
    approve(desk.home, refund.run_id, asked(desk.home, refund)["action_id"])
    until("the money has moved", lambda: payments(desk.home, refund.order))
    desk.disk.fill()

    assert FULL in retried(desk.home, refund.run_id, "issue_refund")
    assert max(request.place for request in requests(desk.home, refund.task)) == (4, 1)
    [row] = rows(desk.home, "SELECT * FROM ledger WHERE name = 'issue_refund' AND run_id = ?", refund.run_id)
    assert row["status"] == "begun"

    desk.disk.free()
    ends(desk.home, refund.run_id)
    seen = witness(desk.home, refund.run_id)
    check(seen)
    refunded_once(desk.home, refund.order)
    [after] = [request for request in seen.requests if request.place == (5, 1)]
    assert seen.refunds[0]["refund_id"] in str(after.messages[-1])


@pytest.mark.parametrize("leave", [0, 128 * 1024], ids=["no room", "room for short rows only"])
def test_an_answer_that_cannot_be_written_down_is_kept_and_not_paid_twice(desk, leave):
    task, long = unique("full"), "All is well. " * 20_000
    slow = {"kind": "slow", "seconds": 2}
    turn = call({"type": "text", "text": long}, create_task(task), faults=[slow])
    play(desk.home, conversation(task, turn, say("Done.")))
    start(desk.home, task, {"agent": "brief", "task": task})
    until("the model is asked", lambda: requests(desk.home, task))
    desk.disk.fill(leave)

    assert FULL in retried(desk.home, task, "call_model", attempt=4)
    assert not look(desk.home, task).state.steps

    desk.disk.free()
    ends(desk.home, task)
    seen = witness(desk.home, task)
    check(seen)
    assert seen.record["totals"]["possibly_paid"]["calls"] == 0


def test_an_answer_that_died_with_its_worker_is_asked_for_once_more(desk):
    task, queue = unique("full"), unique("queue")
    turn = call(create_task(task), faults=[{"kind": "slow", "seconds": 2}])
    play(desk.home, conversation(task, turn, say("Done.")))
    with working(desk.home, queue) as doomed:
        start(desk.home, task, {"agent": "brief", "task": task}, queue)
        until("the model is asked", lambda: requests(desk.home, task))
        desk.disk.fill()
        retried(desk.home, task, "call_model")
        doomed.kill()
    desk.disk.free()

    with working(desk.home, queue):
        ends(desk.home, task)

    check(witness(desk.home, task), again={(1, 1): 1})
