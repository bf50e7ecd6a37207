"""The sandbox's own endpoints: health, the script, the faults and the journal, changed while it runs."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from sandbox import faults, script
from sandbox.errors import BadScript
from sandbox.messages import JOURNAL, MODEL

HOME = web.AppKey("home", Path)


def mount(app: web.Application, home: Path) -> None:
    """Add the routes; those of the Messages API must be there already."""
    app[HOME] = home
    app.router.add_get("/health", health)
    app.router.add_put("/sandbox/script", put_script)
    app.router.add_delete("/sandbox/script", delete_script)
    app.router.add_put("/sandbox/faults", put_faults)
    app.router.add_delete("/sandbox/faults", delete_faults)
    app.router.add_get("/sandbox/journal", get_journal)
    app.router.add_delete("/sandbox/journal", delete_journal)


async def health(http: web.Request) -> web.Response:
    """Who answers here."""
    facts = {"ok": True, "service": "dayflow-sandbox", "pid": os.getpid(), "home": str(http.app[HOME])}
    return web.json_response(facts)


async def put_script(http: web.Request) -> web.Response:
    """Play the script in the body from now on."""
    return await _change(http, script.read, http.app[MODEL].play, "script")


async def delete_script(http: web.Request) -> web.Response:
    """Let the players answer again."""
    http.app[MODEL].play(None)
    http.app[JOURNAL].note("script")
    return web.json_response({"ok": True})


async def put_faults(http: web.Request) -> web.Response:
    """Meet these faults from now on, whoever asks."""

    def set_faults(found: list[faults.Fault]) -> None:
        http.app[MODEL].faults = found

    return await _change(http, faults.read, set_faults, "faults")


async def delete_faults(http: web.Request) -> web.Response:
    """No process-wide faults any more."""
    http.app[MODEL].faults = []
    http.app[JOURNAL].note("faults")
    return web.json_response({"ok": True})


async def get_journal(http: web.Request) -> web.Response:
    """The journal's lines as a JSON list; `?bodies=off` leaves bodies out, `?about=TEXT` requests without it."""
    journal = http.app[JOURNAL]
    if http.query.get("bodies") == "off":
        return web.json_response(list(journal.heads()))
    lines = journal.about(about) if (about := http.query.get("about")) else journal.lines()
    return web.Response(body=b"[" + b",".join(lines) + b"]", content_type="application/json")


async def delete_journal(http: web.Request) -> web.Response:
    """Empty the journal; attempts are counted anew."""
    http.app[JOURNAL].clear()
    http.app[MODEL].attempts.clear()
    return web.json_response({"ok": True})


async def _change(
    http: web.Request, read: Callable[[Any], Any], use: Callable[[Any], None], event: str
) -> web.Response:
    try:
        found = read(json.loads(await http.read()))
    except (ValueError, BadScript) as error:
        return web.json_response({"ok": False, "error": str(error)}, status=400)
    use(found)
    http.app[JOURNAL].note(event)
    return web.json_response({"ok": True})
