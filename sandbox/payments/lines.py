"""A file of JSON lines that survives a kill: a line is on the disk, whole, before anyone is told of it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandbox.sse import dump


class Lines:
    """One append-only file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_RDWR, 0o600)
        self._drop_torn_line()

    def append(self, facts: dict[str, Any]) -> None:
        """Write one line and wait for the disk; an OSError leaves the file as it was."""
        before = os.fstat(self._file).st_size
        line = dump(facts) + b"\n"
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(f"{self.path.name}: a line was not written whole")
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, before)
            raise

    def read(self) -> Iterator[dict[str, Any]]:
        """Every line, oldest first."""
        with self.path.open("rb") as lines:
            yield from (json.loads(line) for line in lines)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _drop_torn_line(self) -> None:
        """A line without an end was torn by a kill: nobody was told of it, so it did not happen."""
        whole = self.path.read_bytes()
        os.ftruncate(self._file, whole.rfind(b"\n") + 1)
