"""A worker that dies at any durable boundary leaves a run that the next worker finishes, with nothing paid or done twice."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from checker import check
from homes import Home
from script import call, conversation, create_task, play, say, unique, use
from witness import Witness, ends, start, witness
from workers import Worker, worker

from store import crash

# Seconds from the new worker's readiness to its next request, beside the heartbeat that notices the old one's death.
PROMPT = 5.0
HEARTBEAT = 3.0
AT_ONCE = 3


@dataclass(frozen=True)
class Case:
    """Where the workers die, one after another, and what that costs.

    again: requests beyond the first for each (step, ask). unsent: kills after `begun` and before the request left.
    """

    points: tuple[str, ...]
    again: dict[tuple[int, int], int] = field(default_factory=dict)
    unsent: int = 0

    def __str__(self) -> str:
        return ", then ".join(self.points)


# Only a kill between the request and the ledger's `done` pays again.
ONCE = [
    Case(("model.begin",)),
    Case(("model.begun",), unsent=1),
    Case(("model.stream",), again={(1, 1): 1}),
    Case(("model.received",), again={(1, 1): 1}),
    Case(("model.done",)),
    Case(("read.done",)),
    Case(("step.end",)),
    Case(("effect.begin",)),
    Case(("effect.begun",)),
    Case(("effect.committed",)),
    Case(("effect.done",)),
]
# The recovery is killed as well, where the first worker was or further on.
TWICE = [
    Case(("model.stream", "model.stream"), again={(1, 1): 2}),
    Case(("model.received", "model.received"), again={(1, 1): 2}),
    Case(("effect.committed", "effect.committed")),
]
# One run, killed at every point there is, in the order in which it passes them.
EVERYWHERE = Case(
    tuple(case.points[0] for case in ONCE),
    again={(1, 1): 2},
    unsent=1,
)


@dataclass(frozen=True)
class Told:
    """What came of a case. waits: for each new worker, seconds from its start and from its readiness to what it did."""

    seen: Witness
    waits: list[tuple[float, float]]
    seconds: float


@pytest.fixture(scope="module")
def told(home: Home) -> Iterator[dict[str, "Future[Told]"]]:
    """Every case, some at a time, each on a task queue of its own."""
    tasks = {str(case): unique("crash") for case in [*ONCE, *TWICE, EVERYWHERE]}
    turns = [
        (call(use("read_tasks")), call(create_task(f"mail-{task}")), say("All is done.")) for task in tasks.values()
    ]
    play(home, *(conversation(task, *said) for task, said in zip(tasks.values(), turns, strict=True)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {str(case): pool.submit(tell, home, case, tasks[str(case)]) for case in [*ONCE, *TWICE, EVERYWHERE]}


def tell(home: Home, case: Case, task: str) -> Told:
    """Kill one worker after another at the case's points; the last one finishes the run."""
    began = time.monotonic()
    start(home, task, {"agent": "brief", "task": task}, task_queue=task)
    with ExitStack() as stack:
        for point in case.points:
            stack.enter_context(worker(home, task, DAYFLOW_CRASH_AT=point)).died()
        last = stack.enter_context(worker(home, task))
        ready = last.ready()
        ends(home, task)
        seen = witness(home, task)
    return Told(seen, [waited(seen, last, ready)], time.monotonic() - began)


def waited(seen: Witness, last: Worker, ready: float) -> tuple[float, float]:
    """Seconds until the worker's first request, since it was started and since it polls."""
    first = next(request.time for request in seen.requests if request.time > last.started)
    return first - last.started, first - ready


@pytest.mark.parametrize("case", ONCE, ids=str)
def test_a_run_goes_on_after_a_kill_anywhere(told, case):
    shown = told[str(case)].result()

    finished_as_if_nothing_had_happened(shown.seen, case)
    ((since_start, since_ready),) = shown.waits
    print(f"\n{case}: next request {since_ready:.2f} s after ready, {since_start:.2f} s after start; {shown.seconds:.1f} s")
    assert since_ready <= PROMPT + HEARTBEAT


@pytest.mark.parametrize("case", TWICE, ids=str)
def test_a_kill_during_the_recovery_changes_nothing(told, case):
    finished_as_if_nothing_had_happened(told[str(case)].result().seen, case)


def test_one_run_survives_a_kill_at_every_point(told):
    finished_as_if_nothing_had_happened(told[str(EVERYWHERE)].result().seen, EVERYWHERE)


def test_every_point_is_met():
    assert {case.points[0] for case in ONCE} == set(crash.POINTS)


def finished_as_if_nothing_had_happened(seen: Witness, case: Case) -> None:
    check(seen, again=case.again, unsent=case.unsent)
    assert (seen.record["result"], seen.record["step"]) == ("All is done.", 3)
    assert [task["source_id"] for task in seen.tasks].count(f"mail-{seen.run.run_id}") == 1
    assert [action.status for action in seen.state.actions] == ["done", "done"]
