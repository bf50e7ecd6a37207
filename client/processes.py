"""The processes of one home: start what is missing, say what runs, stop what was started."""

import asyncio
import errno
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from client import background, connection
from client.background import Record
from client.contact import probe, reach
from client.embedded import Codec, Name, Part, Sandbox, Server, Worker, check_ports
from domain import errors
from store.settings import Settings

State = Literal["running", "stopped", "stale", "foreign", "other", "silent"]
Progress = Callable[[str], None]
LOCK_S = 90.0
DYING_S = 2.0
TELL_S = 2.0
TAIL = 12
LEAST_ROOM = 1_000_000


@dataclass(frozen=True)
class PartStatus:
    """How one part stands.

    stale: a pid file without its process. foreign: another program has its place. other: it runs, but not as the
    settings say. silent: it runs, and does not answer.
    since: when it was started (ISO 8601). started: it was started just now.
    """

    part: Name
    state: State
    address: str
    pid: int | None = None
    since: str | None = None
    log: Path | None = None
    note: str | None = None
    started: bool = False

    @property
    def running(self) -> bool:
        """Whether it can be used."""
        return self.state == "running"


async def ensure(settings: Settings, *, worker: bool = False, progress: Progress) -> list[PartStatus]:
    """Start what is missing of server, sandbox and (if asked for) worker; return when all of them answer."""
    check_ports(settings)
    parts = _needed(settings, worker)
    found = await asyncio.gather(*(_look(part) for part in parts))
    if not all(one.running and _done(part) for one, part in zip(found, parts, strict=True)):
        with _usable(settings.home):
            async with _alone(settings.home, progress):
                found = await _bring_up(parts, progress)
    for part, one in zip(parts, found, strict=True):
        _compare(part, one, progress)
    return found


async def status(settings: Settings) -> list[PartStatus]:
    """How each part of this home stands."""
    parts = _needed(settings, worker=True)
    for kind in (Sandbox, Codec):  # one that is not needed any more may still run
        if not any(isinstance(part, kind) for part in parts) and kind(settings).process.read():
            parts.insert(-1, kind(settings))
    found = list(await asyncio.gather(*(_look_for_any(part) for part in parts)))
    return found if connection.embedded() else [await _outside(settings), *found]


async def down(settings: Settings, progress: Progress) -> list[Name]:
    """Stop what was started in the background: the worker first, the server last. Returns what ran."""
    stopped: list[Name] = []
    if not (settings.home / "run").exists():
        return stopped
    with _usable(settings.home):
        async with _alone(settings.home, progress):
            for part in (Worker(settings), Codec(settings), Sandbox(settings), Server(settings)):
                if await part.process.stop(progress):
                    stopped.append(part.name)
    return stopped


def _needed(settings: Settings, worker: bool) -> list[Part]:
    wanted: list[tuple[type[Part], bool]] = [
        (Server, connection.embedded()),
        (Sandbox, settings.sandbox_needed),
        (Codec, settings.seal.on),
        (Worker, worker),
    ]
    return [kind(settings) for kind, needed in wanted if needed]


async def _look(part: Part) -> PartStatus:
    record = part.process.read()
    if record and record.alive:
        state, note = await _state(part, record)
        return _told(part, state, record, note)
    if await part.answers(None):
        return _told(part, "running", None, "started by hand")
    if stranger := await part.stranger():
        return _told(part, "foreign", None, stranger)
    return _told(part, "stale" if record else "stopped", None)


async def _look_for_any(part: Part) -> PartStatus:
    """The same; a worker that runs in a terminal, or on another machine, is one."""
    seen = await _look(part)
    if isinstance(part, Worker) and seen.state in ("stopped", "stale") and (others := await part.others()):
        return replace(seen, state="running", note=f"not started by `dayflow up`: {', '.join(others)}")
    return seen


async def _state(part: Part, record: Record) -> tuple[State, str | None]:
    if moved := part.moved(record):
        return "other", moved
    try:
        if await part.answers(record.pid):
            return "running", None
    except errors.BadSetting as error:
        if record.ready:
            return "other", str(error)
    return "silent", f"it runs, and does not answer; `dayflow logs {part.name}` may say why"


def _told(part: Part, state: State, record: Record | None, note: str | None = None) -> PartStatus:
    log = part.process.log if part.process.log.exists() else None
    if record is None:
        return PartStatus(part.name, state, part.address, log=log, note=note)
    return PartStatus(part.name, state, record.address, record.pid, record.since, log, note)


async def _outside(settings: Settings) -> PartStatus:
    state: State = "running" if await reach(settings) else "stopped"
    return PartStatus("server", state, connection.address(settings), note="by TEMPORAL_ADDRESS; not of this home")


def _done(part: Part) -> bool:
    record = part.process.read()
    return record is None or record.ready


