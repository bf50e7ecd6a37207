"""Every error of the payment provider is one of ours, and only a clear No is taken for a No."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import stripe

from activities.payments import KEY, Payments, after_reading, after_sending
from domain import errors
from sandbox import app
from store.settings import Settings

CHARGE = "ch_sample_1042"
OURS = (errors.ToolFailed, errors.ArgumentsChanged, errors.Again, errors.Uncertain)


@dataclass
class Provider:
    """The sandbox's provider, and what talks to it."""

    http: aiohttp.ClientSession
    settings: Settings

    async def faulty(self, *faults):
        address = self.settings.sandbox_url + "/sandbox/payments/faults"
        async with self.http.put(address, json=list(faults)) as response:
            assert response.status == 200

    async def journal(self):
        async with self.http.get(self.settings.sandbox_url + "/sandbox/payments/journal") as response:
            return await response.json()

    async def refund(self, amount=4000, key="k", send_s=5.0, **metadata):
        payments = Payments(self.settings, send_s=send_s)
        return await payments.refund(CHARGE, amount, "EUR", "requested_by_customer", key, metadata)

    async def error(self, **more):
        with pytest.raises(errors.DayflowError) as caught:
            await self.refund(**more)
        return caught.value


def settings(home: Path, port: int, **more) -> Settings:
    return Settings(
        **{"STRIPE_API_KEY": None, "STRIPE_BASE_URL": None, **more}, DAYFLOW_HOME=home, DAYFLOW_SANDBOX_PORT=port
    )


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    runner, port = await app.start(app.build(tmp_path), 0)
    async with aiohttp.ClientSession() as http:
        yield Provider(http, settings(tmp_path, port))
    await runner.cleanup()


@contextlib.asynccontextmanager
async def answering(respond):
    """A server of any behaviour: `respond(reader, writer)`."""
    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_a_refund_carries_the_key_and_the_metadata(provider):
    made = await provider.refund(run="r-1", reason="broken\nand  \ud800 late\0", empty=" ")

    (line,) = await provider.journal()
    assert (made.amount, made.currency, made.status) == (4000, "eur", "succeeded")
    assert (line["idempotency_key"], line["reason"]) == ("k", "requested_by_customer")
    assert line["metadata"] == {"run": "r-1", "reason": "broken and ? late", KEY: "k"} == made.metadata


async def test_the_same_key_is_the_same_refund(provider):
    first = await provider.refund()

    assert await provider.refund() == first
    assert len(await provider.journal()) == 1


async def test_twenty_attempts_at_once_are_one_refund(provider):
    made = await asyncio.gather(*(provider.refund() for _ in range(20)), return_exceptions=True)

    refunds = {each.id for each in made if not isinstance(each, errors.Again)}
    assert refunds == {line["refund_id"] for line in await provider.journal()}
    assert len(refunds) == 1


async def test_a_refund_is_found_by_its_key_over_all_pages(provider):
    for n in range(103):
        await provider.refund(amount=1, key=f"k{n}")
    payments = Payments(provider.settings)

    found = await payments.find_refund(CHARGE, "k0")
    standing = await payments.standing(CHARGE)

    assert found is not None
    assert found.metadata[KEY] == "k0"
    assert await payments.find_refund(CHARGE, "k103") is None
    assert len(standing.refunds) == 103
    assert standing.refundable == 5990 - 103
    assert standing.refund("k102") is not None


async def test_other_arguments_under_a_key(provider):
    await provider.refund()

    assert isinstance(await provider.error(amount=3999), errors.ArgumentsChanged)
    assert isinstance(await provider.error(reason="in other words"), errors.ArgumentsChanged)


async def test_more_than_is_left_is_a_no_in_words(provider):
    error = await provider.error(amount=5991)

    assert isinstance(error, errors.ToolFailed)
    assert "5990 EUR" in str(error)


# status, Stripe's type, its code, what it is to us
STATUSES = [
    (400, "invalid_request_error", "parameter_missing", errors.ToolFailed),
    (400, "idempotency_error", None, errors.ArgumentsChanged),
    (400, "invalid_request_error", "rate_limit", errors.Again),  # how rate limits once looked
    (401, "invalid_request_error", None, errors.ToolFailed),
    (402, "card_error", "insufficient_funds", errors.ToolFailed),
    (403, "invalid_request_error", None, errors.ToolFailed),
    (404, "invalid_request_error", "resource_missing", errors.ToolFailed),
    (408, "api_error", None, errors.Uncertain),
    (409, "invalid_request_error", "idempotency_key_in_use", errors.Again),
    (409, "idempotency_error", "idempotency_key_in_use", errors.Again),
    (422, "invalid_request_error", None, errors.ToolFailed),
    (424, "api_error", None, errors.Uncertain),  # something behind the provider failed
    (429, "rate_limit_error", None, errors.Again),
    (429, "invalid_request_error", "lock_timeout", errors.Again),
    (500, "api_error", None, errors.Uncertain),
    (502, "api_error", None, errors.Uncertain),
    (503, "api_error", None, errors.Uncertain),
    (504, "api_error", None, errors.Uncertain),
]


