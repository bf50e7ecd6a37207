"""Decisions: how they are read, why they are refused, and when two of them are one."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import decisions, errors, messages
from domain.actions import Action, arguments_digest
from domain.decisions import KEPT, Decision, Resolution, Ruling, Rulings
from domain.tool import Conflict, Grant

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SHA = arguments_digest("pay", {"amount": 1})
LEAD, DESK = "lead@example.com", "desk@example.com"
SAID = {"action_id": "s1.1-3fa9c2", "verdict": "approve", "approver": LEAD}
HELD = Conflict(run_id="other-run", action_id="s4.1-aaaaaa")
EDIT = {**SAID, "verdict": "edit", "arguments": {"amount": 2}}

quick = settings(deadline=None, max_examples=200)


def said(**changed):
    """A decision with these fields; None leaves one out."""
    return {name: value for name, value in (SAID | changed).items() if value is not None}


def asked(**changed):
    """An action that waits for a person."""
    values = {
        "action_id": "s1.1-3fa9c2",
        "step": 1,
        "position": 1,
        "tool": "pay",
        "tool_use_id": "t1",
        "proposed_arguments": {"amount": 1},
        "arguments": {"amount": 1},
        "arguments_sha256": SHA,
        "effect": True,
        "status": "awaiting_approval",
        "requested_at": NOW,
        "expires_at": NOW + timedelta(days=3),
    }
    return Action(**values | changed)


def granted(by=LEAD):
    return Grant(approver=by, role="lead", amount=None, requested_by=DESK)


# Reading


def test_a_decision_with_all_it_can_have_is_read_as_it_is():
    full = SAID | {
        "arguments_sha256": SHA,
        "again": True,
        "comment": "Fine.",
        "decision_id": "d1",
        "expires_at": "2026-11-30T12:00:00+01:00",
        "signature": "c2ln",
    }

    read = decisions.parse(None, [full])

    assert read == Decision.model_validate(full)
    assert read.expires_at == datetime(2026, 11, 30, 11, tzinfo=UTC)


# The signal, what it says of its verdict itself, the verdict.
VERDICTS = [
    ("approve", None, "approve"),
    ("deny", None, "deny"),
    ("deny", "deny", "deny"),
    (None, "approve", "approve"),
]


@pytest.mark.parametrize(("signal", "written", "verdict"), VERDICTS)
def test_a_signal_names_its_verdict_and_an_update_writes_it(signal, written, verdict):
    assert decisions.parse(signal, [said(verdict=written)]).verdict == verdict


def test_an_edit_brings_its_arguments():
    assert decisions.parse("edit", [said(verdict=None, arguments={"amount": 2})]).arguments == {"amount": 2}


# What came in, a part of what is said about it.
MALFORMED = [
    ([], "takes exactly one JSON object, got 0 inputs"),
    ([SAID, SAID], "takes exactly one JSON object, got 2 inputs"),
    ([None], "takes exactly one JSON object"),
    (["yes"], "takes exactly one JSON object"),
    ([[SAID]], "takes exactly one JSON object"),
    ([{}], "action_id: Field required"),
    ([said(action_id=None)], "action_id: Field required"),
    ([said(action_id="")], "action_id: it has to have at least 1 character"),
    ([said(action_id=17)], "action_id: it has to be a string"),
    ([said(action_id="s" * 101)], "action_id: it has to have at most 100"),
    ([said(approver=None)], "approver: Field required"),
    ([said(approver="  ")], "approver: it has to have at least 1 character"),
    ([said(approver=["lead"])], "approver: it has to be a string"),
    ([said(approver="lead\x00")], "approver: it has to match pattern"),
    ([said(approver="\ud800")], "Invalid JSON"),  # half a character
    ([said(verdict=None)], "verdict: Field required"),
    ([said(verdict="yes")], "verdict: it has to be 'approve', 'deny' or 'edit'"),
    ([said(verdict="Approve")], "verdict: it has to be 'approve', 'deny' or 'edit'"),
    ([said(now=True)], "now: Extra inputs are not permitted"),
    ([said(hash=SHA)], "hash: Extra inputs are not permitted"),  # one word off must not mean unbound
    ([said(arguments_sha256="3fa9c2")], "arguments_sha256: it has to match pattern"),  # six hex bind nothing
    ([said(arguments_sha256=SHA.upper())], "arguments_sha256: it has to match pattern"),
    ([said(again="true")], "again: it has to be a boolean"),
    ([said(again=1)], "again: it has to be a boolean"),
    ([said(comment="x" * 2_001)], "comment: it has to have at most 2000"),
    ([said(decision_id="")], "decision_id: it has to have at least 1 character"),
    ([said(decision_id=7)], "decision_id: it has to be a string"),
    ([said(expires_at="2030-01-01T00:00:00")], "expires_at: it has to have timezone info"),
    ([said(expires_at="tomorrow")], "expires_at: it has to be a valid datetime"),
    ([said(expires_at=1893456000)], "expires_at: it has to be a valid datetime"),  # a number has no zone
    ([said(signature="s" * 201)], "signature: it has to have at most 200"),
    ([said(verdict="edit")], "`arguments` belongs to the verdict `edit`"),
    ([said(arguments={"amount": 1200})], "`arguments` belongs to the verdict `edit`"),  # D27: its own copy of them
    ([said(verdict="deny", arguments={})], "`arguments` belongs to the verdict `edit`"),
    ([said(verdict="edit", arguments=[1])], "arguments: it has to be an object"),
    ([said(verdict="edit", arguments={"amount": float("nan")})], "NaN and Infinity are no JSON"),
    ([said(verdict="edit", arguments={"amount": float("inf")})], "NaN and Infinity are no JSON"),
    ([said(comment="no \x00")], "NUL character, which no model takes"),
    ([said(verdict="edit", arguments={"to": ["a\x00"]})], "NUL character, which no model takes"),
    ([{"undecodable": "json/plain", "sha256": SHA, "excerpt": "x"}], "cannot be decoded as 'json/plain'"),
]


@pytest.mark.parametrize(("raw", "told"), MALFORMED)
def test_what_is_no_decision_is_refused_with_the_place_of_the_mistake(raw, told):
    with pytest.raises(errors.BadRequest) as caught:
        decisions.parse(None, raw)

    assert str(caught.value).startswith("malformed: ")
    assert told in str(caught.value)


@pytest.mark.parametrize("written", ["deny", "edit", "yes", 1, [], None], ids=repr)
def test_a_signal_whose_verdict_says_otherwise_is_refused(written):
    with pytest.raises(errors.BadRequest, match="malformed: the signal says 'approve' and the verdict"):
        decisions.parse("approve", [SAID | {"verdict": written}])


def test_an_edit_with_arguments_that_no_history_should_hold_is_refused_with_their_size():
    large = {"text": "x" * decisions.MAX_ARGUMENTS_BYTES}

    with pytest.raises(errors.BadRequest, match=r"malformed: the arguments have 100011 bytes; at most 100000"):
        decisions.parse("edit", [{**EDIT, "arguments": large}])


@quick
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*SAID, "x"]), inner, max_size=4),
    )
)
def test_whatever_comes_is_a_decision_or_a_bad_request(raw):
    try:
        read = decisions.parse(None, [raw])
    except errors.BadRequest:
        return

    assert read.verdict in ("approve", "deny", "edit")


# Objections


def objection(action, requested_by=DESK, now=NOW, **changed):
    decision = Decision.model_validate(said(**changed))
    return decisions.objection(decision, action, requested_by, now)


@pytest.mark.parametrize("verdict", ["approve", "deny"])
def test_nothing_speaks_against_a_decision_about_an_action_that_waits(verdict):
    assert objection(asked(), verdict=verdict, arguments_sha256=SHA) is None


# The action, what is otherwise in the decision, the reason.
OBJECTIONS = [
    (None, {}, decisions.UNKNOWN_ACTION),
    (
        asked(status="proposed"),
        {},
        f"{decisions.UNKNOWN_ACTION}; this one is not up for decision",
    ),  # before it is asked about
    (
        asked(action_id="s1.1e1-aaaaaa", former_ids=["s1.1-3fa9c2"]),
        {},
        "other arguments: it was edited and is now s1.1e1-aaaaaa",
    ),
    (asked(), {"arguments_sha256": "0" * 64}, "other arguments: the sha256 is not that of this action"),
    (asked(status="approved", grant=granted()), {}, f"already decided: approved by {LEAD}"),
    (asked(status="denied", grant=granted()), {}, f"already decided: denied by {LEAD}"),
    (asked(status="denied"), {}, "too late: the action is denied"),  # it was not asked about a second time
    (asked(status="running", grant=granted()), {}, f"too late: approved by {LEAD}, and it is running"),
    (asked(status="done", grant=granted()), {}, f"too late: approved by {LEAD}, and it is done"),
    (asked(status="unknown", grant=granted()), {}, f"too late: approved by {LEAD}, and it is unknown"),
    (asked(status="done"), {}, "too late: the action is done"),  # nobody had to approve it
    (asked(status="cancelled"), {}, "too late: the action is cancelled"),
    (asked(status="expired"), {}, "expired: nobody decided in time"),
    (asked(), {"expires_at": NOW - SECOND}, "expired: the decision was good until 2026-11-29T11:59:59+00:00"),
    (asked(), {"expires_at": NOW}, "expired: the decision was good until 2026-11-29T12:00:00+00:00"),
    (asked(expires_at=NOW), {}, "expired: the request was open until 2026-11-29T12:00:00+00:00"),
    (asked(), {"approver": DESK}, "own request: who asks for it may not decide it"),
]


@pytest.mark.parametrize(("action", "changed", "reason"), OBJECTIONS)
def test_every_objection_has_its_reason(action, changed, reason):
    assert objection(action, **changed) == reason


# What would be in the way of an approval and is not in the way of this.
NO_OBJECTION = [
    (asked(conflict=HELD), {}),  # other runs are a matter for who may decide: see below
    (asked(), {"expires_at": NOW + SECOND}),
    (asked(), {"expires_at": (NOW + SECOND).astimezone(timezone(timedelta(hours=9)))}),  # in another zone
    (asked(expires_at=NOW + SECOND), {}),
    (asked(), {"again": True}),  # there is no conflict: it says nothing
    (asked(), {"verdict": "edit", "arguments": {"amount": 2}, "arguments_sha256": SHA}),  # bound to what is edited
]


@pytest.mark.parametrize(("action", "changed"), NO_OBJECTION)
def test_what_is_in_the_way_of_nothing(action, changed):
    assert objection(action, **changed) is None


# What is said about an action whose intent another run holds, whether that is enough.
CONFLICTS = [
    ({}, False),
    ({"again": False}, False),
    ({"again": True}, True),
    ({"verdict": "deny"}, True),  # a no, and an edit, need no `again`
    (EDIT, True),
]


@pytest.mark.parametrize(("changed", "enough"), CONFLICTS)
def test_a_conflict_is_approved_only_by_who_says_that_they_saw_it(changed, enough):
    told = decisions.unseen_conflict(Decision.model_validate(said(**changed)), asked(conflict=HELD))

    assert told == (
        None if enough else 'conflict: other-run holds the same intent; say "again": true (--again) to approve it'
    )


def test_without_a_conflict_nothing_has_to_be_seen():
    assert decisions.unseen_conflict(Decision.model_validate(SAID), asked()) is None


# Who asked for it, who decides it.
ONE_PERSON = [
    (DESK, DESK),
    (DESK, "Desk@Example.COM"),
    ("DESK@example.com", DESK),
    (f" {DESK} ", DESK),
    ("straße@example.com", "STRASSE@example.com"),
    ("zoe\u0308@example.com", "zo\u00eb@example.com"),  # composed, as one system types it and another does not
    ("\uff44esk@example.com", DESK),  # full width
    (f"\u200b{DESK}", DESK),  # copied with what nobody sees
]


@pytest.mark.parametrize(("requested_by", "approver"), ONE_PERSON)
@pytest.mark.parametrize("verdict", ["approve", "deny"])
def test_nobody_decides_their_own_request_however_they_spell_their_name(requested_by, approver, verdict):
    told = objection(asked(), requested_by=requested_by, approver=approver, verdict=verdict)

    assert told == "own request: who asks for it may not decide it"


@pytest.mark.parametrize("requested_by", [None, "desk", "lead", "lead@example.org"])
def test_another_name_is_another_person(requested_by):
    assert objection(asked(), requested_by=requested_by) is None


# Two that are one


def ruled(accepted=True, **changed):
    decision = Decision.model_validate(said(**changed))
    return Ruling(
        action_id=decision.action_id,
        verdict=decision.verdict,
        approver=decision.approver,
        accepted=accepted,
        reason="approved" if accepted else "below the needed role",
        at=NOW,
        identity=decision.identity,
    )


# The first, the second, whether they are one.
TWICE = [
    ({}, {}, True),
    ({"decision_id": "d1"}, {"decision_id": "d1"}, True),
    ({}, {"comment": "Again."}, True),  # what is said beside it changes nothing
    ({"decision_id": "d1"}, {"decision_id": "d1", "comment": "Again."}, True),
    ({}, {"approver": DESK}, False),
    ({}, {"verdict": "deny"}, False),
    ({}, {"action_id": "s1.2-3fa9c2"}, False),
    ({"decision_id": "d1"}, {"decision_id": "d2"}, False),  # D34: the second one is told who was first
    ({"decision_id": "d1"}, {"decision_id": "d1", "action_id": "s1.2-3fa9c2"}, False),
    ({"decision_id": "d1"}, {"decision_id": "d1", "approver": DESK}, False),
    (EDIT, EDIT, True),
    (EDIT, EDIT | {"arguments": {"amount": 3}}, False),
]


@pytest.mark.parametrize(("first", "second", "one"), TWICE)
def test_the_same_decision_twice_is_one(first, second, one):
    rulings = Rulings()
    taken = rulings.add(ruled(**first))

    known = rulings.known(Decision.model_validate(said(**second)))

    assert known is (taken if one else None)


def test_a_decision_that_was_refused_may_be_sent_again():
    rulings = Rulings()
    rulings.add(ruled(accepted=False))

    assert rulings.known(Decision.model_validate(SAID)) is None


def test_an_approval_that_counts_no_more_is_no_longer_known_and_others_are():
    rulings = Rulings()
    rulings.add(ruled())
    kept = rulings.add(ruled(action_id="s1.2-3fa9c2"))

    rulings.forget("s1.1-3fa9c2")

    assert rulings.known(Decision.model_validate(SAID)) is None
    assert rulings.known(Decision.model_validate(said(action_id="s1.2-3fa9c2"))) is kept


# The second decision, whether its id is taken.
IDS = [
    ({"decision_id": "d1", "action_id": "s1.2-3fa9c2"}, True),
    ({"decision_id": "d2"}, False),
    ({"decision_id": None}, False),
]


@pytest.mark.parametrize(("second", "taken"), IDS)
def test_an_id_belongs_to_one_decision(second, taken):
    rulings = Rulings()
    rulings.add(ruled(decision_id="d1"))
    rulings.add(ruled(accepted=False, decision_id="d2"))

    assert rulings.misnamed(Decision.model_validate(said(**second))) is taken


# Bounded


def test_of_the_refused_rulings_the_newest_are_kept_and_how_many_there_were():
    rulings = Rulings()
    first = rulings.add(ruled())

    for n in range(KEPT * 2):
        rulings.add(ruled(accepted=False, action_id=f"a{n}"))

    assert len(rulings.all) == KEPT
    assert rulings.refused == KEPT * 2
    assert rulings.all[0] is first
    assert [kept.action_id for kept in rulings.all[1:]] == [f"a{n}" for n in range(KEPT + 1, KEPT * 2)]


def test_what_was_taken_is_never_dropped():
    rulings = Rulings()

    for n in range(KEPT + 10):
        rulings.add(ruled(action_id=f"a{n}"))

    assert len(rulings.all) == KEPT + 10


# Resolutions

RESOLVED = {"action_id": "s1.1-3fa9c2", "outcome": "done", "by": LEAD}

# What came in, a part of what is said about it.
UNRESOLVED = [
    ([], "takes exactly one JSON object"),
    ([RESOLVED | {"outcome": "yes"}], "outcome: it has to be 'done' or 'not_done'"),
    ([RESOLVED | {"by": None}], "by: it has to be a string"),
    ([RESOLVED | {"result": {"paid": 1}}], "result: it has to be a string"),
    ([RESOLVED | {"approver": LEAD}], "approver: Extra inputs are not permitted"),
    ([{"outcome": "done", "by": LEAD}], "action_id: Field required"),
]


@pytest.mark.parametrize(("raw", "told"), UNRESOLVED)
def test_what_is_no_resolution_is_refused_with_the_place_of_the_mistake(raw, told):
    with pytest.raises(errors.BadRequest) as caught:
        messages.parse(Resolution, raw)

    assert told in str(caught.value)
