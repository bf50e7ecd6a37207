"""Each answer of the model has one end, and only `tool_use` ever runs a tool."""

import pytest

from domain import loop
from domain.loop import AskAgain, Continue, Facts, Fail, Finish, Park, RunTools
from domain.model import ModelAnswer
from domain.spend import Usage
from domain.tool import Read, ToolSpec

FIRST = Facts(asks=1, nudged=False, continuations=0, used_ids=frozenset())
LOOK = ToolSpec(name="look", description="Looks.", input_schema={}, declares=Read())


def facts(**changed):
    return Facts(**(FIRST.__dict__ | changed))


def use(call="t1", name="look", **arguments):
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def text(words="hello"):
    return {"type": "text", "text": words}


def answer(stop_reason, *content, **more):
    return ModelAnswer(content=list(content), stop_reason=stop_reason, usage=Usage(), model="m", **more)


SERVER_CALL = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
THINKING = {"type": "thinking", "thinking": "", "signature": "sig"}

# What the answer is, the answer, its end.
ENDS = [
    ("words", answer("end_turn", text("all done")), Finish("all done")),
    ("several texts", answer("end_turn", text("a"), THINKING, text("b")), Finish("a\n\nb")),
    ("a stop sequence", answer("stop_sequence", text("all done")), Finish("all done")),
    ("a call", answer("tool_use", text(), use()), RunTools([use()])),
    ("calls in their order", answer("tool_use", use("t2"), THINKING, use("t1")), RunTools([use("t2"), use("t1")])),
    ("a call beside the server's own", answer("tool_use", SERVER_CALL, use()), RunTools([use()])),
    ("a stray call behind the end", answer("end_turn", text("all done"), use()), Finish("all done")),
    ("a stray call behind a stop sequence", answer("stop_sequence", text("all done"), use()), Finish("all done")),
    ("a pause", answer("pause_turn", SERVER_CALL), Continue()),
]


@pytest.mark.parametrize(("reply", "end"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS])
def test_an_answer_has_its_one_end(reply, end):
    assert loop.decide(reply, FIRST) == end


# What the answer is, the answer, a part of what a person is told.
PARKED = [
    ("an unknown reason", answer("brand_new_reason", text()), "'brand_new_reason' is not known"),
    ("an unknown reason with a call", answer("brand_new_reason", use()), "'brand_new_reason' is not known"),
    ("the beta's compaction", answer("compaction", text()), "'compaction' is not known"),
    ("no reason, should one ever come through", answer("None", use()), "'None' is not known"),
    ("an empty reason", answer("", use()), "'' is not known"),
    ("tool_use without a call", answer("tool_use", text("I look")), "no tool was called"),
    ("tool_use with the server's call only", answer("tool_use", SERVER_CALL), "no tool was called"),
    ("tool_use with nothing", answer("tool_use"), "no tool was called"),
]


@pytest.mark.parametrize(("reply", "told"), [row[1:] for row in PARKED], ids=[row[0] for row in PARKED])
def test_an_answer_that_means_nothing_known_goes_to_a_person(reply, told):
    move = loop.decide(reply, FIRST)

    assert isinstance(move, Park)
    assert move.reason == "needs repair"
    assert told in move.detail


def test_an_answer_without_a_stop_reason_cannot_even_be_built():
    with pytest.raises(ValueError, match="stop_reason"):
        answer(None, text())


RUNS_NO_TOOL = [
    "end_turn",
    "stop_sequence",
    "max_tokens",
    "model_context_window_exceeded",
    "pause_turn",
    "refusal",
    "?",
]


@pytest.mark.parametrize("reason", RUNS_NO_TOOL)
@pytest.mark.parametrize("nudged", [True, False])
@pytest.mark.parametrize("asks", [1, 2, 3, 99])
def test_no_other_reason_than_tool_use_runs_a_tool(reason, nudged, asks):
    move = loop.decide(answer(reason, text(), use()), facts(asks=asks, nudged=nudged))

    assert not isinstance(move, RunTools)


# What is wrong with the calls, the calls, the ids of the turns before.
UNUSABLE = [
    ("one id for two calls", [use("x", amount=1), use("x", amount=2)], set()),
    ("one id for two calls of two tools", [use("x"), use("x", name="pay")], set()),
    ("an id of an earlier turn", [use("x")], {"x"}),
    ("an id of an earlier turn behind a good one", [use("new"), use("x")], {"x"}),
    ("no id", [{"type": "tool_use", "name": "look", "input": {}}], set()),
    ("an id that is no text", [use(call=7)], set()),
    ("no name", [{"type": "tool_use", "id": "t1", "input": {}}], set()),
    ("a name that is no text", [use(name=None)], set()),
    ("an empty name", [use(name="")], set()),
    ("a name that is a whole command", [use(name="psql " * 41)], set()),
    ("no input", [{"type": "tool_use", "id": "t1", "name": "look"}], set()),
    ("an input that is text", [use() | {"input": '{"amount": 1}'}], set()),
    ("an input that is a list", [use() | {"input": []}], set()),
]


