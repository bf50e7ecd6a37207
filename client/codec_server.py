"""The codec server: opens payloads for the web UI and the Temporal CLI, for whoever has the token.

It speaks Temporal's remote codec protocol. A program sends the token as `Authorization: Bearer …`. The web UI has none
to send: the browser gets a cookie for it, by a link that is good once, and the UI's address alone may use that.
"""

import asyncio
import hmac
import http.client
import json
import secrets
import signal
import time
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import web
from google.protobuf import json_format
from temporalio.api.common.v1 import Payloads

from client import connection, output, ports
from client.codec import SealingCodec
from domain import errors
from store.settings import Settings

SERVICE = "dayflow-codec"
# The cookie goes to what begins with this alone: cookies of one host are seen by all of its ports.
PATH = "/dayflow-codec"
COOKIE = "dayflow_codec"
MAX_BODY_BYTES = 50_000_000
TICKET_S = 60.0
ANSWER_S = 5.0
CSRF = "X-CSRF-TOKEN"
ALLOWED = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": f"Content-Type, X-Namespace, Authorization, Authorization-Extras, {CSRF}",
    "Access-Control-Allow-Credentials": "true",
    "Access-Control-Max-Age": "600",
}


class Gate:
    """Who may ask: by token, or by the cookie of a browser that came with a ticket."""

    def __init__(self, token: str, origin: str) -> None:
        self._token = token
        self._cookie = hmac.digest(token.encode(), b"cookie", "sha256").hex()
        self._tickets: dict[str, float] = {}
        self.origin = origin

    def check(self, request: web.Request) -> None:
        """Let it pass, or say why not."""
        self.check_origin(request)
        if not self.has_token(request) and not self._has_cookie(request):
            raise web.HTTPUnauthorized(text="the token is missing: send it as `Authorization: Bearer …`\n")

    def check_origin(self, request: web.Request) -> None:
        """A page of any other address gets nothing, whatever it sends."""
        if request.headers.get("Origin", self.origin) != self.origin:
            raise web.HTTPForbidden(text=f"only {self.origin} may ask from a browser\n")

    def has_token(self, request: web.Request) -> bool:
        """Whether the caller has the token."""
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode())

    def ticket(self) -> str:
        """A new ticket: good once, and not for long."""
        made = secrets.token_urlsafe(32)
        self._tickets[made] = time.monotonic() + TICKET_S
        return made

    def cookie_for(self, ticket: str) -> str:
        """The cookie that a ticket buys."""
        if self._tickets.pop(ticket, 0.0) < time.monotonic():
            raise web.HTTPForbidden(text="this link was used, or is too old; `dayflow open` makes another\n")
        return self._cookie

    def _has_cookie(self, request: web.Request) -> bool:
        """A browser names the page's origin in each POST; what names none is no browser."""
        given = request.cookies.get(COOKIE, "")
        return "Origin" in request.headers and hmac.compare_digest(given.encode(), self._cookie.encode())


class CodecServer:
    """The routes."""

    def __init__(self, settings: Settings) -> None:
        self._codec = SealingCodec(settings.seal)
        self._gate = Gate(settings.codec_token, origin_of(connection.ui_address(settings)))
        self._ui = connection.ui_address(settings)
        self._home = str(settings.home)

    def application(self) -> web.Application:
        """All of it."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_get("/health", self._health)
        app.router.add_post(f"{PATH}/ticket", self._ticket)
        app.router.add_get(f"{PATH}/login", self._login)
        # Only the end of the path counts: a proxy may mount it anywhere.
        app.router.add_post("/{where:(.*/)?}{what:encode|decode}", self._convert)
        app.router.add_route("OPTIONS", "/{where:(.*/)?}{what:encode|decode}", self._preflight)
        app.on_response_prepare.append(self._allow)
        return app

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"service": SERVICE, "home": self._home})

    async def _preflight(self, request: web.Request) -> web.Response:
        self._gate.check_origin(request)
        return web.Response(status=204, headers=ALLOWED)

    async def _convert(self, request: web.Request) -> web.Response:
        self._gate.check(request)
        try:
            asked = json_format.Parse(await request.read(), Payloads())
        except (json_format.ParseError, UnicodeDecodeError):
            raise web.HTTPBadRequest(text='send {"payloads": […]}, as Temporal does\n') from None
        change = self._codec.encode if request.match_info["what"] == "encode" else self._codec.decode
        answer = Payloads(payloads=await change(asked.payloads))
        return web.Response(text=json_format.MessageToJson(answer, indent=None), content_type="application/json")

    async def _ticket(self, request: web.Request) -> web.Response:
        if not self._gate.has_token(request):
            raise web.HTTPUnauthorized(text="the token is missing\n")
        return web.json_response({"ticket": self._gate.ticket()})

    async def _login(self, request: web.Request) -> web.Response:
        gone = web.HTTPSeeOther(self._ui)
        cookie = self._gate.cookie_for(request.query.get("ticket", ""))
        gone.set_cookie(COOKIE, cookie, path=PATH, httponly=True, samesite="Strict")
        raise gone

    async def _allow(self, request: web.Request, response: web.StreamResponse) -> None:
        """Let the one page read the answer, refusals too."""
        response.headers["Vary"] = "Origin"
        response.headers["Cache-Control"] = "no-store"
        if request.headers.get("Origin") == self._gate.origin:
            response.headers["Access-Control-Allow-Origin"] = self._gate.origin
            response.headers["Access-Control-Allow-Credentials"] = "true"


def origin_of(address: str) -> str:
    """`scheme://host:port`, as a browser names a page."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def check(settings: Settings) -> None:
    """`errors.BadSetting` where there is nothing to decode."""
    if not settings.seal.on:
        why = "there is nothing to decode without a key; `dayflow keys encryption` makes one"
        raise errors.BadSetting("DAYFLOW_ENCRYPTION_KEYS", why)


async def serve(settings: Settings) -> None:
    """Serve on loopback until SIGTERM or SIGINT; `errors.BadSetting` if that cannot begin."""
    check(settings)
    runner = web.AppRunner(CodecServer(settings).application(), access_log=None)
    await runner.setup()
    try:
        if trouble := ports.trouble(settings.codec_port):
            raise errors.BadSetting("DAYFLOW_CODEC_PORT", trouble)
        await web.TCPSite(runner, ports.LOOPBACK, settings.codec_port).start()
        output.say(f"codec server ready: {endpoint(settings)}, for {connection.ui_address(settings)} and the token")
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await stopped.wait()
    finally:
        await runner.cleanup()


def endpoint(settings: Settings) -> str:
    """What the web UI and the Temporal CLI are told."""
    return f"http://{ports.LOOPBACK}:{settings.codec_port}{PATH}"


def link(settings: Settings) -> str:
    """A link that is good once: the browser that opens it may decode. `errors.Unreachable` if no codec server runs."""
    asked = http.client.HTTPConnection(ports.LOOPBACK, settings.codec_port, timeout=ANSWER_S)
    try:
        asked.request("POST", f"{PATH}/ticket", headers={"Authorization": f"Bearer {settings.codec_token}"})
        answer = asked.getresponse()
        ticket = json.loads(answer.read())["ticket"] if answer.status == HTTPStatus.OK else None
    except (OSError, http.client.HTTPException, ValueError):
        ticket = None
    finally:
        asked.close()
    if ticket is None:
        raise errors.Unreachable("the codec server does not answer, or not to this token: `dayflow up` starts it")
    return f"{endpoint(settings)}/login?ticket={ticket}"
