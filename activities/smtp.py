"""SMTP: one message handed to a mail server, and what each way of failing says about it."""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import Literal, NoReturn

import aiosmtplib

from domain import errors

# Together with a look into Sent before and a copy into it afterwards they stay below the deadline of the tool.
COMMAND_S = 6.0
BEFORE_DATA_S = 9.0
DATA_S = 10.0
QUIT_S = 1.0


@dataclass(frozen=True)
class Server:
    """How a mail server is reached."""

    host: str
    port: int
    user: str | None
    password: str | None
    tls: Literal["starttls", "tls", "none"]

    @property
    def address(self) -> str:
        """For people."""
        return f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Server({self.address!r})"


async def submit(server: Server, sender: str, to: str, raw: bytes) -> None:
    """Hand the message over.

    `errors.ToolFailed`: the server will not take it. `errors.Again`: it did not take it now. `errors.Uncertain`: the
    message was on its way when the answer was lost, so it may have taken it.
    """
    client = _client(server, sender)
    try:
        await _open(client, server, sender, to)
        await _hand_over(client, server, raw)
        with contextlib.suppress(aiosmtplib.SMTPException, OSError):
            await client.quit(timeout=QUIT_S)
    finally:
        client.close()


def _client(server: Server, sender: str) -> aiosmtplib.SMTP:
    return aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        username=server.user,
        password=server.password,
        # The library would look this machine's name up in the DNS, which may take longer than all the rest.
        local_hostname=sender.rpartition("@")[2],
        use_tls=server.tls == "tls",
        start_tls=server.tls == "starttls",
        timeout=COMMAND_S,
    )


async def _open(client: aiosmtplib.SMTP, server: Server, sender: str, to: str) -> None:
    """Everything before the message itself: until then nothing can have been accepted."""
    try:
        async with asyncio.timeout(BEFORE_DATA_S):
            await client.connect()
            await client.mail(sender)
            await client.rcpt(to)
    except aiosmtplib.SMTPResponseException as error:
        _refused(server, error, to)
    except OSError as error:
        if isinstance(error.__cause__ or error, ssl.SSLError):
            raise errors.ToolFailed(
                f"The mail server {server.address} could not be trusted ({error}). Nothing was sent."
            ) from error
        raise errors.Again(f"the mail server {server.address} is out of reach: {error or 'no answer'}") from error
    except aiosmtplib.SMTPException as error:
        raise errors.ToolFailed(
            f"The mail server {server.address} cannot be used as set: {error}. Nothing was sent."
        ) from error


async def _hand_over(client: aiosmtplib.SMTP, server: Server, raw: bytes) -> None:
    """The message. A server's plain no is an answer; a silence, or half an answer, is none."""
    try:
        async with asyncio.timeout(DATA_S):
            await client.data(raw, timeout=DATA_S)
    except aiosmtplib.SMTPDataError as error:
        if 400 <= error.code < 600:
            _refused(server, error)
        raise errors.Uncertain(_lost(server, error)) from error
    except (aiosmtplib.SMTPException, OSError) as error:
        raise errors.Uncertain(_lost(server, error)) from error


def _refused(server: Server, error: aiosmtplib.SMTPResponseException, to: str = "") -> NoReturn:
    said = f"{error.code} {error.message}"
    if not 500 <= error.code < 600:
        raise errors.Again(f"the mail server {server.address} does not take it now: {said}") from error
    what = {
        aiosmtplib.SMTPAuthenticationError: "does not accept Dayflow's credentials",
        aiosmtplib.SMTPRecipientRefused: f"refuses the recipient {to!r}",
        aiosmtplib.SMTPSenderRefused: "refuses the sender",
        aiosmtplib.SMTPDataError: "refuses the message",
    }.get(type(error), "refuses")
    raise errors.ToolFailed(f"The mail server {what}: {said}. Nothing was sent.") from error


def _lost(server: Server, error: BaseException) -> str:
    return f"the mail server {server.address} gave no answer to the message: {error or type(error).__name__}"
