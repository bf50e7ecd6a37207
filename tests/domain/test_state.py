"""The state of a run: what each move writes down, and what a wrong one does not."""

from datetime import UTC, datetime, timedelta

import pytest

from domain import actions, budget, digest, loop, transcript
from domain.agent import Definition, Limits
from domain.loop import NUDGE
from domain.messages import KEPT_BAD_MESSAGES, KEPT_CHARACTERS, Message
from domain.model import ModelAnswer
from domain.spend import PRICES, Usage
from domain.state import (
    LARGEST_MAX_TOKENS,
    RunError,
    RunState,
)
from domain.status import Status
from domain.tool import Effect, Read, ToolResult, ToolSpec

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
LOOK = ToolSpec(name="look", description="Looks.", input_schema={}, declares=Read())
PLAN = ToolSpec(name="propose_plan", description="Plans.", input_schema={}, declares=Read(saves_plan=True))
ITEMS = [{"title": "Look", "tool": "look"}, {"title": "Pay", "tool": "pay"}]
PAY = ToolSpec(name="pay", description="Pays.", input_schema={}, declares=Effect(safety="key"))
DEFINITION = Definition(
    run="first",
    agent="brief",
    instructions="Be brief.",
    task="Write it.",
    model="claude-sonnet-5-5",
    max_tokens=1_000,
    tools=[LOOK, PAY],
    limits=Limits(steps=50),
    price=PRICES["claude-sonnet-5-5"],
)


def fresh(**more):
    return RunState(
        namespace="default", run_id="b1", first_execution_run_id="first", started_at=NOW, updated_at=NOW, **more
    )


def begun(**changed):
    state = fresh()
    state.begin(DEFINITION.model_copy(update=changed), NOW)
    return state


def use(call="t1", name="look", **arguments):
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def text(words="hello"):
    return {"type": "text", "text": words}


def answer(stop_reason="end_turn", *content, usage=None, **more):
    return ModelAnswer(content=list(content), stop_reason=stop_reason, usage=usage or Usage(), model="m", **more)


def taken(state, *answers):
    """The state after these answers were accepted."""
    for one in answers:
        state.count(one)
        state.take(one, NOW)
    return state


def acted(state, *calls):
    """The actions of a step that makes these calls."""
    taken(state, answer("tool_use", *calls))
    return state.propose(list(calls), NOW)


def texts(state):
    return [block["text"] for m in state.transcript.messages for block in m["content"] if block["type"] == "text"]


def test_a_run_begins_with_its_task_and_a_digest_over_its_definition():
    state = begun()

    (opening,) = state.transcript.messages
    assert opening == {"role": "user", "content": [text("Write it.")]}
    assert state.transcript.head == digest.chain(digest.sha256(DEFINITION.model_dump(mode="json")), opening)
    assert (state.status, state.limits, state.max_tokens) == (Status.RUNNING, Limits(steps=50), 1_000)


def test_another_definition_gives_another_digest_to_the_same_words():
    assert begun(instructions="Be long.").transcript.head != begun().transcript.head


def test_nothing_of_the_definition_can_be_had_before_there_is_one():
    with pytest.raises(ValueError, match="no definition yet"):
        fresh().frozen()


def test_two_runs_share_nothing():
    first, second = begun(), begun()

    taken(first, answer("tool_use", use()))
    first.queue(Message(text="hi", sender="ann"))
    first.bad_messages.add("x", [], "why", NOW)
    first.move(Status.RECEIVED, NOW)

    assert second == begun()


def test_a_state_survives_a_round_trip_through_json():
    state = begun()
    acted(state, use("a", "pay", amount=1), use("b"))
    state.queue(Message(text="hi", sender="ann"))
    state.bad_messages.add("x", [1], "why", NOW)

    again = RunState.model_validate_json(state.model_dump_json())

    assert again == state


# Moves


def test_a_move_that_the_table_forbids_is_recorded_and_changes_nothing():
    state = begun()
    state.finish(loop.Finish("done"), NOW)

    moved = state.move(Status.RUNNING, LATER)

    assert not moved
    assert state.status == Status.DONE
    assert state.updated_at == NOW
    assert state.refused_moves == ["done → running"]


