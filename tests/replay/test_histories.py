"""Every recorded history replays with today's code, whole and cut at every event."""

from pathlib import Path

import histories
import pytest
from temporalio.worker import Replayer

from client.converter import CONVERTER
from client.replay import replay
from workflows.agent_run import AgentRun
from workflows.runner import strict

RECORDED = sorted(histories.FOLDER.glob("*.json"))


def named(path: Path) -> str:
    return path.stem


def test_every_kind_of_run_is_recorded():
    assert {path.stem for path in RECORDED} == set(histories.RUNS)


@pytest.mark.parametrize("path", RECORDED, ids=named)
async def test_it_replays_in_the_strict_sandbox(path):
    replayer = Replayer(workflows=[AgentRun], data_converter=CONVERTER, workflow_runner=strict())

    result = await replayer.replay_workflow(histories.load(path), raise_on_replay_failure=False)

    assert result.replay_failure is None


@pytest.mark.parametrize("path", RECORDED, ids=named)
async def test_it_replays_cut_at_every_event(path):
    history = histories.load(path)

    for length in range(1, len(history.events) + 1):
        replayed = await replay(history.workflow_id, "default", history.events[:length])

        assert replayed.divergence is None, f"cut after event {length}"


@pytest.mark.parametrize("path", RECORDED, ids=named)
async def test_the_steps_only_grow_as_the_history_does(path):
    history = histories.load(path)
    seen = 0

    for length in range(1, len(history.events) + 1):
        state = (await replay(history.workflow_id, "default", history.events[:length])).state
        steps = len(state.steps) if state else 0
        assert steps >= seen
        seen = steps

    assert seen > 0


async def test_a_history_of_other_code_is_caught():
    """The check can fail: without the event of its first activity the same history is another run's."""
    history = histories.load(histories.FOLDER / "brief.json")
    events = [event for event in history.events if not event.HasField("activity_task_scheduled_event_attributes")]

    replayed = await replay(history.workflow_id, "default", events)

    assert replayed.divergence is not None
