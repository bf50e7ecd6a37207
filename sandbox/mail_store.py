"""The mail of the sandbox on disk: a Maildir, and before it a queue from which nothing is lost that was accepted."""

import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

INBOX = "INBOX"
SENT = "Sent"
CANARY = "<canary-"
# How a file came here, as the end of its name.
BY_SMTP = "smtp"
BY_IMAP = "imap"


@dataclass(frozen=True)
class Stored:
    """One message file; its name says when it came and how."""

    name: str
    raw: bytes

    @property
    def at(self) -> datetime:
        """When it was accepted."""
        return datetime.fromtimestamp(int(self.name.partition(".")[0]) / 1e9, UTC)

    @property
    def by_smtp(self) -> bool:
        """Whether it was sent, not put there by a client."""
        return self.name.endswith(f".{BY_SMTP}")

    def entry(self) -> dict[str, Any]:
        """Its line of the journal."""
        message = message_from_bytes(self.raw, policy=policy.default)
        id = str(message["Message-ID"] or "").strip()
        return {
            "at": self.at.isoformat(timespec="milliseconds"),
            "from": str(message["Return-Path"] or "").strip("<>"),
            "to": ", ".join(str(each) for each in message.get_all("Delivered-To", [])),
            "subject": str(message["Subject"] or ""),
            "message_id": id,
            "canary": id.startswith(CANARY),
        }


class Disk:
    """`root` is a Maildir that any mail reader can open: the inbox itself, and `.NAME` for each other folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._queue = root / "queue"
        for folder in (root, self._path(SENT)):
            _make_maildir(folder)
        self._queue.mkdir(exist_ok=True)

    def accept(self, sender: str, recipients: list[str], raw: bytes) -> Stored:
        """Take a message into the queue; from then on it is safe."""
        trace = [f"Return-Path: <{sender}>", *(f"Delivered-To: {each}" for each in recipients)]
        stored = Stored(_name(BY_SMTP), "".join(f"{line}\r\n" for line in trace).encode() + raw)
        _write(self._queue, self._path(INBOX) / "tmp", stored, sync=True)
        return stored

    def queued(self) -> list[Stored]:
        """What is accepted and perhaps not in its folders yet, oldest first."""
        return sorted(_read(self._queue), key=lambda stored: stored.name)

    def file(self, folder: str, stored: Stored) -> None:
        """Put a message of the queue into a folder; to do it twice changes nothing."""
        place = self._path(folder)
        if not any(each.name.startswith(stored.name) for each in (place / "cur").iterdir()):
            _write(place / "new", place / "tmp", stored)

    def done(self, stored: Stored) -> None:
        """It is in every folder that it belongs into."""
        (self._queue / stored.name).unlink(missing_ok=True)

    def add(self, folder: str, raw: bytes) -> Stored:
        """Keep a message that a client put into a folder."""
        place, stored = self._path(folder), Stored(_name(BY_IMAP), raw)
        _write(place / "new", place / "tmp", stored)
        return stored

    def messages(self, folder: str) -> list[Stored]:
        """A folder's messages, oldest first."""
        place = self._path(folder)
        return sorted((*_read(place / "new"), *_read(place / "cur")), key=lambda stored: stored.name)

    def folders(self) -> list[str]:
        """The folders beside the inbox."""
        return sorted(each.name[1:] for each in self.root.glob(".*") if (each / "cur").is_dir())

    def make(self, folder: str) -> None:
        """A new folder; ValueError for a name that cannot be one."""
        if not folder or "/" in folder or "\0" in folder or folder.startswith("."):
            raise ValueError(folder)
        _make_maildir(self._path(folder))

    def _path(self, folder: str) -> Path:
        return self.root if folder == INBOX else self.root / f".{folder}"


def _name(how: str) -> str:
    return f"{time.time_ns()}.{secrets.token_hex(6)}.{how}"


def _make_maildir(path: Path) -> None:
    for part in ("tmp", "new", "cur"):
        (path / part).mkdir(parents=True, exist_ok=True, mode=0o700)


def _write(place: Path, draft: Path, stored: Stored, *, sync: bool = False) -> None:
    """Whole or not at all."""
    path = draft / stored.name
    with path.open("wb") as file:
        file.write(stored.raw)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    path.replace(place / stored.name)


def _read(place: Path) -> Iterator[Stored]:
    for path in place.iterdir():
        # Maildir readers append flags after a colon.
        name = path.name.partition(":")[0]
        if name.partition(".")[0].isdigit():
            yield Stored(name, path.read_bytes())
