"""One background process of a home: its pid file, its log, and whether it is still the one that was started."""

import asyncio
import fcntl
import json
import os
import platform
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from domain import errors

POLL_S = 0.02
STOP_S = 10.0
LOG_BYTES = 10_000_000
# Kept, because a Popen that is dropped while its process runs is a ResourceWarning; polled, to reap what has ended.
_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Record:
    """What the pid file says.

    started: the operating system's mark of the process's start, by which a reused pid is noticed.
    settings: digest of the settings it was started with. ready: it answered, and what follows a start was done.
    """

    pid: int
    started: str
    since: str
    command: list[str]
    address: str
    ports: dict[str, int] = field(default_factory=dict)
    settings: str = ""
    ready: bool = False

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        return bool(self.started) and mark(self.pid) == self.started


class Background:
    """The files of one background process."""

    def __init__(self, home: Path, name: str) -> None:
        self.name = name
        self.file = home / "run" / f"{name}.json"
        self.lock = home / "run" / f"{name}.lock"
        self.log = home / "logs" / f"{name}.log"

    def read(self) -> Record | None:
        """The pid file; None if there is none, or none that can be read."""
        try:
            return Record(**json.loads(self.file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, record: Record) -> None:
        """Replace the pid file at once: a reader never sees half of it."""
        draft = self.file.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(record), indent=1))
        draft.replace(self.file)

    def launch(
        self, command: list[str], environment: dict[str, str], address: str, ports: dict[str, int], settings: str
    ) -> Record:
        """Start it, detached from this terminal. The caller's folder stays: variables may hold relative paths."""
        self._make_room()
        lock = self._held_lock()
        try:
            process = self._spawn(command, environment, lock)
            os.pwrite(lock, f"{process.pid}\n".encode(), 0)
        finally:
            os.close(lock)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        record = Record(process.pid, mark(process.pid) or "", since, command, address, ports, settings)
        self.write(record)
        return record

    def mark_ready(self, record: Record) -> None:
        """Note that nothing is left to do after this start."""
        self.write(replace(record, ready=True))

    def tail(self, lines: int, since: int = 0) -> list[str]:
        """The last lines of the log, of what was written after `since` bytes."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(since, self.size - 200 * 1024))
                return log.read().decode(errors="replace").splitlines()[-lines:]
        except OSError:
            return []

    @property
    def size(self) -> int:
        """Bytes in the log."""
        return self.log.stat().st_size if self.log.exists() else 0

    async def stop(self, progress: Callable[[str], None]) -> bool:
        """End it: SIGTERM, and SIGKILL if it takes too long. False if it did not run."""
        record = self.read()
        running = record is not None and record.alive
        if record and running:
            progress(f"stopping the {self.name} (pid {record.pid})")
            await _end(record, progress)
        elif self.file.exists():
            progress(f"{self.name}: removing a stale pid file; its process is gone")
        self.file.unlink(missing_ok=True)
        return running

    def _spawn(self, command: list[str], environment: dict[str, str], lock: int) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            try:
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=(lock,),
                )
            except OSError as error:
                raise errors.Unreachable(f"{command[0]} cannot be run: {error.strerror}") from error
        _children.append(process)
        return process

    def _make_room(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))

    def held(self) -> bool:
        """Whether a process of ours holds the lock; one that was killed does so until the last of it is gone."""
        if not self.lock.exists():
            return False
        lock = os.open(self.lock, os.O_RDWR)
        try:
            return not locked(lock)
        finally:
            os.close(lock)

    def _held_lock(self) -> int:
        """A lock that the process inherits and holds for life: two servers on one file damage it, unnoticed."""
        lock = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        if not locked(lock):
            pid = os.read(lock, 20).decode(errors="replace").strip()
            os.close(lock)
            raise errors.Unreachable(
                f"a {self.name} of this home still runs, although its pid file is lost: `kill {pid}`, then try again."
            )
        return lock


def locked(lock: int) -> bool:
    """Take this lock, if nobody has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def mark(pid: int) -> str | None:
    """The start of the process with this pid, as the operating system knows it; None if there is none, or a zombie."""
    for child in _children:
        child.poll()
    return _mark_by_proc(pid) if platform.system() == "Linux" else _mark_by_ps(pid)


async def until(check: Callable[[], Awaitable[bool]], record: Record, seconds: float) -> bool:
    """Whether the check came true in time; once the process has ended, only what is so then counts."""
    deadline = time.monotonic() + seconds
    while not await check():
        if time.monotonic() > deadline or not record.alive:
            return await check()
        await asyncio.sleep(POLL_S)
    return True


async def _end(record: Record, progress: Callable[[str], None]) -> None:
    async def gone() -> bool:
        return not record.alive

    _signal(record, signal.SIGTERM)
    if not await until(gone, record, STOP_S):
        progress(f"pid {record.pid} did not stop in {STOP_S:.0f} s; killing it")
        _signal(record, signal.SIGKILL)
        await until(gone, record, STOP_S)


def _signal(record: Record, number: signal.Signals) -> None:
    if record.alive:
        os.kill(record.pid, number)


def _mark_by_proc(pid: int) -> str | None:
    """Clock ticks since boot, and which boot."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (OSError, ValueError):
        return None
    return None if state == "Z" else f"{boot}:{fields[18]}"


def _mark_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    state, _, started = told.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()
