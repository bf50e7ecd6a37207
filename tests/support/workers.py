"""Worker processes that tests kill, stop and wait for; each writes a log of its own."""

import contextlib
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from homes import BIN, Home, kill, until

# A secret that every worker has in its environment; it must turn up nowhere.
SECRET = "sk-ant-SENTINEL-" + "0123456789abcdef" * 2
DAYFLOW_WORKER = (str(BIN / "dayflow"), "worker")


@dataclass
class Worker:
    """One worker process."""

    process: subprocess.Popen[bytes]
    log: Path
    started: float = field(default_factory=time.time)

    def ready(self, seconds: float = 60) -> float:
        """Wait until it polls; when it said so, in seconds since the epoch."""

        def said() -> float | None:
            assert self.process.poll() is None, f"the worker ended: {self.process.returncode}\n{self.log.read_text()}"
            return self.log.stat().st_mtime if b"worker ready" in self.log.read_bytes() else None

        return until("the worker is ready", said, seconds)

    def died(self, seconds: float = 60) -> None:
        """Wait until it killed itself by SIGKILL; any other end is a mistake."""
        code = self.process.wait(timeout=seconds)
        assert code == -signal.SIGKILL, f"exit {code}\n{self.log.read_text()}"

    def kill(self) -> None:
        """Kill it with -9."""
        kill(self.process)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)


@contextlib.contextmanager
def worker(
    home: Home, task_queue: str, command: Sequence[str] = DAYFLOW_WORKER, **env: str
) -> Iterator[Worker]:
    """A worker on this task queue; killed with -9 at the end if it still runs."""
    path = home.path / f"worker-{uuid.uuid4().hex[:6]}.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [*command, "--task-queue", task_queue],
            env={**home.env, "SOME_API_KEY": SECRET, **env},
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    try:
        yield Worker(process, path)
    finally:
        kill(process)
