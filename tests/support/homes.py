"""A Dayflow home for tests: real processes on free ports, driven as a user drives them."""

import contextlib
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import forks

from store.settings import Settings

BIN = Path(sys.executable).parent
T = TypeVar("T")
# Below those that a system gives to outgoing connections: such a one may be taken by the time a process binds it.
PORTS, SLICE = range(12_000, 32_000), 2_000
# Settings of the machine that must not reach a test.
FOREIGN = ("ANTHROPIC_", "DAYFLOW_", "TEMPORAL_", "STRIPE_", "SMTP_", "IMAP_", "MAIL_")


def _own_ports() -> Iterator[int]:
    """The ports of this process: a slice for each process of a run, from a random place, for another run may be on."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first, start = PORTS.start + worker * SLICE % len(PORTS), random.randrange(SLICE)
    return itertools.cycle(first + (start + n) % SLICE for n in range(SLICE))


_ports = _own_ports()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on and no other test was given."""
    return list(itertools.islice(filter(_free, _ports), count))


def _free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def until(what: str, look: Callable[[], T | None], seconds: float = 30.0) -> T:
    """Wait until `look` gives something; fail with `what` if it never does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:g} s: {what}")


class Home:
    """One home with its server and its sandbox."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.path = path
        self.port, self.ui_port, self.sandbox_port, smtp_port, imap_port, codec_port = free_ports(6)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self.env = {
            **kept,
            "DAYFLOW_HOME": str(path),
            "DAYFLOW_PORT": str(self.port),
            "DAYFLOW_UI_PORT": str(self.ui_port),
            "DAYFLOW_SANDBOX_PORT": str(self.sandbox_port),
            "DAYFLOW_SANDBOX_SMTP_PORT": str(smtp_port),
            "DAYFLOW_SANDBOX_IMAP_PORT": str(imap_port),
            "DAYFLOW_CODEC_PORT": str(codec_port),
            "DAYFLOW_TIMEZONE": "Europe/Berlin",
            **settings,
        }

    @property
    def settings(self) -> Settings:
        """What its processes read from their environment."""
        return Settings.model_validate({name: value for name, value in self.env.items() if value})

    def dayflow(
        self, *arguments: str, env: dict[str, str] | None = None, code: int | None = 0, seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run the command; its exit code has to be `code`, unless that is None."""
        done = forks.run([*arguments], {**self.env, **(env or {})}, seconds)
        if code is not None and done.returncode != code:
            raise AssertionError(f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *arguments: str, env: dict[str, str] | None = None, code: int | None = 0) -> Any:
        """Run the command with --json and read what it printed."""
        return json.loads(self.dayflow(*arguments, "--json", env=env, code=code).stdout)

    def temporal(self, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run the plain Temporal CLI against this home's server."""
        done = subprocess.run(
            [str(BIN / "temporal"), *arguments, "--address", f"127.0.0.1:{self.port}"],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if code is not None and done.returncode != code:
            raise AssertionError(f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    @contextlib.contextmanager
    def worker(self, task_queue: str = "dayflow", **env: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker process; killed with -9 at the end if it still runs."""
        log = (self.path / f"worker-{uuid.uuid4().hex[:6]}.log").open("wb")
        process = subprocess.Popen(
            [str(BIN / "dayflow"), "worker", "--task-queue", task_queue],
            env={**self.env, **env},
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            kill(process)
            log.close()

    def start(self, run_id: str, payload: Any, task_queue: str = "dayflow") -> None:
        """Start a run by the plain Temporal CLI."""
        self.temporal(
            *("workflow", "start", "--type", "AgentRun", "--task-queue", task_queue, "--workflow-id", run_id),
            *("--input", json.dumps(payload)),
        )

    def show(self, run_id: str) -> dict[str, Any]:
        """The record of a run."""
        record: dict[str, Any] = self.json("show", run_id)
        return record

    def ends(self, run_id: str, status: str = "done", seconds: float = 60) -> dict[str, Any]:
        """Wait until the run has this status; its record."""

        def look() -> dict[str, Any] | None:
            record = self.show(run_id)
            return record if record["status"] == status else None

        return until(f"{run_id} is {status}", look, seconds)

    def sandbox(self, method: str, path: str, body: Any = None) -> Any:
        """Talk to the sandbox's own routes."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.sandbox_port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read()
        return json.loads(text) if text else None


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL, and reap."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)


def pid_of(home: Home, part: str) -> int:
    """The process of a part of the home that runs in the background."""
    return int(json.loads((home.path / "run" / f"{part}.json").read_text())["pid"])


def kill_server(home: Home) -> None:
    """SIGKILL to the Temporal server, and wait until it is gone."""
    os.kill(pid_of(home, "server"), signal.SIGKILL)
    until("the server is gone", lambda: home.temporal("operator", "cluster", "health", code=None).returncode)


@contextlib.contextmanager
def running(home: Home) -> Iterator[Home]:
    """The home with its server and its sandbox up; nothing is left running."""
    home.dayflow("up", "--no-worker")
    try:
        yield home
    finally:
        for part in (home.path / "run").glob("*.json"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid_of(home, part.stem), signal.SIGKILL)
