"""Errors of the Messages API, as the SDK really raises them, and the one ending that each has."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anthropic
import httpx2
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter

from activities import model_errors
from activities.model import Exchange
from activities.model_errors import FAILURES_UNTIL_DOWN, FAILURES_UNTIL_REPAIR, LONGEST_RETRY_AFTER, BadAnswer
from store import database
from store.ledger import Entry, Ledger
from store.settings import Settings

REQUEST = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "go"}]}
KEY = "model-1"
START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 1},
    },
}


@pytest.fixture
async def ledger(tmp_path):
    """A ledger in which the call has begun."""
    store = await database.connect(Settings(DAYFLOW_HOME=tmp_path))
    ledger = Ledger(store)
    await ledger.begin(Entry(KEY, "model", "default", "b1", 1, 1, "m", "a" * 64))
    yield ledger
    await store.close()


@pytest.fixture
def ask(ledger):
    """The error that one request ends with, when this answers it."""

    async def ask(answer):
        transport = httpx2.MockTransport(answer)
        async with (
            httpx2.AsyncClient(transport=transport) as http,
            anthropic.AsyncAnthropic(api_key="x", max_retries=0, http_client=http) as client,
        ):
            try:
                await Exchange(ledger, KEY).run(client, REQUEST, {})
            except Exception as error:
                return error
        raise AssertionError("it was taken as an answer")

    return ask


@asynccontextmanager
async def served(answer):
    """A client of a real server that answers each request like this."""
    app = web.Application()
    app.router.add_post("/v1/messages", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    (address,) = runner.addresses
    url = f"http://127.0.0.1:{address[1]}"
    async with anthropic.AsyncAnthropic(api_key="x", base_url=url, max_retries=0) as client:
        yield client
    await runner.cleanup()


def refused(status, kind=None, code=None, message="no", **headers):
    """An answer of the API with an error in it."""
    error = {"type": kind, "message": message, **({"details": {"error_code": code}} if code else {})}
    names = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(request):
        body = {"type": "error", "error": error, "request_id": "req_1"}
        return httpx2.Response(status, json=body, headers={"request-id": "req_1", **names})

    return answer


def raw(status, body, kind="text/html"):
    """An answer of someone who stands before the API."""
    return lambda request: httpx2.Response(status, content=body, headers={"content-type": kind})


def streamed(*events):
    """A stream of these events, cleanly closed behind them."""
    lines = (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
    return raw(200, "".join(lines), "text/event-stream")


def broken_off(kind, message="no", **more):
    """A stream in which an error comes in the place of an event."""
    return streamed(START, {"type": "error", "error": {"type": kind, "message": message}, **more})


def breaks(error):
    """A connection that ends like this."""

    def answer(request):
        raise error

    return answer


def block(*deltas, stopped=True):
    """The events of one call of a tool."""
    use = {"type": "tool_use", "id": "t1", "name": "pay", "input": {}}
    yield {"type": "content_block_start", "index": 0, "content_block": use}
    for delta in deltas:
        change = {"type": "input_json_delta", "partial_json": delta}
        yield {"type": "content_block_delta", "index": 0, "delta": change}
    if stopped:
        yield {"type": "content_block_stop", "index": 0}


STOP = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 5},
    },
    {"type": "message_stop"},
]
UNDONE = [{**STOP[0], "delta": {"stop_reason": None, "stop_sequence": None}}, STOP[1]]

# What came of the request, the reason, at which failure the run stands still (0: no retry at all).
ENDS = [
    # 4xx: the same history would give the same answer for ever.
    ("400", refused(400, "invalid_request_error"), "needs repair", 0),
    ("413", refused(413, "request_too_large"), "window full", 0),
    (
        "413 after decoding",
        refused(413, "request_too_large", "request_body_too_large_after_decoding"),
        "window full",
        0,
    ),
    ("422", refused(422, "invalid_request_error"), "needs repair", 0),
    ("431", refused(431, "invalid_request_error"), "needs repair", 0),
    # Money.
    (
        "400 for the own limit",
        refused(400, "invalid_request_error", message="You reached your spend limit"),
        "quota",
        0,
    ),
    ("400 for no credit", refused(400, "invalid_request_error", message="Your credit balance is too low"), "quota", 0),
    ("402", refused(402, "billing_error"), "quota", 0),
    ("402 of a linked one", refused(402, "billing_error", "linked_organization_spend_limit_reached"), "quota", 0),
    ("429 enforced", refused(429, "rate_limit_error", "enforced_spend_limit_reached"), "quota", 0),
    ("429 contract", refused(429, "rate_limit_error", "contract_spend_limit_reached"), "quota", 0),
    # Keys and names.
    ("401", refused(401, "authentication_error"), "credentials", 0),
    ("403", refused(403, "permission_error"), "credentials", 0),
    ("404 of a retired model", refused(404, "not_found_error"), "credentials", 0),
    ("no credentials at all", breaks(anthropic.CredentialsError("none found")), "credentials", 0),
    # What passes.
    ("408", refused(408, "timeout_error"), "model down", FAILURES_UNTIL_DOWN),
    ("409", refused(409, "conflict_error"), "model down", FAILURES_UNTIL_DOWN),
    ("429", refused(429, "rate_limit_error"), "model down", FAILURES_UNTIL_DOWN),
    ("429 ramp", refused(429, "rate_limit_error", "ramp_limit_exceeded", retry_after="1"), "model down", 6),
    ("500", refused(500, "api_error"), "model down", FAILURES_UNTIL_DOWN),
    ("503", refused(503, "api_error"), "model down", FAILURES_UNTIL_DOWN),
    ("504", refused(504, "timeout_error"), "model down", FAILURES_UNTIL_DOWN),
    ("529", refused(529, "overloaded_error"), "model down", FAILURES_UNTIL_DOWN),
    (
        "529 of compaction",
        refused(529, "overloaded_error", "compaction_unavailable"),
        "model down",
        FAILURES_UNTIL_DOWN,
    ),
    ("a proxy's 502", raw(502, "<html>Bad Gateway</html>"), "model down", FAILURES_UNTIL_DOWN),
    ("no connection", breaks(httpx2.ConnectError("refused")), "model down", FAILURES_UNTIL_DOWN),
    ("no connection in time", breaks(httpx2.ConnectTimeout("slow")), "model down", FAILURES_UNTIL_DOWN),
    ("no byte in time", breaks(httpx2.ReadTimeout("slow")), "model down", FAILURES_UNTIL_DOWN),
    ("a broken protocol", breaks(httpx2.RemoteProtocolError("cut")), "model down", FAILURES_UNTIL_DOWN),
    # A status of 200 says nothing yet.
    ("overloaded in the stream", broken_off("overloaded_error"), "model down", FAILURES_UNTIL_DOWN),
    ("a rate limit in the stream", broken_off("rate_limit_error"), "model down", FAILURES_UNTIL_DOWN),
    ("a fault in the stream", broken_off("api_error"), "model down", FAILURES_UNTIL_DOWN),
    ("a bad request in the stream", broken_off("invalid_request_error"), "needs repair", 0),
    ("a bad key in the stream", broken_off("authentication_error"), "credentials", 0),
    ("a retired model in the stream", broken_off("not_found_error"), "credentials", 0),
    ("no money in the stream", broken_off("billing_error"), "quota", 0),
    ("something new in the stream", broken_off("brand_new_error"), "needs repair", FAILURES_UNTIL_REPAIR),
    ("HTML", raw(200, "<html>Log in</html>"), "model down", FAILURES_UNTIL_DOWN),
    ("nothing", raw(200, "", "text/event-stream"), "model down", FAILURES_UNTIL_DOWN),
    ("broken JSON", raw(200, 'event: message_start\ndata: {"type\n\n', "text/event-stream"), "model down", 6),
    ("a stream without its stop", streamed(START, *block('{"amount": 100, "to": "ac')), "model down", 6),
    ("a stream cut in a block", streamed(START, *block('{"amount": 100', stopped=False)), "model down", 6),
    ("a block without its stop", streamed(START, *block('{"amount": 1}', stopped=False), *STOP), "model down", 6),
    ("a message without a reason", streamed(START, *block('{"amount": 1}'), *UNDONE), "model down", 6),
    # What the model itself got wrong, and what nobody knows.
    (
        "arguments that are no JSON",
        streamed(START, *block('{"a": \\ud800}'), *STOP),
        "needs repair",
        FAILURES_UNTIL_REPAIR,
    ),
    (
        "arguments without their end",
        streamed(START, *block('{"to": "acme", "amou', 'nt": 10'), *STOP),
        "needs repair",
        2,
    ),
    ("arguments cut in a word", streamed(START, *block('{"amount": 100, "to": "ac'), *STOP), "needs repair", 2),
    (
        "arguments with more behind them",
        streamed(START, *block('{"amount": 1}', '{"amount": 2}'), *STOP),
        "needs repair",
        2,
    ),
    ("arguments that are not a number", streamed(START, *block('{"amount": NaN}'), *STOP), "needs repair", 2),
    ("arguments without bounds", streamed(START, *block('{"amount": 1e999}'), *STOP), "needs repair", 2),
    ("arguments with a lone surrogate", streamed(START, *block('{"a": "\\ud800"}'), *STOP), "needs repair", 2),
]


@pytest.mark.parametrize(("answer", "reason", "most"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS])
async def test_an_error_has_its_one_ending(ask, answer, reason, most):
    error = await ask(answer)

    told = [model_errors.failure(error, failures) for failures in range(1, FAILURES_UNTIL_DOWN + 1)]

    finals = [failure.non_retryable for failure in told]
    assert {failure.type for failure in told} == {reason}
    assert finals.index(True) == max(most - 1, 0)


async def test_an_answer_of_another_shape_is_named_as_that(ask):
    uncounted = {**START, "message": {**START["message"], "usage": None}}

    error = await ask(streamed(uncounted, *block('{"amount": 1}'), *STOP))

    told = model_errors.failure(error, 1)
    assert told.type == "needs repair"
    assert told.message.startswith("the answer could not be read (AttributeError: ")


async def test_after_a_pause_the_run_has_as_many_tries_again(ask):
    error = await ask(refused(529, "overloaded_error"))

    finals = [n for n in range(1, 25) if model_errors.failure(error, n).non_retryable]

    assert finals == [6, 12, 18, 24]


@pytest.mark.parametrize("cut", ["reset", "unclean", "clean"])
async def test_a_connection_that_really_breaks_in_mid_stream_is_retried_and_its_usage_is_known(ledger, cut):
    async def answer(request):
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(f"event: message_start\ndata: {json.dumps(START)}\n\n".encode())
        if cut == "reset":
            request.transport.abort()
        elif cut == "unclean":
            request.transport.close()
        return response

    exchange = Exchange(ledger, KEY)

    async with served(answer) as client:
        with pytest.raises(Exception, match=r".*") as caught:
            await exchange.run(client, REQUEST, {})

    failure = model_errors.failure(caught.value, 1)
    assert (failure.type, failure.non_retryable) == ("model down", False)
    assert exchange.reached["input_tokens"] == 7
    assert [row["usage"] for row in await ledger.rows("default", "b1")] == [exchange.reached]


async def test_a_stream_of_pings_alone_comes_to_an_end_that_counts(ledger):
    async def answer(request):
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(f"event: message_start\ndata: {json.dumps(START)}\n\n".encode())
        while True:
            await response.write(b'event: ping\ndata: {"type": "ping"}\n\n')
            await asyncio.sleep(0.01)

    async with served(answer) as client:
        exchange = Exchange(ledger, KEY, longest_s=0.3)
        with pytest.raises(BadAnswer, match=r"within 0\.3 seconds") as caught:
            await exchange.run(client, REQUEST, {})

    assert model_errors.failure(caught.value, 1).type == "model down"
    assert model_errors.left_unanswered(caught.value)
    assert exchange.reached["input_tokens"] == 7


async def test_a_request_that_cannot_even_be_encoded_is_not_tried_again():
    with pytest.raises(UnicodeEncodeError) as caught:
        "\ud800".encode()

    failure = model_errors.failure(caught.value, 1)

    assert (failure.type, failure.non_retryable) == ("needs repair", True)


@pytest.mark.parametrize(
    "error", [KeyError("x"), RuntimeError("x"), AssertionError(), ValueError("Streaming is required")]
)
def test_an_error_that_nobody_expected_is_tried_twice_and_then_goes_to_a_person(error):
    told = [model_errors.failure(error, failures) for failures in (1, 2)]

    assert [(failure.type, failure.non_retryable) for failure in told] == [
        ("needs repair", False),
        ("needs repair", True),
    ]


# How long to wait


# The header, how many seconds are waited at the least; None leaves it to Temporal.
WAITS = [
    ({}, None),
    ({"retry_after": "7"}, 7),
    ({"retry_after": "0"}, 0),
    ({"retry_after": "1.5"}, 1.5),
    ({"retry_after_ms": "2500"}, 2.5),
    ({"retry_after_ms": "500", "retry_after": "60"}, 0.5),  # the finer one counts
    ({"retry_after": "-5"}, None),
    ({"retry_after": "soon"}, None),
    ({"retry_after": ""}, None),
    ({"retry_after": "²"}, None),
    ({"retry_after_ms": "nan"}, None),
    ({"retry_after_ms": "-5"}, 0),
    ({"retry_after_ms": "inf"}, LONGEST_RETRY_AFTER.total_seconds()),
    ({"retry_after": "9" * 400}, LONGEST_RETRY_AFTER.total_seconds()),  # more seconds than a timedelta holds
    ({"retry_after": str(10**9)}, LONGEST_RETRY_AFTER.total_seconds()),
]


@pytest.mark.parametrize(("headers", "least"), WAITS)
async def test_the_next_attempt_comes_when_the_answer_says_or_little_later(ask, headers, least):
    error = await ask(refused(429, "rate_limit_error", **headers))

    delay = model_errors.failure(error, 1).next_retry_delay

    if least is None:
        assert delay is None
    else:
        assert least <= delay.total_seconds() <= max(least, 2) * 1.1 + 2


@pytest.mark.parametrize(("seconds", "least"), [(100, 90), (-100, 0)])
async def test_the_answer_may_also_say_a_date(ask, seconds, least):
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
    error = await ask(refused(429, "rate_limit_error", retry_after=date))

    delay = model_errors.failure(error, 1).next_retry_delay

    assert least <= delay.total_seconds() <= max(seconds, 0) * 1.1 + 2


async def test_many_runs_do_not_come_back_at_the_same_moment(ask):
    error = await ask(refused(429, "rate_limit_error", retry_after="60"))

    delays = {model_errors.failure(error, 1).next_retry_delay for _ in range(20)}

    assert len(delays) > 10


@settings(deadline=None, max_examples=50)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)), st.sampled_from(["retry-after", "retry-after-ms"]))
def test_whatever_the_header_says_the_error_keeps_its_ending(value, name):
    response = httpx2.Response(429, headers={name: value}, request=httpx2.Request("POST", "http://x"))
    error = anthropic.RateLimitError("no", response=response, body=None)

    failure = model_errors.failure(error, 1)

    assert failure.type == "model down"
    assert failure.next_retry_delay is None or failure.next_retry_delay <= LONGEST_RETRY_AFTER * 1.2


# What stands in history


def in_history(error):
    """All that Temporal would write down of an error."""
    failure = Failure()
    converter = DataConverter.default
    converter.failure_converter.to_failure(error, converter.payload_converter, failure)
    return str(failure)


async def test_a_failure_names_what_support_asks_for(ask):
    error = await ask(refused(529, "overloaded_error"))

    (detail,) = model_errors.failure(error, 3).details

    assert detail == {"status": 529, "type": "overloaded_error", "request_id": "req_1", "failures": 3}


async def test_a_failure_says_in_words_what_the_api_said(ask):
    error = await ask(refused(400, "invalid_request_error", message="messages.3: ids must be unique"))

    assert "400 invalid_request_error: messages.3: ids must be unique" in model_errors.failure(error, 1).message


async def test_a_failure_never_holds_the_body_of_the_answer(ask):
    def answer(request):
        echo = {"type": "invalid_request_error", "message": "no", "details": {"echo": "words of the prompt"}}
        return httpx2.Response(400, json={"type": "error", "error": echo, "request": "words of the prompt"})

    error = await ask(answer)

    assert "words of the prompt" not in in_history(model_errors.failure(error, 1))


async def test_a_page_of_a_proxy_stays_out_of_history(ask):
    error = await ask(raw(502, "<html>words of the proxy</html>"))

    assert "words of the proxy" not in in_history(model_errors.failure(error, 1))


async def test_a_failure_stays_short(ask):
    error = await ask(refused(400, "invalid_request_error", message="x" * 100_000))

    assert len(in_history(model_errors.failure(error, 1))) < 3_000


async def test_a_cancelled_request_is_no_failure_of_the_model(ledger):
    started = asyncio.Event()

    async def never(request):
        started.set()
        await asyncio.Event().wait()

    async with (
        httpx2.AsyncClient(transport=httpx2.MockTransport(never)) as http,
        anthropic.AsyncAnthropic(api_key="x", max_retries=0, http_client=http) as client,
    ):
        asked = asyncio.create_task(Exchange(ledger, KEY).run(client, REQUEST, {}))
        await started.wait()
        asked.cancel()

        with pytest.raises(asyncio.CancelledError):
            await asked


@pytest.mark.parametrize("kind", [anthropic.APIConnectionError, anthropic.APITimeoutError])
def test_a_connection_that_fails_names_the_address_without_a_login(kind):
    error = kind(request=httpx2.Request("POST", "http://me:SENTINEL@model.example.com:8234/v1/messages"))

    said = str(model_errors.failure(error, 1))

    assert "(http://model.example.com:8234)" in said
    assert "SENTINEL" not in said