@pytest.mark.parametrize(("calls", "used"), [row[1:] for row in UNUSABLE], ids=[row[0] for row in UNUSABLE])
@pytest.mark.parametrize("reason", ["tool_use", "end_turn", "pause_turn"])
def test_unusable_calls_refuse_the_whole_answer_which_is_asked_once_more_and_then_parked(calls, used, reason):
    reply = answer(reason, text("all done"), *calls)

    once = loop.decide(reply, facts(asks=1, used_ids=frozenset(used)))
    twice = loop.decide(reply, facts(asks=2, used_ids=frozenset(used)))

    assert isinstance(once, AskAgain)
    assert not once.larger
    assert once.nudge is None
    assert isinstance(twice, Park)
    assert twice.reason == "needs repair"


def test_the_same_id_is_fine_where_the_earlier_one_was_of_another_kind():
    reply = answer("tool_use", SERVER_CALL, use(SERVER_CALL["id"]))

    assert loop.decide(reply, FIRST) == RunTools([use(SERVER_CALL["id"])])


@pytest.mark.parametrize("content", [[text("half a sen")], [use()], [use("a"), use("b")], [use("x"), use("x")], []])
def test_a_cut_answer_is_asked_again_with_more_room_and_parked_at_the_third(content):
    moves = [loop.decide(answer("max_tokens", *content), facts(asks=asks)) for asks in (1, 2, 3)]

    assert [type(move) for move in moves] == [AskAgain, AskAgain, Park]
    assert moves[0].larger
    assert moves[1].larger
    assert "3 answers in a row" in moves[2].detail


def test_a_model_that_pauses_for_ever_is_parked():
    moves = [
        loop.decide(answer("pause_turn", text()), facts(continuations=n)) for n in range(loop.MAX_CONTINUATIONS + 1)
    ]

    assert all(move == Continue() for move in moves[:-1])
    assert isinstance(moves[-1], Park)


def test_a_pause_without_a_word_is_asked_again_for_a_while():
    moves = [loop.decide(answer("pause_turn"), facts(asks=asks)) for asks in (1, 2, 3)]

    assert [type(move) for move in moves] == [AskAgain, AskAgain, Park]


def test_a_pause_behind_a_call_is_asked_again_for_nothing_would_answer_the_call():
    moves = [loop.decide(answer("pause_turn", SERVER_CALL, use()), facts(asks=asks)) for asks in (1, 2, 3)]

    assert [type(move) for move in moves] == [AskAgain, AskAgain, Park]


# What the model says at the end when it says nothing.
EMPTY = [
    ("nothing at all", []),
    ("empty text", [text("")]),
    ("thinking alone", [THINKING]),
    ("a stray call alone", [use()]),
    ("a text block without text", [{"type": "text"}]),
]


@pytest.mark.parametrize("content", [row[1] for row in EMPTY], ids=[row[0] for row in EMPTY])
def test_an_empty_answer_is_nudged_once_and_then_is_the_end_without_an_answer(content):
    first = loop.decide(answer("end_turn", *content), facts(nudged=False))
    second = loop.decide(answer("end_turn", *content), facts(nudged=True, asks=2))

    assert first == AskAgain("the answer was empty", nudge=loop.NUDGE)
    assert second == Finish(None, "no answer")


# What the API says of the refusal, what the person reads of it.
REFUSALS = [
    ({"type": "refusal", "category": "cyber"}, "cyber"),
    ({"type": "refusal", "category": None}, "no category given"),
    ({}, "no category given"),
    (None, "no category given"),
]


@pytest.mark.parametrize(("details", "told"), REFUSALS)
@pytest.mark.parametrize("content", [[], [text("I can")], [use()], [use("x"), use("x")]])
def test_a_refusal_ends_the_run_and_is_never_asked_again(details, told, content):
    move = loop.decide(answer("refusal", *content, stop_details=details), FIRST)

    assert isinstance(move, Fail)
    assert move.reason == "refusal"
    assert told in move.detail


# Position, the tool, the name that the model gave, a part of the answer; None is "run it".
CALLS = [
    (1, LOOK, "look", None),  # a tool of this run
    (1, None, "fly", "no tool 'fly'"),  # unknown: named, with those that exist
    (loop.MAX_CALLS, LOOK, "look", None),  # the last one that is run
    (loop.MAX_CALLS + 1, LOOK, "look", "at most 16 calls"),  # one too many
]


@pytest.mark.parametrize(("position", "tool", "name", "told"), CALLS)
def test_a_call_that_cannot_be_run_is_answered_in_words(position, tool, name, told):
    refusal = loop.refuse_call(position, tool, name, ["look"])

    assert refusal is None if told is None else told in refusal


def test_an_unknown_tool_is_answered_with_the_tools_that_exist():
    assert "look, write" in loop.refuse_call(1, None, "fly", ["look", "write"])
    assert "none" in loop.refuse_call(1, None, "fly", [])
