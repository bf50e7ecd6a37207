"""Blobs: large content as files, named by the sha256 of what is in them; written once, checked at each reading."""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from domain import errors
from store import files


@dataclass(frozen=True)
class Blob:
    """One file. put_at: when this content was last put, for the first time or again."""

    name: str
    size: int
    put_at: datetime


class Blobs:
    """The blobs in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Where a blob lies."""
        return self.folder / name[:2] / name

    def put(self, data: bytes) -> str:
        """Store once, by content; the name is the hex sha256. It stands when this returns, whatever dies after."""
        name = hashlib.sha256(data).hexdigest()
        if not self._renewed(name, data):
            self._write(self.path(name), data)
        return name

    def get(self, name: str) -> bytes:
        """The content of a blob; `errors.Lost` if it is not there, or not what was put."""
        try:
            data = self.path(name).read_bytes()
        except FileNotFoundError:
            raise errors.Lost(name, f"is missing: there is no {self.path(name)}") from None
        except OSError as error:
            raise errors.Lost(name, f"cannot be read: {error.strerror} ({self.path(name)})") from None
        if hashlib.sha256(data).hexdigest() != name:
            raise errors.Lost(name, f"is altered: {self.path(name)} holds something else")
        return data

    def all(self) -> Iterator[Blob]:
        """Every blob with its age, and what a killed process left unfinished, whose names nobody refers to."""
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(FileNotFoundError):
                seen = path.stat()
                yield Blob(path.name, seen.st_size, datetime.fromtimestamp(seen.st_mtime, UTC))

    def delete(self, name: str, put_before: datetime) -> bool:
        """Delete a blob, unless it was put again meanwhile; whether it is gone."""
        path = self.path(name)
        try:
            with path.open("r+b") as file:  # NFS takes such a lock on no file that is open for reading alone
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_mtime >= put_before.timestamp():
                    return False
                path.unlink()
        except FileNotFoundError:
            pass
        return True

    def _renewed(self, name: str, data: bytes) -> bool:
        """Whether the same content is there already; it is as young then as a new one."""
        try:
            with self.path(name).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH)
                os.utime(file.fileno())
                return file.read() == data and os.fstat(file.fileno()).st_nlink > 0
        except FileNotFoundError:
            return False

    def _write(self, target: Path, data: bytes) -> None:
        for folder in (self.folder, target.parent):  # the mode is that of the last one alone
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.write(target, data, unfinished=f"{target.name}.")
        _sync(target.parent)


def _sync(folder: Path) -> None:
    """A name in a folder survives a power cut once the folder was written, too."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
