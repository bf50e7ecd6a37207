"""Every error of the Messages API can be had on demand, on the attempts that were asked for."""

import asyncio
import json
import time

import aiohttp
import anthropic
import httpx2
import pytest

WORDS = {"content": [{"type": "text", "text": "All is well, and it takes a few deltas to say so in full."}]}
CALL = {"content": [{"type": "tool_use", "name": "look", "input": {"amount": 100, "to": "acme"}}]}

# status, error type, error code, headers, the SDK's class
STATUSES = [
    (400, "invalid_request_error", None, {}, anthropic.BadRequestError),
    (401, "authentication_error", None, {}, anthropic.AuthenticationError),
    (402, "billing_error", None, {}, anthropic.APIStatusError),
    (403, "permission_error", None, {}, anthropic.PermissionDeniedError),
    (404, "not_found_error", None, {}, anthropic.NotFoundError),
    (408, "timeout_error", None, {}, anthropic.APIStatusError),
    (409, "conflict_error", None, {}, anthropic.ConflictError),
    (413, "request_too_large", None, {}, anthropic.APIStatusError),
    (413, "request_too_large", "request_body_too_large_after_decoding", {}, anthropic.APIStatusError),
    (422, "invalid_request_error", None, {}, anthropic.UnprocessableEntityError),
    (429, "rate_limit_error", None, {"retry-after": "7"}, anthropic.RateLimitError),
    (429, "rate_limit_error", "enforced_spend_limit_reached", {}, anthropic.RateLimitError),
    (429, "rate_limit_error", "contract_spend_limit_reached", {}, anthropic.RateLimitError),
    (429, "rate_limit_error", "ramp_limit_exceeded", {"retry-after-ms": "50"}, anthropic.RateLimitError),
    (431, "invalid_request_error", None, {}, anthropic.APIStatusError),
    (500, "api_error", None, {}, anthropic.InternalServerError),
    (503, "api_error", None, {"x-should-retry": "false"}, anthropic.APIStatusError),
    (504, "timeout_error", None, {}, anthropic.APIStatusError),
    (529, "overloaded_error", None, {}, anthropic.APIStatusError),
    (529, "overloaded_error", "compaction_unavailable", {}, anthropic.APIStatusError),
]


async def faulty(served, turn=WORDS, **fault):
    await served.play({**turn, "faults": [fault]})


async def raw(served, **more):
    """The bytes that arrive, and the exception that ended them."""
    got = b""
    try:
        async with served.http.post(served.url + "/v1/messages", json=served.body(stream=True, **more)) as response:
            async for chunk in response.content.iter_any():
                got += chunk
    except aiohttp.ClientError as error:
        return got, error
    return got, None


@pytest.mark.parametrize(("status", "kind", "code", "headers", "expected"), STATUSES)
async def test_each_status_becomes_the_sdks_error(served, status, kind, code, headers, expected):
    await faulty(served, kind="status", status=status, error_type=kind, error_code=code, headers=headers)

    with pytest.raises(expected) as caught:
        await served.ask()

    error = caught.value
    assert (error.status_code, error.type) == (status, kind)
    assert error.error_code == code
    assert error.request_id.startswith("req_")
    assert {name: error.response.headers.get(name) for name in headers} == headers


async def test_the_error_type_follows_from_the_status(served):
    await faulty(served, kind="status", status=529)

    _, body = await served.post(served.body())

    assert body["error"]["type"] == "overloaded_error"


async def test_a_fault_meets_the_first_attempt_only_by_default(served):
    await faulty(served, kind="status", status=500)

    statuses = [(await served.post(served.body()))[0] for _ in range(3)]

    assert statuses == [500, 200, 200]


async def test_a_fault_meets_the_attempts_it_names(served):
    await faulty(served, kind="status", status=500, attempts=[2, 3])

    statuses = [(await served.post(served.body()))[0] for _ in range(4)]

    assert statuses == [200, 500, 500, 200]


async def test_attempts_are_counted_by_run_and_ask(served):
    await faulty(served, kind="status", status=500)
    await served.post(served.body())

    of_run, _ = await served.post(served.body(), **{"x-dayflow-run": "other"})
    of_ask, _ = await served.post(served.body(), **{"x-dayflow-ask": "2"})
    again, _ = await served.post(served.body())

    assert (of_run, of_ask, again) == (500, 500, 200)


async def test_an_error_event_comes_after_status_200(served):
    await faulty(served, kind="error_event", error_type="overloaded_error", after="content_block_start")

    with pytest.raises(anthropic.APIStatusError) as caught:
        await served.ask()

    assert (caught.value.status_code, caught.value.type) == (200, "overloaded_error")


async def test_a_clean_cut_ends_in_order_without_an_end(served):
    await faulty(served, CALL, kind="cut", after_event="content_block_delta", clean=True)

    got, error = await raw(served)
    await faulty(served, CALL, kind="cut", after_event="content_block_stop", clean=True)
    message = await served.ask()

    assert error is None
    assert b"message_start" in got
    assert b"message_stop" not in got
    assert message.stop_reason is None


