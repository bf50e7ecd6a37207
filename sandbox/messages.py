"""The HTTP endpoints of the Messages API: messages, token counts, models."""

import asyncio
import secrets
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from sandbox import delivery, faults, model, sse, turns, validator
from sandbox.cache import Reading
from sandbox.errors import ApiError
from sandbox.faults import Fault
from sandbox.journal import Journal
from sandbox.model import Model
from sandbox.request import Request, dayflow_headers

MODEL = web.AppKey("model", Model)
JOURNAL = web.AppKey("journal", Journal)


@dataclass(slots=True)
class Exchange:
    """One request on its way to an answer."""

    http: web.Request
    id: str
    n: int = 0

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every answer."""
        return {"request-id": self.id}

    def note(self, event: str, **facts: Any) -> None:
        """Write into the journal what became of it."""
        self.http.app[JOURNAL].note(event, n=self.n, request_id=self.id, **facts)


def mount(app: web.Application, stand_in: Model, journal: Journal) -> None:
    """Add the routes of the Messages API to an application."""
    app[MODEL], app[JOURNAL] = stand_in, journal
    app.router.add_post("/v1/messages", create)
    app.router.add_post("/v1/messages/count_tokens", count_tokens)
    app.router.add_get("/v1/models", list_models)
    app.router.add_get("/v1/models/{id}", get_model)


async def create(http: web.Request) -> web.StreamResponse:
    """`POST /v1/messages`: validate, write down, answer."""
    exchange = Exchange(http, request_id())
    try:
        raw = await _read(http)
        body = _parsed(exchange, raw)
        asked = _admitted(exchange, raw, body)
        return await _answer(exchange, raw, asked)
    except ApiError as error:
        facts = {"error_code": error.code} if error.code else {}
        exchange.note("refused", status=error.status, error_type=error.kind, message=error.message, **facts)
        return _failure(error, exchange)


async def count_tokens(http: web.Request) -> web.StreamResponse:
    """`POST /v1/messages/count_tokens`: the estimate, after the same checks."""
    exchange = Exchange(http, request_id())
    try:
        body = validator.parse(await _read(http))
        validator.check(body, counting=True)
        reading = http.app[MODEL].cache.measure(Request(body))
        return web.json_response({"input_tokens": reading.total}, headers=exchange.headers)
    except ApiError as error:
        return _failure(error, exchange)


async def list_models(_: web.Request) -> web.Response:
    """`GET /v1/models`: the sandbox's own model."""
    return web.json_response({"data": [model.INFO], "has_more": False, "first_id": model.ID, "last_id": model.ID})


async def get_model(http: web.Request) -> web.Response:
    """`GET /v1/models/{id}`."""
    if http.match_info["id"] == model.ID:
        return web.json_response(model.INFO)
    return _failure(ApiError(404, f"model: {http.match_info['id']}"), Exchange(http, request_id()))


def request_id() -> str:
    """A new request id."""
    return "req_" + secrets.token_hex(12)


async def _read(http: web.Request) -> bytes:
    try:
        return await http.read()
    except web.HTTPRequestEntityTooLarge:
        raise validator.too_large() from None


def _parsed(exchange: Exchange, raw: bytes) -> dict[str, Any]:
    try:
        return validator.parse(raw)
    except ApiError:
        exchange.n = exchange.http.app[JOURNAL].request(_facts(exchange), raw, parsed=False)
        raise


def _admitted(exchange: Exchange, raw: bytes, body: dict[str, Any]) -> Request:
    """The request, once every check is passed; a refused one is in the journal too."""
    try:
        validator.check(body)
        asked = Request(body, dayflow_headers(exchange.http.headers))
        exchange.http.app[MODEL].admit(asked)
        return asked
    except ApiError:
        exchange.n = exchange.http.app[JOURNAL].request(_facts(exchange), raw, parsed=True)
        raise


async def _answer(exchange: Exchange, raw: bytes, asked: Request) -> web.StreamResponse:
    stand_in = exchange.http.app[MODEL]
    attempt = stand_in.attempt(asked)
    turn = stand_in.turn(asked)
    fault = stand_in.fault(asked, turn, attempt)
    facts = _facts(exchange) | _facts_of(asked, attempt, fault)
    exchange.n = exchange.http.app[JOURNAL].request(facts, raw, parsed=True)
    if isinstance(fault, faults.Status):
        raise fault.error()
    if isinstance(fault, faults.ErrorEvent) and not asked.body.get("stream"):
        raise fault.error()
    if isinstance(fault, faults.Html | faults.Body):
        exchange.note("broken", why=f"fault: {fault.kind}")
        return _foreign(fault, exchange)
    reading = stand_in.cache.measure(asked)
    message = turns.message(turn, asked, reading, exchange.id)
    return await _deliver(exchange, asked, message, reading, fault)


async def _deliver(
    exchange: Exchange, asked: Request, message: dict[str, Any], reading: Reading, fault: Fault | None
) -> web.StreamResponse:
    stand_in = exchange.http.app[MODEL]
    stand_in.cache.keep(reading)
    paused = stand_in.answered(message)
    response = web.StreamResponse(headers=exchange.headers)
    if asked.body.get("stream"):
        response.headers["cache-control"] = "no-cache"
        response.content_type, moves = "text/event-stream", faults.plan(sse.events(message), fault)
        response.charset = "utf-8"
    else:
        response.content_type, moves = "application/json", faults.plan_body(sse.dump(message), fault)
    try:
        await delivery.send(exchange.http, response, moves)
    except delivery.Broken:
        exchange.note("broken", why=f"fault: {fault.kind if fault else 'none'}", usage=message["usage"])
    except (ConnectionError, asyncio.CancelledError):
        exchange.note("broken", why="the client went away", usage=message["usage"])
        raise
    else:
        facts = {"paused": paused} if paused else {}
        exchange.note("answered", stop_reason=message["stop_reason"], usage=message["usage"], **facts)
    return response


def _foreign(fault: faults.Html | faults.Body, exchange: Exchange) -> web.Response:
    if isinstance(fault, faults.Html):
        return web.Response(text=fault.body, status=fault.status, content_type="text/html", headers=exchange.headers)
    return web.json_response(fault.body, status=fault.status, headers=exchange.headers)


def _failure(error: ApiError, exchange: Exchange) -> web.Response:
    return web.json_response(
        error.body(exchange.id), status=error.status, headers=exchange.headers | error.headers, dumps=_dumps
    )


def _dumps(value: Any) -> str:
    return sse.dump(value).decode()


def _facts(exchange: Exchange) -> dict[str, Any]:
    headers = dayflow_headers(exchange.http.headers)
    return {"request_id": exchange.id, "transcript": None, "headers": headers}


def _facts_of(asked: Request, attempt: int, fault: Fault | None) -> dict[str, Any]:
    return {
        "transcript": asked.transcript,
        "turn": asked.turn,
        "ask": asked.ask,
        "attempt": attempt,
        "run": asked.run,
        "model": asked.model,
        "max_tokens": asked.body["max_tokens"],
        "messages": len(asked.messages),
        "stream": bool(asked.body.get("stream")),
        "fault": fault.kind if fault else None,
    }
