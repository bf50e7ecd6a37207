"""Whatever the model answers has one end; only `tool_use` runs tools, and what is sent next is what was recorded."""

import pytest
from checker import check, requests_are_those_of_the_steps
from homes import Home
from script import call, conversation, create_task, play, say, unique, use
from witness import Witness, ends, send, start, witness

CUT = {"content": [{"type": "text", "text": "The brief is"}], "stop_reason": "max_tokens"}
EMPTY = {"content": [], "stop_reason": "end_turn"}
DONE = say("That is all.")


def plays(home: Home, *turns, status="done", reason=None) -> Witness:
    """A run that meets these turns and ends like this; it kept every invariant on its way."""
    task = unique("stop-reason")
    play(home, {**conversation(task, *turns), "turn_by": "step"})
    start(home, task, {"agent": "brief", "task": task})
    return stands(home, task, status, reason)


def goes_on(home: Home, seen: Witness, status="done", reason=None) -> Witness:
    """The run after a person let it go on."""
    send(home, seen.run.run_id, "resume", {"by": "ana"})
    return stands(home, seen.run.run_id, status, reason)


def stands(home: Home, run_id: str, status: str, reason: str | None) -> Witness:
    ends(home, run_id, status, reason)
    seen = witness(home, run_id)
    check(seen)
    requests_are_those_of_the_steps(seen.requests, home.json("steps", run_id))
    return seen


def results(seen: Witness, step: int = 1) -> list[tuple[bool, str]]:
    """For each result of a step: whether it is an error, and its text."""
    return [
        (block.get("is_error", False), block["content"][0]["text"]) for block in seen.state.steps[step - 1].tool_results
    ]


def tools_run(seen: Witness) -> list[str]:
    """The tools that an activity was scheduled for."""
    told = (event.activity_task_scheduled_event_attributes.activity_type.name for event in seen.events)
    return [name for name in told if name and name not in {"load_agent", "call_model"}]


def test_a_cut_answer_is_asked_again_with_twice_the_room(staffed):
    cut_call = call(create_task("cut"), stop_reason="max_tokens")

    seen = plays(staffed, {**CUT, "asks": [cut_call, call(use("read_tasks"))]}, DONE)

    assert [(request.place, request.max_tokens) for request in seen.requests] == [
        ((1, 1), 8192),
        ((1, 2), 16384),
        ((1, 3), 32768),
        ((2, 1), 8192),
    ]
    assert tools_run(seen) == ["read_tasks"]
    assert [ask.stop_reason for ask in seen.state.steps[0].refused] == ["max_tokens", "max_tokens"]


def test_an_answer_that_is_cut_three_times_waits_for_a_person(staffed):
    seen = plays(staffed, {**CUT, "asks": [CUT, CUT, DONE]}, status="paused", reason="needs repair")
    assert len(seen.requests) == 3

    seen = goes_on(staffed, seen)
    assert len(seen.requests) == 4


def test_a_refusal_fails_the_run_and_keeps_what_was_done(staffed):
    refusal = say("I can't", stop_reason="refusal", stop_details={"type": "refusal", "category": "cyber"})

    seen = plays(staffed, call(create_task(unique("mail"))), refusal, status="failed", reason="refusal")

    assert "cyber" in seen.record["error"]["message"]
    assert [action.status for action in seen.state.actions.all] == ["done"]
    assert len(seen.commits) == 1
    assert not seen.run.open


def test_calls_of_a_refusal_are_not_run(staffed):
    seen = plays(staffed, call(create_task("x"), stop_reason="refusal"), status="failed", reason="refusal")

    assert tools_run(seen) == []


def test_a_paused_turn_is_sent_back_as_it_is(staffed):
    seen = plays(staffed, *(say(f"Part {n}", stop_reason="pause_turn") for n in (1, 2)), DONE)

    assert [request.messages[-1]["role"] for request in seen.requests] == ["user", "assistant", "assistant"]
    assert [step.stop_reason for step in seen.state.steps] == ["pause_turn", "pause_turn", "end_turn"]


def test_pauses_without_end_wait_for_a_person(staffed):
    for_ever = say("Part {n}", stop_reason="pause_turn", repeat=6)

    seen = plays(staffed, for_ever, DONE, status="paused", reason="needs repair")

    assert len(seen.requests) == 6


@pytest.mark.parametrize(
    "turn",
    [
        say("Hm.", stop_reason="a_new_reason"),
        say("Hm.", stop_reason="model_context_window_exceeded"),
        say("I will look now.", stop_reason="tool_use"),
    ],
    ids=lambda turn: turn["stop_reason"],
)
def test_what_the_loop_cannot_use_waits_for_a_person(staffed, turn):
    seen = plays(staffed, {**turn, "asks": [DONE]}, status="paused", reason="needs repair")
    assert len(seen.requests) == 1

    seen = goes_on(staffed, seen)
    assert seen.record["result"] == "That is all."


def test_ids_that_are_used_twice_are_asked_again_once(staffed):
    twice = call(use("read_tasks", id="toolu_x"), use("read_tasks", id="toolu_x"))

    seen = plays(
        staffed, {**twice, "asks": [twice, call(use("read_tasks"))]}, DONE, status="paused", reason="needs repair"
    )
    assert len(seen.requests) == 2
    assert tools_run(seen) == []

    seen = goes_on(staffed, seen)
    assert tools_run(seen) == ["read_tasks"]


def test_an_id_of_an_earlier_step_is_not_taken_again(staffed):
    first = call(use("read_tasks", id="toolu_y"))

    seen = plays(staffed, first, {**first, "asks": [DONE]})

    assert tools_run(seen) == ["read_tasks"]
    assert "toolu_y" in seen.state.steps[1].refused[0].why


