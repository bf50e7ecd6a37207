"""One model call: the request that is made of a run, and what is taken of the answer."""

import json
from datetime import UTC, datetime

import pytest
from anthropic.types import Message

from activities import model
from domain import transcript
from domain.agent import Definition, Limits
from sandbox import validator
from store.ledger import Begun

FIRST = Begun(1, None, [], 0, datetime(2026, 11, 30, 12, tzinfo=UTC))
MESSAGES = [transcript.user_text("Write it. " * 100)]


def definition(**changed):
    told = {
        "run": "first",
        "agent": "brief",
        "instructions": "Be brief.",
        "task": "Write it.",
        "model": "m",
        "max_tokens": 100,
        "tools": [],
        "limits": Limits(),
        "price": None,
    }
    return Definition(**{**told, **changed})


def answer(request, **usage):
    """What is taken of an answer whose usage says this."""
    content = [{"type": "text", "text": "All done."}]
    told = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    message = Message.construct(**json.loads(json.dumps({**told, "content": content, "usage": usage})))
    return model._answer(message, FIRST, request)


@pytest.mark.parametrize("instructions", ["", " \n"])
def test_an_agent_without_instructions_has_a_request_without_a_system_prompt(instructions):
    request = model.body(definition(instructions=instructions), MESSAGES, 100)

    validator.check(request)
    assert "system" not in request


# What the API says, what is counted of the prompt and of the answer: None is an estimate.
USAGES = [
    ({"input_tokens": 7, "output_tokens": 5}, 7, 5),
    ({"input_tokens": 0, "cache_read_input_tokens": 9, "output_tokens": 5}, 9, 5),
    ({"input_tokens": None, "output_tokens": None}, None, None),
    ({"input_tokens": 0, "output_tokens": 0}, None, None),
    ({"input_tokens": None, "output_tokens": 5}, None, 5),
    ({}, None, None),
]


@pytest.mark.parametrize(("said", "prompt", "output"), USAGES)
def test_what_the_api_does_not_count_is_estimated_and_never_free(said, prompt, output):
    request = model.body(definition(), MESSAGES, 100)

    counted = answer(request, **said).usage

    assert counted.prompt == prompt or (prompt is None and 250 < counted.prompt < 1_000)
    assert counted.output_tokens == output or (output is None and 2 < counted.output_tokens < 50)
