"""The SMTP side of the sandbox's mailbox: aiosmtpd's server, which keeps a mail before it says so."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from sandbox.mail_faults import Drop, Faults, Refuse
from store.settings import SANDBOX_MAIL_PASSWORD, SANDBOX_MAIL_USER

NAME = "sandbox.dayflow.invalid"
USER, PASSWORD = SANDBOX_MAIL_USER.encode(), SANDBOX_MAIL_PASSWORD.encode()

Accept = Callable[[str, list[str], bytes], Coroutine[Any, Any, None]]


class Smtp:
    """The server, and the handler whose methods aiosmtpd finds by name. `accept` keeps a mail before it returns."""

    def __init__(self, accept: Accept, faults: Faults) -> None:
        self._accept = accept
        self._faults = faults
        self._connections: set[asyncio.Transport] = set()

    async def start(self, host: str, port: int) -> asyncio.Server:
        """Listen."""
        # aiosmtpd warns of its own use of what it has deprecated.
        logging.getLogger("mail.log").setLevel(logging.ERROR)
        return await asyncio.get_running_loop().create_server(self._connected, host, port)

    def stop(self) -> None:
        """End what is still connected."""
        for transport in tuple(self._connections):
            transport.abort()

    def _connected(self) -> asyncio.Protocol:
        if self._faults.take(Refuse):
            return Refused()
        return Conversation(self._connections, self, self._authenticate)

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        # A client tries one mechanism after the other: the fault meets them all.
        if isinstance(server, Conversation) and (line := server.refusal or self._faults.status("auth")):
            server.refusal = line
            return AuthResult(success=False, handled=False, message=line)
        fits = isinstance(data, LoginPassword) and (data.login, data.password) == (USER, PASSWORD)
        return AuthResult(success=fits, handled=False)

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """The sender; nobody may send without having said who they are."""
        if not session.authenticated:
            return "530 5.7.0 Authentication required"
        if line := self._faults.status("mail"):
            return line
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """A recipient: everyone is one."""
        if line := self._faults.status("rcpt"):
            return line
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """The message."""
        if line := self._faults.status("data"):
            return line
        drop = self._faults.take(Drop)
        if drop is None or drop.delivered:
            # A client that goes away does not undo what was taken.
            await asyncio.shield(
                self._accept(envelope.mail_from or "", envelope.rcpt_tos, envelope.original_content or b"")
            )
        if drop and isinstance(server.transport, asyncio.Transport):
            server.transport.abort()
            raise asyncio.CancelledError
        return "250 OK: kept"


class Conversation(SMTP):
    """One connection."""

    def __init__(self, connections: set[asyncio.Transport], handler: Smtp, authenticator: Any) -> None:
        super().__init__(
            handler,
            hostname=NAME,
            ident="Dayflow's sandbox",
            auth_require_tls=False,
            authenticator=authenticator,
            loop=asyncio.get_running_loop(),
        )
        self._connections = connections
        self.refusal: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        super().connection_made(transport)
        if isinstance(transport, asyncio.Transport):
            self._connections.add(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        if isinstance(self.transport, asyncio.Transport):
            self._connections.discard(self.transport)
        super().connection_lost(error)


class Refused(asyncio.Protocol):
    """A connection that is reset at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Reset it."""
        if isinstance(transport, asyncio.Transport):
            transport.abort()
