"""Streams: what a model says just now, for whoever watches.

No run reads them, and nothing that goes wrong with them harms one. Each attempt has its own: a file in the home, or
rows of the store where `DAYFLOW_DATABASE_URL` names one for many machines. It goes when its answer is in the ledger,
when the run's next call begins, or with age, by the nightly clean-up.
"""

import asyncio
import base64
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sqlalchemy import and_, delete, func, insert, not_, select

from domain import errors
from domain.model import Attempt, Event
from store.database import Database
from store.schema import streams
from store.seal import Seal
from store.settings import Settings

# What a writer is waited for; a disk or a database that hangs is given up.
PATIENCE_S = 1.0
# An attempt says no more than this; an answer that is longer is not accepted anyway.
MOST_BYTES = 2_000_000
# What nobody removed: attempts of runs that were killed and never went on.
KEPT = timedelta(days=1)

log = logging.getLogger(__name__)


class Piece(NamedTuple):
    """What an attempt said from a place on: whole lines, and the place behind them."""

    attempt: Attempt
    end: int
    lines: bytes


class Gone(Exception):
    """The stream was removed: another attempt has begun."""


class Channel(Protocol):
    """Where streams are. `rest`: seconds between two writes, and between two looks."""

    rest: float

    async def append(self, run: str, attempt: Attempt, written: int, lines: bytes) -> None:
        """Add to a stream, of which so many writes were made; `Gone` if those are not there any more."""

    async def read(self, run: str, seen: Piece | None) -> Piece | None:
        """What the newest attempt said since then; None if nothing."""

    async def remove(self, run: str, *, only: Attempt | None = None, but: Attempt | None = None) -> None:
        """Remove a run's streams: that one alone, or all but that one."""

    async def old(self, before: datetime) -> set[str]:
        """The runs of which nothing was said since."""


class Files:
    """One file an attempt, in a folder a run."""

    rest = 0.1

    def __init__(self, home: Path) -> None:
        self._root = home / "streams"

    async def append(self, run: str, attempt: Attempt, written: int, lines: bytes) -> None:
        """One write at the end of the file; only the first one may make it."""
        await asyncio.to_thread(_append, self._path(run, attempt), lines, new=not written)

    async def read(self, run: str, seen: Piece | None) -> Piece | None:
        """The whole lines behind the place that was reached."""
        return await asyncio.to_thread(self._read, run, seen)

    async def remove(self, run: str, *, only: Attempt | None = None, but: Attempt | None = None) -> None:
        """The files, and the folder with its last one; mostly there are none, which takes no thread to see."""
        if (self._root / run).is_dir():
            await asyncio.to_thread(self._remove, run, only, but)

    async def old(self, before: datetime) -> set[str]:
        """By the time of the last write."""
        return await asyncio.to_thread(self._old, before.timestamp())

    def _path(self, run: str, attempt: Attempt) -> Path:
        return self._root / run / f"{attempt.step}.{attempt.ask}.{attempt.attempt}.jsonl"

    def _attempts(self, run: str) -> list[Attempt]:
        with suppress(FileNotFoundError):
            names = [name.split(".") for name in os.listdir(self._root / run)]
            return sorted(Attempt(*map(int, parts[:3])) for parts in names if len(parts) == 4)
        return []

    def _read(self, run: str, seen: Piece | None) -> Piece | None:
        attempts = self._attempts(run)
        if not attempts:
            return None
        start = seen.end if seen and seen.attempt == attempts[-1] else 0
        with suppress(FileNotFoundError), self._path(run, attempts[-1]).open("rb") as file:
            file.seek(start)
            whole, newline, _ = file.read().rpartition(b"\n")
            return Piece(attempts[-1], start + len(whole) + 1, whole) if newline else None
        return None

    def _remove(self, run: str, only: Attempt | None, but: Attempt | None) -> None:
        for attempt in [only] if only else self._attempts(run):
            if attempt != but:
                self._path(run, attempt).unlink(missing_ok=True)
        with suppress(OSError):  # another attempt's file is in it, or it never was
            (self._root / run).rmdir()

    def _old(self, before: float) -> set[str]:
        found = set()
        for folder in self._root.glob("*/"):
            with suppress(OSError):  # its answer came just now
                if max(path.lstat().st_mtime for path in (folder, *folder.iterdir())) < before:
                    found.add(folder.name)
        return found


