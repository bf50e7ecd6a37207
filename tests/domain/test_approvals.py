"""Approvals: an action waits for a person, a decision changes it, and nothing runs that was not approved as it is."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import actions, approvals
from domain.agent import Definition, Limits, Rule
from domain.decisions import UNKNOWN_ACTION, Decision, Resolution
from domain.loop import Finish
from domain.messages import Message
from domain.model import ModelAnswer
from domain.spend import Usage
from domain.state import RunState
from domain.status import Status
from domain.tool import Conflict, Effect, Grant, Prepared, ToolResult, ToolSpec

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
LEAD, OTHER, DESK = "lead@example.com", "other@example.com", "desk@example.com"
OPEN_S = 3 * 24 * 3600.0
HELD = Conflict(run_id="other-run", action_id="s4.1-aaaaaa")
PAY = ToolSpec(name="pay", description="", input_schema={}, declares=Effect(safety="key"))
WRITE = ToolSpec(name="write", description="", input_schema={}, declares=Effect(safety="key"))

quick = settings(deadline=None, max_examples=300)


def begun(on_deny="tell", from_amount=None, requested_by=DESK):
    """A run whose agent asks before it pays, and writes as it likes."""
    state = RunState(namespace="default", run_id="b1", first_execution_run_id="first", started_at=NOW, updated_at=NOW)
    rule = Rule(tool="pay", role="lead", from_amount=from_amount, expires_s=OPEN_S, on_deny=on_deny)
    definition = Definition(
        run="first",
        agent="payer",
        instructions="",
        task="Pay.",
        model="m",
        max_tokens=10,
        tools=[PAY, WRITE],
        limits=Limits(),
        rules=[rule],
        price=None,
        requested_by=requested_by,
    )
    state.begin(definition, NOW)
    return state


def proposed(state, *amounts, tool="pay"):
    """The actions of a step that pays these amounts."""
    step = len(state.steps) + 1
    calls = [
        {"type": "tool_use", "id": f"t{step}.{n}", "name": tool, "input": {"amount": amount}}
        for n, amount in enumerate(amounts, start=1)
    ]
    answer = ModelAnswer(content=calls, stop_reason="tool_use", usage=Usage(), model="m")
    state.count(answer)
    state.take(answer, NOW)
    return state.propose(calls, NOW)


def found(action, **changed):
    """What is known of an action before it runs."""
    amount = action.arguments["amount"]
    return Prepared(**{"intent": f"pay:{amount}", "amount": Decimal(amount)} | changed)


def asked(state, *amounts):
    """Actions that wait for a person."""
    waiting = proposed(state, *amounts)
    for action in waiting:
        approvals.request(state, action, found(action), NOW)
    return waiting


def decide(state, action, verdict="approve", approver=LEAD, now=NOW, **more):
    """What becomes of a decision, as the workflow hears it."""
    decision = Decision(action_id=action.action_id, verdict=verdict, approver=approver, **more)
    why = approvals.objection(state, decision, now) or approvals.unseen_conflict(state, decision)
    if why is not None:
        return approvals.rule(state, decision, why, now, accepted=False)
    return approvals.take(state, decision, now)


# Asking


def test_an_action_that_waits_says_since_when_until_when_and_for_what():
    state = begun()
    (pay,) = proposed(state, 40)

    approvals.request(state, pay, found(pay), LATER)

    assert (pay.status, state.status) == ("awaiting_approval", Status.AWAITING_APPROVAL)
    assert (pay.requested_at, pay.expires_at) == (LATER, LATER + timedelta(seconds=OPEN_S))
    assert (pay.intent, pay.amount, pay.conflict) == ("pay:40", Decimal(40), None)


def test_a_conflict_where_no_rule_is_stays_open_for_a_week():
    state = begun()
    (write,) = proposed(state, 1, tool="write")

    approvals.request(state, write, found(write, conflict=HELD), NOW)

    assert write.expires_at == NOW + timedelta(days=7)
    assert write.conflict == HELD


def test_a_conflict_that_was_seen_once_is_not_forgotten():
    state = begun()
    (pay,) = proposed(state, 40)
    approvals.inform(pay, found(pay, conflict=HELD))

    approvals.inform(pay, found(pay))

    assert pay.conflict == HELD


# The rule's smallest amount, the amount, the conflict, whether a person is needed.
NEEDED = [
    (None, Decimal(1), None, True),  # every amount
    (None, None, None, True),
    (Decimal(50), Decimal("49.99"), None, False),
    (Decimal(50), Decimal("50.00"), None, True),
    (Decimal(50), None, None, True),  # what moves nobody knows how much
    (Decimal(50), Decimal(1), HELD, True),  # another action did it before
]


@pytest.mark.parametrize(("from_amount", "amount", "conflict", "needed"), NEEDED)
def test_whether_a_person_is_needed(from_amount, amount, conflict, needed):
    state = begun(from_amount=from_amount)
    (pay,) = proposed(state, 1)

    approvals.inform(pay, Prepared(amount=amount, conflict=conflict))

    assert approvals.needed(pay) is needed


# What has to be known to say whether somebody may decide


def test_an_authority_is_about_the_action_as_it_stands():
    state = begun()
    (pay,) = asked(state, 40)

    wanted = approvals.authority(state, Decision(action_id=pay.action_id, verdict="approve", approver=LEAD), pay)

    assert (wanted.run, wanted.role, wanted.amount, wanted.requested_by) == ("first", "lead", "40", DESK)
    assert wanted.arguments_sha256 == pay.arguments_sha256


def test_the_authority_for_an_edit_is_about_the_new_arguments():
    state = begun()
    (pay,) = asked(state, 40)
    edit = Decision(action_id=pay.action_id, verdict="edit", approver=LEAD, arguments={"amount": 30})

    assert approvals.authority(state, edit, pay).arguments_sha256 == actions.arguments_digest("pay", {"amount": 30})


@pytest.mark.parametrize("verdict", ["deny", "edit"])
def test_who_says_no_or_less_need_not_be_allowed_what_was_asked_for(verdict):
    state = begun()
    (pay,) = asked(state, 40)
    said = {"arguments": {"amount": 30}} if verdict == "edit" else {}

    wanted = approvals.authority(state, Decision(action_id=pay.action_id, verdict=verdict, approver=LEAD, **said), pay)

    assert (pay.amount, wanted.amount) == (Decimal(40), None)
    assert wanted.role == "lead"


def test_an_effect_without_a_rule_asks_for_no_role():
    state = begun()
    (write,) = proposed(state, 1, tool="write")
    approvals.request(state, write, Prepared(conflict=HELD), NOW)

    wanted = approvals.authority(state, Decision(action_id=write.action_id, verdict="approve", approver=LEAD), write)

    assert (wanted.role, wanted.amount) == (None, None)


# Yes


def test_an_approval_is_a_grant_that_goes_with_the_call():
    state = begun()
    (pay,) = asked(state, 40)

    ruling = decide(state, pay, again=True, comment="Fine.", decision_id="d1")

    assert (ruling.accepted, ruling.reason, ruling.at, ruling.comment) == (True, "approved", NOW, "Fine.")
    assert pay.status == "approved"
    assert pay.call().grant == Grant(approver=LEAD, role="lead", amount=Decimal(40), requested_by=DESK, again=True)
    assert state.status == Status.RUNNING


def test_of_two_decisions_the_first_counts_and_the_second_is_told_who_was_first():
    state = begun()
    (pay,) = asked(state, 40)
    decide(state, pay)

    second = decide(state, pay, "deny", OTHER)

    assert (second.accepted, second.reason) == (False, f"already decided: approved by {LEAD}")
    assert pay.status == "approved"


def test_parallel_actions_are_decided_by_their_ids_in_any_order():
    """D24: three at once, two approved and one denied."""
    state = begun()
    circle, square, triangle = asked(state, 1, 2, 3)

    decide(state, triangle)
    decide(state, circle, "deny")
    decide(state, square)

    assert [one.status for one in (circle, square, triangle)] == ["denied", "approved", "approved"]
    assert len({one.action_id for one in (circle, square, triangle)}) == 3


def test_what_the_run_itself_refuses_leaves_the_action_as_it_was():
    state = begun()
    (pay,) = asked(state, 40)
    before = pay.model_copy(deep=True)

    ruling = decide(state, pay, approver=DESK)

    assert (ruling.accepted, ruling.reason) == (False, "own request: who asks for it may not decide it")
    assert pay == before
    assert state.rulings.refused == 1


def test_a_decision_for_no_action_is_written_down():
    state = begun()

    ruling = approvals.take(state, Decision(action_id="s9.9-000000", verdict="approve", approver=LEAD), NOW)

    assert (ruling.accepted, ruling.reason) == (False, UNKNOWN_ACTION)
    assert state.rulings.all == [ruling]


def test_a_run_that_is_over_takes_no_decision():
    state = begun()
    (pay,) = asked(state, 40)
    state.finish(Finish("done"), NOW)
    state.cancel(None, NOW)

    assert decide(state, pay).reason == "too late: the run is cancelled"


def test_an_id_of_another_decision_is_refused_and_not_answered_for_it():
    state = begun()
    first, second = asked(state, 1, 2)
    decide(state, first, decision_id="d1")

    ruling = decide(state, second, decision_id="d1")

    assert (ruling.accepted, ruling.reason) == (False, "malformed: the decision id 'd1' is that of another decision")
    assert second.status == "awaiting_approval"


def test_what_cannot_be_read_is_a_ruling_and_a_bad_message():
    state = begun()

    ruling = approvals.malformed(state, "approve", ["yes"], "malformed: takes one object " + "x" * 1_000, NOW)

    assert (ruling.accepted, ruling.verdict, len(ruling.reason)) == (False, "approve", 500)
    assert [bad.name for bad in state.bad_messages.last] == ["approve"]
    assert state.rulings.refused == 1


# No


def test_a_no_is_told_to_the_model_with_its_comment_and_the_run_goes_on():
    state = begun()
    first, second = asked(state, 1, 2)

    decide(state, first, "deny", comment="Ask for a photo.")
    decide(state, second, "deny")

    assert first.result == f"Denied by {LEAD}: Ask for a photo."
    assert second.result == f"Denied by {LEAD}."
    assert {first.status, second.status} == {"denied"}
    assert (state.winding_up, state.status) == (None, Status.RUNNING)


def test_a_no_that_ends_the_run_withdraws_what_waits_and_leaves_what_runs():
    state = begun(on_deny="cancel")
    denied, waits, approved, running = asked(state, 1, 2, 3, 4)
    decide(state, approved)
    decide(state, running)
    running.status = "running"

    decide(state, denied, "deny")

    assert [one.status for one in (denied, waits, approved, running)] == [
        "denied",
        "cancelled",
        "cancelled",
        "running",
    ]
    assert state.winding_up == f"denied by {LEAD}"
    assert state.status == Status.RUNNING  # until what runs has come to its end


@pytest.mark.parametrize("how", ["void", "contest"])
def test_what_comes_back_to_be_asked_about_is_withdrawn_where_the_run_winds_up(how):
    state = begun(on_deny="cancel")
    denied, running = asked(state, 1, 2)
    decide(state, running)
    running.status = "running"
    decide(state, denied, "deny")

    if how == "void":
        approvals.void(state, running, "not on the list", NOW)
    else:
        approvals.contest(state, running, HELD, NOW)

    assert running.status == "cancelled"


def test_what_was_denied_is_refused_when_it_is_asked_for_again_until_a_person_speaks():
    state = begun()
    (first,) = asked(state, 40)
    decide(state, first, "deny")
    (again,) = proposed(state, 40)
    approvals.inform(again, found(again))
    by = state.actions.refused_before(again)

    approvals.refuse_again(state, again, by, NOW)
    state.queue(Message(text="Try once more.", sender="ann"))
    state.hear()

    assert by == LEAD
    assert (again.status, again.grant) == ("denied", None)
    assert again.result == f"Denied: {LEAD} said no to this before, and it is not asked again."
    assert state.actions.refused_before(again) is None


# The denied intent, another one, whether it counts as the same.
SAME = [
    ("refund:1", "refund:1", True),
    ("refund:1", "refund:2", False),
    (None, None, True),  # without an intent, tool and arguments
]


@pytest.mark.parametrize(("denied", "asked_for", "same"), SAME)
def test_the_intent_says_what_is_asked_for_again(denied, asked_for, same):
    state = begun()
    (first,) = proposed(state, 40)
    approvals.request(state, first, found(first, intent=denied), NOW)
    decide(state, first, "deny")

    (again,) = proposed(state, 40)
    approvals.inform(again, found(again, intent=asked_for))

    assert (state.actions.refused_before(again) == LEAD) is same


# Edits


def test_an_edited_action_is_another_one_under_a_new_key_and_is_decided_anew():
    state = begun()
    (pay,) = asked(state, 40)
    old, key = pay.action_id, pay.idempotency_key

    ruling = decide(state, pay, "edit", arguments={"amount": 30})

    sha256 = actions.arguments_digest("pay", {"amount": 30})
    assert (pay.action_id, pay.arguments_sha256) == (f"s1.1e1-{sha256[:6]}", sha256)
    assert ruling.reason == f"edited, now {pay.action_id}"
    assert pay.idempotency_key == actions.idempotency_key("default", "first", 1, 1, "pay", 1) != key
    assert (pay.proposed_arguments, pay.arguments) == ({"amount": 40}, {"amount": 30})
    assert (pay.status, pay.grant, pay.conflict, pay.intent, pay.amount) == ("proposed", None, None, None, None)
    assert state.actions.find(old) is state.actions.find(pay.action_id) is pay


def test_an_action_that_was_edited_twice_is_found_by_each_of_its_ids():
    state = begun()
    (pay,) = asked(state, 40)
    ids = [pay.action_id]

    for amount in (30, 40):  # back to what it was is another action all the same
        decide(state, pay, "edit", arguments={"amount": amount})
        approvals.request(state, pay, found(pay), NOW)
        ids.append(pay.action_id)

    assert [state.actions.find(one) for one in ids] == [pay] * 3
    assert len(set(ids)) == 3
    assert [id[:4] for id in ids] == ["s1.1", "s1.1", "s1.1"]


def test_an_approval_of_what_it_was_before_the_edit_does_not_count():
    state = begun()
    (pay,) = asked(state, 40)
    before = Decision(action_id=pay.action_id, verdict="approve", approver=LEAD)
    decide(state, pay, "edit", arguments={"amount": 30})
    approvals.request(state, pay, found(pay), NOW)

    why = approvals.objection(state, before, NOW)

    assert why == f"other arguments: it was edited and is now {pay.action_id}"


# Time


def test_a_request_that_nobody_decided_is_an_end_of_its_own():
    state = begun()
    (pay,) = asked(state, 40)

    approvals.expire(state, pay, pay.expires_at)

    assert (pay.status, state.status) == ("expired", Status.RUNNING)
    assert pay.result == "Nobody decided until 2026-12-02T12:00:00+00:00; the request expired."
    assert decide(state, pay).reason == "expired: nobody decided in time"


# Approved, and it has to wait again


def test_an_approval_of_someone_who_may_no_longer_is_void_and_they_may_decide_anew():
    state = begun()
    (pay,) = asked(state, 40)
    decide(state, pay)
    pay.status = "running"

    approvals.void(state, pay, "not on the list", LATER)

    void = state.rulings.all[-1]
    assert (void.accepted, void.approver, void.reason) == (False, LEAD, "no longer entitled: not on the list")
    assert (pay.status, pay.grant) == ("proposed", None)
    approvals.request(state, pay, found(pay), LATER)
    assert state.rulings.known(Decision(action_id=pay.action_id, verdict="approve", approver=LEAD)) is None
    assert decide(state, pay).accepted


def test_an_intent_that_another_action_took_meanwhile_has_to_be_seen_and_said():
    state = begun()
    (pay,) = asked(state, 40)
    decide(state, pay)
    pay.status = "running"

    approvals.contest(state, pay, HELD, LATER)
    approvals.request(state, pay, found(pay), LATER)

    assert decide(state, pay).reason.startswith("conflict: other-run holds the same intent")
    assert decide(state, pay, again=True).accepted
    assert pay.grant.again


# Unknown, and what a person says it was


def unknown(state):
    (pay,) = asked(state, 40)
    decide(state, pay)
    approvals.hold(state, pay, ToolResult(content="No answer came.", outcome="unknown", attempts=3), NOW)
    return pay


def test_an_effect_of_which_nobody_knows_waits_for_a_person():
    state = begun()

    pay = unknown(state)

    assert (pay.status, pay.result, pay.attempts) == ("unknown", "No answer came.", 3)
    assert state.status == Status.AWAITING_RESOLUTION
    assert pay.open


# What is said, its words, the status, what the model reads.
RESOLUTIONS = [
    ("done", "re_1", "done", "re_1"),
    ("done", None, "done", "It happened, as ann found."),
    ("not_done", None, "failed", "It did not happen, as ann found. Ask for it again if it is still wanted."),
]


@pytest.mark.parametrize(("outcome", "result", "status", "read"), RESOLUTIONS)
def test_a_resolution_settles_it(outcome, result, status, read):
    state = begun()
    pay = unknown(state)
    resolution = Resolution(action_id=pay.action_id, outcome=outcome, result=result, by="ann")

    approvals.resolve(state, pay, resolution, LATER)

    assert (pay.status, pay.result, pay.attempts) == (status, read, 3)
    assert state.status == Status.RUNNING
    ruling = state.rulings.all[-1]
    assert (ruling.verdict, ruling.approver, ruling.accepted, ruling.reason) == ("resolve", "ann", True, outcome)


@pytest.mark.parametrize("changed", [True, False])
def test_what_a_resolution_is_about_says_whether_the_row_is_of_other_arguments(changed):
    state = begun()
    pay = unknown(state)
    pay.conflict = Conflict(run_id="b1", action_id=pay.action_id, changed=changed)

    about = approvals.standing(state, Resolution(action_id=pay.action_id, outcome="done", by="ann"), pay)

    assert (about.idempotency_key, about.role, about.requested_by) == (pay.idempotency_key, "lead", DESK)
    assert about.changed is changed


# The status follows the actions


def statuses(state, *steps):
    seen = []
    for step in steps:
        step()
        seen.append(state.status.value)
    return seen


def test_the_status_is_what_is_most_urgent_and_no_move_is_refused():
    state = begun()
    first, second = proposed(state, 1, 2)

    seen = statuses(
        state,
        lambda: approvals.request(state, first, found(first), NOW),
        lambda: approvals.request(state, second, found(second), NOW),
        lambda: decide(state, first),
        lambda: approvals.hold(state, first, ToolResult(content="?", outcome="unknown"), NOW),
        lambda: decide(state, second, "deny"),
        lambda: approvals.resolve(state, first, Resolution(action_id=first.action_id, outcome="done", by="a"), NOW),
    )

    assert seen == [
        "awaiting_approval",
        "awaiting_approval",
        "awaiting_approval",
        "awaiting_resolution",
        "awaiting_resolution",
        "running",
    ]
    assert state.refused_moves == []


def test_a_pause_while_a_person_is_waited_for_comes_back_to_what_is_waited_for_then():
    state = begun()
    first, second = proposed(state, 1, 2)
    approvals.request(state, first, found(first), NOW)

    seen = statuses(
        state,
        lambda: state.wish_to_pause("ann", NOW),
        lambda: approvals.request(state, second, found(second), NOW),
        lambda: decide(state, first),  # a decision counts while the run is paused
        lambda: state.go_on(LATER),
        lambda: state.wish_to_pause("ann", LATER),
        lambda: decide(state, second),
        lambda: state.go_on(LATER),
    )

    assert seen == ["paused", "paused", "paused", "awaiting_approval", "paused", "paused", "running"]
    assert (first.status, second.status, state.refused_moves) == ("approved", "approved", [])


def test_a_request_that_expires_in_a_pause_is_over_when_the_run_goes_on():
    state = begun()
    (pay,) = asked(state, 40)
    state.wish_to_pause("ann", NOW)

    approvals.expire(state, pay, pay.expires_at)
    paused = state.status
    state.go_on(LATER)

    assert (paused, state.status) == (Status.PAUSED, Status.RUNNING)


# Whatever people say, in whatever order

APPROVERS = [LEAD, OTHER, DESK]
DECISIONS = st.tuples(
    st.just("decide"),
    st.integers(0, 2),  # the action
    st.sampled_from(["approve", "deny", "edit"]),
    st.sampled_from(APPROVERS),
    st.integers(0, 3),  # which of the ids that it had, counted from the newest
    st.sampled_from([None, "right", "wrong"]),  # the sha256
    st.sampled_from([None, "d1", "d2"]),
    st.booleans(),  # again
)
EVENTS = st.tuples(
    st.sampled_from(["run", "run", "run", "expire", "void", "contest", "unknown", "pause", "resume"]),
    st.integers(0, 2),
)
COURSES = st.lists(DECISIONS | EVENTS, min_size=10, max_size=30)


class Course:
    """A run of three actions to which things happen; what runs is written down as it ran."""

    def __init__(self, on_deny):
        self.state = begun(on_deny)
        self.actions = proposed(self.state, 1, 2, 3)
        self.ran = []
        for action in self.actions:
            approvals.request(self.state, action, found(action), NOW)

    def decide(self, n, verdict, approver, former, sha256, decision_id, again):
        """As the workflow hears it: known, objected to, or taken."""
        action = self.actions[n]
        ids = [action.action_id, *reversed(action.former_ids)]
        decision = Decision(
            action_id=ids[min(former, len(ids) - 1)],
            verdict=verdict,
            approver=approver,
            arguments_sha256={None: None, "right": action.arguments_sha256, "wrong": "0" * 64}[sha256],
            arguments={"amount": former + 10} if verdict == "edit" else None,
            decision_id=decision_id,
            again=again,
        )
        if self.state.rulings.known(decision):
            return
        why = approvals.objection(self.state, decision, NOW) or approvals.unseen_conflict(self.state, decision)
        if why is None:
            approvals.take(self.state, decision, NOW)
            self.ask(action)
        else:
            approvals.rule(self.state, decision, why, NOW, accepted=False)

    def ask(self, action):
        """Let an action wait that has to be looked at again."""
        if action.status == "proposed":
            approvals.request(self.state, action, found(action), NOW)

    def happen(self, what, n):
        """What the run itself does, as far as it may."""
        state, action = self.state, self.actions[n]
        match what, action.status:
            case "pause", _:
                state.wish_to_pause("ann", NOW)
            case "resume", _:
                state.go_on(NOW)
            case "expire", "awaiting_approval":
                approvals.expire(state, action, NOW)
            case "void", "approved":
                approvals.void(state, action, "not on the list", NOW)
                self.ask(action)
            case "contest", "approved":
                approvals.contest(state, action, HELD, NOW)
                self.ask(action)
            case "unknown", "approved":
                self.ran.append(action.call())
                approvals.hold(state, action, ToolResult(content="?", outcome="unknown"), NOW)
            case "run", "approved":
                self.ran.append(action.call())
                state.settle(action, ToolResult(content="paid"), NOW)


@quick
@given(st.sampled_from(["tell", "cancel"]), COURSES)
def test_nothing_runs_without_an_approval_of_exactly_what_runs(on_deny, course):
    run = Course(on_deny)

    for what, *more in course:
        run.decide(*more) if what == "decide" else run.happen(what, *more)

    for call in run.ran:
        action = run.state.actions.find(call.action_id)
        sha256 = actions.arguments_digest(call.tool, call.arguments)
        taken = [
            one
            for one in run.state.rulings.all
            if one.accepted and one.identity and one.verdict == "approve" and one.action_id == call.action_id
        ]
        assert [one.approver for one in taken] == [call.grant.approver]
        assert taken[0].arguments_sha256 in (None, sha256)
        assert action.arguments_sha256 == sha256
        assert call.action_id.endswith(sha256[:6])
        assert call.grant.approver != DESK
        assert call.grant.again or action.conflict is None


@quick
@given(st.sampled_from(["tell", "cancel"]), COURSES)
def test_each_action_runs_once_at_the_most_and_the_status_is_always_what_is_waited_for(on_deny, course):
    run = Course(on_deny)

    for what, *more in course:
        run.decide(*more) if what == "decide" else run.happen(what, *more)
        waits = {action.status for action in run.actions} & {"awaiting_approval", "unknown"}
        told = run.state.before_pause if run.state.paused else run.state.status
        expected = Status.AWAITING_RESOLUTION if "unknown" in waits else Status.AWAITING_APPROVAL
        assert told == (expected if waits else Status.RUNNING)

    keys = [call.idempotency_key for call in run.ran]
    assert len(keys) == len(set(keys))
    assert len(run.ran) <= len(run.actions)
    assert run.state.refused_moves == []


@quick
@given(st.sampled_from(["tell", "cancel"]), COURSES)
def test_the_state_with_all_its_decisions_survives_a_round_trip(on_deny, course):
    run = Course(on_deny)
    for what, *more in course:
        run.decide(*more) if what == "decide" else run.happen(what, *more)

    again = RunState.model_validate_json(run.state.model_dump_json())

    assert again == run.state
