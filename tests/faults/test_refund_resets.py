"""A finished refund that is run again from an earlier point meets what it did, and does none of it twice."""

import json
from typing import Any

import pytest
from checker import check, history_replays, no_task_of_the_workflow_failed, the_status_path_is_legal
from homes import Home, until
from refunds import LEAD, Refund, approve, asked, begin, query, refunded_once, ruled, scripted
from script import call, play, say, unique, use
from witness import ends, look, requests, start, witness
from workers import working

from domain.decisions import UNKNOWN_ACTION


def finished(home: Home) -> tuple[Refund, Any]:
    """A refund that is done, by a script."""
    refund = Refund("reset")
    play(home, scripted(refund))
    begin(home, refund)
    approve(home, refund.run_id, asked(home, refund)["action_id"])
    ends(home, refund.run_id)
    seen = witness(home, refund.run_id)
    check(seen)
    return refund, seen


def reset(home: Home, refund: Refund, *more: str) -> str:
    """Reset to the start by the plain Temporal CLI; the new execution."""
    where = ("--workflow-id", refund.run_id, "--type", "FirstWorkflowTask", "--reason", "test", *more)
    home.temporal("workflow", "reset", *where)
    execution: str = look(home, refund.run_id).execution
    return execution


def keeps_the_invariants(seen: Any) -> None:
    """Those that a history has which begins in the middle."""
    history_replays(seen)
    the_status_path_is_legal(seen)
    no_task_of_the_workflow_failed(seen)


@pytest.mark.parametrize("more", [(), ("--reapply-exclude", "All")], ids=["decisions sent again", "none sent again"])
def test_a_reset_to_the_start_pays_nothing_and_does_nothing_twice(staffed, more):
    refund, before = finished(staffed)
    asked_before = len(requests(staffed, refund.task))

    execution = reset(staffed, refund, *more)
    ends(staffed, refund.run_id)

    seen = witness(staffed, refund.run_id)
    keeps_the_invariants(seen)
    assert seen.run.execution == execution != before.run.execution
    assert seen.record["other_executions"] == [before.run.execution]
    assert len(requests(staffed, refund.task)) == asked_before
    refunded_once(staffed, refund.order)
    effects = [action for action in seen.state.actions.all if action.effect]
    assert [(one.status, one.from_ledger) for one in effects] == [("done", True)] * 2
    assert [one.result for one in effects] == [one.result for one in before.state.actions.all if one.effect]
    assert seen.record["result"] == before.record["result"]
    # Nobody is asked: nothing is done. An approval that is sent again meets no action yet.
    reasons = [ruling.reason for ruling in seen.state.rulings.all]
    assert reasons == ([] if more else [UNKNOWN_ACTION])


def test_a_fresh_run_in_other_words_says_what_it_met_and_waits_for_a_person(staffed):
    refund, before = finished(staffed)
    paid_before = len(requests(staffed, refund.task))
    play(staffed, scripted(refund, reason="The customer is unhappy.", body="Your money is on its way."))

    staffed.dayflow("reset", refund.run_id, "--fresh")
    met = ends(staffed, refund.run_id, "awaiting_resolution").record()["pending_actions"][0]

    done = before.state.actions.all[3]
    assert (met["tool"], met["arguments"]["reason"]) == ("issue_refund", "The customer is unhappy.")
    assert met["conflict"] == {"run_id": refund.run_id, "action_id": done.action_id, "changed": True}
    assert "with other arguments" in look(staffed, refund.run_id).state.actions.all[3].result
    refunded_once(staffed, refund.order)
    listed = until("it is listed", lambda: unresolved(staffed, refund))
    assert (listed["action_id"], listed["intent"]) == (met["action_id"], met["intent"])
    assert "with other arguments" in listed["why"]
    assert listed["command"] == f"dayflow resolve {refund.run_id} {met['action_id']} --as NAME"
    assert listed["command"] in staffed.dayflow("actions", "--unknown").stdout
    assert "was sent before with other arguments" in staffed.dayflow("show", refund.run_id).stdout

    staffed.dayflow("resolve", refund.run_id, met["action_id"], "--done", "--as", LEAD)
    mail = until("it waits for the mail", lambda: unknown(staffed, refund, "send_email"))
    assert mail["conflict"]["action_id"] == before.state.actions.all[4].action_id
    staffed.dayflow("resolve", refund.run_id, mail["action_id"], "--done", "--as", LEAD)
    ends(staffed, refund.run_id)

    seen = witness(staffed, refund.run_id)
    keeps_the_invariants(seen)
    refunded_once(staffed, refund.order)
    assert len(requests(staffed, refund.task)) == paid_before + 6
    assert [(one.verdict, one.accepted) for one in seen.state.rulings.all] == [("resolve", True)] * 2
    assert [action.status for action in seen.state.actions.all] == ["done"] * 5


def unresolved(home: Home, refund: Refund) -> dict[str, Any] | None:
    """What the list over all runs has of this one."""
    return next((row for row in home.json("actions", "--unknown") if row["run_id"] == refund.run_id), None)


def unknown(home: Home, refund: Refund, tool: str) -> dict[str, Any] | None:
    shown = query(home, refund.run_id, "record")["pending_actions"] or []
    return next((one for one in shown if one["tool"] == tool and one["status"] == "unknown"), None)


