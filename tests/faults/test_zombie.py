"""A worker that was given up comes back, or leaves in mid-call: the run belongs to the one that has it now."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import mischief
import pytest
from checker import check
from homes import Home, until
from script import call, conversation, create_task, play, say, unique, use
from witness import Witness, ends, requests, start, witness
from workers import Worker, working

SECONDS = 90.0
ASKS, ACTS, BOTH_ASK = unique("asks"), unique("acts"), unique("both-ask")
STOPS_ASKING, STOPS_ACTING = unique("stops-asking"), unique("stops-acting")


def slow(task: str, attempts: Sequence[int] = (1,)) -> dict[str, Any]:
    """A model that takes longer for these answers than a worker is waited for."""
    fault = {"kind": "slow", "seconds": 8, "attempts": list(attempts)}
    return conversation(task, {**call(create_task(task)), "faults": [fault]}, say("Done."))


def gated(task: str) -> dict[str, Any]:
    """An effect that waits for its test."""
    return conversation(task, call(use("complete_task", {"how": "gate", "source_id": task})), say("Done."))


@pytest.fixture(scope="module")
def stories(home: Home) -> Iterator[dict[str, "Future[Witness]"]]:
    """What happens to each run, side by side, each on a task queue of its own."""
    play(home, slow(ASKS), slow(BOTH_ASK, (1, 2)), slow(STOPS_ASKING), gated(ACTS), gated(STOPS_ACTING))
    told: dict[str, Callable[[Home, str], Witness]] = {
        ASKS: stopped_while_it_asks,
        BOTH_ASK: awake_while_the_other_asks,
        ACTS: stopped_while_it_acts,
        STOPS_ASKING: terminated_while_it_asks,
        STOPS_ACTING: terminated_while_it_acts,
    }
    with ThreadPoolExecutor(len(told)) as pool:
        yield {task: pool.submit(story, home, task) for task, story in told.items()}


def stopped_while_it_asks(home: Home, task: str) -> Witness:
    """SIGSTOP in mid-call, SIGCONT once another worker has finished the run."""
    with begun(home, task) as zombie:
        until("the model is asked", lambda: requests(home, task))
        zombie.signal(signal.SIGSTOP)
        return taken_over(home, task, zombie)


def awake_while_the_other_asks(home: Home, task: str) -> Witness:
    """SIGSTOP in mid-call, SIGCONT while the other worker is in the same call: both may get their answer."""
    with begun(home, task) as zombie:
        until("the model is asked", lambda: requests(home, task))
        zombie.signal(signal.SIGSTOP)
        with working(home, task, host=mischief.host):
            until("the model is asked again", lambda: len(requests(home, task)) > 1, SECONDS)
            zombie.signal(signal.SIGCONT)
            ends(home, task, seconds=SECONDS)
    return witness(home, task)


def stopped_while_it_acts(home: Home, task: str) -> Witness:
    """SIGSTOP in the middle of an effect, which goes on when the other worker has done it."""
    with begun(home, task) as zombie:
        at_the_gate(home, task, zombie)
        zombie.signal(signal.SIGSTOP)
        mischief.open_gate(home.path, task)
        return taken_over(home, task, zombie)


def terminated_while_it_asks(home: Home, task: str) -> Witness:
    """SIGTERM in mid-call, as a deploy does it."""
    with begun(home, task) as old:
        until("the model is asked", lambda: requests(home, task))
        old.signal(signal.SIGTERM)
        with working(home, task):
            ends(home, task, seconds=SECONDS)
        assert old.ended() == 0
    return witness(home, task)


def terminated_while_it_acts(home: Home, task: str) -> Witness:
    """SIGTERM in the middle of an effect, which then comes to its end."""
    with begun(home, task) as old:
        at_the_gate(home, task, old)
        old.signal(signal.SIGTERM)
        until("the worker stops", lambda: "worker stopping" in old.log.read_text())
        mischief.open_gate(home.path, task)
        assert old.ended() == 0
    with working(home, task, host=mischief.host):
        ends(home, task, seconds=SECONDS)
    return witness(home, task)


@contextmanager
def begun(home: Home, task: str) -> Iterator[Worker]:
    """A worker that has begun this run."""
    with working(home, task, host=mischief.host) as worker:
        worker.ready()
        start(home, task, {"agent": "brief", "task": task}, task)
        yield worker


def at_the_gate(home: Home, task: str, worker: Worker) -> None:
    """Wait until this worker is in the middle of the effect."""
    until("the effect is at its gate", lambda: mischief.arrived(home.path, task, worker.pid))


def taken_over(home: Home, task: str, zombie: Worker) -> Witness:
    """Another worker finishes the run; the zombie wakes, hears that nobody waits for it, and changes nothing."""
    with working(home, task, host=mischief.host):
        ends(home, task, seconds=SECONDS)
        before = witness(home, task)
        zombie.signal(signal.SIGCONT)
        until("the zombie is told", lambda: "not found" in zombie.log.read_text().lower())
    seen = witness(home, task)
    assert (seen.record, seen.commits) == (before.record, before.commits)
    assert _tasks(seen, task) == _tasks(before, task)
    return seen


def _tasks(seen: Witness, run_id: str) -> list[dict[str, Any]]:
    """The tasks of this run; others go on beside it."""
    return [one for one in seen.tasks if one["run_id"] == run_id]


def done_once(seen: Witness, sent: int) -> None:
    """The run is done and kept every invariant; the model was asked so often for the first step."""
    check(seen, again={(1, 1): sent - 1})
    assert seen.record["status"] == "done"
    assert [action.status for action in seen.state.actions.all] == ["done"]
    assert len(seen.commits) == 1


def test_a_late_answer_of_the_model_changes_nothing(stories):
    seen = stories[ASKS].result()

    done_once(seen, sent=2)
    assert seen.record["totals"]["possibly_paid"]["calls"] >= 1


def test_two_answers_to_one_call_are_paid_twice_and_used_once(stories):
    seen = stories[BOTH_ASK].result()

    done_once(seen, sent=2)
    assert seen.record["totals"]["possibly_paid"]["calls"] >= 1


def test_a_late_effect_is_not_done_again(stories):
    seen = stories[ACTS].result()

    done_once(seen, sent=1)
    assert seen.state.actions.all[0].attempts == 2


def test_a_worker_that_is_told_to_stop_gives_its_call_back(stories):
    done_once(stories[STOPS_ASKING].result(), sent=2)


def test_a_worker_that_is_told_to_stop_finishes_its_effect(stories):
    seen = stories[STOPS_ACTING].result()

    done_once(seen, sent=1)
    assert seen.state.actions.all[0].attempts == 1
