"""Worker processes that tests kill, stop and wait for; each writes a log of its own."""

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import forks
from homes import BIN, Home, until

# A secret that every worker has in its environment; it must turn up nowhere.
SECRET = "sk-ant-SENTINEL-" + "0123456789abcdef" * 2


@dataclass
class Worker:
    """One worker process."""

    pid: int
    log: Path
    wait: Callable[[float], int | None]
    started: float = field(default_factory=time.time)

    def ready(self, seconds: float = 60) -> float:
        """Wait until it polls; when it said so, in seconds since the epoch."""

        def said() -> float | None:
            code = self.wait(0)
            assert code is None, f"the worker ended: {code}\n{self.log.read_text()}"
            return self.log.stat().st_mtime if b"worker ready" in self.log.read_bytes() else None

        return until("the worker is ready", said, seconds)

    def ended(self, seconds: float = 60) -> int:
        """Wait until it ends; its exit code."""
        code = self.wait(seconds)
        assert code is not None, f"the worker still runs\n{self.log.read_text()}"
        return code

    def died(self, seconds: float = 60) -> None:
        """Wait until it killed itself by SIGKILL; any other end is a mistake."""
        code = self.ended(seconds)
        assert code == -signal.SIGKILL, f"exit {code}\n{self.log.read_text()}"

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self.wait(0) is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it with -9."""
        self.signal(signal.SIGKILL)
        self.ended(10)


@contextlib.contextmanager
def working(
    home: Home, task_queue: str, *, host: Callable[..., Any] | None = None, cold: bool = False, **env: str
) -> Iterator[Worker]:
    """A worker on this task queue; killed with -9 at the end if it still runs.

    host: instead of Dayflow's own. cold: the plain command, imports and all, is not forked from a warm process.
    """
    log = home.path / f"worker-{uuid.uuid4().hex[:6]}.log"
    log.touch()
    arguments = ["worker", "--task-queue", task_queue]
    environment = {**home.env, "SOME_API_KEY": SECRET, **env}
    one = _command(arguments, environment, log) if cold else _fork(arguments, environment, log, host)
    try:
        yield one
    finally:
        one.kill()


def _fork(arguments: list[str], env: dict[str, str], log: Path, host: Callable[..., Any] | None) -> Worker:
    fork = forks.dayflow(arguments, env, log, host=host)
    return Worker(fork.pid, log, fork.wait)


def _command(arguments: list[str], env: dict[str, str], log: Path) -> Worker:
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(BIN / "dayflow"), *arguments], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )

    def wait(seconds: float) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode

    return Worker(process.pid, log, wait)
