"""New limits: who may give them, and why they are refused."""

from datetime import UTC, datetime

import pytest

from domain import raises
from domain.agent import Definition, Limits
from domain.messages import RaiseBudget
from domain.spend import PRICES, Usage
from domain.state import RunState
from domain.status import Status

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
LEAD, DESK = "lead@example.com", "desk@example.com"


def begun(**changed):
    state = RunState(namespace="default", run_id="b1", first_execution_run_id="first", started_at=NOW, updated_at=NOW)
    defined = {"limits": Limits(tokens=1_000), "price": PRICES["claude-sonnet-5-5"], "requested_by": DESK} | changed
    rest = {"agent": "a", "instructions": "", "task": "t", "model": "m", "max_tokens": 100, "tools": []}
    state.begin(Definition(run="first", **rest, **defined), NOW)
    state.totals.add(Usage(input_tokens=900), state.frozen().price)
    return state


def wish(by=LEAD, **limits):
    return RaiseBudget(by=by, **limits)


# What changes in the run, the wish, why it is refused; None is taken.
OBJECTIONS = [
    ({}, wish(tokens=2_000), None),
    ({}, wish(tokens=900), None),
    ({}, wish(tokens=899), "tokens: 900 are used already, 899 is less"),
    ({}, wish(steps=1, tokens=5), "tokens: 900 are used already, 5 is less"),
    ({}, wish(usd=0.001), "usd: 0.0018 are used already, 0.001 is less"),
    ({}, wish(), "no limit is named"),
    ({}, wish(DESK, tokens=2_000), None),
    ({"budget_role": "lead"}, wish(DESK, tokens=2_000), "own request"),
    ({"budget_role": "lead"}, wish("Desk@Example.com ", tokens=2_000), "own request"),
    ({"price": None}, wish(usd=5.0), "the price of 'm' is not known"),
    ({"price": None}, wish(tokens=2_000), None),
]


@pytest.mark.parametrize(("changed", "wanted", "why"), OBJECTIONS)
def test_new_limits_are_taken_or_refused_with_a_reason(changed, wanted, why):
    found = raises.objection(begun(**changed), wanted, NOW)

    assert found is None if why is None else found.startswith(why)


def test_a_run_that_is_over_takes_no_limits():
    state = begun()
    state.move(Status.DONE, NOW)

    assert raises.objection(state, wish(tokens=2_000), NOW) == "too late: the run is done"


def test_a_role_is_looked_up_only_where_the_agent_names_one():
    assert raises.to_check(begun(), wish(tokens=2_000)) is None
    asked = raises.to_check(begun(budget_role="lead"), wish(tokens=2_000))
    assert (asked.by, asked.role, asked.run) == (LEAD, "lead", "first")
    assert asked.sha256 == raises.limits_digest(Limits(tokens=2_000))


def test_what_is_taken_replaces_only_what_it_names_and_lets_the_run_go_on():
    state = begun(limits=Limits(steps=5, tokens=1_000))
    state.pause("budget", NOW)

    raises.take(state, wish(tokens=2_000, usd=1.5), NOW)

    assert state.limits == Limits(steps=5, tokens=2_000, usd=1.5)
    assert state.status == Status.RUNNING
    [ruling] = state.rulings.all
    assert (ruling.accepted, ruling.approver, ruling.reason) == (True, LEAD, "tokens 1,000 → 2,000, usd none → 1.5")


def test_a_run_that_a_person_paused_stays_so():
    state = begun()
    state.pause("by ann", NOW)

    raises.take(state, wish(tokens=2_000), NOW)

    assert (state.status, state.reason) == (Status.PAUSED, "by ann")


def test_what_is_refused_changes_nothing_and_stands_in_the_record():
    state = begun()

    raises.rule(state, wish(tokens=1), "why", NOW, accepted=False)

    assert state.limits == Limits(tokens=1_000)
    assert [(one.verdict, one.accepted, one.reason) for one in state.rulings.all] == [("raise_budget", False, "why")]