@pytest.mark.parametrize(("status", "kind", "code", "expected"), STATUSES)
async def test_each_status(provider, status, kind, code, expected):
    await provider.faulty({"kind": "status", "status": status, "type": kind, "code": code})

    error = await provider.error()

    assert type(error) is expected
    assert (await provider.refund()).status == "succeeded"


async def test_every_status_there_is_has_a_class(provider):
    for status in range(400, 600):
        await provider.faulty({"kind": "status", "status": status})
        error = await provider.error()
        assert isinstance(error, OURS), status
        assert not (status >= 500 and isinstance(error, errors.ToolFailed)), status
    assert await provider.journal() == []


@pytest.mark.parametrize("commit", [True, False])
async def test_a_stored_500_stays_uncertain_and_says_so(provider, commit):
    await provider.faulty({"kind": "stored", "commit": commit})

    first, second = await provider.error(), await provider.error()

    assert type(first) is type(second) is errors.Uncertain
    assert "keeps an error (500) under this key" in str(second)
    found = await Payments(provider.settings).find_refund(CHARGE, "k")
    assert (found is not None) == commit


# the fault, and whether the refund is made by it
BROKEN = [
    ({"kind": "drop"}, True),
    ({"kind": "drop", "reset": False}, True),
    ({"kind": "drop", "when": "before_commit"}, False),
    ({"kind": "cut"}, True),  # the SDK lets this one through as the HTTP library's own error
    ({"kind": "page"}, True),
    ({"kind": "page", "status": 200}, True),
    ({"kind": "page", "status": 404, "when": "before_commit"}, False),  # no word of the provider's
    ({"kind": "page", "status": 200, "content_type": "application/json", "body": '{"hello": 1}'}, True),
    ({"kind": "page", "status": 200, "content_type": "application/json", "body": "[]"}, True),
    ({"kind": "page", "status": 302}, True),
    ({"kind": "slow", "seconds": 30}, True),
]


@pytest.mark.parametrize(("fault", "made"), BROKEN)
async def test_what_is_no_answer_is_uncertain(provider, fault, made):
    await provider.faulty(fault)

    error = await provider.error(send_s=0.5)

    assert type(error) is errors.Uncertain
    assert len(await provider.journal()) == int(made)
    assert (await provider.refund()).status == "succeeded"
    assert len(await provider.journal()) == 1


async def test_a_commit_after_the_timeout_is_one_commit(provider):
    await provider.faulty({"kind": "late", "seconds": 0.6})

    timed_out, in_use = await provider.error(send_s=0.2), await provider.error()
    async with asyncio.timeout(5):
        while not await provider.journal():
            continue
    made = await provider.refund()

    assert (type(timed_out), type(in_use)) == (errors.Uncertain, errors.Again)
    assert [line["refund_id"] for line in await provider.journal()] == [made.id]


async def test_nobody_there_is_again(provider, unused_port):
    nobody = Payments(settings(provider.settings.home, unused_port))

    with pytest.raises(errors.Again):
        await nobody.refund(CHARGE, 1, "EUR", "duplicate", "k", {})


@pytest.fixture
async def unused_port() -> int:
    async with answering(lambda reader, writer: writer.close()) as port:
        return port


@pytest.mark.parametrize("address", ["http://nowhere.invalid", "http://", "https://127.0.0.1:{port}"])
async def test_an_address_that_cannot_be_connected_to_is_again(provider, address):
    url = address.format(port=provider.settings.sandbox_port)
    payments = Payments(settings(provider.settings.home, 1, STRIPE_BASE_URL=url))

    with pytest.raises(errors.Again):
        await payments.refund(CHARGE, 1, "EUR", "duplicate", "k", {})


