"""Worker processes that tests kill, stop and wait for, and the `dayflow` command; each writes a log of its own.

They are forked from a process that has the imports behind it, which take most of a start; from there on each does
what the command does. `cold` starts the command itself.
"""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any

from homes import BIN, Home, until

# A secret that every worker has in its environment; it must turn up nowhere.
SECRET = "sk-ant-SENTINEL-" + "0123456789abcdef" * 2

# To start a process also looks for the end of all others, and an exit code can be read only once.
_READING = threading.Lock()
_FORKS = multiprocessing.get_context("forkserver")
_IMPORTS = ("client.cli", "client.hosting", "temporalio.worker", "workflows.agent_run", "alembic.command")
_FORKS.set_forkserver_preload(
    ["pytest", "worker", *_IMPORTS, *(f"activities.{name}" for name in ("agents", "model", "runner", "tools"))]
)


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
    """A worker on this task queue; killed with -9 at the end if it still runs. host: instead of Dayflow's own."""
    log = home.path / f"worker-{uuid.uuid4().hex[:6]}.log"
    log.touch()
    arguments = ["worker", "--task-queue", task_queue]
    environment = {**home.env, "SOME_API_KEY": SECRET, **env}
    one = _command(arguments, environment, log) if cold else _fork(host, arguments, environment, log)
    try:
        yield one
    finally:
        one.kill()


def forked(program: Callable[..., None], *arguments: Any, seconds: float = 60) -> int | None:
    """Run a function in a forked process of its own; the exit code, None if it did not end in time."""
    process = _FORKS.Process(target=program, args=arguments, daemon=True)
    process.start()
    process.join(seconds)
    return process.exitcode


def printed(home: Home, *arguments: str) -> Any:
    """The JSON that the `dayflow` command prints, which ends well; forked, as a worker is."""
    log = home.path / f"command-{uuid.uuid4().hex[:6]}.log"
    command = _fork(None, [*arguments, "--json"], home.env, log, log.with_suffix(".err"))
    code = command.ended()
    assert code == 0, f"{arguments}: exit {code}\n{log.with_suffix('.err').read_text()}"
    return json.loads(log.read_text())


def _fork(
    host: Callable[..., Any] | None, arguments: list[str], env: dict[str, str], out: Path, err: Path | None = None
) -> Worker:
    process = _FORKS.Process(target=_main, args=(host, arguments, env, out, err or out), daemon=True)
    with _READING:
        process.start()

    def wait(seconds: float) -> int | None:
        connection.wait([process.sentinel], seconds)
        with _READING:
            return process.exitcode

    return Worker(process.pid or 0, out, wait)


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


def _main(host: Callable[..., Any] | None, arguments: list[str], env: dict[str, str], out: Path, err: Path) -> None:
    """What the `dayflow` command does, in a forked process with the environment of its test."""
    from client import cli
    from worker import host as own

    for path, stream in ((out, sys.stdout), (err, sys.stderr)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.environ.clear()
    os.environ.update(env)
    cli.main(host or own, arguments)
