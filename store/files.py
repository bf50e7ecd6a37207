"""Files that are written whole or not at all, and that their owner alone may read."""

import os
import tempfile
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Write a file in the place of whatever was there; it stands when this returns."""
    number, temporary = tempfile.mkstemp(dir=path.parent, prefix=".dayflow.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(number)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
