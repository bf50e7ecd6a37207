"""Manners: closed pipes and streams, the version, empty ids and empty lists are each answered as elsewhere."""

import subprocess
from datetime import UTC, datetime

import pytest
from homes import BIN, Home
from temporalio.client import Client
from typer.testing import CliRunner

from client.cli import app
from client.dayflow import Dayflow
from domain import errors

READER_GONE = 141


@pytest.mark.parametrize("arguments", ["--help", "memory list", "memory list --json", "doctor --crash-points"])
def test_a_command_whose_reader_has_gone_ends_as_by_sigpipe(tmp_path, arguments):
    done = shell(tmp_path, f"(dayflow {arguments}; echo $? >&2) | true")

    assert done.stderr == f"{READER_GONE}\n"


def test_a_closed_output_is_no_error(tmp_path):
    done = shell(tmp_path, "dayflow doctor --crash-points >&-")

    assert (done.returncode, done.stderr) == (0, "")


def shell(path, line: str) -> "subprocess.CompletedProcess[str]":
    env = Home(path).env
    return subprocess.run(
        ["sh", "-c", line], env=env | {"PATH": f"{BIN}:{env['PATH']}"}, capture_output=True, text=True, timeout=60
    )


def test_it_tells_its_version():
    assert CliRunner().invoke(app, ["--version"]).output == "dayflow 0.1.0\n"


@pytest.mark.parametrize("arguments", [["-h"], ["memory", "add", "-h"]])
def test_a_short_option_shows_the_help(arguments):
    shown = CliRunner().invoke(app, arguments)

    assert (shown.exit_code, "Usage: " in shown.output) == (0, True)


async def test_an_empty_run_id_is_refused_in_words_before_a_server_is_asked():
    dayflow = Dayflow(await Client.connect("127.0.0.1:1", lazy=True))

    for asked in (dayflow.get(""), dayflow.signal("", "pause", {}), dayflow.cancel("")):
        with pytest.raises(errors.BadRequest, match="the run id is empty; `dayflow runs` lists"):
            await asked


@pytest.mark.parametrize("day", ["2020-01-01", f"{datetime.now(UTC):%Y-%m-%d}"])
@pytest.mark.parametrize("command", [("add", "user_1", "Mara likes tea."), ("edit", "1")])
def test_no_memory_ends_before_it_begins(tmp_path, command, day):
    result = CliRunner().invoke(app, ["memory", *command, "--expires", day], env={"DAYFLOW_HOME": str(tmp_path)})

    assert result.exit_code == 2
    assert f"--expires: {day} has begun" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list",), "Nothing is remembered yet."),
        (("list", "user_9"), "Nothing is remembered in user_9."),
        (("review",), "Nothing is due for a look."),
    ],
)
def test_what_is_empty_is_a_sentence(tmp_path, arguments, words):
    result = CliRunner().invoke(app, ["memory", *arguments], env={"DAYFLOW_HOME": str(tmp_path)})

    assert result.output.startswith(words)


def test_a_list_of_the_runs_of_nobody_says_so(home):
    nix, desk = (CliRunner().invoke(app, ["runs", "--agent", name], env=home.env).output for name in ("nix", "desk"))

    assert nix == "No runs of 'nix', which is no agent here; known agents: brief, desk, refund.\n"
    assert desk == "No runs of desk yet.\n"
