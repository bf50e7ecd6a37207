"""How the provider is told what to do, and what it did: its faults, its clock and its journal."""

import json
from collections.abc import Callable
from typing import Annotated, Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox.errors import BadScript
from sandbox.faults import place
from sandbox.payments import faults
from sandbox.payments.provider import Provider

PROVIDER = web.AppKey("payments", Provider)
FAULTS = "/sandbox/payments/faults"


class Clock(BaseModel):
    """offset_s: how far the provider's clock is ahead. key_lifetime_s: how long keys are remembered."""

    model_config = ConfigDict(extra="forbid")

    offset_s: Annotated[float | None, Field(allow_inf_nan=False)] = None
    key_lifetime_s: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None


def mount(app: web.Application, provider: Provider) -> None:
    """Add the provider and the routes."""
    app[PROVIDER] = provider
    app.router.add_put(FAULTS, put_faults)
    app.router.add_get(FAULTS, get_faults)
    app.router.add_delete(FAULTS, delete_faults)
    app.router.add_put("/sandbox/payments/clock", put_clock)
    app.router.add_get("/sandbox/payments/journal", get_journal)
    app.on_cleanup.append(_close)


async def put_faults(http: web.Request) -> web.Response:
    """Meet these faults from now on."""

    def use(raw: Any) -> None:
        http.app[PROVIDER].faults.listed = faults.read(raw)

    return await _change(http, use)


async def get_faults(http: web.Request) -> web.Response:
    """The faults, with the times that are left of each."""
    return web.json_response(http.app[PROVIDER].faults.shape())


async def delete_faults(http: web.Request) -> web.Response:
    """No faults any more."""
    http.app[PROVIDER].faults.listed = []
    return web.json_response({"ok": True})


async def put_clock(http: web.Request) -> web.Response:
    """Shift the clock, or change how long keys live."""

    def use(raw: Any) -> None:
        clock = Clock.model_validate(raw)
        http.app[PROVIDER].set_clock(clock.offset_s, clock.key_lifetime_s)

    return await _change(http, use)


async def get_journal(http: web.Request) -> web.Response:
    """The refunds that were committed, oldest first."""
    return web.json_response(list(http.app[PROVIDER].journal.read()))


async def _change(http: web.Request, use: Callable[[Any], None]) -> web.Response:
    try:
        use(json.loads(await http.read()))
    except (ValueError, BadScript) as error:
        words = place(error) if isinstance(error, ValidationError) else str(error)
        return web.json_response({"ok": False, "error": words}, status=400)
    return web.json_response({"ok": True})


async def _close(app: web.Application) -> None:
    await app[PROVIDER].close()
