"""Record, steps, actions and the waiting line: views of one state, fit for JSON and for people."""

import json
import shlex
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from domain import actions, approvals, views
from domain.agent import Definition, Limits, Rule
from domain.decisions import Decision
from domain.digest import canonical
from domain.loop import Finish
from domain.model import ModelAnswer
from domain.spend import PRICES, Usage
from domain.state import RunError, RunState
from domain.status import Status
from domain.tool import Conflict, Effect, Prepared, ToolResult, ToolSpec
from domain.transcript import PAGE_BYTES

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
PRICE = PRICES["claude-sonnet-5-5"]
RULE = Rule(tool="pay", role="lead")
PAY = ToolSpec(name="pay", description="", input_schema={}, declares=Effect(safety="key"))
ID = actions.action_id(1, 1, actions.arguments_digest("pay", {"amount": 40}))
LEAD = "lead@example.com"


def begun(run_id="b1", price=PRICE, **more):
    state = RunState(namespace="default", run_id=run_id, first_execution_run_id="first", started_at=NOW, updated_at=NOW)
    defined = {
        "agent": "brief",
        "instructions": "",
        "task": "Write it.",
        "max_tokens": 10,
        "tools": [],
        "limits": Limits(),
    }
    state.begin(Definition(run="first", model="m", price=price, **defined | more), NOW)
    return state


def step(state, size=1, **usage):
    content = [{"type": "text", "text": "x" * size}]
    answer = ModelAnswer(content=content, stop_reason="end_turn", usage=Usage(**usage), model="m")
    state.count(answer)
    state.take(answer, NOW)


def paused(run_id="b1"):
    state = begun(run_id)
    state.pause("budget", NOW)
    return state


def failed():
    state = begun()
    state.fail(RunError(kind="refusal", message="no", step=1, request_id="req_1"), NOW)
    return state


def asking(*amounts, rule=RULE, conflict=None):
    """A run whose payments wait for a person."""
    state = begun(tools=[PAY], rules=[rule] if rule else [])
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "pay", "input": {"amount": n}} for n in amounts]
    answer = ModelAnswer(content=calls, stop_reason="tool_use", usage=Usage(), model="m")
    state.count(answer)
    state.take(answer, NOW)
    for action in state.propose(calls, NOW):
        prepared = Prepared(intent=f"pay:{action.arguments['amount']}", conflict=conflict)
        approvals.request(state, action, prepared, NOW)
    return state


def wondering():
    """A run that does not know what became of its effect."""
    state = asking(40)
    approvals.hold(state, state.actions.all[0], ToolResult(content="No answer.", outcome="unknown"), NOW)
    return state


def over_budget(limits=None, **more):
    state = begun(limits=limits or Limits(tokens=100), **more)
    step(state, input_tokens=100)
    state.pause("budget", NOW, RunError(kind="budget", message=str(state.reserve(NOW).bound), step=1))
    return state


def done(result="all done"):
    state = begun()
    step(state)
    state.finish(Finish(result), NOW)
    return state


# The state, what it waits for, the command that answers it.
WAITING = [
    (begun(), None, None),
    (paused(), "budget", "dayflow resume b1"),
    (failed(), "refusal", "dayflow resume b1"),
    (done(), None, None),
    (over_budget(), "budget", "dayflow raise b1 --tokens 210"),  # what is used, and what the next call may take
    (over_budget(Limits(tokens=150)), "budget", "dayflow raise b1 --tokens 300"),
    (over_budget(Limits(steps=1)), "budget", "dayflow raise b1 --steps 2"),
    (over_budget(Limits(usd=0.0001)), "budget", "dayflow raise b1 --usd 0.01"),
    (over_budget(budget_role="lead"), "budget", "dayflow raise b1 --tokens 210 --by NAME"),
    (asking(40, 41), f"approval by lead of {ID} (pay)", f"dayflow approve b1 {ID} --as NAME"),  # the first of them
    (
        asking(40, conflict=Conflict(run_id="other", action_id="s1.1-0")),
        f"approval by lead of {ID} (pay)",
        f"dayflow approve b1 {ID} --again --as NAME",
    ),
    (
        asking(40, rule=None, conflict=Conflict(run_id="other", action_id="s1.1-0")),
        f"approval of {ID} (pay)",  # anybody on the list
        f"dayflow approve b1 {ID} --again --as NAME",
    ),
    (wondering(), f"resolution of {ID} (pay)", f"dayflow resolve b1 {ID} --as NAME"),
    (paused("my run; rm -rf ~"), "budget", "dayflow resume 'my run; rm -rf ~'"),  # safe to paste into a shell
    (paused("-x"), "budget", "dayflow resume -- -x"),  # an id, and no option
]