@pytest.mark.parametrize(("reset", "expected"), [(True, httpx2.ReadError), (False, httpx2.RemoteProtocolError)])
async def test_an_unclean_cut_breaks_the_connection(served, reset, expected):
    await faulty(served, kind="cut", after_event="message_start", reset=reset, attempts="all")

    got, _ = await raw(served)
    with pytest.raises(expected):
        await served.ask()

    assert b"message_start" in got
    assert b"content_block_start" not in got


async def test_a_cut_after_so_many_bytes(served):
    await faulty(served, kind="cut", after_bytes=100, attempts="all")

    got, error = await raw(served)
    with pytest.raises(httpx2.ReadError):
        await served.ask()

    assert len(got) == 100
    assert error is not None


async def test_a_cut_before_the_headers_is_a_connection_error(served):
    await faulty(served, kind="cut", after_bytes=0)

    with pytest.raises(anthropic.APIConnectionError):
        await served.ask()


@pytest.mark.parametrize("at", ["before_headers", "message_start", "content"])
async def test_silence_is_a_timeout_for_a_client_that_does_not_wait(served, at):
    await faulty(served, kind="silence", at=at)
    impatient = served.client.with_options(timeout=0.2)

    # Once the stream has begun, the SDK lets the HTTP library's own error through.
    with pytest.raises(anthropic.APITimeoutError if at == "before_headers" else httpx2.ReadTimeout):
        async with impatient.messages.stream(**served.body()) as stream:
            await stream.get_final_message()

    assert await broken(served) == "the client went away"


async def broken(served):
    """Why the last request broke off, as soon as the journal knows."""
    async with asyncio.timeout(5):
        while True:
            lines = [line for line in await served.journal() if line["event"] == "broken"]
            if lines:
                return lines[-1]["why"]


async def test_pings_fill_a_silence_and_the_answer_follows(served):
    await faulty(served, kind="silence", seconds=0.3, pings=True, ping_every=0.05)
    began = time.monotonic()

    got, error = await raw(served)

    assert error is None
    assert time.monotonic() - began >= 0.3
    assert got.count(b"event: ping") >= 4
    assert b"message_stop" in got


async def test_a_slow_answer_comes_whole(served):
    await faulty(served, kind="slow", seconds=0.3)
    began = time.monotonic()

    message = await served.ask()

    assert time.monotonic() - began >= 0.3
    assert message.content[0].text == WORDS["content"][0]["text"]


async def test_html_in_place_of_an_answer(served):
    await faulty(served, kind="html", attempts="all")

    assert isinstance(await served.client.messages.create(**served.body()), str)
    got, _ = await raw(served)
    assert got.startswith(b"<html>")


async def test_broken_json_streamed_and_not(served):
    await faulty(served, kind="broken_json", attempts="all")

    with pytest.raises(json.JSONDecodeError):
        await served.client.messages.create(**served.body())
    with pytest.raises(json.JSONDecodeError):
        await served.ask()


async def test_broken_tool_arguments_in_a_whole_stream(served):
    await faulty(served, CALL, kind="broken_tool_json")

    with pytest.raises(ValueError, match="Unable to parse tool parameter JSON"):
        await served.ask()


async def test_any_json_in_place_of_an_answer(served):
    await faulty(served, kind="body", body={"hello": 1})

    assert await served.post(served.body()) == (200, {"hello": 1})


async def test_an_error_event_for_a_request_not_streamed_is_a_status(served):
    await faulty(served, kind="error_event", error_type="rate_limit_error")

    assert (await served.post(served.body()))[0] == 429


@pytest.mark.parametrize("clean", [True, False])
async def test_a_cut_body(served, clean):
    await faulty(served, kind="cut", clean=clean)

    with pytest.raises((json.JSONDecodeError, anthropic.APIConnectionError, aiohttp.ClientError)) as caught:
        await served.client.messages.create(**served.body())

    assert isinstance(caught.value, json.JSONDecodeError) == clean


async def test_process_wide_faults_meet_players_too_until_they_are_lifted(served):
    outage = {"kind": "status", "status": 529, "attempts": "all"}
    assert (await served.put("faults", [{**outage, "match": "brief"}]))[0] == 200

    hit, _ = await served.post(served.body("write a brief"))
    missed, _ = await served.post(served.body("write a poem"))
    await served.put("faults", [{**outage, "turn": 1}])
    other_turn, _ = await served.post(served.body("write a brief"))
    await served.put("faults", [outage])
    everybody, _ = await served.post(served.body("write a poem"))
    await served.delete("faults")
    lifted, _ = await served.post(served.body("write a poem"))

    assert [hit, missed, other_turn, everybody, lifted] == [529, 200, 200, 529, 200]


async def test_bad_faults_are_refused_with_the_place(served):
    status, body = await served.put("faults", [{"kind": "status", "status": 200}])

    assert status == 400
    assert body["error"].startswith("0.status.status: ")
