"""Blobs: large texts as files named by their sha256, in the home."""

import hashlib
import os
import tempfile
from pathlib import Path


def put(home: Path, data: bytes) -> str:
    """Store once, by content; the name is the hex sha256."""
    name = hashlib.sha256(data).hexdigest()
    target = path(home, name)
    if target.exists():
        return name
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(target)
    return name


def path(home: Path, name: str) -> Path:
    """Where a blob lies."""
    return home / "blobs" / name[:2] / name