@pytest.mark.parametrize(("state", "what", "command"), WAITING)
def test_a_run_that_waits_says_for_what_and_how_to_answer_everywhere(state, what, command):
    record = views.record(state)

    assert (record["waiting_for"], record["next_command"]) == (what, command)
    assert command is None or f"Waits for: {what}. Answer with: `{command}`" in views.details(state)


def test_the_command_can_be_split_by_a_shell_into_the_run_id():
    run_id = """it's "b1" $HOME `x`"""

    assert shlex.split(views.waiting(paused(run_id)).command) == ["dayflow", "resume", run_id]


def test_a_run_that_failed_before_it_had_an_agent_cannot_be_resumed():
    state = RunState(namespace="default", run_id="b1", first_execution_run_id="f", started_at=NOW, updated_at=NOW)
    state.fail(RunError(kind="refused", message="no such agent", step=0), NOW)

    assert views.waiting(state) is None
    assert views.record(state)["agent"] is None


RECORD = {
    "run_id",
    "first_execution_run_id",
    "agent",
    "model",
    "simulated",
    "requested_by",
    "status",
    "reason",
    "step",
    "totals",
    "limits",
    "used",
    "cache_warning",
    "waiting_for",
    "next_command",
    "plan",
    "current_step",
    "step_results",
    "pending_actions",
    "approved_by",
    "error",
    "compactions",
    "refused_messages",
    "started_at",
    "updated_at",
    "result",
}


@pytest.mark.parametrize("state", [begun(), paused(), failed(), done()], ids=["running", "paused", "failed", "done"])
def test_a_record_has_the_same_fields_in_every_status_and_is_plain_json(state):
    record = views.record(state)

    assert set(record) == RECORD
    assert json.loads(json.dumps(record)) == record
    assert record["status"] == state.status.value
    assert record["started_at"] == "2026-11-29T12:00:00+00:00"


def test_a_failed_run_shows_its_error_with_the_request_to_ask_about():
    assert views.record(failed())["error"] == {"kind": "refusal", "message": "no", "step": 1, "request_id": "req_1"}


def test_what_waits_for_a_person_is_exactly_what_will_run():
    state = asking(40)

    [pending] = views.record(state)["pending_actions"]

    action = state.actions.all[0]
    assert pending == {
        "action_id": ID,
        "tool": "pay",
        "status": "awaiting_approval",
        "arguments": {"amount": 40},
        "arguments_sha256": action.arguments_sha256,
        "idempotency_key": action.idempotency_key,
        "intent": "pay:40",
        "conflict": None,
        "requested_at": "2026-11-29T12:00:00+00:00",
        "expires_at": "2026-12-06T12:00:00+00:00",
        "role": "lead",
        "why": None,
    }
    assert f'`{ID}` **pay** `{{"amount": 40}}` sha256 `{action.arguments_sha256}`' in views.details(state)


def test_what_is_not_known_says_why():
    state = asking(40)
    told = ToolResult(content="5 attempts gave no answer.", outcome="unknown", attempts=5)

    approvals.hold(state, state.actions.all[0], told, NOW)

    [pending] = views.pending(state)
    assert (pending["status"], pending["why"]) == ("unknown", "5 attempts gave no answer.")


def test_in_brief_long_arguments_are_left_out_and_what_binds_them_is_not():
    state = asking("x" * 3_000)

    [brief] = views.pending(state, brief=True)
    [whole] = views.pending(state)

    assert brief["arguments"] == {"…": "see dayflow actions"}
    assert whole["arguments"] == {"amount": "x" * 3_000}
    assert brief["arguments_sha256"] == whole["arguments_sha256"]


def test_who_approved_what_is_shown_for_as_long_as_it_counts():
    state = asking(40, 41)
    first, second = state.actions.all
    for verdict, action in (("approve", first), ("deny", second)):
        decision = Decision(action_id=action.action_id, verdict=verdict, approver=LEAD)
        approvals.take(state, decision, NOW)
    shown = views.approved_by(state)

    approvals.void(state, first, "not on the list", NOW)

    assert shown == [{"action_id": ID, "approver": LEAD, "at": "2026-11-29T12:00:00+00:00"}]
    assert views.approved_by(state) == []
    assert [(row["verdict"], row["accepted"]) for row in views.decisions(state)] == [
        ("approve", True),
        ("deny", True),
        ("approve", False),
    ]
    assert not any("identity" in row for row in views.decisions(state))


