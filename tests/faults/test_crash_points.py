"""A worker may die at any durable boundary: the next one finishes the run, and nothing is paid or done twice."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from checker import check, overloaded
from homes import Home
from script import call, conversation, create_task, play, say, unique, use
from witness import Witness, ends, start, witness
from workers import working

from store import crash

# Seconds from the new worker's readiness to its next request, beside the heartbeat that notices the old one's death.
PROMPT = 5.0
HEARTBEAT = 5.0
SIDE_BY_SIDE = 4


@dataclass(frozen=True)
class Case:
    """Where the workers die, one after another, and what that costs.

    again: requests beyond the first for each (step, ask). unknown: kills after `begun` and before the request left.
    cold: the last worker is the plain command, imports and all.
    """

    points: tuple[str, ...]
    again: dict[tuple[int, int], int] = field(default_factory=dict)
    unknown: int = 0
    cold: bool = False

    def __str__(self) -> str:
        return ", then ".join(self.points)


# Only a kill between the request and the ledger's `done` pays again.
ONCE = [
    Case(("model.begin",)),
    Case(("model.begun",), unknown=1),
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
    Case(("model.received", "effect.committed"), again={(1, 1): 1}),
    Case(("model.begun", "effect.begun"), unknown=1),
    Case(("read.done", "effect.done")),
    Case(("model.done", "step.end"), cold=True),
]


@dataclass(frozen=True)
class Told:
    """What came of a case, and how long after its start and its readiness the last worker's first request came."""

    seen: Witness
    from_start: float
    from_ready: float


@pytest.fixture(scope="module")
def told(home: Home) -> Iterator[dict[str, "Future[Told]"]]:
    """All cases, some side by side, each on a task queue of its own: what takes time is to notice a death."""
    tasks = {str(case): unique("crash") for case in ONCE + TWICE}
    play(home, *map(three_steps, tasks.values()))
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {str(case): pool.submit(tell, home, case, tasks[str(case)]) for case in ONCE + TWICE}


def three_steps(task: str) -> dict[str, Any]:
    """One step reads, one has an effect, one ends."""
    turns = call(use("read_tasks")), call(create_task(f"mail-{task}")), say("All is done.")
    return conversation(task, *turns)


def tell(home: Home, case: Case, task: str) -> Told:
    """Kill one worker after another at the case's points; the last one finishes the run."""
    start(home, task, {"agent": "brief", "task": task}, task_queue=task)
    for point in case.points:
        with working(home, task, DAYFLOW_CRASH_AT=point) as doomed:
            doomed.died()
    with working(home, task, cold=case.cold) as last:
        ready = last.ready()
        ends(home, task)
    seen = witness(home, task)
    first = next(request.time for request in seen.requests if request.time > last.started)
    return Told(seen, first - last.started, first - ready)


@pytest.mark.parametrize("case", ONCE, ids=str)
def test_a_run_goes_on_after_a_kill_anywhere(told, case):
    shown = told[str(case)].result()

    as_if_nothing_had_happened(shown.seen, case)
    on_time(shown, case)


@pytest.mark.parametrize("case", TWICE, ids=str)
def test_a_kill_during_the_recovery_changes_nothing(told, case):
    shown = told[str(case)].result()

    as_if_nothing_had_happened(shown.seen, case)
    on_time(shown, case)


def test_every_point_is_met():
    # In test_refund_crashes.py, test_compaction.py, test_memory_expiry.py and test_retention.py.
    elsewhere = {"mail.accepted", "compact.done", "retention.marked", "retention.deleted", "retention.cleared"}

    assert {case.points[0] for case in ONCE} == set(crash.POINTS) - elsewhere


def on_time(shown: Told, case: Case) -> None:
    print(f"\n{case}: next request {shown.from_ready:.2f} s after ready, {shown.from_start:.2f} s after start")
    assert shown.from_ready <= PROMPT + HEARTBEAT or overloaded()


def as_if_nothing_had_happened(seen: Witness, case: Case) -> None:
    check(seen, again=case.again, unknown=case.unknown)
    assert (seen.record["result"], seen.record["step"]) == ("All is done.", 3)
    assert [task["source_id"] for task in seen.tasks].count(f"mail-{seen.run.run_id}") == 1
    assert [action.status for action in seen.state.actions.all] == ["done", "done"]
