"""A worker that was given up comes back, or leaves in mid-call: the run belongs to the one that has it now."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import mischief
from checker import check
from homes import Home, until
from script import call, conversation, create_task, play, say, unique, use
from witness import Witness, ends, requests, start, witness
from workers import Worker, working

SLOW = {"kind": "slow", "seconds": 8}


@contextmanager
def begun(home: Home, task: str) -> Iterator[Worker]:
    """A worker that has begun this run, on a task queue of its own."""
    with working(home, task, host=mischief.host) as worker:
        worker.ready()
        start(home, task, {"agent": "brief", "task": task}, task)
        yield worker


def asked(home: Home, task: str) -> None:
    """Wait until the model was asked."""
    until("the model is asked", lambda: requests(home, task))


def at_the_gate(home: Home, task: str, worker: Worker) -> None:
    """Wait until this worker is in the middle of the effect."""
    until("the effect is at its gate", lambda: mischief.arrived(home.path, task, worker.pid))


def wakes(worker: Worker) -> None:
    """Let a stopped worker go on, until it was told that what it did is not wanted any more."""
    worker.signal(signal.SIGCONT)
    until("the zombie is told", lambda: "not found" in worker.log.read_text().lower())


def done_once(home: Home, task: str, sent: int) -> Witness:
    """The run is done by whoever had it last."""
    seen = witness(home, task)
    check(seen, again={(1, 1): sent - 1})
    assert [action.status for action in seen.state.actions] == ["done"]
    assert len(seen.commits) == 1
    return seen


def test_a_late_answer_of_the_model_changes_nothing(home):
    task = unique("late-answer")
    play(home, conversation(task, {**call(create_task(task)), "faults": [SLOW]}, say("Done.")))

    with begun(home, task) as zombie:
        asked(home, task)
        zombie.signal(signal.SIGSTOP)
        with working(home, task):
            ends(home, task)
            before = witness(home, task).record
            wakes(zombie)

    seen = done_once(home, task, sent=2)
    assert seen.record == before
    assert seen.record["totals"]["possibly_paid"]["calls"] == 1


def test_a_late_effect_is_not_done_again(home):
    task = unique("late-effect")
    turns = call(use("complete_task", {"how": "gate", "source_id": task})), say("Done.")
    play(home, conversation(task, *turns))

    with begun(home, task) as zombie:
        at_the_gate(home, task, zombie)
        zombie.signal(signal.SIGSTOP)
        mischief.open_gate(home.path, task)
        with working(home, task, host=mischief.host):
            ends(home, task)
            before = witness(home, task).record
            wakes(zombie)

    seen = done_once(home, task, sent=1)
    assert seen.record == before
    assert seen.state.actions[0].attempts == 2


def test_a_worker_that_is_told_to_stop_gives_its_call_back(home):
    task = unique("stop-call")
    play(home, conversation(task, {**call(create_task(task)), "faults": [SLOW]}, say("Done.")))

    with begun(home, task) as old, ExitStack() as stack:
        asked(home, task)
        old.signal(signal.SIGTERM)
        stack.enter_context(working(home, task))
        ends(home, task)
        assert old.ended() == 0

    done_once(home, task, sent=2)


def test_a_worker_that_is_told_to_stop_finishes_its_effect(home):
    task = unique("stop-effect")
    turns = call(use("complete_task", {"how": "gate", "source_id": task})), say("Done.")
    play(home, conversation(task, *turns))

    with begun(home, task) as old, ExitStack() as stack:
        at_the_gate(home, task, old)
        old.signal(signal.SIGTERM)
        until("the worker stops", lambda: "worker stopping" in old.log.read_text())
        mischief.open_gate(home.path, task)
        assert old.ended() == 0
        stack.enter_context(working(home, task, host=mischief.host))
        ends(home, task)

    done_once(home, task, sent=1)
