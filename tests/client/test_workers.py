"""Which workers are taken to be up: the server still tells of those that have ended."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from homes import Home

from client import workers

HOST = socket.gethostname()
TASK = "Order 1042 arrived broken, refund 40.00"
WAITING = 3


@pytest.fixture
def ended() -> int:
    """The pid of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_worker_of_this_machine_is_up_while_its_process_runs(ended: int) -> None:
    now = time.time()

    assert workers.lives(workers.own(), now)
    assert not workers.lives(f"{ended}@{HOST}", now)


def test_a_process_that_began_after_the_worker_last_asked_is_another_one() -> None:
    assert not workers.lives(workers.own(), time.time() - 1_000_000)


@pytest.mark.parametrize("identity", ["1@elsewhere", "my worker", ""])
def test_what_cannot_be_looked_up_here_is_taken_to_be_up(identity: str) -> None:
    assert workers.lives(identity, time.time())


def test_the_start_of_a_process_is_known_to_the_second() -> None:
    before = time.time()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        began = workers.started(process.pid)
        process.kill()

    assert began == pytest.approx(before, abs=2)
    assert workers.started(os.getpid()) is not None


@pytest.mark.long
def test_a_run_that_waits_and_has_no_worker_any_more_says_so_at_each_step(new_home: Callable[..., Home]) -> None:
    home = new_home()

    waiting = home.dayflow("run", "refund", TASK, "--id", "r", code=WAITING)
    approved = home.dayflow("approve", "r", "--as", "lead@example.com")
    decided = home.dayflow("decisions", "r")
    shown = home.dayflow("show", "r")
    checks = {one["name"]: one["state"] for one in home.json("doctor")["checks"]}

    assert "next:   dayflow up && dayflow approve r s4.1-" in waiting.stdout
    assert "sent; it is judged when a worker is up (`dayflow up`)" in approved.stdout
    assert "next:   dayflow up    (a worker judges what was sent)" in shown.stdout
    assert "No decisions about r yet." in decided.stdout
    assert "sent, and not judged yet: approve (a worker does: `dayflow up`)" in decided.stdout
    assert checks["workers"] == "off"