class Rows:
    """One row a write, in the store."""

    rest = 0.5

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, run: str, attempt: Attempt, written: int, lines: bytes) -> None:
        """One row more; only the first one needs none before it."""
        mine = {"run": run, **attempt._asdict()}
        async with self._database.transaction(cheap=True) as connection:
            before = select(streams.c.n).where(_is(run, attempt), streams.c.n == written - 1)
            if written and (await connection.execute(before)).first() is None:
                raise Gone
            await connection.execute(
                insert(streams).values(**mine, n=written, lines=lines.decode("ascii"), at=datetime.now(UTC))
            )

    async def read(self, run: str, seen: Piece | None) -> Piece | None:
        """The rows behind the one that was reached."""
        places = (streams.c.step, streams.c.ask, streams.c.attempt)
        newest = select(*places).where(streams.c.run == run).order_by(*(place.desc() for place in places)).limit(1)
        async with self._database.reading() as connection:
            found = (await connection.execute(newest)).first()
            if found is None:
                return None
            attempt = Attempt(*found)
            start = seen.end if seen and seen.attempt == attempt else 0
            wanted = select(streams.c.n, streams.c.lines).where(_is(run, attempt), streams.c.n >= start)
            rows = (await connection.execute(wanted.order_by(streams.c.n))).all()
        return Piece(attempt, rows[-1].n + 1, "".join(row.lines for row in rows).encode()) if rows else None

    async def remove(self, run: str, *, only: Attempt | None = None, but: Attempt | None = None) -> None:
        """The rows; nothing is locked where there are none."""
        mine = _is(run, only) if only else streams.c.run == run
        wanted = and_(mine, not_(_is(run, but))) if but else mine
        async with self._database.reading() as connection:
            if (await connection.execute(select(streams.c.n).where(wanted).limit(1))).first() is None:
                return
        async with self._database.transaction(cheap=True) as connection:
            await connection.execute(delete(streams).where(wanted))

    async def old(self, before: datetime) -> set[str]:
        """By the time of the last write."""
        wanted = select(streams.c.run).group_by(streams.c.run).having(func.max(streams.c.at) < before)
        async with self._database.reading() as connection:
            return set((await connection.execute(wanted)).scalars())


class Sealed:
    """A channel on which each write is one sealed line; a watcher without the key hears nothing."""

    def __init__(self, channel: Channel, seal: Seal) -> None:
        self._channel, self._seal = channel, seal
        self.rest = channel.rest
        self.remove, self.old = channel.remove, channel.old

    async def append(self, run: str, attempt: Attempt, written: int, lines: bytes) -> None:
        """All lines of a write in one."""
        await self._channel.append(run, attempt, written, base64.b64encode(self._seal.seal(lines)) + b"\n")

    async def read(self, run: str, seen: Piece | None) -> Piece | None:
        """The lines of each write that can be opened."""
        piece = await self._channel.read(run, seen)
        return piece and piece._replace(lines=b"".join(map(self._opened, piece.lines.splitlines())))

    def _opened(self, line: bytes) -> bytes:
        try:
            return self._seal.open(base64.b64decode(line, validate=True))
        except (ValueError, errors.MissingKey, errors.NotSealed):
            return b""