async def _bring_up(parts: list[Part], progress: Progress) -> list[PartStatus]:
    """Server and sandbox side by side, then the worker, which needs both."""
    first = [part for part in parts if not isinstance(part, Worker)]
    found = await asyncio.gather(*(_start(part, progress) for part in first), return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    rest = []
    for part in parts:
        if isinstance(part, Worker):
            await probe(part.settings)
            rest.append(await _start(part, progress))
    return [one for one in found if isinstance(one, PartStatus)] + rest


async def _start(part: Part, progress: Progress) -> PartStatus:
    seen, record = await _settled(part), part.process.read()
    if seen.running and _done(part):
        return seen
    if seen.state in ("foreign", "other"):
        raise errors.Unreachable(seen.note or f"another program has the place of the {part.title}")
    offset, fresh = part.process.size, not (record and record.alive)
    if fresh:
        record = _launch(part, seen, progress)
    assert record is not None
    async with _patient(part, progress):
        if answers := await background.until(lambda: _answers(part, record), record, part.start_s):
            await part.prepare()
    if not answers and not fresh and not record.alive:  # it was dying when it was looked at
        return await _start(part, progress)
    if not answers:
        await _give_up(part, record, fresh, offset)
    part.process.mark_ready(record)
    return PartStatus(part.name, "running", part.address, record.pid, record.since, part.process.log, started=fresh)


@asynccontextmanager
async def _patient(part: Part, progress: Progress) -> AsyncIterator[None]:
    """Say every few seconds that a part is still waited for."""

    async def tell() -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(TELL_S)
            progress(f"  the {part.title} is not ready yet, after {time.monotonic() - began:.0f} s")

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()


async def _settled(part: Part) -> PartStatus:
    """How the part stands, once one that was killed a moment ago has let go of its port and its lock."""
    deadline = time.monotonic() + DYING_S
    while True:
        seen, stale = await _look(part), part.process.read()
        dying = (seen.state == "foreign" and stale) or (seen.state in ("stopped", "stale") and part.process.held())
        if not dying or time.monotonic() > deadline:
            return seen
        await asyncio.sleep(background.POLL_S)


async def _answers(part: Part, record: Record) -> bool:
    try:
        return await part.answers(record.pid)
    except errors.BadSetting:  # a server that has just begun may not know its namespace yet
        return False


def _launch(part: Part, seen: PartStatus, progress: Progress) -> Record:
    if seen.state == "stale":
        progress(f"{part.name}: found a stale pid file; its process is gone")
    progress(f"starting the {part.title} ({part.address})")
    return part.process.launch(part.command(), part.environment(), part.address, part.ports, part.settings_digest())


async def _give_up(part: Part, record: Record, fresh: bool, offset: int) -> None:
    """Say why a part does not answer; one that was just started is not left behind."""
    ended = not record.alive
    if fresh:
        await part.process.stop(lambda _: None)
    lines = part.process.tail(TAIL, offset if fresh else 0)
    why = "ended before it answered" if ended else f"does not answer after {part.start_s:.0f} s"
    raise errors.Unreachable(
        "\n  ".join([f"the {part.title} {why}. The end of {part.process.log}:", *(line[:500] for line in lines)])
        + f"\n{_advice(part, lines)}"
    )


def _advice(part: Part, lines: list[str]) -> str:
    text = "\n".join(lines)
    if isinstance(part, Server) and ("database is locked" in text or 'Namespace "default" is not found' in text):
        return f"Another process holds {part.file}: end it, and try again."
    return "`dayflow down` ends what is left; `dayflow doctor` checks what it needs."


def _compare(part: Part, seen: PartStatus, progress: Progress) -> None:
    record = part.process.read()
    if record and not seen.started and record.settings != part.settings_digest():
        progress(
            f"the {part.title} was started with other settings; `dayflow down` and `dayflow up` make it take these"
        )


@contextmanager
def _usable(home: Path) -> Iterator[None]:
    """What the system says about the home, in our words."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        (home / "run").mkdir(exist_ok=True, mode=0o700)
        yield
    except errors.Unreachable as error:
        if not _full(home, str(error)):
            raise
        raise errors.Unreachable(f"{error}\nThe disk of {home} is full: make room, and try again.") from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise errors.Unreachable(f"the disk of {home} is full: make room, and try again") from error
        raise errors.BadSetting("DAYFLOW_HOME", f"{home} cannot be written: {error.strerror}") from error


def _full(home: Path, said: str) -> bool:
    """Whether a full disk is why, although what it ended may have had no room to say so."""
    return "disk is full" in said or "No space left" in said or shutil.disk_usage(home).free < LEAST_ROOM


@asynccontextmanager
async def _alone(home: Path, progress: Progress) -> AsyncIterator[None]:
    """One at a time starts and stops processes of a home."""
    lock = os.open(home / "run" / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline, told = time.monotonic() + LOCK_S, False
    try:
        while not background.locked(lock):
            if time.monotonic() > deadline:
                raise errors.Unreachable(f"another dayflow has been starting or stopping in {home} for {LOCK_S:.0f} s")
            if not told:
                progress("waiting for another dayflow that starts or stops this home")
            told = True
            await asyncio.sleep(background.POLL_S)
        yield
    finally:
        os.close(lock)
