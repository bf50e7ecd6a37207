"""The provider's routes: who asks, which fault is met, and how an answer looks on the wire."""

import asyncio
import base64
import binascii
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from sandbox import delivery, sse
from sandbox.faults import Stop
from sandbox.payments import control, faults, form, lists
from sandbox.payments.control import PROVIDER
from sandbox.payments.errors import ApiError, invalid, unauthorised
from sandbox.payments.keys import Answer, refused
from sandbox.payments.provider import REFUNDS, SAMPLES, Provider

# Keys of a sandbox begin like this; a live key has no business here.
KEYS = ("sk_test_", "rk_test_")
API_VERSION = "2026-10-28.endive"

Reply = Callable[[web.Request, Provider, str], Awaitable[Answer]]


def mount(app: web.Application, folder: Path, orders: Path = SAMPLES) -> None:
    """Add the provider, its routes, and the routes by which it is told what to do."""
    control.mount(app, Provider(folder, orders))
    app.router.add_post(REFUNDS, _handler("refund", create_refund))
    app.router.add_get(REFUNDS, _handler("read", list_refunds))
    app.router.add_get(REFUNDS + "/{id}", _handler("read", get_refund))
    app.router.add_get("/v1/charges/{id}", _handler("read", get_charge))
    app.router.add_get("/v1/payment_intents/{id}", _handler("read", get_intent))


async def create_refund(http: web.Request, provider: Provider, request_id: str) -> Answer:
    """`POST /v1/refunds`."""
    if http.content_type == "application/json":
        raise invalid("Parameters are form-encoded here, not JSON.")
    key = http.headers.get("Idempotency-Key") or None
    return await provider.refund(key, form.parse(await http.read()), request_id)


async def list_refunds(http: web.Request, provider: Provider, request_id: str) -> Answer:
    """`GET /v1/refunds`."""
    return Answer(200, lists.refunds(form.parse(http.query_string.encode()), provider.book), request_id)


async def get_refund(http: web.Request, provider: Provider, request_id: str) -> Answer:
    """`GET /v1/refunds/{id}`."""
    return Answer(200, provider.book.refund(http.match_info["id"]).shape(), request_id)


async def get_charge(http: web.Request, provider: Provider, request_id: str) -> Answer:
    """`GET /v1/charges/{id}`."""
    return Answer(200, provider.book.charge(http.match_info["id"]).shape(), request_id)


async def get_intent(http: web.Request, provider: Provider, request_id: str) -> Answer:
    """`GET /v1/payment_intents/{id}`."""
    return Answer(200, provider.book.intent(http.match_info["id"]).intent_shape(), request_id)


def _handler(subject: faults.Subject, reply: Reply) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(http: web.Request) -> web.StreamResponse:
        provider, request_id, words = http.app[PROVIDER], "req_" + secrets.token_hex(12), await _words(http)
        try:
            _admit(http)
            fault = provider.faults.take("arrival", subject, words)
            if isinstance(fault, faults.Status | faults.InUse):
                raise fault.error()
            if fault:
                return await _deliver(http, web.Response(), fault)
            answer = await reply(http, provider, request_id)
        except ApiError as error:
            answer = refused(error, request_id)
        except OSError as error:
            answer = refused(ApiError(500, f"This could not be written: {error}", kind="api_error"), request_id)
        return await _deliver(http, _response(http, answer, request_id), provider.faults.take("answer", subject, words))

    return handle


async def _words(http: web.Request) -> str:
    """What a fault may be meant for."""
    body = (await http.read()).decode("utf-8", "replace")
    return f"{http.headers.get('Idempotency-Key', '')} {http.path_qs} {body}"


def _admit(http: web.Request) -> None:
    """Let in who has a key of a sandbox, as Bearer or as the user of Basic."""
    scheme, _, given = http.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError):
            given = ""
    if not given:
        raise unauthorised("You did not provide an API key, as Bearer token or as the user of Basic authentication.")
    if not given.startswith(KEYS):
        raise unauthorised(f"Invalid API Key provided: {given[:8]}****. The sandbox takes {' and '.join(KEYS)} keys.")


def _response(http: web.Request, answer: Answer, request_id: str) -> web.Response:
    headers = {"Request-Id": request_id, "Stripe-Version": http.headers.get("Stripe-Version", API_VERSION)}
    key = http.headers.get("Idempotency-Key") if http.method == "POST" else None
    if key:
        headers["Idempotency-Key"] = key
    if answer.replayed:
        headers |= {"Idempotent-Replayed": "true", "Original-Request": answer.request_id}
    return web.Response(
        body=sse.dump(answer.body),
        status=answer.status,
        headers=headers | answer.headers,
        content_type="application/json",
    )


async def _deliver(http: web.Request, response: web.Response, fault: faults.Fault | None) -> web.StreamResponse:
    match fault:
        case faults.Slow():
            await asyncio.sleep(fault.seconds)
        case faults.Page():
            return web.Response(text=fault.body, status=fault.status, content_type=fault.content_type)
        case faults.Drop():
            return await _broken(http, response, b"", reset=fault.reset)
        case faults.Cut():
            return await _broken(http, response, _body(response)[:20], reset=False)
    return response


async def _broken(http: web.Request, whole: web.Response, sent: bytes, *, reset: bool) -> web.StreamResponse:
    """Send a part of the answer, and end the connection."""
    headers = {**whole.headers, "Content-Length": str(len(_body(whole)))}
    broken = web.StreamResponse(status=whole.status, headers=headers)
    with contextlib.suppress(delivery.Broken):
        await delivery.send(http, broken, iter([sent, Stop("reset" if reset else "close")]))
    return broken


def _body(response: web.Response) -> bytes:
    return response.body if isinstance(response.body, bytes) else b""
