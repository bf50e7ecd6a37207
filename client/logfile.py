"""The log file of the commands: their terminal is for people. A worker, and what serves, logs to its stderr instead."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from client.background import LOG_BYTES
from store import logs

if TYPE_CHECKING:
    from temporalio.runtime import Runtime

CORE = logging.getLogger("temporalio.core")
ACTIVITIES = logging.getLogger("temporalio.activity")
AWAY_S = 60.0


class File(RotatingFileHandler):
    """A file that is made at its first line; where it cannot be written, the line is lost and nothing else."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=LOG_BYTES, backupCount=1, delay=True)

    def _open(self) -> Any:
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:
        """The terminal is not the place for it either."""


class Retries(logging.Handler):
    """Tells of each attempt for one run that failed in this process and is made again by itself.

    patience: of what mends itself in so many seconds nothing is told, and of the rest once; 0 tells of each attempt.
    """

    def __init__(self, run_id: str, tell: Callable[[str], None], patience: float) -> None:
        super().__init__()
        self._run_id, self._tell, self._patience = run_id, tell, patience
        self._since: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Tell, if it is one."""
        about = getattr(record, "temporal_activity", {})
        error = record.exc_info[1] if record.exc_info else None
        ours = about.get("workflow_id") == self._run_id and not getattr(error, "non_retryable", False)
        if error and ours and self._is_due(about["activity_id"]):
            self._tell(
                f"{about['activity_type']}, attempt {about['attempt']}: {_words(error)}; it is tried again by itself"
            )

    def _is_due(self, activity_id: str) -> bool:
        if not self._patience:
            return True
        now = time.monotonic()
        due = now - self._since.setdefault(activity_id, now) >= self._patience
        if due:
            self._since[activity_id] = math.inf
        return due


class ServerAway(logging.Filter):
    """Of what the SDK says each time that a worker asks a server in vain one sentence is left, once a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._told = -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line stays, in other words if need be."""
        if not record.name.endswith("temporalio_client::retry") or "gRPC call poll_" not in record.getMessage():
            return True
        if time.monotonic() < self._told + AWAY_S:
            return False
        self._told = time.monotonic()
        record.name, record.args = "dayflow", ()
        record.msg = "the Temporal server does not answer; the worker asks again by itself, and works on once it does"
        return True


def begin_worker() -> None:
    """Log to stderr, as a worker does."""
    handler = logging.StreamHandler()
    handler.addFilter(ServerAway())
    logs.begin(handler)


def begin(home: Path) -> None:
    """Keep what is logged from now on in the home."""
    logs.begin(File(home / "logs" / "cli.log"))


def _words(error: BaseException) -> str:
    return logs.line(error).removeprefix("ApplicationError: ")


@contextmanager
def retries(run_id: str, tell: Callable[[str], None], patience: float) -> Iterator[None]:
    """Tell of what is tried again for a run, as long as the block runs."""
    handler = Retries(run_id, tell, patience)
    ACTIVITIES.addHandler(handler)
    try:
        yield
    finally:
        ACTIVITIES.removeHandler(handler)


@cache
def runtime() -> "Runtime":
    """The SDK's runtime, whose own lines go where all others go."""
    from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig

    forwarded = LoggingConfig(LoggingConfig.default.filter, LogForwardingConfig(CORE))
    made = Runtime(telemetry=TelemetryConfig(logging=forwarded))
    Runtime.set_default(made, error_if_already_set=False)
    return made
