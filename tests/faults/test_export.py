"""A run can be taken along as one file, and that file says all that the server would."""

import json
import stat

import pytest
from homes import Home, running
from refunds import Refund, asked, begin
from script import call, conversation, play, say, unique, use
from witness import ends, start
from workers import working


@pytest.fixture(scope="module")
def brisk(tmp_path_factory, sample_orders):
    """A home whose executions are short, with a worker."""
    settings = {"DAYFLOW_EVENTS": "60", "DAYFLOW_SAMPLE_ORDERS": str(sample_orders)}
    with running(Home(tmp_path_factory.mktemp("home"), **settings)) as home, working(home, "dayflow") as worker:
        worker.ready()
        yield home


def exported(home, run_id, path):
    """What the command writes to a file."""
    home.dayflow("export", run_id, "--out", str(path))
    return json.loads(path.read_text("utf-8"))


def test_a_file_of_a_run_in_many_executions_has_every_step_and_action_and_what_they_cost(brisk, tmp_path):
    task = unique("long")
    turns = [call(use("read_tasks", {"status": f"unheard-of {n}"})) for n in range(30)]
    play(brisk, conversation(task, *turns, say("That is all.")))
    start(brisk, task, {"agent": "brief", "task": task, "limits": {"steps": 100}})
    ends(brisk, task)

    file = exported(brisk, task, tmp_path / "run.json")

    assert len(file["executions"]) >= 3
    assert file["whole"] is True
    assert [
        {name: value for name, value in step.items() if name != "cost_usd"} for step in file["steps"]
    ] == brisk.json("steps", task)
    assert file["actions"] == brisk.json("actions", task)
    assert file["record"] == brisk.json("show", task)
    assert file["definition"]["task"] == task
    spent = sum(step["cost_usd"] for step in file["steps"])
    assert spent == pytest.approx(file["costs"]["totals"]["cost_usd"], abs=1e-4)


def test_a_file_of_a_run_that_waits_names_what_waits_and_is_readable_by_its_owner_alone(brisk, tmp_path):
    refund = Refund("exported")
    begin(brisk, refund)
    pending = asked(brisk, refund)

    file = exported(brisk, refund.run_id, tmp_path / "run.json")

    assert [one["action_id"] for one in file["record"]["pending_actions"]] == [pending["action_id"]]
    assert file["decisions"] == []
    assert file["record"]["status"] == "awaiting_approval"
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o600


def test_a_run_that_no_worker_has_taken_up_can_be_exported_too(brisk):
    run_id = unique("untouched")
    brisk.start(run_id, {"agent": "brief"}, task_queue="nobody")

    file = json.loads(brisk.dayflow("export", run_id).stdout)

    assert (file["record"]["status"], file["steps"], file["definition"]) == ("received", [], None)


def test_what_cannot_be_exported_is_one_line(brisk, tmp_path):
    unknown = brisk.dayflow("export", "no-such-run", code=2).stderr
    run_id = unique("untouched")
    brisk.start(run_id, {"agent": "brief"}, task_queue="nobody")
    nowhere = brisk.dayflow("export", run_id, "--out", str(tmp_path / "none" / "run.json"), code=2).stderr

    assert "there is no run 'no-such-run'" in unknown
    assert "cannot be written: No such file or directory; name another --out" in nowhere
