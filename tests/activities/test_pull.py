"""A transcript is put together from what this process saw, and only where the call's digest says that it was so."""

import pytest

from activities.pull import Copy, Turn
from domain import digest, transcript
from domain.agent import Definition
from domain.model import ModelCall
from domain.tool import ToolResult

CALLS = [{"type": "text", "text": "Two."}] + [
    {"type": "tool_use", "id": id, "name": "read_tasks", "input": {}} for id in ("a", "b")
]
RESULTS = {2: ToolResult(content="second", outcome="failed"), 1: ToolResult(content="first")}
TURN = [
    transcript.assistant(CALLS),
    transcript.user(
        [transcript.tool_result("a", "first", is_error=False), transcript.tool_result("b", "second", is_error=True)]
    ),
]
TASK = transcript.user_text("Look.")


@pytest.fixture
def copy() -> Copy:
    """What a process knows of a run that has asked once."""
    found = Copy(Definition.model_construct(), 0, ["definition"])
    found.append(TASK)
    return found


def call_over(*messages: transcript.Message) -> ModelCall:
    """A call that means exactly these messages."""
    head = "definition"
    for message in messages:
        head = digest.chain(head, message)
    return ModelCall.model_construct(length=len(messages), digest=head, epoch=0)


def test_what_was_seen_here_needs_no_query(copy):
    copy.turn = Turn(CALLS, RESULTS)
    call = call_over(TASK, *TURN)

    copy.foresee(call)

    assert copy.messages == [TASK, *TURN]
    assert copy.agrees(call)


@pytest.mark.parametrize(
    "turn",
    [
        Turn(),
        Turn(CALLS, {1: RESULTS[1]}),
        Turn(CALLS, {**RESULTS, 1: ToolResult(content="of an attempt that was given up")}),
        Turn(CALLS[:2], {1: RESULTS[1]}),
    ],
)
def test_what_was_not_so_leaves_no_trace(copy, turn):
    size = copy.size
    copy.turn = turn

    copy.foresee(call_over(TASK, *TURN))

    assert (copy.messages, len(copy.heads), copy.size, copy.turn) == ([TASK], 2, size, Turn())
