"""Every recorded history replays with today's code, whole and cut at every event."""

from pathlib import Path

import histories
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowRunner

from client.converter import CONVERTER
from client.replay import replay, worked_in
from workflows.agent_run import AgentRun
from workflows.retention import Retention
from workflows.runner import strict
from workflows.scheduled_start import ScheduledStart

SCHEDULED = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
WORKFLOWS = [AgentRun, Retention, ScheduledStart]
RECORDED = sorted(histories.FOLDER.glob("*.json"))
RUNS = [path for path in RECORDED if path.stem in histories.RUNS]
OTHERS = [path for path in RECORDED if path.stem not in histories.RUNS]


def named(path: Path) -> str:
    return path.stem


def replayer(runner: WorkflowRunner) -> Replayer:
    """With no limit of time for a workflow task."""
    return Replayer(workflows=WORKFLOWS, data_converter=CONVERTER, workflow_runner=runner, debug_mode=True)


def test_every_kind_of_run_is_recorded():
    assert {path.stem for path in RECORDED} == set(histories.RUNS | histories.OTHERS)


@pytest.mark.parametrize("path", RECORDED, ids=named)
async def test_it_replays_in_the_strict_sandbox(path):
    result = await replayer(strict()).replay_workflow(histories.load(path), raise_on_replay_failure=False)

    assert result.replay_failure is None


@pytest.mark.parametrize("path", RUNS, ids=named)
async def test_it_replays_cut_at_every_event_and_its_steps_only_grow(path):
    history = histories.load(path)
    seen = 0

    for length in range(1, len(history.events) + 1):
        replayed = await replay(history.workflow_id, "default", history.events[:length])

        assert replayed.divergence is None, f"cut after event {length}"
        step = replayed.state.step if replayed.state else 0
        assert step >= seen
        seen = step

    assert seen > 0


@pytest.mark.parametrize("path", RUNS, ids=named)
async def test_what_no_worker_has_worked_in_is_left_out(path):
    """What comes after a workflow task, and was not left by it, is not told until the next one."""
    history = histories.load(path)
    ahead = 0

    for length in range(1, len(history.events) + 1):
        events = worked_in(history.events[:length])
        assert list(events) == list(history.events[: len(events)])
        ahead += len(events) < length

    assert len(worked_in(history.events)) == len(history.events)
    assert 0 < ahead < len(history.events)


@pytest.mark.parametrize("path", OTHERS, ids=named)
async def test_what_is_no_run_replays_cut_at_every_event(path):
    history = histories.load(path)

    for length in range(2, len(history.events) + 1):
        cut = WorkflowHistory(history.workflow_id, history.events[:length])
        result = await replayer(UnsandboxedWorkflowRunner()).replay_workflow(cut, raise_on_replay_failure=False)
        assert result.replay_failure is None, f"cut after event {length}"


async def test_a_clean_up_does_not_replay_with_an_event_less():
    history = histories.load(histories.FOLDER / "retention.json")
    second = [n for n, event in enumerate(history.events) if event.event_type == SCHEDULED][1]
    less = WorkflowHistory(history.workflow_id, [*history.events[:second], *history.events[second + 1 :]])

    result = await replayer(UnsandboxedWorkflowRunner()).replay_workflow(less, raise_on_replay_failure=False)

    assert result.replay_failure is not None


async def test_a_history_of_other_code_is_caught():
    """The check can fail: without the event of its first activity the same history is another run's."""
    history = histories.load(histories.FOLDER / "brief.json")
    events = [event for event in history.events if not event.HasField("activity_task_scheduled_event_attributes")]

    replayed = await replay(history.workflow_id, "default", events)

    assert replayed.divergence is not None
