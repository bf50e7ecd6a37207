"""What is known of a message from its head alone: its id, its date, whether it is unread."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import parsedate_to_datetime

from activities import local_files, plain
from activities.mail_files import Stored
from activities.plain import Skipped

FIRST_LOOK = 8_192
HEAD = 65_536
BLANK_LINE = re.compile(rb"\r?\n\r?\n")
ID = re.compile(r"<\s*([^<>\s]+)\s*>")


@dataclass(frozen=True)
class Headed:
    """One message with its head read; `when` is what it is sorted by, in seconds."""

    stored: Stored
    id: str
    date: datetime | None
    when: float
    unread: bool


def newest_first(found: Iterable[Stored | Skipped], skipped: list[Skipped]) -> list[Headed]:
    """Each message once, newest first; what cannot be read is added to `skipped`."""
    headed: list[Headed] = []
    before = 0.0
    for each in found:
        if isinstance(each, Skipped):
            skipped.append(each)
            continue
        try:
            headed.append(_headed(each, before))
            before = headed[-1].when
        except OSError as error:
            skipped.append(Skipped(file=each.name, why=local_files.reason(error)))
    # The later one of an mbox is the newer one; sorting keeps the order of equals.
    headed.reverse()
    headed.sort(key=lambda message: message.when, reverse=True)
    once: dict[str, Headed] = {}
    for message in headed:
        once.setdefault(message.id, message)
    return list(once.values())


def _headed(stored: Stored, before: float) -> Headed:
    """`before` dates a message of an mbox that has no date: it came after the one before it."""
    start = _head(stored)
    # The old policy keeps headers as they are; it has no parser that a header could break.
    message = BytesHeaderParser(policy=policy.compat32).parsebytes(BLANK_LINE.split(start, maxsplit=1)[0] + b"\n\n")
    date = _date(message)
    fallback = before if stored.stamp is None else stored.stamp
    unread = stored.unread if stored.unread is not None else "R" not in str(message.get("status", ""))
    return Headed(stored, _id(message, start), date, date.timestamp() if date else fallback, unread)


def _head(stored: Stored) -> bytes:
    start = stored.start(FIRST_LOOK)
    return start if len(start) < FIRST_LOOK or BLANK_LINE.search(start) else stored.start(HEAD)


def _id(message: Message, start: bytes) -> str:
    raw = str(message.get("message-id", ""))[:1_000]
    found = ID.search(raw)
    text = plain.clean(found[1] if found else raw).strip()
    if text and len(text) <= 250 and not re.search(r"\s", text):
        return text
    return "sha256:" + hashlib.sha256(start).hexdigest()[:16]


def _date(message: Message) -> datetime | None:
    try:
        date = parsedate_to_datetime(str(message.get("date", ""))[:200])
        aware = date if date.tzinfo else date.replace(tzinfo=UTC)
        aware.timestamp()
    except (ValueError, TypeError, LookupError, OverflowError):
        return None
    return aware
