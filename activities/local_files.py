"""The regular files of a folder that the user named, and why its other entries are left alone."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from activities import plain
from activities.plain import Skipped


def entries(folder: Path, root: Path) -> Iterator[os.DirEntry[str] | Skipped]:
    """Files right in `folder`, by name; an entry that is no regular file inside `root` comes as skipped."""
    with os.scandir(folder) as found:
        listed = sorted(found, key=lambda entry: entry.name)
    for entry in listed:
        if not entry.name.startswith(".") and not _is_folder(entry):
            why = _unfit(entry, root)
            yield Skipped(file=plain.name_of(entry.name), why=why) if why else entry


def reason(error: OSError) -> str:
    """Why a file could not be read, without its path."""
    return "gone meanwhile" if isinstance(error, FileNotFoundError) else error.strerror or type(error).__name__


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False


def _unfit(entry: os.DirEntry[str], root: Path) -> str | None:
    try:
        if entry.is_symlink() and not Path(entry.path).resolve(strict=True).is_relative_to(root):
            return "a link that leaves the folder"
        return None if stat.S_ISREG(entry.stat().st_mode) else "not a regular file"
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError
        return "a link that leads nowhere"
