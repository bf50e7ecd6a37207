"""One order, one refund: a second run on it waits, names the first, and needs a person who saw that."""

from typing import Any

from checker import check, history_replays, no_task_of_the_workflow_failed
from homes import Home, until
from refunds import LEAD, Refund, approve, asked, begin, mails, payments, query, ruled, signal
from witness import ends, look, send, start, witness

MANY = 20


def done(home: Home, refund: Refund) -> str:
    """Carry a refund out; the id of its action."""
    begin(home, refund)
    action_id: str = asked(home, refund)["action_id"]
    approve(home, refund.run_id, action_id)
    ends(home, refund.run_id)
    return action_id


def test_a_second_run_waits_names_the_first_and_needs_again(staffed):
    first = Refund("first")
    second = Refund("second", order=first.order)
    action_id = done(staffed, first)
    start(staffed, second.run_id, second.request)

    waits = asked(staffed, second)
    assert (waits["conflict"]["run_id"], waits["conflict"]["action_id"]) == (first.run_id, action_id)
    assert waits["intent"] == f"refund:order-{first.order.id}"
    shown = [row for row in staffed.json("approvals") if row["run_id"] == second.run_id]
    assert [row["conflict"]["run_id"] for row in shown] == [first.run_id]
    assert "--again" in query(staffed, second.run_id, "record")["next_command"]

    approve(staffed, second.run_id, waits["action_id"])
    [refused] = ruled(staffed, second.run_id, 1)
    assert refused["reason"].startswith(f"conflict: {first.run_id} holds the same intent")
    assert '"again": true' in refused["reason"]
    assert len(payments(staffed, first.order)) == 1

    # 59.90 were paid and 40.00 are gone: now it is the provider who refuses.
    approve(staffed, second.run_id, waits["action_id"], again=True)
    ends(staffed, second.run_id)
    seen = witness(staffed, second.run_id)
    check(seen)
    assert seen.state.actions.all[3].status == "failed"
    assert "19.90 EUR is left to refund" in str(seen.state.actions.all[3].result)
    assert len(payments(staffed, first.order)) == 1
    assert [action.idempotency_key for action in seen.state.actions.all if action.tool == "send_email"] == []


def test_with_again_a_second_part_of_an_order_is_refunded(staffed):
    first = Refund("first")
    done(staffed, first)
    second = Refund("second", order=first.order)
    start(staffed, second.run_id, {**second.request, "task": second.task.replace("40.00", "10.00")})
    waits = asked(staffed, second)

    staffed.dayflow("approve", second.run_id, "--as", LEAD, code=1)
    staffed.dayflow("approve", second.run_id, "--again", "--as", LEAD)
    ends(staffed, second.run_id)

    assert sorted(line["amount"] for line in payments(staffed, first.order)) == [1000, 4000]
    assert waits["conflict"]["run_id"] == first.run_id
    assert len(mails(staffed, first.order)) == 2


def test_a_refund_that_was_refused_leaves_the_order_to_others(staffed):
    first = Refund("refused")
    refuses = {"kind": "status", "status": 402, "code": "card_declined", "match": first.order.charge}
    staffed.sandbox("PUT", "/sandbox/payments/faults", [refuses])
    done(staffed, first)
    assert look(staffed, first.run_id).state.actions.all[3].status == "failed"
    assert payments(staffed, first.order) == []

    second = Refund("second", order=first.order)
    begin(staffed, second)
    assert asked(staffed, second)["conflict"] is None
    approve(staffed, second.run_id, asked(staffed, second)["action_id"])
    ends(staffed, second.run_id)

    check(witness(staffed, second.run_id))
    assert [line["amount"] for line in payments(staffed, first.order)] == [4000]


def test_of_twenty_runs_on_one_order_at_once_one_refunds(staffed):
    order = Refund("crowd").order
    crowd = [Refund("crowd", order=order) for _ in range(MANY)]
    for refund in crowd:
        start(staffed, refund.run_id, refund.request)
    waits = until("all wait", lambda: listed(staffed, crowd, MANY))
    for refund in crowd:
        send(staffed, refund.run_id, "approve", {"action_id": waits[refund.run_id]["action_id"], "approver": LEAD})

    losers = until("all but one meet a conflict", lambda: listed(staffed, crowd, MANY - 1, conflicts=True))

    [winner] = [refund for refund in crowd if refund.run_id not in losers]
    ends(staffed, winner.run_id)
    assert [line["metadata"]["dayflow_run"] for line in payments(staffed, order)] == [winner.run_id]
    assert len(mails(staffed, order)) == 1
    assert {row["conflict"]["run_id"] for row in losers.values()} == {winner.run_id}

    # An approval that met the conflict counts no more; one that names it does, from the same person.
    loser = next(refund for refund in crowd if refund is not winner)
    before = len(ruled(staffed, loser.run_id, 1))
    action_id = losers[loser.run_id]["action_id"]
    signal(staffed, loser.run_id, "approve", {"action_id": action_id, "approver": LEAD})
    assert ruled(staffed, loser.run_id, before + 1)[-1]["reason"].startswith("conflict")
    signal(staffed, loser.run_id, "approve", {"action_id": action_id, "approver": LEAD, "again": True})
    ends(staffed, loser.run_id)
    assert len(payments(staffed, order)) == 1
    for refund in (winner, loser):
        seen = witness(staffed, refund.run_id)
        history_replays(seen)
        no_task_of_the_workflow_failed(seen)


def listed(home: Home, refunds: list[Refund], count: int, *, conflicts: bool = False) -> dict[str, Any] | None:
    """What waits of these runs, by run, once there are so many."""
    mine = {refund.run_id for refund in refunds}
    rows = [row for row in home.json("approvals") if row["run_id"] in mine]
    found = {row["run_id"]: row for row in rows if row["conflict"] or not conflicts}
    return found if len(found) == count else None
