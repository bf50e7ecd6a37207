"""Keys: the Ed25519 key pairs by which a person signs decisions."""

import base64
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from domain import errors

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9@._+-]{0,99}")
READABLE_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Key:
    """A key pair. `repr` shows where it lies and nothing of the key."""

    file: Path
    private: Ed25519PrivateKey

    def __repr__(self) -> str:
        return f"Key({str(self.file)!r})"

    @property
    def public_line(self) -> str:
        """The line that goes into the approvers file."""
        raw = self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return f'public_key = "{base64.b64encode(raw).decode()}"'

    def sign(self, data: bytes) -> str:
        """The signature in base64, as a decision carries it."""
        return base64.b64encode(self.private.sign(data)).decode()


def new(home: Path, name: str) -> Key:
    """Make a key pair; the private key goes into a file that only its owner may read. Never replaces one."""
    key = Key(path(home, name), Ed25519PrivateKey.generate())
    try:
        key.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(key.file, key.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    except FileExistsError:
        raise errors.BadRequest(f"{name!r} has a key: {key.file}. Move it away to make another.") from None
    except OSError as error:
        raise errors.BadSetting("DAYFLOW_HOME", f"{key.file} cannot be written: {error.strerror}") from None
    return key


def exists(home: Path, name: str) -> bool:
    """Whether that name has a key pair here; a name that cannot have one has none."""
    return NAME.fullmatch(name) is not None and path(home, name).exists()


def load(home: Path, name: str) -> Key:
    """The key pair of that name."""
    file = path(home, name)
    try:
        if file.stat().st_mode & READABLE_BY_OTHERS:
            raise errors.BadRequest(f"others may read {file}: `chmod 600` it, or make a new key")
        return Key(file, _private(file))
    except FileNotFoundError:
        raise errors.NotFound(f"{name!r} has no key in {file.parent}: `dayflow keys new {name}` makes one") from None
    except OSError as error:
        raise errors.BadRequest(f"{file} cannot be read: {error.strerror}") from None


def path(home: Path, name: str) -> Path:
    """Where the private key of that name lies."""
    if not NAME.fullmatch(name):
        raise errors.BadRequest(f"{name!r} cannot name a key: letters, digits and @ . _ + - only, as in an address")
    return home / "keys" / f"{name}.pem"


def _write(file: Path, content: bytes) -> None:
    """Half a key is no key: it is not left behind."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        try:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        except OSError:
            file.unlink()
            raise


def _private(file: Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise errors.BadRequest(f"{file} holds no private key that can be read: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise errors.BadRequest(f"{file} holds no Ed25519 key; `dayflow keys new` makes one")
    return key
