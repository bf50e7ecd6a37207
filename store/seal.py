"""Seal: bytes that only the holder of a key can read, with the key's id in clear."""

import base64
import binascii
import os
import re
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from domain import errors

MARK = b"dfs1"
KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
HOW = "keys are id:base64 of 32 bytes, with commas between them; `dayflow keys encryption` makes one"
ID = re.compile(r"[A-Za-z0-9_.-]{1,50}")


class Seal:
    """AES-GCM under the first of some keys; what was sealed under any of them can be opened.

    Without keys nothing is sealed, and what was sealed says which key it wants. `repr` shows the ids alone.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._first = next(iter(keys.values()), b"")
        self.ids = tuple(keys)

    def __repr__(self) -> str:
        return f"Seal({', '.join(self.ids)})"

    @property
    def on(self) -> bool:
        """Whether there is a key to seal with."""
        return bool(self.ids)

    def seal(self, data: bytes) -> bytes:
        """The data sealed: mark, length of the key's id, the id, nonce, ciphertext. What is in clear is bound to it."""
        head = MARK + bytes([len(self.ids[0])]) + self.ids[0].encode()
        nonce = os.urandom(NONCE_BYTES)
        return head + nonce + self._keys[self.ids[0]].encrypt(nonce, data, head)

    def token(self, purpose: str) -> str:
        """A token that only a holder of the first key can know; another one for each purpose."""
        made = HKDF(SHA256(), KEY_BYTES, salt=None, info=purpose.encode()).derive(self._first)
        return base64.urlsafe_b64encode(made).decode().rstrip("=")

    def open(self, sealed: bytes) -> bytes:
        """The data again; `errors.MissingKey` if its key is not here, `errors.NotSealed` if no key ever sealed this."""
        key_id, head = _head(sealed)
        if key_id not in self._keys:
            raise errors.MissingKey(key_id)
        nonce, rest = sealed[head : head + NONCE_BYTES], sealed[head + NONCE_BYTES :]
        try:
            return self._keys[key_id].decrypt(nonce, rest, sealed[:head])
        except InvalidTag:
            raise errors.NotSealed(f"these bytes were not sealed under the key {key_id!r}, or were changed") from None


def parse(text: str) -> dict[str, bytes]:
    """Keys by their ids, in the order given. A `ValueError` says how to give them, and nothing of a key."""
    keys: dict[str, bytes] = {}
    for number, part in enumerate(text.split(","), 1):
        key_id, _, encoded = part.strip().partition(":")
        if not ID.fullmatch(key_id):
            raise ValueError(f"entry {number} has no id of letters, digits, '.', '_' and '-'; {HOW}")
        if key_id in keys:
            raise ValueError(f"the id {key_id!r} stands twice; {HOW}")
        keys[key_id] = _key(key_id, encoded)
    return keys


def new_key(key_id: str) -> str:
    """A new key as the setting wants it."""
    return f"{key_id}:{base64.b64encode(os.urandom(KEY_BYTES)).decode()}"


def key_of(sealed: bytes) -> str | None:
    """The id of the key that these bytes were sealed under; None if they are not sealed at all."""
    try:
        return _head(sealed)[0]
    except errors.NotSealed:
        return None


def _key(key_id: str, encoded: str) -> bytes:
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"the key {key_id!r} is no base64; {HOW}") from None
    if len(key) != KEY_BYTES:
        raise ValueError(f"the key {key_id!r} has {len(key)} bytes; {HOW}")
    return key


def _head(sealed: bytes) -> tuple[str, int]:
    """The key's id, and where the nonce begins."""
    if sealed[: len(MARK)] != MARK or len(sealed) <= len(MARK):
        raise errors.NotSealed("these bytes are not sealed")
    start = len(MARK) + 1
    end = start + sealed[len(MARK)]
    key_id = sealed[start:end].decode(errors="replace")
    if not ID.fullmatch(key_id) or len(sealed) < end + NONCE_BYTES + TAG_BYTES:
        raise errors.NotSealed("these bytes are not sealed")
    return key_id, end
