"""The prompt cache: which prefix of a request was seen before, and what the usage counters say about it."""

import hashlib
import time
from dataclasses import dataclass, field
from itertools import accumulate

from sandbox.request import Piece, Request, encode

LOOKBACK = 20
SECONDS = {"5m": 300.0, "1h": 3600.0}
PRUNE_AT = 50_000
NEVER = (0.0, "5m")


@dataclass(slots=True)
class Reading:
    """What the cache makes of one request: its token counts, and the entries to write when the answer begins."""

    total: int
    read: int = 0
    written: dict[str, int] = field(default_factory=lambda: {"5m": 0, "1h": 0})
    entries: dict[bytes, str] = field(default_factory=dict)

    @property
    def usage(self) -> dict[str, object]:
        """The input side of `usage`."""
        return {
            "input_tokens": self.total - self.read - sum(self.written.values()),
            "cache_creation_input_tokens": sum(self.written.values()),
            "cache_read_input_tokens": self.read,
            "cache_creation": {f"ephemeral_{ttl}_input_tokens": count for ttl, count in self.written.items()},
        }


class Cache:
    """Known prefixes with the time at which each is forgotten; kept in memory only."""

    def __init__(self) -> None:
        self._entries: dict[bytes, tuple[float, str]] = {}

    def measure(self, asked: Request) -> Reading:
        """Count a request against what is known, without changing it."""
        pieces = asked.fixed + asked.pieces
        marks = _marks(asked, pieces)
        sums = list(accumulate((piece.tokens for piece in pieces), initial=0))
        reading = Reading(sums[-1])
        if not marks:
            return reading
        keys = _keys(asked)
        known = self._longest(keys, marks)
        reading.read = reached = sums[known + 1]
        for position, ttl in marks.items():
            reading.written[ttl] += max(0, sums[position + 1] - reached)
            reached = max(reached, sums[position + 1])
            reading.entries[keys[position]] = ttl
        if known >= 0:
            reading.entries.setdefault(keys[known], self._entries[keys[known]][1])
        return reading

    def keep(self, reading: Reading) -> None:
        """Write and refresh the entries of a request whose answer has begun."""
        now = time.monotonic()
        for key, ttl in reading.entries.items():
            self._entries[key] = (now + SECONDS[ttl], ttl)
        if len(self._entries) > PRUNE_AT:
            self._entries = {key: entry for key, entry in self._entries.items() if entry[0] > now}

    def _longest(self, keys: list[bytes], marks: dict[int, str]) -> int:
        now = time.monotonic()
        looked_at = {at for mark in marks for at in range(mark, max(-1, mark - LOOKBACK), -1)}
        return max((at for at in looked_at if self._entries.get(keys[at], NEVER)[0] > now), default=-1)


def _marks(asked: Request, pieces: list[Piece]) -> dict[int, str]:
    marks = {at: piece.ttl for at, piece in enumerate(pieces) if piece.ttl}
    if automatic := asked.body.get("cache_control"):
        last = max((at for at, piece in enumerate(pieces) if piece.cacheable and piece.tokens), default=-1)
        if last >= 0:
            marks.setdefault(last, automatic.get("ttl", "5m"))
    return dict(sorted(marks.items()))


def _keys(asked: Request) -> list[bytes]:
    """The digest of each prefix: model and speed are in all of them, tool choice and thinking in the messages'."""
    digest = hashlib.sha256(encode([asked.model, asked.body.get("speed")]).encode())
    keys = []
    for piece in asked.fixed:
        digest.update(piece.data)
        keys.append(digest.digest())
    digest.update(encode([asked.body.get("tool_choice"), asked.body.get("thinking")]).encode())
    for piece in asked.pieces:
        digest.update(piece.data)
        keys.append(digest.digest())
    return keys
