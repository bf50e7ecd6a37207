"""The processes of a home: started once, found again, healed, told apart from those of others, and stopped."""

import asyncio
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from disks import PAGE, small_disk
from homes import BIN, Home, free_ports, kill, until
from workers import working

from client import background, hosting, ports, processes
from client.dayflow import TASK_QUEUE
from domain import errors
from store.settings import Settings

FAILED, NO_SERVER, USAGE = 1, 5, 2
PARTS = ["server", "sandbox", "worker"]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, str]]:
    """One whole stack for the tests that leave it as it is, and what its first `up` printed."""
    home = Home(tmp_path_factory.mktemp("stack"))
    try:
        yield home, home.dayflow("up").stdout
    finally:
        home.dayflow("down", code=None)


@pytest.fixture
def home(up: tuple[Home, str]) -> Home:
    """The home of that stack."""
    return up[0]


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Home]:
    """A home of a test's own, in which nothing runs yet."""
    home = Home(tmp_path / "new")
    yield home
    if list(home.path.glob("run/*.json")):
        home.dayflow("down", code=None)


@pytest.fixture
def program() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Programs that run beside the test, and are killed after it."""
    started: list[subprocess.Popen[str]] = []

    def start(*command: str, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
        started.append(
            subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)
        )
        return started[-1]

    yield start
    for process in started:
        kill(process)  # type: ignore[arg-type]
        assert process.stdout
        process.stdout.close()


@contextmanager
def settings_of(home: Home, **env: str) -> Iterator[Settings]:
    """The settings that a command of this home would read."""
    with patch.dict(os.environ, {**home.env, **env}, clear=True):
        yield Settings()


def status(home: Home, **env: str) -> dict[str, processes.PartStatus]:
    with settings_of(home, **env) as settings:
        return {one.part: one for one in asyncio.run(processes.status(settings))}


def refusal(home: Home, **env: str) -> str:
    """Why an `up` without a worker is refused."""
    with settings_of(home, **env) as settings, pytest.raises((errors.Unreachable, errors.BadSetting)) as caught:
        asyncio.run(processes.ensure(settings, progress=print))
    return str(caught.value)


def states(home: Home) -> dict[str, str]:
    return {part: one.state for part, one in status(home).items()}


def pid_file(home: Home, part: str) -> Path:
    return home.path / "run" / f"{part}.json"


def pid_of(home: Home, part: str) -> int:
    return int(json.loads(pid_file(home, part).read_text())["pid"])


def listener(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def test_up_starts_each_part_and_names_the_next_step(up: tuple[Home, str]) -> None:
    home, printed = up

    assert [str(port) in printed for port in (home.port, home.ui_port, home.sandbox_port)] == [True] * 3
    assert printed.count("started") == len(PARTS)
    assert "dayflow brief" in printed
    assert states(home) == dict.fromkeys(PARTS, "running")
    assert [one["pid"] for one in home.json("status")] == [pid_of(home, part) for part in PARTS]


def test_up_and_status_name_the_address_where_the_port_is_not_the_usual_one(up: tuple[Home, str]) -> None:
    home, printed = up
    address = f"temporal … --address 127.0.0.1:{home.port}"

    assert address in printed
    assert address in home.dayflow("status").stdout


def test_up_goes_on_with_what_waits_for_a_person(home: Home) -> None:
    home.start("waiting", {"agent": "refund", "task": "Order 1042 arrived broken, refund 40.00"})
    home.ends("waiting", "awaiting_approval")

    assert "next:   dayflow approvals" in home.dayflow("up").stdout


def test_new_says_that_the_worker_that_is_up_does_not_have_it(home: Home, tmp_path: Path) -> None:
    for folder in ("activities/tools", "domain/agents"):
        (tmp_path / folder).mkdir(parents=True)

    made = home.dayflow("new", "tool", "book_room", "--into", str(tmp_path))

    assert f"(pid {pid_of(home, 'worker')}) does not have it: then `dayflow down`, `dayflow up`" in made.stdout


def test_a_second_up_finds_the_first(home: Home) -> None:
    before = {part: pid_of(home, part) for part in PARTS}

    done = home.dayflow("up")

    assert "up already" in done.stdout
    assert {part: pid_of(home, part) for part in PARTS} == before


def test_two_ups_at_once_start_one_server_and_down_leaves_nothing(new: Home, program: Any) -> None:
    command = (str(BIN / "dayflow"), "up", "--no-worker")
    both = [program(*command, env=new.env) for _ in range(2)]
    printed = "".join(process.communicate(timeout=60)[0] for process in both)

    pids = [pid_of(new, part) for part in ("server", "sandbox")]
    assert printed.count("starting the Temporal server") == 1
    assert len(set(re.findall(r"server +(?:started|was running) +\S+ +(\d+)", printed))) == 1

    new.dayflow("down")

    assert [background.mark(pid) for pid in pids] == [None, None]
    assert not list((new.path / "run").glob("*.json"))
    assert [ports.trouble(port) for port in (new.port, new.ui_port, new.sandbox_port)] == [None] * 3
    assert new.dayflow("status", code=NO_SERVER)
    assert "Nothing was running" in new.dayflow("down").stdout


def test_a_killed_server_is_noticed_and_healed_and_its_worker_works_on(home: Home) -> None:
    worker = pid_of(home, "worker")
    os.kill(pid_of(home, "server"), signal.SIGKILL)
    until("the server is gone", lambda: states(home)["server"] == "stale")

    healed = home.dayflow("up")

    assert "stale pid file" in healed.stderr
    assert states(home) == dict.fromkeys(PARTS, "running")
    assert pid_of(home, "worker") == worker


def test_a_reused_pid_is_neither_taken_for_ours_nor_signalled(new: Home, program: Any) -> None:
    other = program(sys.executable, "-c", "import time; time.sleep(600)")
    (new.path / "run").mkdir(parents=True)
    record = background.Record(other.pid, "another boot:1", "2026-01-01T00:00:00+00:00", ["temporal"], "127.0.0.1:1")
    pid_file(new, "server").write_text(json.dumps(vars(record)))

    assert states(new)["server"] == "stale"
    assert "stale" in new.dayflow("status", code=NO_SERVER).stdout
    assert "stale pid file" in new.dayflow("down").stderr
    assert other.poll() is None
    assert not pid_file(new, "server").exists()


def test_up_right_after_a_kill_waits_for_what_is_dying(new: Home) -> None:
    with settings_of(new) as settings:
        asyncio.run(processes.ensure(settings, progress=print))
        for part in ("server", "sandbox"):
            os.kill(pid_of(new, part), signal.SIGKILL)

        again = asyncio.run(processes.ensure(settings, progress=print))

    assert [(one.state, one.started) for one in again] == [("running", True)] * 2


def test_what_dies_while_it_is_waited_for_is_started_again(new: Home) -> None:
    with settings_of(new) as settings:
        asyncio.run(processes.ensure(settings, progress=print))
        sandbox = pid_of(new, "sandbox")
        os.kill(sandbox, signal.SIGSTOP)

        def progress(line: str) -> None:
            if "not ready yet" in line:
                os.kill(sandbox, signal.SIGKILL)

        again = asyncio.run(processes.ensure(settings, progress=progress))

    assert {one.part: (one.state, one.started) for one in again}["sandbox"] == ("running", True)
    assert pid_of(new, "sandbox") != sandbox


def test_a_spoilt_pid_file_is_as_good_as_none(new: Home) -> None:
    (new.path / "run").mkdir(parents=True)
    pid_file(new, "server").write_text("{")

    assert states(new)["server"] == "stopped"


@pytest.mark.parametrize("name", ["DAYFLOW_PORT", "DAYFLOW_UI_PORT", "DAYFLOW_SANDBOX_PORT"])
def test_a_taken_port_is_named_with_its_variable_and_its_owner(new: Home, name: str) -> None:
    with closing(listener(int(new.env[name]))):
        why = refusal(new)

    assert f"port {new.env[name]} is taken" in why
    assert f"(pid {os.getpid()})" in why
    assert name in why


def test_one_port_for_two_things_is_refused(new: Home) -> None:
    why = refusal(new, DAYFLOW_UI_PORT=str(new.port))

    assert why.startswith(f"DAYFLOW_UI_PORT: {new.port} is DAYFLOW_PORT too")


def test_a_temporal_server_of_another_home_is_left_alone_and_can_be_used(home: Home, new: Home) -> None:
    port, address = {"DAYFLOW_PORT": str(home.port)}, {"TEMPORAL_ADDRESS": f"127.0.0.1:{home.port}"}

    refused = new.dayflow("up", "--no-worker", env=port, code=NO_SERVER)
    used = status(new, **address)["server"]

    assert "a Temporal server that does not belong to this home answers at" in refused.stderr
    assert f"(temporal (pid {pid_of(home, 'server')}))" in refused.stderr
    assert f"TEMPORAL_ADDRESS=127.0.0.1:{home.port}" in refused.stderr
    assert status(new, **port)["server"].state == "foreign"
    assert (used.state, used.pid) == ("running", None)
    assert states(home)["server"] == "running"


def test_a_home_whose_server_has_another_port_says_so(home: Home) -> None:
    other = {"DAYFLOW_PORT": str(free_ports(1)[0])}

    assert f"runs with DAYFLOW_PORT={home.port}, not {other['DAYFLOW_PORT']}" in refusal(home, **other)
    assert status(home, **other)["server"].state == "other"


def test_a_namespace_that_the_server_lacks_is_named(home: Home) -> None:
    nowhere = {"TEMPORAL_NAMESPACE": "nowhere"}

    assert "has no namespace 'nowhere'" in refusal(home, **nowhere)
    assert "has no namespace 'nowhere'" in home.dayflow("worker", "--wait", "0", env=nowhere, code=USAGE).stderr


@pytest.mark.long
def test_up_says_what_it_waits_for_while_a_part_does_not_answer(home: Home) -> None:
    server = pid_of(home, "server")
    os.kill(server, signal.SIGSTOP)
    told: list[str] = []

    def progress(line: str) -> None:
        told.append(line)
        if "not ready yet" in line:
            os.kill(server, signal.SIGCONT)

    with settings_of(home) as settings:
        asyncio.run(processes.ensure(settings, progress=progress))

    assert any(re.search(r"the Temporal server is not ready yet, after \d+ s", line) for line in told)


def test_a_lost_pid_file_never_leads_to_two_servers_on_one_file(new: Home) -> None:
    new.dayflow("up", "--no-worker")
    pid = pid_of(new, "server")
    pid_file(new, "server").unlink()
    moved = dict(zip(("DAYFLOW_PORT", "DAYFLOW_UI_PORT"), map(str, free_ports(2)), strict=True))
    try:
        why = refusal(new, **moved)
    finally:
        os.kill(pid, signal.SIGTERM)

    assert f"`kill {pid}`" in why


def test_a_start_that_fails_shows_the_log_and_what_to_do(new: Home) -> None:
    new.path.mkdir()
    with closing(sqlite3.connect(new.path / "temporal.sqlite", isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        why = refusal(new)

    assert "database is locked" in why
    assert f"Another process holds {new.path / 'temporal.sqlite'}" in why
    assert not pid_file(new, "server").exists()


@pytest.mark.long
def test_a_disk_without_room_is_named_also_where_no_log_has_room_to_say_so(tmp_path: Path) -> None:
    with small_disk(tmp_path, megabytes=16) as disk:
        home = Home(tmp_path / "home")
        home.dayflow("up", "--no-worker")
        home.dayflow("down")
        disk.fill(leave=4 * PAGE)
        said = home.dayflow("up", "--no-worker", code=NO_SERVER).stderr
        home.dayflow("down", code=None)

    assert f"he disk of {home.path} is full: make room, and try again" in said


def test_a_home_that_cannot_be_written_is_a_bad_setting(new: Home, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    why = refusal(new, DAYFLOW_HOME=str(tmp_path / "file" / "home"))

    assert why.startswith("DAYFLOW_HOME: ")
    assert "cannot be written" in why


def test_a_worker_waits_for_its_server_and_stops_cleanly(new: Home, program: Any) -> None:
    worker = program(str(BIN / "dayflow"), "worker", env=new.env)
    assert "Trying again" in worker.stdout.readline()

    new.dayflow("up", "--no-worker")
    ready = worker.stdout.readline()
    worker.send_signal(signal.SIGTERM)

    assert ready == f"worker ready: task queue dayflow, 127.0.0.1:{new.port}, pid {worker.pid}\n"
    assert worker.wait(timeout=20) == 0


def test_a_worker_gives_up_when_told_to(new: Home) -> None:
    done = new.dayflow("worker", "--wait", "0.3", code=NO_SERVER)

    assert f"no Temporal server answers at 127.0.0.1:{new.port}" in done.stderr


async def test_a_worker_that_cannot_be_set_up_says_why_in_one_line(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def host(client: object, settings: Settings, task_queue: str) -> AsyncIterator[None]:
        raise RuntimeError("Failed validating workflow") from ValueError("no module named 'x'")
        yield

    for name, value in home.env.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(errors.DayflowError, match=r"Failed validating workflow \(no module named 'x'\)"):
        await hosting.serve(host, Settings(), "queue", 0)


def test_logs_shows_the_end_of_each_and_of_one(home: Home) -> None:
    everything = home.dayflow("logs", "-n", "5").stdout

    assert [f"==> {part} <==" in everything for part in PARTS] == [True] * 3
    assert "worker ready" in home.dayflow("logs", "worker").stdout
    assert "==>" not in home.dayflow("logs", "worker").stdout


def test_logs_follows_whole_lines(new: Home, program: Any) -> None:
    log = new.path / "logs" / "worker.log"
    log.parent.mkdir(parents=True)
    log.write_text("before\n")
    follower = program(str(BIN / "dayflow"), "logs", "worker", "-f", env=new.env)
    assert follower.stdout.readline() == "before\n"

    with log.open("a") as file:
        file.write("half ")
        file.flush()
        file.write("and half [not markup]\n")

    assert follower.stdout.readline() == "half and half [not markup]\n"


def test_open_prints_the_web_ui(home: Home) -> None:
    assert home.dayflow("open", "--print").stdout == f"http://127.0.0.1:{home.ui_port}\n"
    assert "TEMPORAL_UI_ADDRESS" in home.dayflow("open", env={"TEMPORAL_ADDRESS": "localhost:1"}, code=USAGE).stderr


def test_a_worker_in_another_terminal_counts_and_down_says_that_it_is_left_running(new: Home) -> None:
    new.dayflow("up", "--no-worker")
    alone = new.dayflow("status", code=FAILED)
    with working(new, TASK_QUEUE) as worker:
        worker.ready()
        until("it asks for work", lambda: status(new)["worker"].running)

        seen, checks = new.dayflow("status"), new.json("doctor")["checks"]
        stopped = new.dayflow("down")

    identity = f"{worker.pid}@{socket.gethostname()}"
    assert "not started by `dayflow up`" not in alone.stdout
    assert f"worker: not started by `dayflow up`: {identity}" in seen.stdout
    assert {one["name"]: one["state"] for one in checks}["the worker"] == "ok"
    assert f"left running (Ctrl-C where it runs ends it): worker {identity}" in stopped.stderr
