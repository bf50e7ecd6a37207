"""A run that has no worker says so wherever somebody speaks to it or looks at it, with what starts one."""

from pathlib import Path

import forks
import pytest
from homes import Home, until
from script import call, conversation, play, unique, use
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent, WorkflowTaskFailedEventAttributes
from workers import working

from client import history
from client.converter import CONVERTER

USAGE = 2
SENT = [(("cancel",), "is asked to stop"), (("pause",), "pauses at"), (("message", "Be short."), "hears it at")]


@pytest.fixture
def alone(home: Home) -> str:
    """A run that no worker works on."""
    run_id = unique("alone")
    home.start(run_id, {"agent": "brief"}, run_id)
    return run_id


@pytest.mark.parametrize(("words", "then"), SENT, ids=["cancel", "pause", "message"])
def test_what_is_sent_to_it_is_heard_when_a_worker_is_up_and_show_lists_it(
    home: Home, alone: str, words: tuple[str, ...], then: str
) -> None:
    told = home.dayflow(words[0], alone, *words[1:]).stdout
    shown = home.dayflow("show", alone).stdout

    assert told.startswith(f"{alone} {then}")
    assert f"when a worker is up (`dayflow resume {alone}`)" in told
    assert f"sent, and not judged yet: {words[0]} (a worker does: `dayflow resume {alone}`)" in shown
    assert f"next:   dayflow resume {alone}    (no worker is up to go on with it)" in shown


@pytest.mark.parametrize(("words", "then"), SENT, ids=["cancel", "pause", "message"])
def test_a_closed_run_is_told_nothing(home: Home, alone: str, words: tuple[str, ...], then: str) -> None:
    home.temporal("workflow", "terminate", "--workflow-id", alone)

    told = home.dayflow(words[0], alone, *words[1:], code=USAGE)

    assert f"the run '{alone}' is closed; `dayflow show {alone}` shows how it ended" in told.stderr
    assert told.stdout == ""


def test_who_watches_is_told_once_that_the_worker_died(home: Home, tmp_path: Path) -> None:
    run_id, out, err = unique("left"), tmp_path / "out", tmp_path / "err"
    endless = [{"kind": "silence", "seconds": 600, "pings": True, "attempts": "all"}]
    play(home, conversation(run_id, call(use("read_tasks")), call(use("read_tasks"), faults=endless)))
    home.start(run_id, {"agent": "brief", "task": run_id}, run_id)
    with working(home, run_id) as worker:
        worker.ready()
        watching = forks.dayflow(["watch", run_id], home.env, out, err)
        try:
            until("it follows", lambda: out.exists() and "step 1" in out.read_text())
            worker.kill()
            until("it is told", lambda: err.exists() and "no worker polls" in err.read_text())
        finally:
            watching.kill()
    shown = home.dayflow("show", run_id).stdout

    assert err.read_text().count(f"the run stands still. `dayflow resume {run_id}` lets it go on.") == 1
    assert f"next:   dayflow resume {run_id}    (no worker is up to go on with it)" in shown


async def test_a_task_that_a_reset_ended_is_no_trouble_of_a_worker() -> None:
    def failed(cause: WorkflowTaskFailedCause.ValueType) -> HistoryEvent:
        attributes = WorkflowTaskFailedEventAttributes(cause=cause, failure=Failure(message="dayflow reset"))
        kind = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
        return HistoryEvent(event_type=kind, workflow_task_failed_event_attributes=attributes)

    reset = failed(WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW)
    broken = failed(WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE)

    assert await history.failing_task([reset], CONVERTER) is None
    assert await history.failing_task([broken], CONVERTER) == "dayflow reset"
