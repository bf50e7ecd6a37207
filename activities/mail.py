"""Mail: the destination that knows no keys. Sent by SMTP under a Message-ID of our own, looked for in Sent by IMAP."""

import asyncio
import hashlib
import logging
import time
import uuid
from email import policy
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, localtime, parseaddr
from typing import Literal

from pydantic import SecretStr

from activities import smtp
from activities.sent import Sent, Unavailable
from activities.smtp import Server
from domain import errors
from store import crash, logs
from store.settings import SANDBOX_MAIL_PASSWORD, SANDBOX_MAIL_USER, Settings

log = logging.getLogger(__name__)

# Every server takes 7-bit text.
POLICY = policy.SMTP.clone(cte_type="7bit")
COPY_S = 4.0
CANARY_S = 8.0
FIND_S = 25.0
LOOK_EVERY_S = 0.5
LOOPBACK = "127.0.0.1"
CANARY_TEXT = """\
The sending of a mail was interrupted, and Dayflow has to know whether it went out.
This message shows whether the mail server puts a copy of what it accepts into Sent, so that what is missing there was
not sent. There is nothing to be done.
"""

Sighting = Literal["sent", "not sent", "unsure"]


def message_id(settings: Settings, idempotency_key: str) -> str:
    """The Message-ID of the one mail of this key."""
    digest = hashlib.sha256(idempotency_key.encode()).hexdigest()[:40]
    return f"<{digest}@dayflow.{_sender(settings).domain}>"


def compose(settings: Settings, *, id: str, to: str, subject: str, body: str) -> EmailMessage:
    """A plain text mail. A line break in a header is a ValueError."""
    message = EmailMessage(policy=POLICY)
    message["Message-ID"] = id
    message["Date"] = format_datetime(localtime())
    message["From"] = _sender(settings)
    message["To"] = Address(addr_spec=to)
    message["Subject"] = subject
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(body, charset="utf-8")
    return message


async def send(settings: Settings, message: EmailMessage) -> None:
    """Send it, and see to a copy in Sent. Raises what `smtp.submit` raises; a copy that fails changes nothing."""
    raw = message.as_bytes()
    await smtp.submit(outgoing(settings), _sender(settings).addr_spec, _recipient(message), raw)
    crash.point("mail.accepted")
    folder = sent(settings)
    if folder is None:
        return
    try:
        async with asyncio.timeout(COPY_S):
            await folder.keep(str(message["Message-ID"]), raw)
    except (Unavailable, TimeoutError) as error:
        log.warning("a mail was sent, and no copy of it could be put into Sent: %s", logs.line(error))


async def holds(settings: Settings, id: str) -> bool:
    """Whether Sent is known to hold it; a Sent that cannot be looked into says nothing."""
    folder = sent(settings)
    try:
        async with asyncio.timeout(COPY_S):
            return folder is not None and await folder.holds(id)
    except (Unavailable, TimeoutError):
        return False


async def find(settings: Settings, id: str) -> Sighting:
    """Whether the mail of that id was sent; to be asked after the deadline of its sending.

    Found is proof. Not found is proof only if the server itself files what it accepts: a copy that we put there tells
    nothing of a process that died between acceptance and copy. So a canary, a mail to ourselves, goes the same way, and
    has to turn up in Sent first.
    """
    folder = sent(settings)
    try:
        async with asyncio.timeout(FIND_S):
            return await _sighting(settings, folder, id) if folder else "unsure"
    except (Unavailable, TimeoutError) as error:
        log.warning("it cannot be told whether a mail was sent: %s", logs.line(error))
        return "unsure"


def outgoing(settings: Settings) -> Server:
    """Where mail is handed over: the server of the settings, or the sandbox's."""
    if settings.smtp_host is None:
        return _sandbox(settings.sandbox_smtp_port)
    password = _clear(settings.smtp_password)
    return Server(settings.smtp_host, settings.smtp_port, settings.smtp_user, password, settings.smtp_tls)


def sent(settings: Settings) -> Sent | None:
    """Where sent mail is looked for; None if no IMAP server is set."""
    if settings.sandbox_mails:
        return Sent(_sandbox(settings.sandbox_imap_port), "Sent")
    if settings.imap_host is None:
        return None
    password = _clear(settings.imap_password)
    server = Server(settings.imap_host, settings.imap_port, settings.imap_user, password, settings.imap_tls)
    return Sent(server, settings.imap_sent)


async def _sighting(settings: Settings, folder: Sent, id: str) -> Sighting:
    if await folder.holds(id):
        return "sent"
    if folder.is_inbox or not await _canary_is_filed(settings, folder):
        return "unsure"
    # Once more: it may have been filed just before the canary.
    return "sent" if await folder.holds(id) else "not sent"


async def _canary_is_filed(settings: Settings, folder: Sent) -> bool:
    """Send a mail to ourselves and wait until the server has filed it."""
    me = _sender(settings)
    id = f"<canary-{uuid.uuid4().hex}@dayflow.{me.domain}>"
    canary = compose(settings, id=id, to=me.addr_spec, subject="Dayflow checks Sent", body=CANARY_TEXT)
    try:
        await smtp.submit(outgoing(settings), me.addr_spec, me.addr_spec, canary.as_bytes())
    except errors.DayflowError as error:
        log.warning("the canary could not be sent: %s", logs.line(error))
        return False
    deadline = time.monotonic() + CANARY_S
    while not await folder.holds(id):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK_EVERY_S)
    return True


def _sender(settings: Settings) -> Address:
    name, address = parseaddr(settings.mail_from)
    try:
        sender = Address(display_name=name, addr_spec=address)
        if sender.username and sender.domain and sender.addr_spec.isascii():
            return sender
    except (ValueError, IndexError, MessageError):
        pass
    raise errors.BadSetting("MAIL_FROM", f"{settings.mail_from!r} is no mail address")


def _recipient(message: EmailMessage) -> str:
    recipient: str = message["To"].addresses[0].addr_spec
    return recipient


def _sandbox(port: int) -> Server:
    return Server(LOOPBACK, port, SANDBOX_MAIL_USER, SANDBOX_MAIL_PASSWORD, "none")


def _clear(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None
