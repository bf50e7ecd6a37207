"""The messages of a Maildir, an mbox file or a folder of .eml files: where each is stored, nothing of it read."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from activities import local_files, mbox, plain
from activities.plain import Skipped
from domain import errors
from store import files

WHAT_TO_DO = "set DAYFLOW_INBOX or --inbox to a Maildir, an mbox file or a folder of .eml files"
# ":2,FS" at the end of a Maildir name; file systems without ":" use "!" or ";".
FLAGS = re.compile(r"[:;!]2,([A-Za-z]*)$")


@dataclass(frozen=True)
class Stored:
    """One message as it is stored.

    unread: None when the message's own Status header says it (mbox).
    stamp: the file's time, in seconds; None in an mbox, where the order says it.
    """

    file: Path
    name: str
    offset: int
    size: int
    unread: bool | None
    stamp: float | None

    def start(self, most: int) -> bytes:
        """The first bytes of the message, `most` at most."""
        with files.open_regular(self.file) as opened:
            opened.seek(self.offset)
            data = opened.read(min(most, self.size))
        return data if self.stamp is not None else mbox.unquoted(data)


def find(path: Path) -> list[Stored | Skipped]:
    """Every message at `path`, told apart by looking; `errors.ToolFailed` when there is no mail to look at."""
    try:
        root = path.resolve(strict=True)
        if root.is_dir():
            return _folder(path, root)
        if root.is_file() and _is_mbox(root):
            return list(_mbox(root))
    except (OSError, RuntimeError) as error:
        why = local_files.reason(error) if isinstance(error, OSError) else "a loop of links"
        why = "does not exist" if isinstance(error, FileNotFoundError) else why
        raise errors.ToolFailed(f"No mail can be read at {str(path)!r}: {why}; {WHAT_TO_DO}.") from None
    raise errors.ToolFailed(f"{str(path)!r} is no mailbox; {WHAT_TO_DO}.")


def _folder(path: Path, root: Path) -> list[Stored | Skipped]:
    boxes = [root / name for name in ("new", "cur") if (root / name).is_dir()]
    if boxes:
        return [each for box in boxes for each in _maildir(box, root)]
    found = list(_emls(root))
    if not found and any(not file.name.startswith(".") for file in root.iterdir()):
        raise errors.ToolFailed(f"{str(path)!r} holds no mail; {WHAT_TO_DO}.")
    return found


def _maildir(box: Path, root: Path) -> Iterator[Stored | Skipped]:
    if not box.resolve().is_relative_to(root):
        yield Skipped(file=box.name, why="a link that leaves the folder")
        return
    for entry in local_files.entries(box, root):
        if isinstance(entry, Skipped):
            yield entry
            continue
        marked = FLAGS.search(entry.name)
        flags = marked[1] if marked and box.name == "cur" else ""
        if "T" not in flags:  # trashed by the user, not yet removed by the mail program
            yield from _stored(Path(entry.path), unread="S" not in flags)


def _emls(root: Path) -> Iterator[Stored | Skipped]:
    for entry in local_files.entries(root, root):
        name = entry.file if isinstance(entry, Skipped) else entry.name
        if not name.lower().endswith(".eml"):
            continue
        if isinstance(entry, Skipped):
            yield entry
        else:
            yield from _stored(Path(entry.path), unread=True)


def _stored(file: Path, *, unread: bool) -> Iterator[Stored | Skipped]:
    name = plain.name_of(file.name)
    try:
        status = file.stat()
    except OSError as error:
        yield Skipped(file=name, why=local_files.reason(error))
        return
    if status.st_size:
        yield Stored(file, name, 0, status.st_size, unread, status.st_mtime)
    else:
        yield Skipped(file=name, why="empty")


def _is_mbox(file: Path) -> bool:
    with files.open_regular(file) as opened:
        start = opened.read(5)
    return start in (b"", b"From ")  # a mail server leaves an empty file when the last message is gone


def _mbox(file: Path) -> Iterator[Stored]:
    with files.open_regular(file) as opened:
        for number, (offset, size) in enumerate(mbox.spans(opened), start=1):
            yield Stored(file, f"{plain.name_of(file.name)}#{number}", offset, size, None, None)
