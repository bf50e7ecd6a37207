"""What a message says: its headers, its text and the names of its attachments."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from pathlib import PurePosixPath
from typing import Any, TypeAlias

import inscriptis
from pydantic import BaseModel

from activities import plain

HTML_READ = 100_000
ATTACHMENTS_SHOWN = 25
_WORD = r"=\?[^?\s]+\?[bBqQ]\?[^?]*\?="
ENCODED = re.compile(rf"{_WORD}(?:\s+{_WORD})*")
TAGS = re.compile(r"<[^<>]*>")
# A style may ask for 100,000 blanks or blank lines for each element, and inscriptis gives them.
SPACING = re.compile(r"(?i)(margin|padding)[a-z-]*\s*:")

Entity: TypeAlias = "Message[Any, Any]"


class Attachment(BaseModel):
    """A part that is named and not read in. size: in bytes; None when the part was not read to its end."""

    name: str
    type: str
    size: int | None


def header(message: Entity, name: str, limit: int, notes: list[str]) -> str:
    """A header as people read it, on one line."""
    raw = next((str(value) for key, value in message.raw_items() if key.lower() == name), "")
    return plain.line(_readable(raw, notes), limit)


def _readable(raw: str, notes: list[str]) -> str:
    text = plain.decode(plain.octets(raw), "utf-8", notes)
    return ENCODED.sub(lambda run: _decoded(run[0], notes), text)


def _decoded(run: str, notes: list[str]) -> str:
    try:
        words = decode_header(run)
    except (HeaderParseError, ValueError):  # broken base64
        return run
    return "".join(
        word if isinstance(word, str) else plain.decode(word, (charset or "ascii").split("*")[0], notes)
        for word, charset in words
    )


@dataclass(frozen=True)
class Part:
    """One part that holds something. name: None for what is written in the message; "" for a file without a name."""

    message: Entity
    type: str
    name: str | None


def parts(message: Entity) -> Iterator[Part]:
    """The parts that hold something, in order; a message within the message is one part."""
    waiting = [message]
    while waiting:
        entity = waiting.pop()
        kind = plain.line(entity.get_content_type(), 100)
        inner = entity.get_payload()
        if not isinstance(inner, list):
            yield _part(entity, kind)
        elif kind.startswith("message/"):
            yield Part(entity, kind, entity.get_filename() or "")
        else:
            waiting += [one for one in reversed(inner) if isinstance(one, Message)]


def _part(entity: Entity, kind: str) -> Part:
    # A multipart without a boundary is one string.
    kind = "text/plain" if kind.startswith("multipart/") else kind
    name = entity.get_filename() or ""
    written = kind in ("text/plain", "text/html") and not name and entity.get_content_disposition() != "attachment"
    return Part(entity, kind, None if written else name)


def text(found: list[Part], notes: list[str]) -> str:
    """The plain text, or else what the HTML looks like."""
    wrote = [_content(part.message, notes) for part in found if part.name is None and part.type == "text/plain"]
    said = "\n\n".join(each for each in wrote if each.strip())
    if said:
        return said
    pages = (_content(part.message, notes) for part in found if part.name is None and part.type == "text/html")
    page = next((each for each in pages if each.strip()), "")
    return _from_html(page, notes) if page else ""


def attachments(found: list[Part], cut: bool, notes: list[str]) -> list[Attachment]:
    """Every part that is a file, by name. cut: the last part was not read to its end."""
    files = [part for part in found if part.name is not None]
    if len(files) > ATTACHMENTS_SHOWN:
        notes.append(f"{len(files)} attachments, {ATTACHMENTS_SHOWN} are named")
    return [
        Attachment(
            name=_name(part, notes),
            type=part.type,
            size=None if cut and part is found[-1] else _size(part.message),
        )
        for part in files[:ATTACHMENTS_SHOWN]
    ]


def _content(part: Entity, notes: list[str]) -> str:
    data = part.get_payload(decode=True)
    charset = part.get_content_charset()
    return plain.decode(data, charset, notes) if isinstance(data, bytes) else ""


def _from_html(page: str, notes: list[str]) -> str:
    html = SPACING.sub("x:", plain.clean(page[:HTML_READ]))
    if len(page) > HTML_READ:
        notes.append(f"clipped: HTML is {len(page)} characters")
    try:
        return str(inscriptis.get_text(html))
    except Exception as error:  # whatever a page does to the parser, the mail is still shown
        notes.append(f"HTML could not be laid out ({type(error).__name__}), tags removed")
        return TAGS.sub(" ", html)


def _name(part: Part, notes: list[str]) -> str:
    inner = part.message.get_payload()
    if not part.name and isinstance(inner, list) and inner and isinstance(inner[0], Message):
        return header(inner[0], "subject", 150, notes) or "message"
    readable = plain.line(_readable(part.name or "", notes), 150).replace("\\", "/")
    return PurePosixPath(readable).name or "unnamed"


def _size(part: Entity) -> int | None:
    try:
        data = b"".join(map(bytes, part.get_payload())) if part.is_multipart() else part.get_payload(decode=True)
    except (ValueError, LookupError, TypeError, AttributeError):  # what cannot be written again has no size
        return None
    return len(data) if isinstance(data, bytes) else None
