"""Files that are written whole or not at all, and that their owner alone may read; and reading that never blocks."""

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO


def write(path: Path, data: bytes, *, unfinished: str = ".dayflow.") -> None:
    """Write a file in the place of whatever was there; it stands when this returns.

    unfinished: how the name begins of what a process leaves that is killed meanwhile.
    """
    number, temporary = tempfile.mkstemp(dir=path.parent, prefix=unfinished)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(number)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def open_regular(file: Path) -> BinaryIO:
    """`file` for reading; a FIFO or device that took its place is an OSError and never blocks."""
    opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return os.fdopen(opened, "rb")
    os.close(opened)
    raise OSError(errno.EINVAL, "not a regular file")
