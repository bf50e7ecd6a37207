"""What reaches a terminal: a line that says what to do, and never a trace."""

import asyncio
import logging
import signal
import subprocess
import time
from pathlib import Path

import pytest
from homes import BIN, Home, running, until
from script import unique

from client import logfile
from client.commands import common

INTERRUPTED, NO_SERVER, USAGE = 130, 5, 2
OVERLOADED = {"kind": "status", "status": 529, "attempts": [1], "turn": 1}
ENDLESS = {"kind": "silence", "seconds": 600, "attempts": "all", "turn": 1}


def command(home: Home, *arguments: str) -> "subprocess.Popen[str]":
    """The command in the background."""
    return subprocess.Popen(
        [str(BIN / "dayflow"), *arguments],
        env=home.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(process: "subprocess.Popen[str]") -> str:
    """What it said on stderr, once it has ended."""
    return process.communicate(timeout=60)[1]


def told_lines(said: str) -> list[str]:
    """The lines of it; a slow machine is told of besides, and that is none of them."""
    return [line for line in said.splitlines() if not line.startswith("loading ")]


@pytest.mark.long
@pytest.mark.parametrize(("options", "lines"), [((), 0), (("-v",), 1)], ids=["quiet", "verbose"])
def test_what_is_tried_again_is_one_line_at_the_most_and_its_trace_is_in_the_log(new_home, options, lines):
    home = new_home()
    task = unique("overloaded")
    home.sandbox("PUT", "/sandbox/faults", [OVERLOADED | {"match": task}])

    said = told_lines(home.dayflow("run", "brief", task, *options).stderr)

    assert len(said) == lines
    for line in said:
        assert line.startswith("call_model, attempt 1: model down: the Messages API answered 529")
        assert line.endswith("it is tried again by itself")
    assert "Traceback" in (home.path / "logs" / "cli.log").read_text()


@pytest.mark.long
def test_a_server_that_is_stopped_under_a_run_is_named_with_the_way_on(tmp_path):
    run_id = unique("stopped")
    with running(Home(tmp_path / "home")) as home:
        home.sandbox("PUT", "/sandbox/faults", [ENDLESS])
        process = command(home, "run", "brief", "--id", run_id)
        until("it is under way", lambda: home.dayflow("show", run_id, code=None).returncode == 0 and _called(home))

        stopped = home.dayflow("down")

        said = told(process)
        assert process.returncode == NO_SERVER
        assert [line[:6] for line in told_lines(said)] == ["error:"]
        assert f"`dayflow resume {run_id}`" in said
        assert "`dayflow up`" in said
        assert run_id in stopped.stderr


def _called(home: Home) -> bool:
    lines = home.sandbox("GET", "/sandbox/journal")
    return any(line["event"] == "request" and line["fault"] for line in lines)


def test_a_home_that_takes_no_key_is_named(tmp_path):
    file = tmp_path / "file"
    file.touch()

    said = Home(file).dayflow("keys", "new", "ana@example.com", code=USAGE).stderr

    assert said.startswith(f"error: DAYFLOW_HOME: {file}/keys/ana@example.com.pem cannot be written")


@pytest.mark.parametrize("value", [r'"\ud800"', "NaN", "1e999", "[" * 5_000])
def test_arguments_that_no_reader_of_json_takes_are_refused_before_they_are_sent(tmp_path, value):
    arguments = f'{{"order_id": {value}}}'

    said = Home(tmp_path).dayflow("edit", "r", arguments, "--as", "lead@example.com", code=USAGE).stderr

    assert said.startswith("error: the arguments are no JSON")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(("text", "words"), [(" \n", "at least 1 character"), ("x" * 20_001, "at most 20000")])
def test_a_message_that_no_run_takes_is_refused_before_it_is_sent(tmp_path, text, words):
    said = Home(tmp_path).dayflow("message", "r", text, code=USAGE).stderr

    assert said.startswith("error: text: it has to have")
    assert words in said


@pytest.mark.parametrize("arguments", [("message", "r", "caf\udce9"), ("show", "caf\udce9")])
def test_words_in_another_encoding_are_named_with_what_to_do(home, arguments):
    process = command(home, *arguments)

    said = told(process)

    assert process.returncode == USAGE
    assert said.startswith(r"error: 'caf\udce9' is no text in UTF-8")
    assert len(said.splitlines()) == 1


def test_an_interrupt_while_the_command_is_loaded_says_nothing(tmp_path):
    process = held_while_loading(Home(tmp_path), "runs")

    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)

    assert (told(process), process.returncode) == ("", INTERRUPTED)


