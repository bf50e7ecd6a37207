"""Whatever the payment provider does to a refund, it ends with one refund, or waits as `unknown` under its name."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from checker import check
from homes import Home, until
from refunds import CLERK, DESK, LEAD, Refund, approve, asked, begin, payments, query, refunded_once, ruled, signal
from witness import ends, start, witness

# How long the client waits for an answer: see activities/payments.py.
SEND_S = 10.0


@dataclass(frozen=True)
class Case:
    """What the provider does, and how the refund's action ends."""

    name: str
    faults: list[dict[str, Any]]
    ends: str = "done"
    refunds: int = 1
    refund: Refund = field(default_factory=lambda: Refund("provider"))

    def __str__(self) -> str:
        return self.name


STORED = {"kind": "stored", "times": "all"}
LEFT = Case("it stores a 500, and the run is cancelled", [STORED], ends="left", refunds=0)
CASES = [
    Case("it commits and drops the connection", [{"kind": "drop"}]),
    Case("it commits and closes the connection", [{"kind": "drop", "reset": False}]),
    Case("it commits and its answer breaks off", [{"kind": "cut"}]),
    Case("it commits and a proxy answers", [{"kind": "page"}]),
    Case("it drops the connection and commits nothing", [{"kind": "drop", "when": "before_commit"}]),
    Case("it commits 5 s after the timeout", [{"kind": "late", "seconds": SEND_S + 5}]),
    Case("it answers 409 once", [{"kind": "in_use"}]),
    Case("it answers 429 once", [{"kind": "status", "status": 429}]),
    Case("it answers 503 twice", [{"kind": "status", "status": 503, "times": 2}]),
    Case("it is slow", [{"kind": "slow", "seconds": 5}]),
    Case("it stores a 500 and has committed", [STORED | {"commit": True}]),
    Case("it stores a 500 and has not committed", [STORED], ends="unknown", refunds=0),
    LEFT,
]


@pytest.fixture(scope="module")
def told(staffed: Home) -> Home:
    """All cases side by side: what takes time is to wait."""
    faults = [fault | {"match": case.refund.order.charge} for case in CASES for fault in case.faults]
    staffed.sandbox("PUT", "/sandbox/payments/faults", faults)
    for case in CASES:
        start(staffed, case.refund.run_id, case.refund.request)
    for case in CASES:
        approve(staffed, case.refund.run_id, asked(staffed, case.refund)["action_id"])
    return staffed


@pytest.mark.parametrize("case", [case for case in CASES if case.ends == "done"], ids=str)
def test_it_ends_with_one_refund(told, case):
    ends(told, case.refund.run_id, seconds=90)

    check(witness(told, case.refund.run_id))
    refunded_once(told, case.refund.order)


@pytest.mark.parametrize("case", [case for case in CASES if case.ends == "unknown"], ids=str)
def test_it_ends_as_unknown_and_a_person_with_the_role_resolves_it(told, case):
    run = ends(told, case.refund.run_id, "awaiting_resolution", seconds=90)
    [waits] = run.record()["pending_actions"]
    check(witness(told, case.refund.run_id))
    assert (waits["status"], waits["tool"]) == ("unknown", "issue_refund")
    listed = [row for row in told.json("actions", "--unknown") if row["run_id"] == case.refund.run_id]
    assert [(row["action_id"], row["intent"]) for row in listed] == [(waits["action_id"], waits["intent"])]
    assert run.record()["next_command"].startswith(f"dayflow resolve {case.refund.run_id} {waits['action_id']}")

    for by in (CLERK, DESK, "nobody@example.com"):
        told.dayflow("resolve", case.refund.run_id, waits["action_id"], "--done", "--as", by, code=1)
    signal(told, case.refund.run_id, "resolve", {"action_id": waits["action_id"], "outcome": "perhaps", "by": LEAD})
    until("it is recorded", lambda: query(told, case.refund.run_id, "record")["refused_messages"]["last"])
    refused = ruled(told, case.refund.run_id, 4)[1:]
    assert [(ruling["approver"], ruling["accepted"]) for ruling in refused] == [
        (CLERK, False),
        (DESK, False),
        ("nobody@example.com", False),
    ]
    assert query(told, case.refund.run_id, "record")["status"] == "awaiting_resolution"

    told.dayflow("resolve", case.refund.run_id, waits["action_id"], "--not-done", "--as", LEAD)
    ends(told, case.refund.run_id)
    seen = witness(told, case.refund.run_id)
    check(seen)
    assert seen.state.actions.all[3].status == "failed"
    assert len(payments(told, case.refund.order)) == case.refunds
    assert [row for row in told.json("actions", "--unknown") if row["run_id"] == case.refund.run_id] == []


def test_one_whose_run_was_cancelled_is_listed_with_the_way_back_to_it(told):
    refund = LEFT.refund
    ends(told, refund.run_id, "awaiting_resolution", seconds=90)
    action_id = listed(told, refund)["action_id"]

    told.dayflow("cancel", refund.run_id)
    ends(told, refund.run_id, "cancelled")
    assert listed(told, refund)["command"] == f"dayflow reset {refund.run_id} --at 4"

    told.dayflow(*listed(told, refund)["command"].split()[1:])
    approve(told, refund.run_id, asked(told, refund)["action_id"])
    ends(told, refund.run_id, "awaiting_resolution")
    assert listed(told, refund)["command"].startswith(f"dayflow resolve {refund.run_id} {action_id} ")
    told.dayflow("resolve", refund.run_id, action_id, "--not-done", "--as", LEAD)
    ends(told, refund.run_id)
    assert payments(told, refund.order) == []


def listed(home: Home, refund: Refund) -> dict[str, Any]:
    """What the list over all runs has of this one."""
    [row] = [row for row in home.json("actions", "--unknown") if row["run_id"] == refund.run_id]
    return row


def test_a_refund_after_one_that_was_resolved_as_not_done_is_free(told):
    lost = next(case for case in CASES if case.ends == "unknown")
    again = Refund("after", order=lost.refund.order)
    told.sandbox("DELETE", "/sandbox/payments/faults")
    begin(told, again)

    waits = asked(told, again)
    assert waits["conflict"] is None
    approve(told, again.run_id, waits["action_id"])
    ends(told, again.run_id)
    assert len(payments(told, again.order)) == 1
