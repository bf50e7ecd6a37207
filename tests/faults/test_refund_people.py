"""Pausing, cancelling, approvers who come and go, and signatures: what a person takes back is not carried out."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from checker import check
from homes import Home, until
from refunds import (
    LEAD,
    Refund,
    approve,
    asked,
    begin,
    nothing_happened,
    payments,
    query,
    refunded_once,
    ruled,
    signal,
)
from script import unique
from witness import ends, look, witness
from workers import Worker, working

from domain.decisions import UNKNOWN_ACTION

WAITS = 3
LISTED = '[[approvers]]\nname = "{name}"\nroles = ["{role}"]\n{more}\n'


def listed(name: str, role: str = "lead", more: str = "") -> str:
    """An entry of an approvers file."""
    return LISTED.format(name=name, role=role, more=more)


class Desk:
    """A task queue of a test's own, whose workers read an approvers file of the test's own."""

    def __init__(self, home: Home, file: Path) -> None:
        self.home, self.file, self.queue = home, file, unique("desk")
        self.list(listed(LEAD))

    def list(self, *entries: str) -> None:
        """Write the approvers file."""
        self.file.write_text("".join(entries) or "approvers = []\n")

    @contextmanager
    def worker(self, **env: str) -> Iterator[Worker]:
        """A worker that reads the file."""
        with working(self.home, self.queue, DAYFLOW_APPROVERS=str(self.file), **env) as worker:
            yield worker

    def begin(self) -> Refund:
        """Start a refund on this queue."""
        refund = Refund(self.queue, queue=self.queue)
        begin(self.home, refund)
        return refund


@pytest.fixture
def desk(home: Home, tmp_path: Path) -> Desk:
    """One, with lead@example.com as the only approver."""
    return Desk(home, tmp_path / "approvers.toml")


def held(home: Home, refund: Refund) -> dict[str, Any]:
    """The pending action of a run that is paused while it waits."""
    pending = asked(home, refund)
    signal(home, refund.run_id, "pause", {"by": "ana"})
    ends(home, refund.run_id, "paused", "by ana")
    return pending


def test_an_approver_removed_while_the_run_is_paused_approves_nothing(desk):
    home = desk.home
    with desk.worker():
        refund = desk.begin()
        pending = held(home, refund)
        approve(home, refund.run_id, pending["action_id"])
        ruled(home, refund.run_id, 1)
        desk.list(listed("boss@example.com"))
        signal(home, refund.run_id, "resume", {"by": "ana"})

        waits_anew(home, refund, pending["action_id"])
        desk.list(listed("boss@example.com"), listed(LEAD))
        approve(home, refund.run_id, pending["action_id"])
        ends(home, refund.run_id)

    finished(home, refund)


@pytest.mark.long
def test_an_approver_removed_while_no_worker_is_up_approves_nothing(desk):
    home = desk.home
    with desk.worker(DAYFLOW_CRASH_AT="effect.begin") as doomed:
        refund = desk.begin()
        pending = asked(home, refund)
        approve(home, refund.run_id, pending["action_id"])
        doomed.died()
    desk.list(listed(LEAD, role="clerk"))

    with desk.worker():
        waits_anew(home, refund, pending["action_id"])
        desk.list(listed(LEAD))
        approve(home, refund.run_id, pending["action_id"])
        ends(home, refund.run_id)

    finished(home, refund)


def waits_anew(home: Home, refund: Refund, action_id: str) -> None:
    """The approval counts no more, the reason is recorded, and a person is asked again."""
    taken, voided = ruled(home, refund.run_id, 2)
    assert (taken["accepted"], voided["accepted"]) == (True, False)
    assert voided["reason"].startswith("no longer entitled")
    assert asked(home, refund)["action_id"] == action_id
    assert not query(home, refund.run_id, "record")["approved_by"]
    nothing_happened(home, refund.order)


def test_what_had_begun_when_its_approver_left_comes_to_its_end(desk):
    home = desk.home
    with desk.worker(DAYFLOW_CRASH_AT="effect.committed") as doomed:
        refund = desk.begin()
        approve(home, refund.run_id, asked(home, refund)["action_id"])
        doomed.died()
    desk.list(listed("boss@example.com"))

    with desk.worker():
        ends(home, refund.run_id)

    refunded_once(home, refund.order)
    assert [ruling["accepted"] for ruling in ruled(home, refund.run_id, 1)] == [True]


def test_with_a_key_on_file_only_a_signed_decision_counts(desk):
    home, name = desk.home, f"{unique('signer')}@example.com"
    public = home.dayflow("keys", "new", name).stdout.splitlines()[-1]
    desk.list(listed(name, more=public), listed("thief@example.com"))
    with desk.worker():
        refund, other = desk.begin(), desk.begin()
        action, elsewhere = asked(home, refund)["action_id"], asked(home, other)["action_id"]
        approve(home, refund.run_id, action, approver=name)
        home.dayflow("approve", other.run_id, elsewhere, "--as", name, "--comment", "seen")
        [signed] = sent_to(home, other, "decide")
        for tampered in (signed, signed | {"action_id": action}, signed | {"action_id": action, "verdict": "deny"}):
            approve_by_update(home, refund, tampered | {"arguments_sha256": None})
        approve(home, refund.run_id, action, approver=name, signature="bm9uc2Vuc2U=")

        assert [ruling["reason"] for ruling in ruled(home, refund.run_id, 5)] == [
            "not signed: this approver has a key on file",
            UNKNOWN_ACTION,
            "bad signature",
            "bad signature",
            "bad signature",
        ]
        nothing_happened(home, refund.order)
        home.dayflow("approve", refund.run_id, "--as", name)
        for one in (refund, other):
            ends(home, one.run_id)

    for one in (refund, other):
        finished(home, one)


def sent_to(home: Home, refund: Refund, update: str) -> list[dict[str, Any]]:
    """What was sent to a run by this update."""
    requests = [
        event.workflow_execution_update_accepted_event_attributes.accepted_request.input
        for event in witness(home, refund.run_id).events
    ]
    return [json.loads(one.args.payloads[0].data) for one in requests if one.name == update]


def approve_by_update(home: Home, refund: Refund, decision: dict[str, Any]) -> None:
    where = ("--workflow-id", refund.run_id, "--name", "decide", "--input", json.dumps(decision))
    home.temporal("workflow", "update", "execute", *where)


def test_an_approval_while_paused_is_carried_out_after_the_pause(staffed):
    refund = Refund("paused")
    begin(staffed, refund)
    pending = held(staffed, refund)

    approve(staffed, refund.run_id, pending["action_id"])
    [ruling] = ruled(staffed, refund.run_id, 1)
    assert ruling["accepted"]
    assert query(staffed, refund.run_id, "record")["status"] == "paused"
    nothing_happened(staffed, refund.order)

    signal(staffed, refund.run_id, "resume", {"by": "ana"})
    ends(staffed, refund.run_id)
    finished(staffed, refund)


def test_a_paused_run_waits_for_approval_again_after_the_pause(staffed):
    refund = Refund("paused")
    begin(staffed, refund)
    pending = held(staffed, refund)

    signal(staffed, refund.run_id, "resume", {"by": "ana"})

    assert asked(staffed, refund) == pending
    approve(staffed, refund.run_id, pending["action_id"])
    ends(staffed, refund.run_id)
    finished(staffed, refund)


def test_a_resume_lets_a_run_go_on_whose_pause_no_worker_has_heard_yet(home):
    refund = Refund("unheard", queue=unique("unheard"))
    begin(home, refund)
    with working(home, refund.queue):
        asked(home, refund)
    home.dayflow("pause", refund.run_id)

    home.dayflow("resume", refund.run_id, code=WAITS)

    assert look(home, refund.run_id).record()["status"] == "awaiting_approval"


@pytest.mark.parametrize("paused", [False, True], ids=["waiting", "paused"])
def test_a_cancelled_run_carries_nothing_out(staffed, paused):
    refund = Refund("cancelled")
    begin(staffed, refund)
    pending = held(staffed, refund) if paused else asked(staffed, refund)
    if paused:
        approve(staffed, refund.run_id, pending["action_id"])
        ruled(staffed, refund.run_id, 1)

    staffed.dayflow("cancel", refund.run_id)
    run = ends(staffed, refund.run_id, "cancelled")

    assert run.state.actions.all[3].status == "cancelled"
    assert "already completed" in signal(
        staffed, refund.run_id, "approve", {"action_id": pending["action_id"], "approver": LEAD}, code=1
    )
    nothing_happened(staffed, refund.order)
    check(witness(staffed, refund.run_id))


def provider_faults(home: Home, *faults: dict[str, Any]) -> None:
    home.sandbox("PUT", "/sandbox/payments/faults", list(faults))


def test_a_run_that_is_cancelled_during_its_effect_hears_first_what_became_of_it(staffed):
    refund = Refund("cancelled")
    begin(staffed, refund)
    pending = asked(staffed, refund)
    provider_faults(staffed, {"kind": "slow", "seconds": 2, "match": refund.order.charge})
    approve(staffed, refund.run_id, pending["action_id"])
    until("the money has moved", lambda: payments(staffed, refund.order))

    staffed.temporal("workflow", "cancel", "--workflow-id", refund.run_id)
    ends(staffed, refund.run_id, "cancelled")

    cancelled_with_its_refund(staffed, refund)


def test_a_run_that_is_cancelled_between_two_attempts_hears_first_what_became_of_it(staffed):
    refund = Refund("cancelled")
    begin(staffed, refund)
    pending = asked(staffed, refund)
    provider_faults(
        staffed,
        {"kind": "drop", "when": "before_commit", "times": 3, "match": refund.order.charge},
    )
    approve(staffed, refund.run_id, pending["action_id"])
    until("two attempts gave no answer", lambda: attempts(staffed, refund) >= 3)

    staffed.temporal("workflow", "cancel", "--workflow-id", refund.run_id)
    ends(staffed, refund.run_id, "cancelled")

    cancelled_with_its_refund(staffed, refund)


@pytest.mark.long
@pytest.mark.parametrize("point", ["effect.begun", "effect.committed"])
def test_a_run_that_is_cancelled_while_the_worker_of_its_effect_is_dead_hears_first_what_became_of_it(home, point):
    refund = Refund("cancelled", queue=unique("dead"))
    begin(home, refund)
    with working(home, refund.queue, DAYFLOW_CRASH_AT=point) as worker:
        approve(home, refund.run_id, asked(home, refund)["action_id"])
        worker.died()
    home.dayflow("cancel", refund.run_id)
    with working(home, refund.queue):
        ends(home, refund.run_id, "cancelled")

    cancelled_with_its_refund(home, refund)


def test_a_run_that_is_cancelled_while_its_provider_refuses_to_begin_carries_nothing_out(staffed):
    refund = Refund("cancelled")
    begin(staffed, refund)
    pending = asked(staffed, refund)
    provider_faults(staffed, {"kind": "in_use", "times": "all", "match": refund.order.charge})
    approve(staffed, refund.run_id, pending["action_id"])
    until("two attempts were refused", lambda: attempts(staffed, refund) >= 3)

    staffed.temporal("workflow", "cancel", "--workflow-id", refund.run_id)
    run = ends(staffed, refund.run_id, "cancelled")

    assert run.state.actions.all[3].status == "cancelled"
    nothing_happened(staffed, refund.order)


def attempts(home: Home, refund: Refund) -> int:
    """How often the activity that is under way was tried."""
    told = home.temporal("workflow", "describe", "--workflow-id", refund.run_id, "--output", "json")
    going = json.loads(told.stdout).get("pendingActivities") or [{}]
    return int(going[0].get("attempt", 0))


def cancelled_with_its_refund(home: Home, refund: Refund) -> None:
    seen = witness(home, refund.run_id)
    check(seen)
    action = seen.state.actions.all[3]
    assert (action.tool, action.status) == ("issue_refund", "done")
    assert seen.refunds[0]["refund_id"] in str(action.result)
    assert len(payments(home, refund.order)) == 1
    assert len(seen.state.actions.all) == 4


def finished(home: Home, refund: Refund) -> None:
    """One refund, one mail, every invariant."""
    seen = witness(home, refund.run_id)
    seen.approvers.update({one.approver: ["lead"] for one in seen.state.rulings.all if one.accepted})
    check(seen)
    refunded_once(home, refund.order)