def test_a_fresh_run_in_the_same_words_does_nothing_and_asks_nobody(staffed):
    refund, before = finished(staffed)

    staffed.dayflow("reset", refund.run_id, "--fresh", "--at", "4")
    ends(staffed, refund.run_id)

    seen = witness(staffed, refund.run_id)
    keeps_the_invariants(seen)
    refunded_once(staffed, refund.order)
    assert seen.run.execution != before.run.execution
    assert seen.state.rulings.all == []


def test_a_reset_while_it_waits_asks_again_and_an_old_approval_is_no_new_one(staffed):
    refund = Refund("reset")
    begin(staffed, refund)
    before = asked(staffed, refund)

    reset(staffed, refund)
    after = asked(staffed, refund)

    assert (after["action_id"], after["idempotency_key"]) == (before["action_id"], before["idempotency_key"])
    approve(staffed, refund.run_id, after["action_id"])
    ends(staffed, refund.run_id)
    refunded_once(staffed, refund.order)


def test_an_approval_before_the_reset_is_no_blank_cheque_for_other_words(staffed):
    """The run is reset with its refund begun by nobody: what was approved once does not count for other arguments."""
    refund = Refund("reset")
    play(staffed, scripted(refund))
    start(staffed, refund.run_id, refund.request)
    old = asked(staffed, refund)
    staffed.dayflow("pause", refund.run_id)
    ends_paused(staffed, refund)
    approve(staffed, refund.run_id, old["action_id"])
    ruled(staffed, refund.run_id, 1)
    play(staffed, scripted(refund, amount="50.00"))

    staffed.dayflow("reset", refund.run_id, "--fresh")
    new = asked(staffed, refund)

    assert new["arguments"]["amount"] == "50.00"
    assert ruled(staffed, refund.run_id, 0) == []
    approve(staffed, refund.run_id, old["action_id"])
    assert ruled(staffed, refund.run_id, 1)[-1]["reason"] == UNKNOWN_ACTION
    approve(staffed, refund.run_id, new["action_id"])
    ends(staffed, refund.run_id)
    refunded_once(staffed, refund.order, amount=5000)


def ends_paused(home: Home, refund: Refund) -> None:
    until("it is paused", lambda: query(home, refund.run_id, "record")["status"] == "paused")


def test_a_reset_of_an_edited_refund_meets_what_was_done_under_the_edit(staffed):
    refund = Refund("edited")
    play(staffed, scripted(refund))
    begin(staffed, refund)
    waits = asked(staffed, refund)
    staffed.dayflow("edit", refund.run_id, json.dumps({**waits["arguments"], "amount": "25.00"}), "--as", LEAD)
    approve(staffed, refund.run_id, until("it is edited", lambda: edited(staffed, refund, waits))["action_id"])
    ends(staffed, refund.run_id)

    staffed.dayflow("reset", refund.run_id, "--at", "4")
    met = ends(staffed, refund.run_id, "awaiting_resolution").record()["pending_actions"][0]
    staffed.dayflow("resolve", refund.run_id, met["action_id"], "--done", "--as", LEAD)
    ends(staffed, refund.run_id)

    assert met["conflict"]["changed"] is True
    keeps_the_invariants(witness(staffed, refund.run_id))
    refunded_once(staffed, refund.order, amount=2500)


def edited(home: Home, refund: Refund, before: dict[str, Any]) -> dict[str, Any] | None:
    pending = query(home, refund.run_id, "record")["pending_actions"]
    return next((one for one in pending if one["action_id"] != before["action_id"]), None)


def test_a_mail_that_a_fresh_run_sends_at_another_step_waits_for_a_person(staffed):
    refund, _ = finished(staffed)
    script = scripted(refund)
    more = call(use("lookup_order", {"order_id": refund.order.id}))
    play(staffed, {**script, "turns": [*script["turns"][:4], more, *script["turns"][4:]]})

    staffed.dayflow("reset", refund.run_id, "--fresh", "--at", "5")
    waits = asked(staffed, refund)

    assert waits["tool"] == "send_email"
    assert waits["conflict"]["run_id"] == refund.run_id
    staffed.dayflow("deny", refund.run_id, waits["action_id"], "--as", LEAD)
    ends(staffed, refund.run_id)
    refunded_once(staffed, refund.order)


def test_a_stored_answer_is_no_answer_to_another_course_of_the_run(home):
    refund = Refund("words", queue=unique("queue"))
    script = scripted(refund)
    play(home, script)
    begin(home, refund)
    with working(home, refund.queue):
        approve(home, refund.run_id, asked(home, refund)["action_id"])
        ends(home, refund.run_id)
    before = len(requests(home, refund.task))
    home.dayflow("reset", refund.run_id, "--at", "5")
    home.dayflow("message", refund.run_id, "Stop. Write no mail.")
    play(home, {**script, "turns": [*script["turns"][:4], say("I stop.")]})

    with working(home, refund.queue):
        ends(home, refund.run_id)

    seen = witness(home, refund.run_id)
    keeps_the_invariants(seen)
    assert seen.record["result"] == "I stop."
    assert len(seen.requests) == before + 1
    assert "Stop. Write no mail." in json.dumps(seen.requests[-1].messages)
    refunded_once(home, refund.order)
