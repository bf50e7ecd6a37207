"""Approvers: who may approve what, read from the approvers file each time that it is asked for."""

import base64
import binascii
import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from domain import errors
from domain.decisions import spelling
from domain.wording import plain
from store import files
from store.settings import SAMPLES, Settings

VARIABLE = "DAYFLOW_APPROVERS"
SAMPLE = SAMPLES / "approvers.toml"

UNKNOWN = "not on the list: DAYFLOW_APPROVERS names the file of those who may approve"
BELOW = "below the needed role"
ABOVE = "above their amount"
UNSIGNED = "not signed: this approver has a key on file"
FORGED = "bad signature"

AMOUNT = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")
Name = Annotated[str, StringConstraints(pattern=r"^\S+$", max_length=200)]
Role = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$", max_length=50)]


class Approver(BaseModel):
    """One person of the file. max_amount: for a role, the most that they may approve in it, in whatever currency."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Name
    roles: list[Role] = Field(min_length=1)
    max_amount: dict[Role, str] = {}
    public_key: str | None = None

    @field_validator("max_amount")
    @classmethod
    def _amounts(cls, given: dict[str, str]) -> dict[str, str]:
        for role, amount in given.items():
            if not AMOUNT.fullmatch(amount):
                raise ValueError(f'the amount {amount!r} of {role!r} is no decimal number such as "200.00"')
        return given

    @field_validator("public_key")
    @classmethod
    def _readable_key(cls, given: str | None) -> str | None:
        if given is not None:
            public_key(given)
        return given

    @model_validator(mode="after")
    def _amounts_of_their_roles(self) -> "Approver":
        for role in self.max_amount:
            if role not in self.roles:
                raise ValueError(f"max_amount names the role {role!r}, which is none of theirs")
        return self

    def limit(self, role: str) -> Decimal | None:
        """The most that they may approve in this role; None is any amount."""
        return Decimal(self.max_amount[role]) if role in self.max_amount else None


class Approvers(BaseModel):
    """The whole file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    approvers: list[Approver]

    @model_validator(mode="after")
    def _named_once(self) -> "Approvers":
        seen: set[str] = set()
        for approver in self.approvers:
            # Two spellings of one address would let one person stand for two.
            if (name := spelling(approver.name)) in seen:
                raise ValueError(f"{approver.name!r} stands there twice")
            seen.add(name)
        return self

    def find(self, name: str) -> Approver | None:
        """The approver of exactly that name."""
        return next((one for one in self.approvers if one.name == name), None)

    def may(self, approver: str, role: str | None, amount: Decimal | None = None) -> str | None:
        """Why they may not approve it; None if they may. A role of None asks only for being on the list."""
        found = self.find(approver)
        if found is None:
            return UNKNOWN
        if role is None:
            return None
        if role not in found.roles:
            return f"{BELOW}: it needs {role!r}"
        return _objection(amount, found.limit(role), role)

    def verify(self, approver: str, data: bytes, signature: str | None) -> str | None:
        """Why the decision does not count as theirs; None if it does. Without a key on file there is no proof."""
        found = self.find(approver)
        if found is None:
            return UNKNOWN
        if found.public_key is None:
            return None
        if signature is None:
            return UNSIGNED
        return None if _fits(public_key(found.public_key), data, signature) else FORGED


def load(settings: Settings) -> Approvers:
    """Read the file anew; `errors.BadSetting` names the place of a mistake."""
    path = settings.approvers or SAMPLE
    try:
        with files.open_regular(path) as file:
            raw = tomllib.loads(file.read().decode())
    except OSError as error:
        raise errors.BadSetting(VARIABLE, f"{str(path)!r} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise errors.BadSetting(VARIABLE, f"{str(path)!r} is no TOML: {error}") from None
    return _parsed(path, raw)


def public_key(text: str) -> Ed25519PublicKey:
    """An Ed25519 public key from base64 of its 32 bytes, or from PEM; ValueError if it is neither."""
    try:
        if text.lstrip().startswith("-----BEGIN"):
            key = load_pem_public_key(text.encode())
            if isinstance(key, Ed25519PublicKey):
                return key
        else:
            return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error, UnsupportedAlgorithm):
        pass
    raise ValueError("public_key is no Ed25519 key: base64 of its 32 bytes, or PEM (`dayflow keys new` prints one)")


def _objection(amount: Decimal | None, limit: Decimal | None, role: str) -> str | None:
    if amount is None or limit is None or (amount.is_finite() and amount <= limit):
        return None
    return f"{ABOVE}: as {role!r} at most {limit}"


def _fits(key: Ed25519PublicKey, data: bytes, signature: str) -> bool:
    try:
        key.verify(base64.b64decode(signature, validate=True), data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _parsed(path: Path, raw: dict[str, Any]) -> Approvers:
    try:
        return Approvers.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "top"
        raise errors.BadSetting(VARIABLE, f"{str(path)!r}, {place}: {plain(first['msg'])}") from None
