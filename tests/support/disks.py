"""A disk of a few MB for the store of a home, which a test fills and empties."""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

PAGE = 4096


class SmallDisk:
    """A tmpfs; `store` is the address of a store on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "dayflow.sqlite"
        self.store = f"sqlite+aiosqlite:///{self.file}"
        self._ballast = folder / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Leave so many bytes and no more; what SQLite's log has at hand is taken from it first."""
        with closing(sqlite3.connect(self.file, timeout=10)) as store:
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        with self._ballast.open("wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(bytes(PAGE))
        os.truncate(self._ballast, self._ballast.stat().st_size - leave)

    def free(self) -> None:
        """Make room."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, megabytes: int = 8) -> Iterator[SmallDisk]:
    """Mounted for as long as the block runs; skips the test where nothing can be mounted."""
    size = f"size={megabytes}m"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("no tmpfs can be mounted here; tests/store fills a disk by a limit of the process")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
