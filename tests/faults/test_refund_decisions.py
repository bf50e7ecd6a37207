"""Whatever is said about a refund, and by whomever: it has one effect or none, and the reason stands in the record."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from checker import check
from homes import Home, until
from refunds import (
    CLERK,
    DESK,
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
    scripted,
    signal,
    update,
)
from script import call, conversation, play, say, use
from witness import Witness, ends, junk, look, send, send_all, start, witness

from domain import actions
from domain.decisions import UNKNOWN_ACTION

PAST = "2020-01-01T00:00:00Z"
MEGABYTE = "x" * 1_000_000


@dataclass(frozen=True)
class Case:
    """One thing that is said about a waiting refund, and the beginning of the reason why it does not count."""

    name: str
    say: Callable[[Home, Refund, dict[str, Any]], Any]
    reason: str
    refund: Refund = field(default_factory=lambda: Refund("refused"))

    def __str__(self) -> str:
        return self.name


def said(reason: str, name: str, **decision: Any) -> Case:
    """An approval with these fields instead of the right ones; None leaves one out."""

    def say(home: Home, refund: Refund, pending: dict[str, Any]) -> None:
        given = {"action_id": pending["action_id"], "approver": LEAD, **decision}
        signal(home, refund.run_id, "approve", {key: value for key, value in given.items() if value is not None})

    return Case(name, say, reason)


def sent(reason: str, name: str, *inputs: Any) -> Case:
    """An approval with these inputs."""
    return Case(name, lambda home, refund, pending: signal(home, refund.run_id, "approve", *inputs), reason)


def of_another_run(home: Home, refund: Refund, pending: dict[str, Any]) -> None:
    other = Refund("other")
    begin(home, other)
    approve(home, refund.run_id, asked(home, other)["action_id"])


def of_a_megabyte(home: Home, refund: Refund, pending: dict[str, Any]) -> None:
    file = home.path / f"{refund.run_id}.json"
    file.write_text(json.dumps({"action_id": pending["action_id"], "approver": LEAD, "comment": MEGABYTE}))
    home.temporal(
        *("workflow", "signal", "--workflow-id", refund.run_id, "--name", "approve", "--input-file", str(file))
    )


def edited_by_an_approval(home: Home, refund: Refund, pending: dict[str, Any]) -> None:
    arguments = pending["arguments"] | {"amount": "50.00"}
    approve(home, refund.run_id, pending["action_id"], arguments=arguments)


REFUSED = [
    said("unknown action", "unknown action id", action_id="s9.1-000000"),
    Case("another run's id", of_another_run, "unknown action"),
    said("not on the list", "not on the list", approver="nobody@example.com"),
    said("own request", "the requester", approver=DESK),
    said("own request", "the requester, spelt otherwise", approver="Desk@Example.COM"),
    said("not on the list", "an approver, spelt otherwise", approver="LEAD@example.com"),
    said("below the needed role", "below the needed role", approver=CLERK),
    said("expired: the decision was good until 2020", "after its expiry", expires_at=PAST),
    said("other arguments", "other arguments", arguments_sha256="0" * 64),
    Case(
        "other arguments brought along",
        edited_by_an_approval,
        "malformed: `arguments` belongs to the verdict",
    ),
    sent("malformed: takes exactly one JSON object", "a JSON string", "yes"),
    sent("malformed: takes exactly one JSON object", "a JSON list", []),
    sent("malformed: takes exactly one JSON object, got 0", "no input"),
    sent("malformed: takes exactly one JSON object, got 2", "two inputs", {"approver": LEAD}, {"approver": LEAD}),
    Case("a megabyte", of_a_megabyte, "malformed: comment: it has to have at most 2000"),
    sent("malformed: action_id: Field required", "wrong field names", {"action": "s4.1", "by": LEAD}),
    said("malformed: approver: Field required", "a missing field", approver=None),
    said("malformed: now: Extra inputs", "an extra field", now=True),
    said("malformed: again: it has to be a boolean", "a text for a boolean", again="true"),
    said("malformed: expires_at: it has to have timezone", "a time without a zone", expires_at="2030-01-01T00:00:00"),
    said("malformed: the signal says 'approve' and the verdict 'deny'", "two verdicts", verdict="deny"),
]
# What another one shows as well; only `make test-long` says it to a run.
ALIKE = {
    *(
        "another run's id",
        "the requester, spelt otherwise",
        "an approver, spelt otherwise",
        "a JSON list",
        "two inputs",
    ),
    *("two inputs", "wrong field names", "an extra field", "a text for a boolean", "a time without a zone"),
    "two verdicts",
}
UNDECODABLE = {encoding: Refund("undecodable") for encoding in ("json/plain", "binary/strange", "")}
MISSPELT = Refund("misspelt")


@pytest.fixture(scope="module")
def open_runs(staffed: Home, request: pytest.FixtureRequest) -> Home:
    """A refund that waits for each case, started side by side."""
    chosen = [item.callspec.params.get("case") for item in request.session.items if hasattr(item, "callspec")]
    for refund in [*(case.refund for case in REFUSED if case in chosen), *UNDECODABLE.values(), MISSPELT]:
        start(staffed, refund.run_id, refund.request)
    return staffed


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.long] * (case.name in ALIKE)) for case in REFUSED], ids=str
)
def test_what_does_not_count_leaves_no_effect_and_one_reason(open_runs, case):
    pending = asked(open_runs, case.refund)

    case.say(open_runs, case.refund, pending)

    [ruling] = ruled(open_runs, case.refund.run_id, 1)
    assert (ruling["accepted"], ruling["verdict"]) == (False, "approve")
    assert ruling["reason"].startswith(case.reason)
    waits_on(open_runs, case.refund, pending)


@pytest.mark.parametrize("encoding", UNDECODABLE)
def test_bytes_that_cannot_be_decoded_leave_no_effect_and_one_reason(open_runs, encoding):
    refund = UNDECODABLE[encoding]
    pending = asked(open_runs, refund)

    send(open_runs, refund.run_id, "approve", junk(encoding))

    [ruling] = ruled(open_runs, refund.run_id, 1)
    assert ruling["accepted"] is False
    assert "malformed" in ruling["reason"]
    waits_on(open_runs, refund, pending)


def test_a_misspelt_signal_leaves_no_effect_and_one_reason(open_runs):
    pending = asked(open_runs, MISSPELT)

    signal(open_runs, MISSPELT.run_id, "aprove", {"action_id": pending["action_id"], "approver": LEAD})

    told = until("it is recorded", lambda: query(open_runs, MISSPELT.run_id, "record")["refused_messages"]["last"])
    assert [(bad["name"], bad["why"]) for bad in told] == [("aprove", "there is no such signal")]
    waits_on(open_runs, MISSPELT, pending)


def waits_on(home: Home, refund: Refund, pending: dict[str, Any]) -> None:
    """Nothing happened, the run answers queries and waits for the same thing, and the right approval still counts."""
    record = query(home, refund.run_id, "record")
    assert record["status"] == "awaiting_approval"
    assert record["pending_actions"] == [pending]
    assert all(len(bad["excerpt"]) <= 200 for bad in record["refused_messages"]["last"] or [])
    assert [action["status"] for action in query(home, refund.run_id, "actions")][3:] == ["awaiting_approval"]
    nothing_happened(home, refund.order)

    approve(home, refund.run_id, pending["action_id"])
    ends(home, refund.run_id)
    done_once(home, refund)


def done_once(home: Home, refund: Refund, amount: int = 4000) -> Witness:
    """One refund, one mail, every invariant."""
    seen = witness(home, refund.run_id)
    check(seen)
    refunded_once(home, refund.order, amount)
    return seen


def test_an_approval_before_its_action_exists_is_no_blank_cheque(staffed):
    refund = Refund("early")
    play(staffed, scripted(refund))
    arguments = {"order_id": refund.order.id, "amount": "40.00", "reason": "It arrived broken."}
    action_id = actions.action_id(4, 1, actions.arguments_digest("issue_refund", arguments))
    decision = {"action_id": action_id, "approver": LEAD}
    staffed.temporal(
        *("workflow", "signal-with-start", "--type", "AgentRun", "--task-queue", "dayflow"),
        *("--workflow-id", refund.run_id, "--input", json.dumps(refund.request)),
        *("--signal-name", "approve", "--signal-input", json.dumps(decision)),
    )

    pending = asked(staffed, refund)
    [early] = ruled(staffed, refund.run_id, 1)
    assert (early["accepted"], early["reason"], pending["action_id"]) == (False, UNKNOWN_ACTION, action_id)
    waits_on(staffed, refund, pending)


def test_a_no_or_a_yes_after_the_effect_is_too_late(staffed):
    refund = Refund("late")
    start(staffed, refund.run_id, refund.request | {"limits": {"steps": 4}})
    pending = asked(staffed, refund)
    approve(staffed, refund.run_id, pending["action_id"])
    ends(staffed, refund.run_id, "paused", "budget")

    signal(staffed, refund.run_id, "deny", {"action_id": pending["action_id"], "approver": LEAD})
    signal(staffed, refund.run_id, "approve", {"action_id": pending["action_id"], "approver": LEAD, "decision_id": "2"})
    edit = {"action_id": pending["action_id"], "approver": LEAD, "arguments": {"amount": "1.00"}}
    signal(staffed, refund.run_id, "edit", edit)

    rulings = ruled(staffed, refund.run_id, 4)
    assert [ruling["reason"] for ruling in rulings] == [
        "approved",
        *[f"too late: approved by {LEAD}, and it is done"] * 3,
    ]
    send(staffed, refund.run_id, "raise_budget", {"by": LEAD, "steps": 9})
    ends(staffed, refund.run_id)
    done_once(staffed, refund)


def test_a_no_ends_the_run_and_a_yes_after_it_changes_nothing(staffed):
    refund = Refund("denied")
    begin(staffed, refund)
    action_id = asked(staffed, refund)["action_id"]
    signal(staffed, refund.run_id, "deny", {"action_id": action_id, "approver": LEAD, "comment": "Ask for a photo."})
    run = ends(staffed, refund.run_id, "cancelled", f"denied by {LEAD}")

    told = signal(staffed, refund.run_id, "approve", {"action_id": action_id, "approver": LEAD}, code=1)

    assert "already completed" in told
    assert run.state.actions.all[3].status == "denied"
    assert run.state.actions.all[3].result == f"Denied by {LEAD}: Ask for a photo."
    assert [ruling.reason for ruling in look(staffed, refund.run_id).state.rulings.all] == ["denied"]
    nothing_happened(staffed, refund.order)
    check(witness(staffed, refund.run_id))


@pytest.mark.parametrize("first", ["approve", "deny"])
def test_of_a_yes_and_a_no_the_first_in_history_counts(staffed, first):
    refund = Refund("race")
    begin(staffed, refund)
    decision = {"action_id": asked(staffed, refund)["action_id"], "approver": LEAD}
    verdicts = ["approve", "deny"] if first == "approve" else ["deny", "approve"]

    send_all(staffed, refund.run_id, [(verdict, decision) for verdict in verdicts])

    ends(staffed, refund.run_id, *(["done"] if first == "approve" else ["cancelled", f"denied by {LEAD}"]))
    seen = witness(staffed, refund.run_id)
    check(seen)
    came = [event.workflow_execution_signaled_event_attributes.signal_name for event in seen.events]
    taken, refused = seen.state.rulings.all
    assert [name for name in came if name] == [taken.verdict, refused.verdict] == verdicts
    assert (taken.accepted, refused.accepted) == (True, False)
    assert refused.reason.startswith(("already decided", "too late"))
    assert len(payments(staffed, refund.order)) == (first == "approve")


@pytest.mark.parametrize(
    "ids", [["one"] * 3, [None] * 3, ["one", "two", "three"]], ids=["one id", "no id", "three ids"]
)
def test_the_same_decision_three_times_at_once_is_one(staffed, ids):
    refund = Refund("thrice")
    begin(staffed, refund)
    decision = {"action_id": asked(staffed, refund)["action_id"], "approver": LEAD}
    each = [decision | ({"decision_id": id} if id else {}) for id in ids]

    seconds = send_all(staffed, refund.run_id, [("approve", one) for one in each], at_once=True)

    ends(staffed, refund.run_id)
    seen = done_once(staffed, refund)
    first, *others = seen.state.rulings.all
    print(f"\nthree decisions within {seconds * 1000:.0f} ms")
    assert first.accepted
    assert len(others) == len(set(ids)) - 1
    assert all(not one.accepted and f"approved by {LEAD}" in one.reason for one in others)
    assert [one["approver"] for one in seen.record["approved_by"]] == [LEAD]


def test_what_was_edited_since_has_to_be_approved_anew(staffed):
    refund = Refund("edited")
    begin(staffed, refund)
    before = asked(staffed, refund)
    less = before["arguments"] | {"amount": "30.00"}
    signal(staffed, refund.run_id, "edit", {"action_id": before["action_id"], "approver": LEAD, "arguments": less})
    edited = until("it waits again", lambda: waiting_for_another(staffed, refund, before))

    approve(staffed, refund.run_id, before["action_id"])
    approve(staffed, refund.run_id, edited["action_id"], arguments_sha256=before["arguments_sha256"])

    rulings = ruled(staffed, refund.run_id, 3)
    assert [ruling["reason"] for ruling in rulings] == [
        f"edited, now {edited['action_id']}",
        f"other arguments: it was edited and is now {edited['action_id']}",
        "other arguments: the sha256 is not that of this action",
    ]
    assert (edited["arguments"], edited["action_id"][:7]) == (less, "s4.1e1-")
    assert edited["idempotency_key"] != before["idempotency_key"]
    nothing_happened(staffed, refund.order)

    approve(staffed, refund.run_id, edited["action_id"], arguments_sha256=edited["arguments_sha256"])
    ends(staffed, refund.run_id)
    seen = done_once(staffed, refund, amount=3000)
    action = seen.state.actions.all[3]
    assert (action.proposed_arguments["amount"], action.arguments["amount"]) == ("40.00", "30.00")


# What a person types in place of the arguments, a part of why it is not taken.
TYPOS = [
    ({"order": "{id}", "amount": "20.00", "reason": "half"}, "order_id: Field required"),
    ({"order_id": "{id}", "amount": 20, "reason": "half"}, "amount: it has to be a string"),
    ({"order_id": "{id}", "amount": "0.00", "reason": "half"}, "the amount is zero"),
    ({"order_id": "{id}", "amount": "400.00", "reason": "all"}, "is left to refund"),
    ({"order_id": "1", "amount": "20.00", "reason": "half"}, "There is no order"),
]


def test_an_edit_that_cannot_be_run_is_refused_and_the_request_stays_open(staffed):
    refund = Refund("typo")
    begin(staffed, refund)
    pending = asked(staffed, refund)

    for typed, why in TYPOS:
        arguments = {name: refund.order.id if value == "{id}" else value for name, value in typed.items()}
        refused = staffed.dayflow("edit", refund.run_id, json.dumps(arguments), "--as", LEAD, code=1)
        assert why in refused.stderr

    assert [ruling["verdict"] for ruling in ruled(staffed, refund.run_id, len(TYPOS))] == ["edit"] * len(TYPOS)
    waits_on(staffed, refund, pending)


def waiting_for_another(home: Home, refund: Refund, before: dict[str, Any]) -> dict[str, Any] | None:
    pending = look(home, refund.run_id).record()["pending_actions"]
    return pending[0] if pending and pending[0]["action_id"] != before["action_id"] else None


def test_the_update_decide_answers_and_the_same_update_is_one_decision(staffed):
    refund = Refund("updated")
    begin(staffed, refund)
    decision = {"action_id": asked(staffed, refund)["action_id"], "approver": LEAD, "verdict": "approve"}

    nonsense = update(staffed, refund.run_id, "u0", "yes")
    refused = update(staffed, refund.run_id, "u1", decision | {"approver": CLERK})
    taken = update(staffed, refund.run_id, "u2", decision)
    again = update(staffed, refund.run_id, "u2", decision)
    other = update(staffed, refund.run_id, "u3", decision)

    assert (nonsense["accepted"], nonsense["reason"][:9]) == (False, "malformed")
    assert refused == {"accepted": False, "reason": "below the needed role: it needs 'lead'"}
    assert taken == again == other == {"accepted": True, "reason": "approved"}
    ends(staffed, refund.run_id)
    assert update(staffed, refund.run_id, "u2", decision) == taken
    seen = done_once(staffed, refund)
    assert [one.reason for one in seen.state.rulings.all[1:]] == ["below the needed role: it needs 'lead'", "approved"]


def test_of_one_turn_the_free_calls_run_and_all_results_go_back_together(staffed):
    refund = Refund("batch")
    order = refund.order
    gated = use("issue_refund", {"order_id": order.id, "amount": "40.00", "reason": "broken"}, id="toolu_gated")
    plan = {"items": [{"title": "Refund", "tool": "issue_refund"}]}
    free = [use("lookup_order", {"order_id": order.id}), use("lookup_customer", {"customer_id": order.customer})]
    play(staffed, conversation(refund.task, call(use("propose_plan", plan)), call(free[0], gated, free[1]), say("Ok.")))
    begin(staffed, refund)
    pending = asked(staffed, refund)

    until("the free ones ran", lambda: statuses(staffed, refund)[1:] == ["done", "awaiting_approval", "done"])
    assert not query(staffed, refund.run_id, "steps")["steps"][1]["tool_results"]
    approve(staffed, refund.run_id, pending["action_id"])
    ends(staffed, refund.run_id)

    seen = witness(staffed, refund.run_id)
    check(seen)
    assert len(payments(staffed, order)) == 1
    results = seen.state.steps[1].tool_results
    asked_for = [block["id"] for block in seen.state.steps[1].assistant]
    assert [result["tool_use_id"] for result in results] == asked_for
    assert asked_for[1] == "toolu_gated"


def test_each_of_several_actions_is_decided_by_its_own_id(staffed):
    one, two, three = refunds = [Refund("three"), Refund("three"), Refund("three")]
    uses = [use("issue_refund", {"order_id": each.order.id, "amount": "40.00", "reason": "x"}) for each in refunds]
    plan = use("propose_plan", {"items": [{"title": "Refund", "tool": "issue_refund"}]})
    play(staffed, conversation(one.task, call(plan), call(*uses), say("Ok.")))
    begin(staffed, one)
    until("all wait", lambda: statuses(staffed, one)[1:] == ["awaiting_approval"] * 3)
    ids = [row["action_id"] for row in query(staffed, one.run_id, "record")["pending_actions"]]

    approve(staffed, one.run_id, ids[2])
    until("the third is done", lambda: statuses(staffed, one)[1:] == ["awaiting_approval", "awaiting_approval", "done"])
    approve(staffed, one.run_id, ids[1])
    until("the second is done", lambda: statuses(staffed, one)[1:] == ["awaiting_approval", "done", "done"])
    signal(staffed, one.run_id, "deny", {"action_id": ids[0], "approver": LEAD})

    ends(staffed, one.run_id, "cancelled", f"denied by {LEAD}")
    assert len(set(ids)) == 3
    assert [len(payments(staffed, each.order)) for each in (one, two, three)] == [0, 1, 1]
    check(witness(staffed, one.run_id))


def statuses(home: Home, refund: Refund) -> list[str]:
    return [action["status"] for action in query(home, refund.run_id, "actions") or []]


def test_words_while_it_waits_do_not_come_between_a_call_and_its_result(staffed):
    refund = Refund("words")
    begin(staffed, refund)
    pending = asked(staffed, refund)

    signal(staffed, refund.run_id, "message", {"text": "How much is left?", "from": "desk"})
    approve(staffed, refund.run_id, pending["action_id"])
    ends(staffed, refund.run_id)

    seen = done_once(staffed, refund)
    after = seen.state.transcript.messages[8:10]
    assert [message["content"][0]["type"] for message in after] == ["tool_result", "text"]
    assert "How much is left?" in after[1]["content"][0]["text"]
