"""The sandbox's mail server: real SMTP and IMAP on loopback, one mailbox on disk, faults, and a journal."""

import asyncio
import errno
import json
import time
from collections import deque
from pathlib import Path
from typing import Any

from aiohttp import web

from sandbox import mail_faults
from sandbox.errors import BadScript
from sandbox.mail_faults import Faults, NoSent, SentDelay
from sandbox.mail_imap import Imap, Mailbox
from sandbox.mail_smtp import Smtp
from sandbox.mail_store import INBOX, SENT, Disk, Stored
from store.settings import SANDBOX_MAIL_PASSWORD, SANDBOX_MAIL_USER

HOST = "127.0.0.1"


class CannotServe(Exception):
    """A mail port cannot be had; the message names the setting."""


class Post:
    """Delivers: from the queue into the inbox at once, and into Sent in the order in which mails were accepted."""

    def __init__(self, home: Path, faults: Faults) -> None:
        self.disk = Disk(home / "sandbox" / "mail")
        self.mailbox = Mailbox(self.disk)
        self._faults = faults
        self._journal: list[dict[str, Any]] = []
        self._unfiled: deque[tuple[Stored, float]] = deque()
        self._filing: asyncio.Task[None] | None = None

    @property
    def journal(self) -> list[dict[str, Any]]:
        """What was delivered, oldest first."""
        return list(self._journal)

    async def open(self) -> None:
        """Finish what a killed sandbox had accepted, then show what is there."""
        for stored in self.disk.queued():
            self.disk.file(INBOX, stored)
            self.disk.file(SENT, stored)
            self.disk.done(stored)
        self._journal = [stored.entry() for stored in self.disk.messages(INBOX) if stored.by_smtp]
        await self.mailbox.load()

    async def accept(self, sender: str, recipients: list[str], raw: bytes) -> None:
        """Keep a mail and deliver it. It is on disk, and in Sent unless that is told to be late, when this returns."""
        stored = self.disk.accept(sender, recipients, raw)
        self.disk.file(INBOX, stored)
        self._journal.append(stored.entry())
        await self.mailbox.show(INBOX, stored)
        if self._faults.take(NoSent):
            self.disk.done(stored)
            return
        delay = self._faults.take(SentDelay)
        self._unfiled.append((stored, time.monotonic() + (delay.seconds if delay else 0.0)))
        if self._filing is None or self._filing.done():
            await self._file_due()
        if self._unfiled and (self._filing is None or self._filing.done()):
            self._filing = asyncio.create_task(self._file_later())

    async def close(self) -> None:
        """Stop filing; what is left is filed at the next start."""
        if self._filing is not None:
            self._filing.cancel()
            await asyncio.gather(self._filing, return_exceptions=True)

    async def _file_later(self) -> None:
        while self._unfiled:
            await asyncio.sleep(max(0.0, self._unfiled[0][1] - time.monotonic()))
            await self._file_due()

    async def _file_due(self) -> None:
        while self._unfiled and self._unfiled[0][1] <= time.monotonic():
            stored, _ = self._unfiled.popleft()
            self.disk.file(SENT, stored)
            await self.mailbox.show(SENT, stored)
            self.disk.done(stored)


class Mail:
    """The post, its two servers and their faults, while the sandbox runs."""

    def __init__(self, home: Path, smtp_port: int, imap_port: int) -> None:
        self.faults = Faults()
        self.post = Post(home, self.faults)
        self._smtp = Smtp(self.post.accept, self.faults)
        self._imap = Imap(self.post.mailbox, self.faults)
        self._wanted = (smtp_port, imap_port)
        self._servers: list[asyncio.Server] = []

    @property
    def ports(self) -> tuple[int, int]:
        """SMTP's and IMAP's, as taken."""
        smtp, imap = (server.sockets[0].getsockname()[1] for server in self._servers)
        return smtp, imap

    async def start(self) -> None:
        """Show what is on disk, and listen."""
        await self.post.open()
        smtp, imap = self._wanted
        try:
            self._servers.append(await _listen(self._smtp, smtp, "DAYFLOW_SANDBOX_SMTP_PORT"))
            self._servers.append(await _listen(self._imap, imap, "DAYFLOW_SANDBOX_IMAP_PORT"))
        except CannotServe:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End both servers and everything that they do."""
        for server in self._servers:
            server.close()
        self._smtp.stop()
        await self._imap.stop()
        for server in self._servers:
            await server.wait_closed()
        await self.post.close()


MAIL = web.AppKey("mail", Mail)


def mount(app: web.Application, home: Path, smtp_port: int, imap_port: int) -> None:
    """Add the routes, and let both servers start and stop with the application; port 0 picks a free one."""
    app[MAIL] = Mail(home, smtp_port, imap_port)
    app.on_startup.append(_start)
    app.on_cleanup.append(_stop)
    app.router.add_get("/sandbox/mail", get_mail)
    app.router.add_get("/sandbox/mail/journal", get_journal)
    app.router.add_put("/sandbox/mail/faults", put_faults)
    app.router.add_delete("/sandbox/mail/faults", delete_faults)


async def get_mail(http: web.Request) -> web.Response:
    """How the servers are reached."""
    smtp, imap = http.app[MAIL].ports
    facts = {"host": HOST, "smtp_port": smtp, "imap_port": imap, "tls": "none"}
    return web.json_response(facts | {"user": SANDBOX_MAIL_USER, "password": SANDBOX_MAIL_PASSWORD})


async def get_journal(http: web.Request) -> web.Response:
    """What was delivered, oldest first."""
    return web.json_response(http.app[MAIL].post.journal)


async def put_faults(http: web.Request) -> web.Response:
    """Meet these faults from now on."""
    try:
        found = mail_faults.read(json.loads(await http.read()))
    except (ValueError, BadScript) as error:
        return web.json_response({"ok": False, "error": str(error)}, status=400)
    http.app[MAIL].faults.set(found)
    return web.json_response({"ok": True})


async def delete_faults(http: web.Request) -> web.Response:
    """No faults any more."""
    http.app[MAIL].faults.set([])
    return web.json_response({"ok": True})


async def _listen(server: Smtp | Imap, port: int, variable: str) -> asyncio.Server:
    try:
        return await server.start(HOST, port)
    except (OSError, OverflowError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "the port is taken" if taken else str(error)
        raise CannotServe(f"cannot serve mail on {HOST}:{port}: {why}. Set {variable} to another port.") from error


async def _start(app: web.Application) -> None:
    await app[MAIL].start()


async def _stop(app: web.Application) -> None:
    await app[MAIL].stop()
