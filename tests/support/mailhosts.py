"""Mail servers for tests, and the settings that lead to each: the sandbox's, mail-devel's own, a scripted one."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import aiohttp
import imap_tools
from homes import free_ports

from sandbox import app
from store.settings import Settings

USER, PASSWORD = "dayflow@example.com", "sandbox"


@dataclass
class SandboxMail:
    """The sandbox's mail servers, in this process."""

    url: str
    settings: Settings
    http: aiohttp.ClientSession

    async def fail(self, *faults: dict[str, Any]) -> None:
        """Meet these faults from now on."""
        async with self.http.put(f"{self.url}/sandbox/mail/faults", json=list(faults)) as answer:
            assert answer.status == 200, await answer.text()

    async def journal(self, *, canaries: bool = False) -> list[dict[str, Any]]:
        """What was delivered; without the canaries unless they are asked for."""
        async with self.http.get(f"{self.url}/sandbox/mail/journal") as answer:
            lines: list[dict[str, Any]] = await answer.json()
        return [line for line in lines if canaries or not line["canary"]]

    async def folder(self, name: str) -> list[EmailMessage]:
        """The messages of a folder, as a client sees them."""
        return await asyncio.to_thread(read, self.settings.sandbox_imap_port, name)


@contextlib.asynccontextmanager
async def sandbox_mail(home: Path, **more: Any) -> AsyncIterator[SandboxMail]:
    """A sandbox on free ports."""
    runner, port = await app.start(app.build(home), 0)
    url = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{url}/sandbox/mail") as answer:
                facts = await answer.json()
            named = {
                "DAYFLOW_HOME": home,
                "DAYFLOW_SANDBOX_PORT": port,
                "DAYFLOW_SANDBOX_SMTP_PORT": facts["smtp_port"],
                "DAYFLOW_SANDBOX_IMAP_PORT": facts["imap_port"],
            }
            yield SandboxMail(url, Settings(**named, **more), http)
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def mail_devel() -> Iterator[dict[str, Any]]:
    """mail-devel's own program: SMTP into the inbox, IMAP over it, no copy in Sent. Gives the settings."""
    smtp, imap = free_ports(2)
    ports = ("--smtp-port", str(smtp), "--imap-port", str(imap))
    command = [sys.executable, "-m", "mail_devel", "--host", "127.0.0.1", *ports, "--no-http"]
    process = subprocess.Popen(
        [*command, "--user", USER, "--password", PASSWORD], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for_port(smtp)
        wait_for_port(imap)
        yield foreign(smtp, imap)
    finally:
        process.kill()
        process.wait(timeout=10)


def foreign(smtp: int, imap: int | None = None, **more: Any) -> dict[str, Any]:
    """Settings that lead to servers on loopback that are not the sandbox's."""
    named = {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": smtp, "SMTP_TLS": "none"}
    if imap is not None:
        named |= {"IMAP_HOST": "127.0.0.1", "IMAP_PORT": imap, "IMAP_TLS": "none"}
        named |= {"SMTP_USER": USER, "SMTP_PASSWORD": PASSWORD, "IMAP_USER": USER, "IMAP_PASSWORD": PASSWORD}
    return named | more


def read(imap_port: int, folder: str) -> list[EmailMessage]:
    """Every message of a folder; none where there is no such folder."""
    box = imap_tools.MailBoxUnencrypted("127.0.0.1", imap_port, timeout=5).login(USER, PASSWORD, initial_folder=None)
    with box:
        if folder != "INBOX" and not box.folder.exists(folder):
            return []
        box.folder.set(folder, readonly=True)
        return [parsed(each.obj.as_bytes()) for each in box.fetch(mark_seen=False)]


def parsed(raw: bytes) -> EmailMessage:
    """A message as the modern parser reads it."""
    message = message_from_bytes(raw, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def wait_for_port(port: int, seconds: float = 20.0) -> None:
    """Wait until somebody listens."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


@contextlib.asynccontextmanager
async def scripted(*answers: str | None, greeting: str | None = "220 scripted") -> AsyncIterator[dict[str, Any]]:
    """An SMTP server that gives these answers in turn, one to each command or message; None is silence for ever."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await _say(writer, greeting)
            for answer in answers:
                await _hear(reader, writer, is_message=answer is not None and answer.startswith("after message: "))
                await _say(writer, answer and answer.removeprefix("after message: "))

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with _closing(server):
        yield foreign(server.sockets[0].getsockname()[1])


async def _hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_message: bool) -> None:
    await reader.readuntil(b"\r\n.\r\n" if is_message else b"\r\n")


async def _say(writer: asyncio.StreamWriter, answer: str | None) -> None:
    if answer is None:
        await asyncio.Event().wait()
        return
    writer.write(f"{answer}\r\n".encode())
    await writer.drain()


@contextlib.asynccontextmanager
async def _closing(server: asyncio.Server) -> AsyncIterator[None]:
    try:
        yield
    finally:
        server.close()


async def until(what: str, look: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait until the coroutine function gives something; fail with `what` if it never does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := await look():
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {seconds:g} s: {what}")
