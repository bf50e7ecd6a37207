"""A model that is down right after an approved refund: it stays done, and the model hears of it when it is back."""

from typing import Any

import pytest
from checker import check
from homes import Home
from refunds import LEAD, Refund, asked, begin, refunded_once, scripted, update
from script import play
from witness import ends, rows, witness

FAILURES = 6


@pytest.mark.parametrize("status", [500, pytest.param(529, marks=pytest.mark.long)])
def test_a_model_that_is_down_after_the_refund_hears_its_result_on_resume_and_nothing_is_done_twice(staffed, status):
    refund = Refund(f"down-{status}")
    play(staffed, down(refund, status))
    begin(staffed, refund)
    decision = {"action_id": asked(staffed, refund)["action_id"], "verdict": "approve", "approver": LEAD}
    decision["decision_id"] = f"decision-{refund.run_id}"
    assert update(staffed, refund.run_id, "first", decision)["accepted"]

    stands = ends(staffed, refund.run_id, "paused", "model down").record()

    assert (stands["waiting_for"], stands["next_command"]) == ("model down", f"dayflow resume {refund.run_id}")
    assert str(status) in stands["error"]["message"]
    assert of_the_refund(staffed, refund) == "done"
    # The same decision again is the decision that was taken; another one comes too late.
    again = update(staffed, refund.run_id, "second", decision)
    assert (again["accepted"], again["reason"]) == (True, "approved")
    late = update(staffed, refund.run_id, "third", decision | {"decision_id": "another"})
    assert late["accepted"] is False
    assert late["reason"] == f"too late: approved by {LEAD}, and it is done"
    assert len(rows(staffed, "SELECT * FROM ledger WHERE name = 'issue_refund' AND run_id = ?", refund.run_id)) == 1

    staffed.dayflow("resume", refund.run_id)
    ends(staffed, refund.run_id)
    seen = witness(staffed, refund.run_id)
    check(seen, again={(5, 1): FAILURES})
    refunded_once(staffed, refund.order)
    told = [request for request in seen.requests if request.place == (5, 1)]
    assert len(told) == FAILURES + 1
    assert all(seen.refunds[0]["refund_id"] in str(request.messages[-1]) for request in told)


def down(refund: Refund, status: int) -> dict[str, Any]:
    """The usual conversation, but the turn behind the refund fails until the run stands still."""
    conversation: dict[str, Any] = scripted(refund)
    fails = {"kind": "status", "status": status, "attempts": list(range(1, FAILURES + 1))}
    conversation["turns"][4]["faults"] = [fails | {"headers": {"retry-after-ms": "50"}}]
    return conversation


def of_the_refund(home: Home, refund: Refund) -> str:
    """How its row of the ledger stands."""
    [row] = rows(home, "SELECT status FROM ledger WHERE name = 'issue_refund' AND run_id = ?", refund.run_id)
    return str(row["status"])
