"""Starting a run: what no run could begin with is refused in one line, before anything is started."""

import os

import pytest
from homes import Home
from script import unique
from typer.testing import CliRunner

from client.cli import app
from domain import errors

# What is typed, and what the one line says.
REFUSED = [
    (("run", "nix", "x"), "there is no agent 'nix'; known agents: brief"),
    (("run", "", "x"), "name an agent; known agents: brief"),
    (("run", "refund"), "the agent 'refund' needs a task: dayflow run refund \"…\""),
    (("run", "refund", ""), "task: "),
    (("run", "brief", " "), "task: "),
    (("run", "brief", "x", "--model", ""), "model: "),
    (("run", "brief", "x", "--requested-by", ""), "requested_by: "),
    (("run", "brief", "x", "--id", ""), "the run id '' is blank or not printable; choose another --id"),
    (("brief", "--id", "x" * 300), "the run id has 300 characters"),
]


@pytest.mark.parametrize(("arguments", "why"), REFUSED)
def test_what_no_run_could_begin_with_is_refused_before_anything_is_started(tmp_path, arguments, why):
    result = CliRunner().invoke(app, arguments, env={"DAYFLOW_HOME": str(tmp_path / "home")})

    assert isinstance(result.exception, errors.Refused)
    assert why in str(result.exception)
    assert "{" not in str(result.exception)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("option", ["--usd", "--seconds", "--steps", "--tokens"])
@pytest.mark.parametrize("command", [("brief",), ("schedule", "brief", "--at", "07:30")])
def test_a_limit_of_nothing_is_wrong_use(option, command):
    result = CliRunner().invoke(app, [*command, option, "0"])

    assert result.exit_code == 2
    assert option in result.output


def test_a_used_run_id_is_refused_before_a_worker_is_loaded(home):
    used = unique("used")
    home.start(used, {"agent": "brief"}, task_queue="nobody")

    in_use = started(home, used)
    home.temporal("workflow", "terminate", "--workflow-id", used)
    used_before = started(home, used)

    assert f"the run id '{used}' is in use; `dayflow resume {used}` goes on with it" in str(in_use)
    assert f"the run id '{used}' was used before (`dayflow show {used}`); choose another --id" == str(used_before)


def started(home: Home, run_id: str) -> BaseException | None:
    """What the command ends with, which has no worker to load."""
    return CliRunner().invoke(app, ["brief", "--id", run_id], env=home.env, obj=no_worker).exception


def no_worker(*_: object) -> None:
    raise AssertionError("a worker was loaded")
