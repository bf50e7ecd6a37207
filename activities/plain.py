"""Text that is safe to hand on: no lone surrogates, no control characters, clipped."""

import codecs
import re
from collections.abc import Sequence

from pydantic import BaseModel

CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff]")
NO_BYTE = re.compile(r"[\ud800-\udc7f\udd00-\udfff]")
BLANK_LINES = re.compile(r"\n{3,}")
SKIPPED_SHOWN = 20
# What mail programs write, and what their bytes turn out to be.
WIDER = {"ascii": "utf-8", "iso8859-1": "cp1252", "gb2312": "gb18030"}
# Codecs of Python that are no charset of a message: some of them warn or raise even with "replace".
NOT_CHARSETS = {"unicode-escape", "raw-unicode-escape", "undefined", "idna", "punycode", "utf-7"}


class Skipped(BaseModel):
    """A file, message or event that is not in the answer, and why."""

    file: str
    why: str


def clean(text: str) -> str:
    """`text` without what cannot be printed or encoded; lines end in a newline."""
    whole = text.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    return CONTROLS.sub("", whole)


def line(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def paragraphs(text: str, limit: int, notes: list[str]) -> str:
    """`text` with no trailing spaces and at most one blank line in a row; a clipped one is noted."""
    tidy = BLANK_LINES.sub("\n\n", "\n".join(each.rstrip() for each in clean(text).split("\n"))).strip()
    if len(tidy) <= limit:
        return tidy
    notes.append(f"clipped: text is {len(tidy)} characters")
    return tidy[: limit - 1] + "…"


def decode(data: bytes, charset: str | None, notes: list[str]) -> str:
    """`data` as text; an unknown or wrong charset is noted and costs only the bytes that do not fit."""
    codec = _codec(charset or "ascii")
    if codec is None:
        notes.append(f"unknown charset {line(str(charset), 40)!r}, read as utf-8")
        codec = "utf-8"
    try:
        return data.decode(codec)
    except UnicodeError:
        notes.append(f"some bytes are no {codec}, replaced")
        return data.decode(codec, "replace")


def _codec(charset: str) -> str | None:
    try:
        found = codecs.lookup(charset.strip())
        "".encode(found.name)  # a transform such as `hex` is found as well, and refuses here
    except (LookupError, ValueError):
        return None
    return None if found.name in NOT_CHARSETS else WIDER.get(found.name, found.name)


def octets(raw: str) -> bytes:
    """The bytes that `raw` was made of with surrogateescape; a surrogate that stands for no byte becomes "?"."""
    return NO_BYTE.sub("?", raw).encode("utf-8", "surrogateescape")


def name_of(raw: str) -> str:
    """A file's name as it can be shown: bytes that are no UTF-8 are replaced."""
    return line(octets(raw).decode("utf-8", "replace"), 120)


def capped(skipped: Sequence[Skipped]) -> list[Skipped]:
    """The first of `skipped`, and how many more there are."""
    rest = len(skipped) - SKIPPED_SHOWN
    more = [Skipped(file="…", why=f"and {rest} more")] if rest > 0 else []
    return [*skipped[:SKIPPED_SHOWN], *more]
