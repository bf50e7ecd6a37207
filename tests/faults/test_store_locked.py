"""While the store is locked nothing begins that cannot be written down; when it is free it goes on by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from checker import check
from homes import Home, until
from locks import locked
from refunds import Refund, approve, asked, begin, nothing_happened, payments, refunded_once, scripted
from script import call, conversation, create_task, play, say, unique
from witness import ends, requests, retried, rows, start, witness
from workers import working

LOCKED = "database is locked"
# The worker waits less for a lock than Dayflow does by default, so that it gives up in time for a test.
IMPATIENT = "?timeout=0.2"


@pytest.fixture(scope="module")
def desk(home: Home) -> Iterator[str]:
    """A task queue whose worker waits for a lock only briefly."""
    queue = unique("impatient")
    with working(home, queue, DAYFLOW_DATABASE_URL=f"sqlite+aiosqlite:///{store(home)}{IMPATIENT}") as worker:
        worker.ready()
        yield queue


def store(home: Home) -> Path:
    return home.path / "dayflow.sqlite"


def test_an_effect_is_not_started_while_the_store_is_locked(home, desk):
    refund = Refund("locked", queue=desk)
    begin(home, refund)
    action_id = asked(home, refund)["action_id"]

    with locked(store(home)):
        approve(home, refund.run_id, action_id)
        trouble = retried(home, refund.run_id, "issue_refund")
        assert LOCKED in trouble
        assert "Another program has it locked" in trouble
        nothing_happened(home, refund.order)
        assert rows(home, "SELECT * FROM ledger WHERE name = 'issue_refund' AND run_id = ?", refund.run_id) == []

    ends(home, refund.run_id)
    check(witness(home, refund.run_id))
    refunded_once(home, refund.order)


def test_a_store_that_is_locked_after_the_commit_gets_the_result_later(home, desk):
    refund = Refund("locked", queue=desk)
    play(home, scripted(refund))
    home.sandbox("PUT", "/sandbox/payments/faults", [{"kind": "slow", "seconds": 2, "match": refund.order.charge}])
    begin(home, refund)
    approve(home, refund.run_id, asked(home, refund)["action_id"])
    until("the money has moved", lambda: payments(home, refund.order))

    with locked(store(home)):
        assert LOCKED in retried(home, refund.run_id, "issue_refund")
        assert max(request.place for request in requests(home, refund.task)) == (4, 1)

    ends(home, refund.run_id)
    check(witness(home, refund.run_id))
    refunded_once(home, refund.order)


def test_an_answer_of_the_model_that_meets_a_lock_is_kept_and_not_paid_twice(home, desk):
    task = unique("locked")
    play(home, conversation(task, call(create_task(task), faults=[{"kind": "slow", "seconds": 2}]), say("Done.")))
    start(home, task, {"agent": "brief", "task": task}, desk)
    until("the model is asked", lambda: requests(home, task))

    with locked(store(home)):
        assert LOCKED in retried(home, task, "call_model")

    ends(home, task)
    seen = witness(home, task)
    check(seen)
    assert seen.record["totals"]["possibly_paid"]["calls"] == 0
