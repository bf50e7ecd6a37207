"""Where each message of an mbox file begins and ends, found by streaming."""

import re
from collections.abc import Iterator
from typing import BinaryIO

PIECE = 65_536
# The envelope line with its date. A sentence that begins with "From " after a blank line does not look like it.
ENVELOPE = re.compile(rb"From (\S.*)?[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d(:\d\d)?.*\d{4}\s*$")
QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)


def spans(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Offset and size of each message, without its envelope line. Holds one piece of a line at a time."""
    strict = bool(ENVELOPE.match(file.readline(PIECE)))
    file.seek(0)
    begun: int | None = None
    here, fresh, after_blank = 0, True, True
    while piece := file.readline(PIECE):
        if fresh and after_blank and _begins(piece, strict):
            if begun is not None:
                yield begun, here - begun
            begun = here + len(piece)
        after_blank = fresh and not piece.strip()
        fresh = piece.endswith(b"\n")
        here += len(piece)
    if begun is not None:
        yield begun, here - begun


def unquoted(data: bytes) -> bytes:
    """`data` without the ">" that keeps a line of text from looking like an envelope."""
    return QUOTED.sub(rb"\1", data)


def _begins(piece: bytes, strict: bool) -> bool:
    return bool(ENVELOPE.match(piece)) if strict else piece.startswith(b"From ")
