"""The workers that ask for work, without those that the server still remembers though they have ended."""

import os
import socket
import subprocess
import time
from datetime import datetime
from pathlib import Path

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

# An idle worker asks once a minute.
POLL_SEEN_S = 75.0
# By so much the server's clock may be behind ours.
CLOCKS_S = 5.0


async def asking(client: Client, task_queue: str) -> list[str]:
    """Who asks for workflow tasks, by identity: `pid@host`."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    try:
        found = (await client.workflow_service.describe_task_queue(request)).pollers
    except RPCError:
        return []
    seen = {one.identity: one.last_access_time.ToMicroseconds() / 1e6 for one in found}
    return [identity for identity, last in seen.items() if last > time.time() - POLL_SEEN_S and lives(identity, last)]


def own() -> str:
    """The identity of a worker in this process."""
    return f"{os.getpid()}@{socket.gethostname()}"


def lives(identity: str, seen: float) -> bool:
    """Whether one that asked then can still be there: of this machine only the process that it was."""
    pid, _, host = identity.partition("@")
    if host != socket.gethostname() or not pid.isdecimal():
        return True
    began = started(int(pid))
    return began is not None and began <= seen + CLOCKS_S


def started(pid: int) -> float | None:
    """When a process began, in seconds since the epoch; None if it runs no more."""
    return _by_proc(pid) if Path("/proc/uptime").exists() else _by_ps(pid)


def _by_proc(pid: int) -> float | None:
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        up = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return None
    return None if state == "Z" else time.time() - up + int(fields[18]) / os.sysconf("SC_CLK_TCK")


def _by_ps(pid: int) -> float | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    state, _, began = told.stdout.strip().partition(" ")
    if not began or state.startswith("Z"):
        return None
    return datetime.strptime(began.strip(), "%a %b %d %H:%M:%S %Y").timestamp()  # noqa: DTZ007  ps tells local time
