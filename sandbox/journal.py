"""The journal: one JSON line when a request arrives, one when its answer has gone out, broken off or been refused."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox.sse import dump

BODY = b',"body":'


class Journal:
    """An append-only file of JSON lines."""

    def __init__(self, path: Path, *, bodies: bool = True) -> None:
        self.path = path
        self._bodies = bodies
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_RDWR, 0o600)
        self._close_torn_line()
        self._n = max((line.get("n", 0) for line in self.heads()), default=0)

    def request(self, facts: dict[str, Any], raw: bytes, *, parsed: bool) -> int:
        """Write down an arrival, before anything is answered; returns its number."""
        self._n += 1
        body = _one_line(raw, parsed) if self._bodies else None
        self._write({"event": "request", "n": self._n, "time": _now(), **facts}, body)
        return self._n

    def note(self, event: str, **facts: Any) -> None:
        """Write down what became of a request, or that something was changed."""
        self._write({"event": event, "time": _now(), **facts})

    def heads(self) -> Iterator[dict[str, Any]]:
        """Every line without its body; a line that was torn by a kill is left out."""
        with self.path.open("rb") as lines:
            for line in lines:
                head, found, _ = line.partition(BODY)
                try:
                    yield json.loads(head + b"}" if found else line)
                except ValueError:
                    continue

    def lines(self) -> Iterator[bytes]:
        """Every whole line as written."""
        with self.path.open("rb") as lines:
            yield from (line.rstrip(b"\n") for line in lines if line.endswith(b"}\n"))

    def about(self, text: str) -> Iterator[bytes]:
        """Every whole line of a request whose body has this text, and of what became of it."""
        wanted = {dump(text)[1:-1], json.dumps(text)[1:-1].encode()}
        numbers = set()
        for line in self.lines():
            head, found, body = line.partition(BODY)
            number = json.loads(head + b"}" if found else line).get("n")
            if any(spelt in body for spelt in wanted):
                numbers.add(number)
            if number in numbers:
                yield line

    def clear(self) -> None:
        """Forget every line; the numbers go on."""
        os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self, facts: dict[str, Any], body: bytes | None = None) -> None:
        line = dump(facts)
        if body is not None:
            line = line[:-1] + BODY + body + b"}"
        os.write(self._file, line + b"\n")

    def _close_torn_line(self) -> None:
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")


def _one_line(raw: bytes, parsed: bool) -> bytes:
    """A body as sent; what cannot stand in a line of JSON is put in as a string."""
    if parsed and b"\n" not in raw and b"\r" not in raw:
        return raw
    return dump(json.loads(raw) if parsed else raw.decode(errors="replace"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