def test_costs_are_dollars_and_unknown_costs_are_null_and_never_zero():
    priced, unpriced = begun(), begun(price=None)
    step(priced, input_tokens=1_000)
    step(unpriced, input_tokens=1_000)

    assert views.record(priced)["totals"]["cost_usd"] == 0.002
    assert views.record(unpriced)["totals"]["cost_usd"] is None
    assert "cost $0.0020" in views.details(priced)
    assert "cost unknown" in views.details(unpriced)


def test_what_the_cache_saved_is_in_dollars_or_unknown():
    priced, unpriced = begun(), begun(price=None)
    for state in (priced, unpriced):
        step(state, input_tokens=1_000, cache_read_tokens=100_000)

    assert views.record(priced)["totals"]["cache_saved_usd"] == 0.19
    assert views.record(unpriced)["totals"]["cache_saved_usd"] is None


def test_a_long_prompt_that_is_never_cached_is_warned_of():
    state = begun()
    for _ in range(3):
        assert views.record(state)["cache_warning"] is None
        step(state, input_tokens=20_000)

    assert "20,000 tokens" in views.record(state)["cache_warning"]


def test_what_was_possibly_paid_stands_apart_from_what_was_used():
    state = begun()
    step(state, input_tokens=5)
    state.totals.possibly_paid.add([Usage(input_tokens=7)], Usage(input_tokens=7, output_tokens=10), PRICE)

    totals = views.record(state)["totals"]

    assert totals["input_tokens"] == 5
    assert (totals["possibly_paid"]["calls"], totals["possibly_paid"]["input_tokens"]) == (1, 7)
    assert totals["possibly_paid"]["held_tokens"] == 17
    assert views.record(state)["used"]["tokens"] == 5 + 17
    assert totals["cost_usd"] == float(PRICE.cost(Usage(input_tokens=5)).quantize(Decimal("0.000001")))


# From, to, the numbers of the steps that come out of five.
RANGES = [(1, None, [1, 2, 3, 4, 5]), (2, 3, [2, 3]), (5, 9, [5]), (6, None, []), (0, 1, [1]), (-3, 2, [1, 2])]


@pytest.mark.parametrize(("start", "end", "expected"), RANGES)
def test_steps_are_counted_from_one_and_both_ends_are_included(start, end, expected):
    state = begun()
    for _ in range(5):
        step(state)

    assert [row["n"] for row in views.steps(state, start, end)] == expected


def test_pages_of_steps_follow_each_other_without_gap_and_hold_only_what_fits():
    state = begun()
    for size in (10, PAGE_BYTES * 2, PAGE_BYTES // 2, PAGE_BYTES // 3, 10):
        step(state, size)

    pages, start = [], 1
    while start is not None:
        page = views.steps_page(state, start)
        pages.append([row["n"] for row in page["steps"]])
        assert len(pages[-1]) == 1 or len(canonical(page["steps"])) <= PAGE_BYTES + 2 * len(pages[-1])
        start = page["next"]

    assert pages == [[1], [2], [3, 4, 5]]


def test_a_page_of_no_steps_is_the_last_one():
    assert views.steps_page(begun()) == {"steps": [], "next": None}
    assert views.steps_page(begun(), 99) == {"steps": [], "next": None}


def test_details_stay_short_whatever_the_task_and_the_error_say():
    state = begun(task="t" * 100_000)
    state.fail(RunError(kind="x", message="m" * 100_000, step=0), NOW)

    assert len(views.details(state)) < 5_000


def test_details_end_with_the_result():
    assert views.details(done("# The brief")).endswith("\n\n# The brief")


def test_a_view_changes_nothing():
    state = done()
    before = state.model_dump()

    views.record(state), views.steps(state), views.steps_page(state), views.details(state), views.waiting(state)

    assert state.model_dump() == before
    assert state.status == Status.DONE


@pytest.mark.parametrize(("state", "what", "command"), WAITING)
def test_a_shell_makes_one_command_of_the_answer_and_it_decides_nothing_that_nobody_said(state, what, command):
    if command is not None:
        assert set(shlex.shlex(command, posix=True, punctuation_chars=True)).isdisjoint({"|", "<", ">", "&", ";"})
        assert not {"--done", "--not-done"} & set(shlex.split(command))