def test_only_the_last_refused_moves_are_kept():
    state = begun()
    state.finish(loop.Finish("done"), NOW)

    for _ in range(KEPT_BAD_MESSAGES * 2):
        state.move(Status.RUNNING, NOW)

    assert len(state.refused_moves) == KEPT_BAD_MESSAGES


@pytest.mark.parametrize("before", [Status.RECEIVED, Status.RUNNING])
def test_a_run_goes_on_from_a_pause_where_it_stood(before):
    state = begun() if before == Status.RUNNING else fresh()
    state.pause("by ann", NOW, RunError(kind="x", message="y", step=0))

    state.go_on(LATER)

    assert (state.status, state.reason, state.error) == (before, None, None)


def test_a_second_reason_to_pause_does_not_forget_where_the_run_stood():
    state = begun()
    state.pause("budget", NOW)
    state.pause("by ann", NOW)

    state.go_on(LATER)

    assert state.status == Status.RUNNING


def test_going_on_without_a_pause_only_withdraws_the_wish_to_pause():
    state = begun()
    state.pause_requested_by = "ann"

    state.go_on(LATER)

    assert (state.status, state.pause_requested_by) == (Status.RUNNING, None)


# Asks and steps


def test_the_next_call_names_the_transcript_and_never_holds_it():
    state = taken(begun(), answer("tool_use", use()))

    call = state.next_call()

    assert (call.step, call.ask, call.length) == (2, 1, 2)
    assert call.digest == state.transcript.head
    assert "Write it." not in call.model_dump_json()


def test_a_cut_answer_is_dropped_and_asked_again_with_twice_the_room_up_to_a_bound():
    state = begun()
    before = state.transcript.model_copy(deep=True)
    rooms = []

    for _ in range(8):
        state.count(answer("max_tokens", use()))
        state.refuse(answer("max_tokens", use()), loop.AskAgain("cut", larger=True))
        rooms.append(state.next_call().max_tokens)

    assert rooms == [2_000, 4_000, 8_000, 16_000, 32_000, *[LARGEST_MAX_TOKENS] * 3]
    assert state.transcript == before
    assert state.next_call().ask == 9
    assert [ask.ask for ask in state.refused] == list(range(1, 9))


def test_the_room_is_the_agents_own_again_in_the_next_step():
    state = begun()
    state.refuse(answer("max_tokens"), loop.AskAgain("cut", larger=True))

    taken(state, answer("tool_use", use()))

    assert state.next_call().max_tokens == 1_000


def test_a_nudge_is_a_new_turn_of_the_user_and_the_empty_answer_is_none():
    state = begun()
    state.count(answer("end_turn"))

    state.refuse(answer("end_turn"), loop.AskAgain("empty", nudge=NUDGE))

    assert [message["role"] for message in state.transcript.messages] == ["user", "user"]
    assert texts(state)[-1] == NUDGE
    assert state.facts().nudged


def test_an_accepted_answer_keeps_its_blocks_untouched_and_the_refused_ones_before_it():
    blocks = [{"type": "thinking", "thinking": "", "signature": "s"}, {"type": "brand_new", "x": {"y": [1]}}, use()]
    state = begun()
    state.count(answer("max_tokens"))
    state.refuse(answer("max_tokens", usage=Usage(output_tokens=7)), loop.AskAgain("cut", larger=True))

    taken(state, answer("tool_use", *blocks))

    assert state.transcript.messages[-1] == {"role": "assistant", "content": blocks}
    assert state.steps[-1].assistant == blocks
    assert state.steps[-1].ask == 2
    assert [(ask.stop_reason, ask.why, ask.usage.output_tokens) for ask in state.steps[-1].refused] == [
        ("max_tokens", "cut", 7)
    ]
    assert state.refused == []


def test_an_empty_answer_leaves_no_turn_behind():
    state = taken(begun(), answer("end_turn"))

    assert [message["role"] for message in state.transcript.messages] == ["user"]
    assert state.next_call().step == 2


