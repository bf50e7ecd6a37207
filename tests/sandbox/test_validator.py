"""Every transcript that the real API refuses is refused here, with its wording."""

import copy
import io
import json
from collections import Counter

import pytest

from sandbox import turns, validator
from sandbox.errors import ApiError
from sandbox.model import Model
from sandbox.request import Request


def use(call="t1", name="look", **more):
    return {"type": "tool_use", "id": call, "name": name, "input": {}, **more}


def result(call="t1", content="ok", **more):
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def text(words="hello", **more):
    return {"type": "text", "text": words, **more}


def user(*content):
    return {"role": "user", "content": list(content)}


def model(*content):
    return {"role": "assistant", "content": list(content)}


GO = {"role": "user", "content": "go"}
CACHED = {"cache_control": {"type": "ephemeral"}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}

# What is wrong, the messages, a part of the error's message.
TRANSCRIPTS = [
    ("a call without a result", [GO, model(use()), user(text())], "without `tool_result` blocks immediately after: t1"),
    ("one of two results missing", [GO, model(use(), use("t2")), user(result())], "immediately after: t2"),
    ("a call at the end", [GO, model(use())], "without `tool_result` blocks immediately after: t1"),
    ("results split over two turns", [GO, model(use(), use("t2")), user(result()), user(result("t2"))], "after: t2"),
    ("a reply between call and result", [GO, model(use()), model(text()), user(result())], "immediately after: t1"),
    ("text before the result", [GO, model(use()), user(text(), result())], "immediately after: t1"),
    ("a result for no call", [GO, model(text()), user(result())], "unexpected `tool_use_id`"),
    ("a result of an older call", [GO, model(use()), user(result()), user(result())], "unexpected `tool_use_id`"),
    ("the same id twice in a turn", [GO, model(use(), use()), user(result())], "`tool_use` ids must be unique"),
    (
        "the same id in a later turn",
        [GO, model(use()), user(result()), model(use()), user(result())],
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    (
        "two results for a call",
        [GO, model(use()), user(result(), result())],
        "multiple `tool_result` blocks with id: t1",
    ),
    ("an image in an error", [GO, model(use()), user(result(content=[IMAGE], is_error=True))], "must be type 'text'"),
    ("a call in a result", [GO, model(use()), user(result(content=[use("x")]))], "does not match any"),
    ("empty text in a result", [GO, model(use()), user(result(content=[text("")]))], "must be non-empty"),
    ("empty text", [user(text(""))], "text content blocks must be non-empty"),
    ("blank text", [user(text(" \n"))], "text content blocks must contain non-whitespace text"),
    ("a call without a name", [GO, model(use(name="")), user(result())], "at least 1 and at most 200 characters"),
    (
        "a call with a long name",
        [GO, model(use(name="x" * 201)), user(result())],
        "at least 1 and at most 200 characters",
    ),
    ("empty text to be cached", [user(text("", **CACHED))], "cannot be set for empty text blocks"),
    ("empty string", [{"role": "user", "content": ""}], "must have non-empty content"),
    (
        "no blocks",
        [GO, {"role": "assistant", "content": []}, GO],
        "messages.1: all messages must have non-empty content",
    ),
    ("no content", [{"role": "user"}], "messages.0.content"),
    ("an assistant message last", [GO, model(text())], "does not support assistant message prefill"),
    ("an assistant message first", [model(text()), GO], 'first message must use the "user" role'),
    ("a system message first", [{"role": "system", "content": "x"}, GO], 'first message must use the "user" role'),
    ("blocks in a system message", [GO, {"role": "system", "content": [IMAGE]}], "takes text only"),
    ("an unknown role", [{"role": "robot", "content": "x"}], 'Unexpected role "robot"'),
    ("a field too many in a message", [{**GO, "name": "me"}], "messages.0.name: Extra inputs are not permitted"),
    ("a field too many in a text", [user(text(parsed_output=None))], "text.parsed_output: Extra inputs"),
    ("a field too many in a call", [GO, model(use(index=1)), user(result())], "tool_use.index: Extra inputs"),
    ("a call by the user", [user(use())], "can only be in `assistant` messages"),
    ("a result by the assistant", [GO, model(result()), GO], "can only be in `user` messages"),
    ("an unknown block of the user's", [user({"type": "hologram"})], "'hologram' does not match any"),
    ("an id with a space", [GO, model(use("t 1")), user(result("t 1"))], "should match pattern"),
    (
        "arguments that are no object",
        [GO, model(use(input="x")), user(result())],
        "input: Input should be a valid dict",
    ),
    ("a call without a name", [GO, model(use(name=None)), user(result())], "tool_use.name: Field required"),
    ("thinking nobody made", [GO, model({"type": "thinking", "thinking": "", "signature": "x"}), GO], "`signature`"),
    ("thinking without signature", [GO, model({"type": "thinking", "thinking": ""}), GO], "signature: Field required"),
    ("redacted thinking nobody made", [GO, model({"type": "redacted_thinking", "data": "x"}), GO], "Invalid `data`"),
    ("a null character", [user(text("a\0b"))], "null characters"),
    ("a lone surrogate", [user(text("a\ud800b"))], "lone surrogate"),
    ("no messages", [], "at least one message is required"),
    ("messages that are none", "go", "should be a valid list"),
    ("five breakpoints", [user(*[text(str(n), **CACHED) for n in range(5)])], "A maximum of 4 blocks"),
    (
        "a long breakpoint after a short one",
        [user(text(**CACHED), text(cache_control={"type": "ephemeral", "ttl": "1h"}))],
        "must not come after",
    ),
    ("a breakpoint on thinking", [GO, model({"type": "thinking", **CACHED}), GO], "cannot be set for thinking blocks"),
    ("a breakpoint of another kind", [user(text(cache_control={"type": "eternal"}))], "should be 'ephemeral'"),
    ("text without text", [user({"type": "text"})], "text.text: Field required"),
    ("a block without type", [user({"text": "a"})], "content.0.type: Field required"),
    ("a message that is none", [GO, "go"], "messages.1: Input should be a valid dictionary"),
    ("a result without its call's id", [GO, model(use()), user(result(None))], "tool_use_id: Field required"),
    ("an is_error in words", [GO, model(use()), user(result(is_error="no"))], "is_error: Input should be a valid bool"),
    ("a result that is a number", [GO, model(use()), user(result(content=5))], "tool_result.content: Input should be"),
    ("an unknown ttl", [user(text(cache_control={"type": "ephemeral", "ttl": "2h"}))], "'5m' or '1h'"),
]

# What is wrong, what the body is changed by, a part of the error's message.
BODIES = [
    ("no max_tokens", {"max_tokens": None}, "max_tokens: Field required"),
    ("max_tokens below zero", {"max_tokens": -1}, "max_tokens: Input should be greater"),
    ("max_tokens in words", {"max_tokens": "many"}, "max_tokens: Input should be a valid integer"),
    ("no tokens, streamed", {"max_tokens": 0, "stream": True}, "cannot be streamed"),
    ("no model", {"model": None}, "model: Field required"),
    ("a temperature", {"temperature": 0.2}, "temperature: this model does not accept"),
    ("top_p", {"top_p": 0.9}, "top_p"),
    ("top_k", {"top_k": 5}, "top_k"),
    ("an unknown field", {"max_steps": 3}, "max_steps: Extra inputs are not permitted"),
    ("a forced tool", {"tool_choice": {"type": "any"}}, "does not support forcing tool use"),
    ("thinking switched off", {"thinking": {"type": "disabled"}}, "cannot be disabled"),
    ("a small budget", {"thinking": {"type": "enabled", "budget_tokens": 10}}, "greater than or equal to 1024"),
    ("a budget over max_tokens", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, "must be greater than"),
    ("a tool without schema", {"tools": [{"name": "a"}]}, "tools.0.custom.input_schema: Field required"),
    ("a tool without name", {"tools": [{"input_schema": {"type": "object"}}]}, "tools.0.custom.name: Field required"),
    ("a schema that is none", {"tools": [{"name": "a", "input_schema": {}}]}, "input_schema.type"),
    ("a tool with a bad name", {"tools": [{"name": "a b", "input_schema": {"type": "object"}}]}, "match pattern"),
    ("a tool twice", {"tools": [{"name": "a", "input_schema": {"type": "object"}}] * 2}, "must be unique"),
    ("a tool that is none", {"tools": ["look"]}, "tools.0: Input should be a valid dictionary"),
    ("a description that is none", {"tools": [{"name": "a", "description": 5}]}, "description: Input should be"),
    ("tools that are none", {"tools": "look"}, "tools: Input should be a valid list"),
    ("an unknown tool choice", {"tool_choice": {"type": "maybe"}}, "tool_choice.type: Input should be"),
    ("a tool choice in words", {"tool_choice": "auto"}, "tool_choice: Input should be a valid dictionary"),
    ("an unknown kind of thinking", {"thinking": {"type": "hard"}}, "thinking.type: Input should be"),
    ("a model that is a number", {"model": 5}, "model: Input should be a valid string"),
    ("no messages at all", {"messages": None}, "messages: Field required"),
    ("a system prompt that is a number", {"system": 5}, "system: Input should be"),
    ("an image as system prompt", {"system": [IMAGE]}, "system.0.type: Input should be 'text'"),
    ("an empty system block", {"system": [text("")]}, "system: text content blocks must be non-empty"),
    ("calls without tools", {"tools": [], "messages": [GO, model(use()), user(result())]}, "must define tools"),
]

# Transcripts that look odd and are right.
GOOD = [
    ("two user messages in a row", [GO, GO]),
    ("text after the results", [GO, model(use()), user(result(), text())]),
    ("an empty result", [GO, model(use()), user({"type": "tool_result", "tool_use_id": "t1"})]),
    ("an image in a result", [GO, model(use()), user(result(content=[text(), IMAGE]))]),
    (
        "a server call without its result",
        [GO, model({"type": "server_tool_use", "id": "s", "name": "w", "input": {}}), GO],
    ),
    ("an unknown block of the model's", [GO, model({"type": "hologram", "x": 1}), GO]),
    ("a system message later", [GO, {"role": "system", "content": "Hurry."}]),
    ("a pair of surrogates", [user(text("😀"))]),
    ("an escaped backslash before u0000", [user(text("\\u0000"))]),
    ("four breakpoints", [user(*[text(str(n), **CACHED) for n in range(4)])]),
    ("nulls that a model_dump adds", [GO, model(use(caller=None, toolset_name=None)), user(result())]),
]


def refusal(answer):
    status, body = answer
    assert body["type"] == "error"
    assert body["request_id"].startswith("req_")
    return status, body["error"]["type"], body["error"]["message"]


@pytest.mark.parametrize(("messages", "words"), [row[1:] for row in TRANSCRIPTS], ids=[row[0] for row in TRANSCRIPTS])
async def test_bad_transcripts_are_refused(served, messages, words):
    status, kind, message = refusal(await served.post({**served.body(), "messages": messages}))

    assert (status, kind) == (400, "invalid_request_error")
    assert words in message


@pytest.mark.parametrize(("change", "words"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
async def test_bad_bodies_are_refused(served, change, words):
    body = {name: value for name, value in {**served.body(), **change}.items() if value is not None}

    status, kind, message = refusal(await served.post(body))

    assert (status, kind) == (400, "invalid_request_error")
    assert words in message


@pytest.mark.parametrize("messages", [row[1] for row in GOOD], ids=[row[0] for row in GOOD])
async def test_odd_but_right_transcripts_are_taken(served, messages):
    status, body = await served.post(served.body(messages))

    assert status == 200, body


RICH = {
    "model": "dayflow-sandbox-1",
    "max_tokens": 100,
    "stream": True,
    "system": [text("Be good.", **CACHED)],
    "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}, **CACHED}],
    "tool_choice": {"type": "auto"},
    "thinking": {"type": "adaptive", "display": "omitted"},
    "cache_control": {"type": "ephemeral", "ttl": "5m"},
    "messages": [
        GO,
        model(text(), use(), use("t2")),
        user(result(is_error=True), result("t2", [text(**CACHED), IMAGE]), text()),
        {"role": "system", "content": "Hurry."},
    ],
}


def spoiled(value):
    """Every copy of a value in which one node is something odd."""
    yield from (None, True, 0, -1, 2.5, "", "text", "thinking", [], [None], ["x"], {}, {"type": "text"}, {"type": 1})
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for changed in spoiled(value[key]):
            copied = copy.copy(value)
            copied[key] = changed
            yield copied


def outcome(body):
    """The status for a body, by every step that reads it."""
    stand_in = Model()
    try:
        parsed = validator.parse(json.dumps(body).encode())
        validator.check(parsed)
        asked = Request(parsed)
        stand_in.admit(asked)
        turns.message(stand_in.turn(asked), asked, stand_in.cache.measure(asked), "req_1")
    except ApiError as error:
        return error.status
    return 200


def test_an_odd_body_is_taken_or_refused_and_never_breaks_the_sandbox():
    outcomes = Counter(outcome(body) for body in spoiled(RICH))

    assert outcomes.keys() == {200, 400}
    assert outcome(RICH) == 200


async def test_bodies_that_are_no_json_are_refused(served):
    for raw in (b"", b"{", b"[1]", b'{"a": "\xff"}'):
        async with served.http.post(served.url + "/v1/messages", data=raw) as response:
            status, kind, _ = refusal((response.status, await response.json()))
        assert (status, kind) == (400, "invalid_request_error")


async def post_large(served, body):
    raw = io.BytesIO(json.dumps(body).encode())
    async with served.http.post(served.url + "/v1/messages", data=raw) as response:
        return refusal((response.status, await response.json()))


async def test_requests_over_32_mb_are_too_large(served):
    status, kind, _ = await post_large(served, served.body("x" * (33 * 1024 * 1024)))

    assert (status, kind) == (413, "request_too_large")


async def test_too_many_messages_are_refused(served):
    _, _, message = await post_large(served, served.body([GO] * 100_001))

    assert "at most 100000 items" in message


async def test_older_models_may_be_forced_to_use_a_tool(served):
    status, _ = await served.post(served.body(model="claude-haiku-4-5", tool_choice={"type": "any"}))

    assert status == 200


class TestBinding:
    """Thinking is bound to its model and to the conversation before it."""

    async def history(self, served):
        turn = {"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "tool_use", "name": "look", "input": {}}]}
        await served.play(turn, turn, {"content": [text()]})
        messages = [GO]
        for _ in range(2):
            _, message = await served.post(served.body(messages))
            messages.append(model(*message["content"]))
            messages.append(user(result(message["content"][1]["id"])))
        return messages

    async def test_unchanged_history_is_taken(self, served):
        assert (await served.post(served.body(await self.history(served))))[0] == 200

    async def test_breakpoints_may_move(self, served):
        messages = await self.history(served)
        messages[2]["content"][0].update(CACHED)

        assert (await served.post(served.body(messages)))[0] == 200

    async def test_an_edit_before_it_is_a_prefix_mismatch(self, served):
        messages = await self.history(served)
        messages[2]["content"][0]["content"] = "edited"

        _, body = await served.post(served.body(messages))

        assert body["error"]["details"]["error_code"] == "prefix_binding_mismatch"
        assert "messages.3.content.0" in body["error"]["message"]

    async def test_stripped_thinking_frees_the_history(self, served):
        messages = copy.deepcopy(await self.history(served))
        messages[2]["content"][0]["content"] = "edited"
        messages[3]["content"].pop(0)

        assert (await served.post(served.body(messages)))[0] == 200

    async def test_another_model_is_a_model_mismatch(self, served):
        _, body = await served.post(served.body(await self.history(served), model="claude-opus-5-5"))

        assert body["error"]["details"]["error_code"] == "model_binding_mismatch"

    async def test_changed_thinking_is_refused(self, served):
        messages = await self.history(served)
        messages[1]["content"][0]["thinking"] = "Hmm."

        status, _, message = refusal(await served.post(served.body(messages)))

        assert status == 400
        assert "has been modified" in message