class Voice:
    """One attempt's side of it: to say something never waits, and never fails."""

    def __init__(self, channel: Channel, run: str, attempt: Attempt) -> None:
        self._channel, self._run, self._attempt = channel, run, attempt
        self._events: list[Event] = []
        self._due: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._written = self._bytes = 0
        self._given_up = self._lost = False

    def say(self, event: Event) -> None:
        """Add an event; words that continue the last one of the same block are put to it."""
        if self._given_up:
            return
        last = self._events[-1] if self._events else None
        if last and "text" in event and (last["type"], last.get("block")) == (event["type"], event["block"]):
            last["text"] += event["text"]
        else:
            self._events.append(dict(event))
        if self._due is None:
            self._later()

    def lose(self) -> None:
        """Nothing more will come of this attempt; another one will begin."""
        self._lost = True

    async def close(self) -> None:
        """Remove what was written, or say that it is lost. What was over before its first write is never written."""
        if self._due:
            self._due.cancel()
        if self._writing:
            await self._writing
        if self._lost and self._written:
            self._events.append({"type": "lost"})
            await self._flush()
        elif self._written:
            await _harmless(self._channel.remove(self._run, only=self._attempt))

    def _later(self) -> None:
        self._due = asyncio.get_running_loop().call_later(self._channel.rest, self._write)

    def _write(self) -> None:
        self._due = None
        if self._writing and not self._writing.done():
            self._later()
        else:
            self._writing = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        lines = b"".join(map(encode, self._events))
        self._events = []
        self._bytes += len(lines)
        if self._given_up or self._bytes > MOST_BYTES:
            self._given_up = True
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._channel.append(self._run, self._attempt, self._written, lines)
            self._written += 1
        except Gone:
            self._given_up = True
        except Exception as error:
            self._given_up = True
            log.warning("step %d cannot be watched while it is answered: %s", self._attempt.step, error or "no answer")


class Streams:
    """The streams of one worker."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @asynccontextmanager
    async def voice(self, run: str, attempt: Attempt, model: str) -> AsyncIterator[Voice]:
        """The stream of an attempt that begins; what the attempts before it said is removed meanwhile."""
        tidying = asyncio.create_task(_harmless(self._channel.remove(run, but=attempt)))
        voice = Voice(self._channel, run, attempt)
        voice.say({"type": "begin", **attempt._asdict(), "model": model, "at": datetime.now(UTC).isoformat()})
        try:
            yield voice
        finally:
            await voice.close()
            await tidying


class Tail:
    """A run's streams as a watcher hears them, the newest attempt alone."""

    def __init__(self, channel: Channel, run: str) -> None:
        self._channel, self._run = channel, run
        self._seen: Piece | None = None

    async def news(self) -> list[tuple[Attempt, Event]]:
        """What was said since the last call; lines that cannot be read are left out."""
        piece = await self._channel.read(self._run, self._seen)
        if piece is None:
            return []
        self._seen = piece._replace(lines=b"")
        events = map(decode, piece.lines.splitlines())
        return [(piece.attempt, event) for event in events if event is not None]


def of(settings: Settings, database: Database | None) -> Channel:
    """The channel of these settings; the database is needed where `DAYFLOW_DATABASE_URL` is set."""
    channel = Rows(database) if settings.database_url and database else Files(settings.home)
    return Sealed(channel, settings.seal) if settings.seal.on else channel


def encode(event: Event) -> bytes:
    """An event as one line, in ASCII."""
    return json.dumps(event, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> Event | None:
    """The event of a line; None if it is none."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else None


async def _harmless(work: Awaitable[None]) -> None:
    """Work that is left undone when it fails or hangs: age removes what it would have removed."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await work
    except Exception as error:
        log.debug("streams are not tidied: %s", error)


def _append(path: Path, lines: bytes, *, new: bool) -> None:
    if new:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT if new else 0)
    try:
        with open(path, "ab", opener=lambda name, _: os.open(name, flags, 0o600)) as file:
            file.write(lines)
    except FileNotFoundError:
        raise Gone from None


def _is(run: str, attempt: Attempt) -> Any:
    return and_(
        streams.c.run == run,
        streams.c.step == attempt.step,
        streams.c.ask == attempt.ask,
        streams.c.attempt == attempt.attempt,
    )