def test_the_facts_hold_every_id_that_was_used_and_the_pauses_in_a_row():
    state = taken(
        begun(),
        answer("tool_use", use("a"), {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        answer("pause_turn", text()),
        answer("tool_use", use("b")),
        answer("pause_turn", text()),
        answer("pause_turn", text()),
    )
    state.count(answer("pause_turn"))

    facts = state.facts()

    assert facts == loop.Facts(asks=1, nudged=False, continuations=2, used_ids=frozenset({"a", "b"}))


def test_a_resumed_run_has_a_fresh_set_of_asks_under_numbers_that_were_not_used():
    state = begun()
    for _ in range(3):
        state.count(answer("max_tokens"))
    state.pause("needs repair", NOW)

    state.go_on(LATER)

    assert state.facts().asks == 0
    assert state.next_call().ask == 4


# Actions


def test_calls_become_actions_in_their_order_and_only_an_effect_has_a_key():
    state = begun()

    look, pay, unknown = acted(state, use("a", "look", at="x"), use("b", "pay", amount=1), use("c", "fly"))

    sha256 = actions.arguments_digest("pay", {"amount": 1})
    assert [action.position for action in (look, pay, unknown)] == [1, 2, 3]
    assert [action.effect for action in (look, pay, unknown)] == [False, True, False]
    assert look.idempotency_key is unknown.idempotency_key is None
    assert pay.idempotency_key == actions.idempotency_key("default", "first", 1, 2, "pay")
    assert (pay.action_id, pay.arguments_sha256) == (f"s1.2-{sha256[:6]}", sha256)


def test_a_reworded_call_at_the_same_place_has_the_same_key():
    (first,) = acted(begun(), use("a", "pay", amount=1))
    (second,) = acted(begun(), use("other", "pay", amount=2))

    assert first.idempotency_key == second.idempotency_key
    assert first.arguments_sha256 != second.arguments_sha256


def test_results_go_back_in_call_order_in_one_turn_however_they_came_in():
    state = begun()
    first, second, third = acted(state, use("a"), use("b", "pay"), use("c", "fly"))

    state.settle(third, ToolResult(content=state.refusal(third), outcome="failed", attempts=0), NOW)
    state.settle(second, ToolResult(content="paid", attempts=2), NOW)
    state.settle(first, ToolResult(content=""), NOW)
    state.answer_calls([first, second, third], NOW)

    turn = state.transcript.messages[-1]
    assert turn["role"] == "user"
    assert [block["tool_use_id"] for block in turn["content"]] == ["a", "b", "c"]
    assert [block.get("is_error") for block in turn["content"]] == [None, None, True]
    assert [block["content"][0]["text"] for block in turn["content"]][:2] == ["(no output)", "paid"]
    assert state.steps[-1].tool_results == turn["content"]
    assert [(action.status, action.attempts) for action in state.actions.all] == [
        ("done", 1),
        ("done", 2),
        ("failed", 0),
    ]


def test_an_action_hands_its_activity_what_it_needs():
    (action,) = acted(begun(), use("a", "pay", amount=1))

    call = action.call()

    assert call.model_dump() == {
        "step": 1,
        "position": 1,
        "action_id": action.action_id,
        "nth": 1,
        "tool": "pay",
        "arguments": {"amount": 1},
        "idempotency_key": action.idempotency_key,
        "grant": None,
    }
    assert action.preparation().model_dump(exclude={"editor", "role"}) == {
        name: value for name, value in call.model_dump().items() if name != "grant"
    }


def test_an_effect_is_counted_by_those_of_its_tool_that_are_done():
    state = begun()
    first, second = acted(state, use("a", "pay", amount=1), use("b", "pay", amount=2))
    state.settle(first, ToolResult(content="no", outcome="failed"), NOW)
    state.settle(second, ToolResult(content="ok"), NOW)
    state.answer_calls([first, second], NOW)

    (third,) = acted(state, use("c", "pay", amount=3))

    assert [one.nth for one in (first, second, third)] == [1, 2, 3]


def test_stray_calls_are_answered_as_not_run_so_that_the_transcript_can_go_on():
    state = taken(begun(), answer("end_turn", text(), use("a", "pay", amount=1)))

    state.answer_strays(NOW)

    (result,) = state.transcript.messages[-1]["content"]
    assert (result["tool_use_id"], result["is_error"]) == ("a", True)
    assert result["content"][0]["text"] == "Not run: the turn had ended."
    assert [(action.status, action.attempts) for action in state.actions.all] == [("failed", 0)]


def test_without_stray_calls_nothing_is_answered():
    state = taken(begun(), answer("end_turn", text()))

    state.answer_strays(NOW)

    assert [message["role"] for message in state.transcript.messages] == ["user", "assistant"]


def test_an_effect_that_was_done_stays_in_the_record_of_a_run_that_is_refused_later():
    state = begun()
    (paid,) = acted(state, use("a", "pay", amount=1))
    state.settle(paid, ToolResult(content="paid"), NOW)
    state.answer_calls([paid], NOW)

    taken(state, answer("refusal"))
    state.fail(RunError(kind="refusal", message="no", step=2), NOW)

    assert (state.status, state.reason) == (Status.FAILED, "refusal")
    assert [(action.status, action.result) for action in state.actions.all] == [("done", "paid")]


# How an attempt ended, what the action is then; what is neither done nor failed is not for `settle`.
OUTCOMES = [("done", "done"), ("failed", "failed")]


@pytest.mark.parametrize(("outcome", "status"), OUTCOMES)
def test_a_settled_action_is_what_its_attempt_was_and_keeps_the_intent_it_had(outcome, status):
    state = begun()
    (pay,) = acted(state, use("a", "pay", amount=1))

    state.settle(pay, ToolResult(content="x", outcome=outcome, attempts=3, from_ledger=True, intent="pay:acme"), LATER)

    assert (pay.status, pay.result, pay.attempts) == (status, "x", 3)
    assert (pay.finished_at, pay.intent, pay.from_ledger) == (LATER, "pay:acme", True)
    assert not pay.open


# The plan


def planning():
    """A run whose agent plans before it acts."""
    return begun(tools=[LOOK, PAY, PLAN])


def test_a_run_whose_agent_plans_begins_with_that():
    assert planning().status == Status.PLANNING


def test_before_the_plan_an_effect_is_not_run_and_a_read_is():
    state = planning()
    look, pay, plan = acted(state, use("a"), use("b", "pay", amount=1), use("c", "propose_plan", items=ITEMS))

    refusals = [state.refusal(action) for action in (look, pay, plan)]

    assert refusals == [None, "Not run: propose the plan first.", None]


def test_a_plan_that_is_saved_starts_the_run_and_is_saved_once():
    state = planning()
    (first,) = acted(state, use("a", "propose_plan", items=ITEMS))
    state.settle(first, ToolResult(content="saved"), NOW)

    (second,) = acted(state, use("b", "propose_plan", items=ITEMS))

    assert state.status == Status.RUNNING
    assert [item.tool for item in state.plan.items] == ["look", "pay"]
    assert "saved once" in state.refusal(second)


def test_of_two_plans_in_one_step_the_first_stands_and_the_model_is_told_of_the_other():
    state = planning()
    other = [{"title": "Do nothing.", "tool": "look"}]
    one, two = acted(state, use("a", "propose_plan", items=ITEMS), use("b", "propose_plan", items=other))

    for action in (one, two):
        state.settle(action, ToolResult(content="saved"), NOW)

    assert [item.tool for item in state.plan.items] == ["look", "pay"]
    assert (one.status, two.status) == ("done", "failed")
    assert "saved once" in two.result


def test_a_plan_that_failed_is_none():
    state = planning()
    (plan,) = acted(state, use("a", "propose_plan", items=[]))

    state.settle(plan, ToolResult(content="items: too short", outcome="failed"), NOW)

    assert (state.plan, state.status) == (None, Status.PLANNING)


def test_a_run_that_answers_without_a_plan_is_done_all_the_same():
    state = planning()

    state.finish(loop.Finish("Nothing to do."), NOW)

    assert (state.status, state.refused_moves) == (Status.DONE, [])


# The end that people, or time, make of it


def test_a_cancelled_run_says_of_each_action_what_can_be_known():
    state = begun()
    calls = (use("a"), use("b", "pay", amount=1), use("c", "pay", amount=2), use("d", "pay", amount=3))
    look, sent, waits, done = acted(state, *calls)
    look.status = sent.status = "running"
    waits.status = "awaiting_approval"
    state.settle(done, ToolResult(content="paid"), NOW)

    state.cancel(None, LATER)

    assert [one.status for one in (look, sent, waits, done)] == ["cancelled", "unknown", "cancelled", "done"]
    assert waits.result == "Not run: the run was cancelled."
    assert (state.status, state.refused_moves) == (Status.CANCELLED, [])


def test_what_waits_is_withdrawn_when_a_run_winds_up_and_what_runs_is_not():
    state = begun()
    proposed, waits, approved, running = acted(state, *(use(str(n), "pay", amount=n) for n in range(4)))
    waits.status, approved.status, running.status = "awaiting_approval", "approved", "running"

    state.wind_up("denied by ann", LATER)

    assert [one.status for one in (proposed, waits, approved, running)] == [*["cancelled"] * 3, "running"]
    assert {one.result for one in (proposed, waits, approved)} == {"Not run: the run was denied by ann."}
    assert not state.closed


# People


def test_a_wish_to_pause_is_for_the_next_boundary_while_something_runs():
    state = begun()

    state.wish_to_pause("ann", NOW)

    assert (state.status, state.pause_requested_by) == (Status.RUNNING, "ann")


@pytest.mark.parametrize("status", ["awaiting_approval", "unknown"])
def test_a_wish_to_pause_is_heard_at_once_while_a_person_is_waited_for(status):
    state = begun()
    (pay,) = acted(state, use("a", "pay"))
    pay.status = status
    state.settle_status(NOW)

    state.wish_to_pause("ann", NOW)

    assert (state.status, state.reason) == (Status.PAUSED, "by ann")


@pytest.mark.parametrize("status", ["awaiting_approval", "unknown"])
def test_a_wish_to_pause_is_heard_as_soon_as_a_person_is_waited_for(status):
    state = begun()
    (pay,) = acted(state, use("a", "pay"))
    state.wish_to_pause("ann", NOW)

    pay.status = status
    state.settle_status(LATER)

    assert (state.status, state.reason) == (Status.PAUSED, "by ann")


def test_a_run_that_tries_again_by_itself_forgets_no_wish_to_pause():
    state = begun()
    state.pause("model down", NOW)
    state.wish_to_pause("ann", NOW)

    state.leave_pause(LATER)

    assert (state.status, state.pause_requested_by) == (Status.RUNNING, "ann")


def test_what_people_say_is_heard_once_in_their_order():
    state = begun()
    state.queue(Message(text="first", sender="ann"))
    state.queue(Message(text="second", sender="bob"))

    state.hear()
    state.hear()

    assert texts(state) == ["Write it.", "Message from ann:\nfirst", "Message from bob:\nsecond"]


def test_what_people_say_waits_while_the_model_has_paused_its_turn():
    state = taken(begun(), answer("pause_turn", text("so far")))
    state.queue(Message(text="hurry", sender="ann"))

    state.hear()
    during = state.transcript.messages[-1]
    taken(state, answer("end_turn", text("done")))
    state.hear()

    assert during["role"] == "assistant"
    assert texts(state)[-1] == "Message from ann:\nhurry"


def test_of_a_bad_message_its_beginning_and_its_digest_are_kept():
    state = begun()
    raw = [{"text": "é" * 10_000}]

    state.bad_messages.add("n" * 1_000, raw, "w" * 1_000, NOW)

    (kept,) = state.bad_messages.last
    assert len(kept.excerpt) == len(kept.name) == len(kept.why) == KEPT_CHARACTERS
    assert kept.sha256 == digest.sha256(raw)


def test_of_many_bad_messages_the_last_hundred_and_the_count_are_kept():
    state = begun()

    for n in range(350):
        state.bad_messages.add(str(n), [n], "why", NOW)

    assert state.bad_messages.count == 350
    assert [message.name for message in state.bad_messages.last] == [str(n) for n in range(250, 350)]


# Inputs that came over the wire and are no text; none may harm the run.
FOREIGN = [[b"\xff\x00"], ["\ud800"], [float("nan")], [], [[[[[]]]]], [{"a": b"x"}]]


@pytest.mark.parametrize("raw", FOREIGN, ids=repr)
def test_any_bad_message_can_be_kept(raw):
    state = begun()

    state.bad_messages.add("pause", raw, "why", NOW)

    assert RunState.model_validate_json(state.model_dump_json()).bad_messages.count == 1


# Limits

COST = PRICES["claude-sonnet-5-5"].cost(Usage(input_tokens=500_000))  # one dollar


def test_what_is_reserved_is_what_was_counted_last_and_an_estimate_of_what_came_since():
    state = taken(begun(), answer("tool_use", use(), usage=Usage(input_tokens=150, output_tokens=50)))
    before = state.reserve(NOW)

    state.transcript.append(transcript.user_text("x" * 350))

    assert (before.input_tokens, before.max_tokens) == (200, 1_000)
    assert state.reserve(NOW).input_tokens == 200 + 100 + budget.WRAPPING


def test_an_answer_that_was_dropped_is_no_part_of_the_next_input():
    state = begun()
    state.count(answer("max_tokens", usage=Usage(input_tokens=150, output_tokens=50)))

    assert state.reserve(NOW).input_tokens == 150


def test_before_the_first_answer_and_in_a_new_epoch_the_whole_request_is_estimated():
    state = begun()
    first = state.reserve(NOW).input_tokens
    taken(state, answer("end_turn", usage=Usage(input_tokens=9_999)))

    state.transcript.epoch += 1

    assert state.reserve(NOW).input_tokens == first == budget.estimate_request(DEFINITION, state.transcript.messages)


def test_the_call_has_the_room_that_was_reserved_and_no_more():
    state = begun(limits=Limits(tokens=1_000))

    reserved = state.reserve(NOW)

    assert state.next_call().max_tokens == reserved.max_tokens == 1_000 - reserved.input_tokens
    assert reserved.lowered


def test_a_cut_answer_that_had_less_room_is_not_asked_again_with_more():
    state = begun(limits=Limits(tokens=1_000))
    state.reserve(NOW)

    assert "all that was left of the limit" in state.facts().no_more_room


def test_a_lost_attempt_counts_with_all_that_was_reserved_for_it():
    state = begun()
    reserved = state.reserve(NOW)

    state.count(answer("end_turn", usage=Usage(input_tokens=5), possibly_paid=[Usage(input_tokens=7), Usage()]))

    used = state.used(NOW)
    assert (used.tokens, used.lost) == (5 + 2 * reserved.usage.total, 2)
    assert used.usd > state.totals.cost_usd


def test_time_in_which_the_run_stands_still_is_not_used_up():
    state = begun()
    state.move(Status.AWAITING_APPROVAL, NOW + timedelta(seconds=10))
    state.pause("by ann", NOW + timedelta(seconds=20))
    during = state.used(NOW + timedelta(days=1)).seconds
    state.go_on(NOW + timedelta(days=2))

    after = state.used(NOW + timedelta(days=2, seconds=5)).seconds

    assert (during, after) == (10, 15)


def test_the_totals_go_on_after_a_pause():
    state = taken(begun(), answer("tool_use", use(), usage=Usage(input_tokens=500_000)))
    state.pause("budget", NOW)
    state.go_on(LATER)

    taken(state, answer("end_turn", text(), usage=Usage(input_tokens=500_000)))

    assert state.totals.usage.input_tokens == 1_000_000
    assert state.totals.cost_usd == 2 * COST


def test_refused_answers_and_attempts_that_may_have_been_paid_are_counted():
    state = begun()
    state.count(answer("max_tokens", usage=Usage(output_tokens=5)))
    state.refuse(answer("max_tokens"), loop.AskAgain("cut"))

    taken(state, answer("end_turn", text(), usage=Usage(output_tokens=3), possibly_paid=[Usage(input_tokens=7)]))

    assert state.totals.usage.output_tokens == 8
    assert state.totals.possibly_paid.calls == 1
    assert state.totals.possibly_paid.usage.input_tokens == 7
    assert state.steps[-1].possibly_paid == 1