def test_an_empty_answer_is_nudged_once(staffed):
    seen = plays(staffed, call(use("read_tasks")), {**EMPTY, "asks": [DONE]})

    assert seen.record["result"] == "That is all."
    assert len(seen.requests) == 3


def test_a_second_empty_answer_ends_the_run_without_one(staffed):
    seen = plays(staffed, call(use("read_tasks")), {**EMPTY, "asks": [EMPTY]}, reason="no answer")

    assert seen.record["result"] is None
    assert len(seen.requests) == 3


def test_blank_texts_are_no_answer_and_are_not_sent_back(staffed):
    blank = [{"type": "text", "text": ""}, {"type": "text", "text": "\n"}]
    thought = {"type": "thinking", "thinking": "I look."}

    seen = plays(staffed, call(*blank, thought, use("read_tasks")), {"content": blank, "asks": [DONE]})

    assert [block["type"] for block in seen.requests[-1].messages[1]["content"]] == ["thinking", "tool_use"]
    assert seen.record["result"] == "That is all."


def test_a_text_of_halves_of_characters_is_sent_back_as_what_can_be_read_of_it(staffed):
    seen = plays(staffed, call({"type": "text", "text": "a\x00b \ud83d"}, use("read_tasks")), DONE)

    assert seen.requests[-1].messages[1]["content"][0]["text"] == "ab \ufffd"


def test_arguments_that_no_request_may_hold_are_asked_for_again_and_not_run(staffed):
    task = unique("nul")
    turn = call(use("create_task", {"title": "a\x00b", "source_id": task}))
    play(staffed, conversation(task, turn, DONE))
    start(staffed, task, {"agent": "brief", "task": task})

    ends(staffed, task, "paused", "needs repair")
    seen = witness(staffed, task)

    assert "half a character" in seen.record["error"]["message"]
    assert len(seen.requests) == 2
    assert tools_run(seen) == []


def test_a_pause_behind_a_call_is_asked_again(staffed):
    seen = plays(
        staffed, {**call(use("read_tasks"), stop_reason="pause_turn"), "asks": [call(use("read_tasks"))]}, DONE
    )

    assert [request.place for request in seen.requests] == [(1, 1), (1, 2), (2, 1)]
    assert tools_run(seen) == ["read_tasks"]


def test_calls_of_an_ended_turn_are_not_run(staffed):
    seen = plays(
        staffed, {**call(create_task("x")), "stop_reason": "end_turn", "content": [*DONE["content"], use("read_tasks")]}
    )

    assert tools_run(seen) == []
    assert seen.record["result"] == "That is all."


def test_an_unknown_tool_is_answered_with_those_that_exist(staffed):
    seen = plays(staffed, call(use("send_rocket"), use("read_tasks")), DONE)

    (failed, text), (fine, _) = results(seen)
    assert (failed, fine) == (True, False)
    assert "send_rocket" in text
    assert "create_task" in text
    assert tools_run(seen) == ["read_tasks"]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"title": "A", "source_id": 7},
        {"title": " ", "source_id": "m"},
        {"title": "A", "source_id": "m", "due": "soon"},
        {"title": "A", "source_id": "m", "colour": "red"},
    ],
    ids=["missing", "wrong type", "blank", "no date", "extra"],
)
def test_arguments_that_are_not_right_are_told_to_the_model(staffed, arguments):
    seen = plays(staffed, call(use("create_task", arguments)), DONE)

    ((failed, text),) = results(seen)
    assert failed
    assert "Nothing was done" in text
    assert seen.commits == []


def test_twenty_calls_at_once_are_answered_in_their_order(staffed):
    prefix = unique("many")

    seen = plays(staffed, call(*(create_task(f"{prefix}-{n}") for n in range(20))), DONE)

    told = results(seen)
    assert [failed for failed, _ in told] == [False] * 16 + [True] * 4
    assert all(f'"{prefix}-{n}"' in text for n, (_, text) in enumerate(told[:16]))
    assert len(seen.commits) == 16


def test_a_result_over_the_limit_is_clipped(staffed):
    long = [
        {**create_task(unique("long")), "input": {"title": "A", "source_id": unique("long"), "notes": "ü" * 2000}}
    ] * 16
    turns = [call(*({**use, "input": {**use["input"], "source_id": unique("long")}} for use in long)) for _ in range(2)]

    seen = plays(staffed, *turns, call(use("read_tasks", {"status": "all"})), DONE)

    ((failed, text),) = results(seen, step=3)
    assert not failed
    assert len(text.encode()) < 65_000
    assert text.endswith("bytes, the first 64000 are shown]")


def test_thinking_goes_back_where_it_stood(staffed):
    def thought(text):
        return {"type": "thinking", "thinking": text}

    seen = plays(
        staffed,
        call(thought("a"), {"type": "text", "text": "b"}, use("read_tasks"), thought("c"), use("send_rocket")),
        call({"type": "redacted_thinking", "data": "d"}, use("read_tasks")),
        DONE,
    )

    kinds = [block["type"] for block in seen.requests[-1].messages[1]["content"]]
    assert kinds == ["thinking", "text", "tool_use", "thinking", "tool_use"]


def test_what_a_person_says_is_heard_behind_the_results(staffed):
    task = unique("heard")
    play(staffed, conversation(task, {**call(use("read_tasks")), "faults": [{"kind": "slow", "seconds": 1}]}, DONE))
    start(staffed, task, {"agent": "brief", "task": task})
    send(staffed, task, "message", {"text": "Only today's, please.", "from": "ana"})

    seen = stands(staffed, task, "done", None)

    assert [len(request.messages) for request in seen.requests] in ([1, 4], [2, 4])