def held_while_loading(home, *arguments):
    """A command that is stopped before all of it is loaded; on a busy machine that may take several."""
    for _ in range(20):
        process = command(home, *arguments)
        while process.poll() is None and not is_loading(process):
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        if is_loading(process):
            return process
        process.kill()
        process.wait()
    raise AssertionError("it was always too late")


def is_loading(process):
    """Whether it has come to pydantic, and not yet to Temporal, which it loads when it needs it."""
    if process.poll() is not None:
        return False
    loaded = Path(f"/proc/{process.pid}/maps").read_text()
    return "pydantic_core" in loaded and "temporal_sdk_bridge" not in loaded


@pytest.mark.parametrize("run_id", ["-x", """a'b"c $(touch x)"""])
def test_the_next_command_can_be_pasted_whatever_the_id_is_made_of(home, run_id):
    run_id += unique("-id")
    done = home.dayflow("run", "brief", f"--id={run_id}")
    command = done.stdout.splitlines()[-1].removeprefix("next:").strip()

    path = {"PATH": f"{BIN}:{home.env['PATH']}"}
    pasted = subprocess.run(["sh", "-c", command], env=home.env | path, capture_output=True, text=True)

    assert command.startswith("dayflow ")
    assert pasted.returncode == 0, pasted.stderr
    assert "step 1" in pasted.stdout
    assert done.stdout.splitlines()[0] in pasted.stdout  # the words of the last answer


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize(
    ("begun", "words"), [(False, "r1 was not started"), (None, "was just being started"), (True, "dayflow resume r1")]
)
def test_an_interrupt_says_whether_the_run_is_there(capsys, interrupt, begun, words):
    with pytest.raises(SystemExit, match=str(INTERRUPTED)):
        interrupted(interrupt, begun)

    assert words in capsys.readouterr().err


def interrupted(interrupt: type[BaseException], begun: bool | None) -> None:
    with common.detachable("r1", begun=False) as run:
        run.begun = begun
        raise interrupt


@pytest.mark.parametrize("words", [("worker",), ("up",), ("brief",), ("run", "brief"), ("resume",)], ids=" ".join)
@pytest.mark.parametrize("point", ["nix", "effect.commited", "model.done:0"])
def test_a_slip_in_a_crash_point_is_refused_by_whatever_hosts_a_worker(tmp_path, words, point):
    said = Home(tmp_path).dayflow(*words, env={"DAYFLOW_CRASH_AT": point}, code=USAGE).stderr

    assert f"{point!r} is no crash point; `dayflow doctor --crash-points` lists them" in said
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("patience", "attempts"), [(0.0, [1, 2, 3]), (1e-9, [2])], ids=["verbose", "quiet"])
def test_what_does_not_mend_itself_soon_is_told_once_and_by_verbose_each_time(patience, attempts):
    told: list[str] = []
    with logfile.retries("r", told.append, patience):
        for attempt in (1, 2, 3):
            about = {"workflow_id": "r", "activity_id": "1", "activity_type": "call_model", "attempt": attempt}
            error = ConnectionError("refused")
            logfile.ACTIVITIES.warning("failed", exc_info=error, extra={"temporal_activity": about})

    assert told == [
        f"call_model, attempt {attempt}: ConnectionError: refused; it is tried again by itself" for attempt in attempts
    ]


def test_a_worker_whose_server_is_away_says_so_in_one_sentence(caplog):
    away, others = logfile.ServerAway(), logging.getLogger("temporalio.core-sdk_core::worker")
    core = logging.getLogger("temporalio.core-sdk_core::temporalio_client::retry")
    for call in ("poll_workflow_task_queue", "poll_activity_task_queue", "poll_workflow_task_queue"):
        core.warning("[sdk_core::temporalio_client::retry] gRPC call %s retried 6 times {'error': …}", call)
    others.warning("another matter")

    left = [record.getMessage() for record in caplog.records if away.filter(record)]

    assert left == [
        "the Temporal server does not answer; the worker asks again by itself, and works on once it does",
        "another matter",
    ]
