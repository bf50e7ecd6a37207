"""Sent: the folder in which a mail server keeps what was sent, looked into by IMAP."""

import asyncio
import contextlib
import imaplib
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import imap_tools
from imap_tools import AND, BaseMailBox, Header, MailMessageFlags

from activities.smtp import Server

COMMAND_S = 4.0
T = TypeVar("T")


class Unavailable(Exception):
    """The folder cannot be looked into."""


@dataclass(frozen=True)
class Sent:
    """One folder of one account. Every method connects anew, in a thread, and raises `Unavailable` alone."""

    server: Server
    folder: str

    @property
    def is_inbox(self) -> bool:
        """Whether it holds what comes in: then what is found there need not have been sent."""
        return self.folder.upper() == "INBOX"

    async def holds(self, message_id: str) -> bool:
        """Whether a message of that id is there."""
        return await self._call(lambda box: self._holds(box, message_id))

    async def keep(self, message_id: str, raw: bytes) -> None:
        """Put a copy there, unless there is one."""
        await self._call(lambda box: self._keep(box, message_id, raw))

    async def _call(self, use: Callable[[BaseMailBox], T]) -> T:
        try:
            return await asyncio.to_thread(self._with_box, use)
        except (imap_tools.ImapToolsError, imaplib.IMAP4.error, OSError, ValueError) as error:
            raise Unavailable(f"{self.folder!r} at {self.server.address}: {error or type(error).__name__}") from error

    def _with_box(self, use: Callable[[BaseMailBox], T]) -> T:
        with _box(self.server) as box:
            return use(box)

    def _holds(self, box: BaseMailBox, message_id: str) -> bool:
        box.folder.set(self._name(box) or self.folder, readonly=True)
        # Without the brackets: some servers index the id alone.
        return bool(box.uids(AND(header=Header("Message-ID", message_id.strip("<>")))))

    def _keep(self, box: BaseMailBox, message_id: str, raw: bytes) -> None:
        name = self._name(box)
        if name is None:
            box.folder.create(self.folder)
        if not self._holds(box, message_id):
            box.append(raw, name or self.folder, flag_set=[MailMessageFlags.SEEN])

    def _name(self, box: BaseMailBox) -> str | None:
        """The folder as set; if there is none of that name, the one that the server itself marks as Sent."""
        folders = box.folder.list()
        if any(each.name == self.folder for each in folders):
            return self.folder
        return next((each.name for each in folders if any(flag.lower() == "\\sent" for flag in each.flags)), None)


@contextlib.contextmanager
def _box(server: Server) -> Iterator[BaseMailBox]:
    box = _connected(server)
    try:
        if server.tls == "starttls":
            # Not by the library's own class for it, which leaves the socket open when this fails.
            box.client.starttls(ssl.create_default_context())
        box.login(server.user or "", server.password or "", initial_folder=None)
        yield box
    finally:
        _leave(box)


def _leave(box: BaseMailBox) -> None:
    """Say goodbye; what was asked for is known by then, and how this ends is of no interest."""
    try:
        box.logout()
    except (imap_tools.ImapToolsError, imaplib.IMAP4.error, OSError):
        with contextlib.suppress(OSError):
            box.client.shutdown()


def _connected(server: Server) -> BaseMailBox:
    if server.tls == "tls":
        trusted = ssl.create_default_context()
        return imap_tools.MailBox(server.host, server.port, timeout=COMMAND_S, ssl_context=trusted)
    return imap_tools.MailBoxUnencrypted(server.host, server.port, timeout=COMMAND_S)
