"""The `dayflow` command in processes that are forked from one which has the imports behind it, most of a start.

From there on each does what the command does.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

# To start a process also looks for the end of all others, and an exit code can be read only once.
_READING = threading.Lock()
_FORKS = multiprocessing.get_context("forkserver")
_IMPORTS = ("client.cli", "client.hosting", "temporalio.worker", "workflows.agent_run", "alembic.command")
_TOOLS = (Path(__file__).resolve().parents[2] / "activities" / "tools").glob("[a-z]*.py")
_FORKS.set_forkserver_preload(
    [
        *("pytest", "worker", *_IMPORTS, "alembic.runtime.migration", "httpcore2", "charset_normalizer"),
        *(f"activities.{name}" for name in ("agents", "model", "runner", "retention", "firings")),
        *(f"activities.tools.{tool.stem}" for tool in _TOOLS),
    ]
)


@dataclass
class Fork:
    """One forked process."""

    process: ForkServerProcess

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid or 0

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None if it did not end in time."""
        connection.wait([self.process.sentinel], seconds)
        with _READING:
            return self.process.exitcode

    def kill(self) -> None:
        """Kill it with -9, if it still runs."""
        if self.wait(0) is None:
            self.process.kill()
            self.wait(10)


def forked(program: Callable[..., None], *arguments: Any) -> Fork:
    """Run a function in a process of its own."""
    process = _FORKS.Process(target=program, args=arguments, daemon=True)
    with _READING:
        process.start()
    return Fork(process)


def dayflow(
    arguments: list[str],
    env: dict[str, str],
    out: Path,
    err: Path | None = None,
    host: Callable[..., Any] | None = None,
) -> Fork:
    """The command with this environment. host: a worker instead of Dayflow's own."""
    return forked(_main, host, arguments, env, out, err or out)


def run(arguments: list[str], env: dict[str, str], seconds: float) -> "subprocess.CompletedProcess[str]":
    """The command, to its end."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        out.touch()
        err.touch()
        command = dayflow(arguments, env, out, err)
        code = command.wait(seconds)
        if code is None:
            command.kill()
            raise subprocess.TimeoutExpired(arguments, seconds, out.read_text(), err.read_text())
        return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())


def _main(host: Callable[..., Any] | None, arguments: list[str], env: dict[str, str], out: Path, err: Path) -> None:
    from client import cli
    from worker import host as own

    for path, stream in ((out, sys.stdout), (err, sys.stderr)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["dayflow", *arguments]
    cli.main(host or own, arguments)
