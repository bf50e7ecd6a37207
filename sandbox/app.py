"""The sandbox as one web application: what is mounted on it, and how it is served on loopback."""

import asyncio
import signal
from pathlib import Path

from aiohttp import web

from sandbox import control, mail, messages, payments, validator
from sandbox.journal import Journal
from sandbox.model import Model
from sandbox.payments import SAMPLES
from sandbox.script import Script

HOST = "127.0.0.1"
SHUTDOWN_SECONDS = 1.0


def build(
    home: Path,
    script: Script | None = None,
    *,
    journal_bodies: bool = True,
    smtp_port: int = 0,
    imap_port: int = 0,
    orders: Path = SAMPLES,
) -> web.Application:
    """Compose every stand-in into one application. A port of 0 picks a free one."""
    app = web.Application(client_max_size=validator.MAX_BYTES)
    journal = Journal(home / "sandbox" / "messages.jsonl", bodies=journal_bodies)
    model = Model(script)
    model.remember(journal.heads())
    messages.mount(app, model, journal)
    control.mount(app, home)
    mail.mount(app, home, smtp_port, imap_port)
    payments.mount(app, home / "sandbox", orders)
    app.on_cleanup.append(_close)
    return app


async def start(app: web.Application, port: int) -> tuple[web.AppRunner, int]:
    """Serve on loopback; returns the runner and the port that was taken (0 picks a free one)."""
    runner = web.AppRunner(
        app, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS, keepalive_timeout=75
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
    except OSError:
        await runner.cleanup()
        raise
    taken: int = runner.addresses[0][1]
    return runner, taken


async def serve(app: web.Application, port: int) -> None:
    """Serve until SIGTERM or SIGINT."""
    runner, taken = await start(app, port)
    print(f"Dayflow's sandbox answers on http://{HOST}:{taken}", flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await runner.cleanup()


async def _close(app: web.Application) -> None:
    app[messages.JOURNAL].close()
