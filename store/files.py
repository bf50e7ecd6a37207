"""Files that are written whole or not at all, and that their owner alone may read."""

import os
import tempfile
from pathlib import Path


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