async def test_a_wrong_key_is_a_no_that_does_not_show_it(provider):
    given = "sk_live_SENTINEL0123456789"
    wrong = settings(provider.settings.home, 1, STRIPE_API_KEY=given, STRIPE_BASE_URL=provider.settings.sandbox_url)

    with pytest.raises(errors.ToolFailed) as caught:
        await Payments(wrong).refund(CHARGE, 1, "EUR", "duplicate", "k", {})

    assert "SENTINEL" not in str(caught.value)


async def test_one_attempt_is_one_request():
    arrived = []

    async def fail(reader, writer):
        arrived.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\nstripe-should-retry: true\r\n\r\n")
        await writer.drain()
        writer.close()

    async with answering(fail) as port:
        with pytest.raises(errors.Uncertain):
            await Payments(settings(Path("."), port)).refund(CHARGE, 1, "EUR", "duplicate", "key-1", {})

    assert len(arrived) == 1
    assert b"Idempotency-Key: key-1\r\n" in arrived[0]
    assert b"Authorization: Bearer sk_test_sandbox\r\n" in arrived[0]
    assert b"telemetry" not in arrived[0].lower()


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 500},
        {"kind": "status", "status": 429},
        {"kind": "drop"},
        {"kind": "cut"},
        {"kind": "page", "status": 200},
        {"kind": "slow", "seconds": 30},
    ],
)
async def test_a_look_without_an_answer_is_no_answer(provider, fault):
    # All of them: the HTTP library asks a second time by itself where nothing is changed by it.
    await provider.faulty({**fault, "on": "read", "times": "all"})

    with pytest.raises(errors.Again):
        await Payments(provider.settings, read_s=0.5).find_refund(CHARGE, "k")


async def test_a_list_that_breaks_off_in_its_middle_finds_nothing_out(provider):
    for n in range(101):
        await provider.refund(amount=1, key=f"k{n}")
    await provider.faulty({"kind": "status", "status": 500, "on": "read", "match": "starting_after"})

    with pytest.raises(errors.Again):
        await Payments(provider.settings).find_refund(CHARGE, "k0")


async def test_an_unknown_charge_is_a_no(provider):
    with pytest.raises(errors.ToolFailed, match="No such charge"):
        await Payments(provider.settings).standing("ch_nowhere")


def test_without_a_key_it_is_the_sandbox_and_with_one_it_is_not():
    sandbox = Payments(settings(Path("."), 1234))
    real = Payments(settings(Path("."), 1234, STRIPE_API_KEY="sk_test_x"))
    elsewhere = Payments(settings(Path("."), 1234, STRIPE_API_KEY="sk_test_x", STRIPE_BASE_URL="http://x:1"))

    assert (sandbox._key, sandbox._address) == ("sk_test_sandbox", "http://127.0.0.1:1234")
    assert (real._key, real._address) == ("sk_test_x", None)
    assert (elsewhere._key, elsewhere._address) == ("sk_test_x", "http://x:1")


def subclasses(kind: type) -> set[type]:
    return {kind} | {each for one in kind.__subclasses__() for each in subclasses(one)}


def bare(kind: type) -> Exception:
    """An instance of an error class, whatever its constructor wants."""
    error = kind.__new__(kind)
    stripe.StripeError.__init__(error, "words") if isinstance(error, stripe.StripeError) else Exception.__init__(error)
    return error


@pytest.mark.parametrize("kind", sorted(subclasses(stripe.StripeError), key=lambda kind: kind.__name__))
def test_no_class_of_the_sdk_is_missed(kind):
    """Without a status nothing is certain, but what names itself."""
    named = {stripe.IdempotencyError: errors.ArgumentsChanged, stripe.RateLimitError: errors.Again}

    assert type(after_sending(bare(kind))) is named.get(kind, errors.Uncertain)
    assert isinstance(after_reading(bare(kind)), errors.Again)


@pytest.mark.parametrize("kind", sorted(subclasses(aiohttp.ClientError), key=lambda kind: kind.__name__))
def test_no_class_of_the_http_library_is_missed(kind):
    """Bare, or wrapped by the SDK: never sent only if no connection was made."""
    never_sent = issubclass(kind, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.InvalidURL)
    wrapped = bare(stripe.APIConnectionError)
    wrapped.__cause__ = bare(kind)
    expected = errors.Again if never_sent else errors.Uncertain

    assert type(after_sending(bare(kind))) is type(after_sending(wrapped)) is expected


@pytest.mark.parametrize("error", [TimeoutError(), OSError("gone"), ValueError("no JSON"), RuntimeError()])
def test_what_nobody_thought_of_is_uncertain(error):
    assert type(after_sending(error)) is errors.Uncertain
