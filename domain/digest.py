"""Digests: one canonical JSON form, so that equal values have equal sha256 in every process."""

import hashlib
import json
from typing import Any

_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=repr)


def canonical(value: Any) -> bytes:
    """Encode a JSON value: keys sorted, no spaces, ASCII only (lone surrogates survive as escapes).

    What is no JSON, such as the bytes of a binary payload, stands as its `repr`.
    """
    return _JSON.encode(value).encode("ascii")


def sha256(value: Any) -> str:
    """Hex sha256 of a JSON value's canonical form."""
    return hashlib.sha256(canonical(value)).hexdigest()


def chain(previous: str, value: Any) -> str:
    """Hex sha256 over the digest so far and the next value: one digest that speaks for a whole list."""
    return link(previous, canonical(value))


def link(previous: str, data: bytes) -> str:
    """The same, of a value in its canonical form."""
    return hashlib.sha256(previous.encode("ascii") + data).hexdigest()
