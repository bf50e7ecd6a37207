"""Workers that die one after another at durable boundaries of a run of three steps, and what that may cost."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from checker import check
from homes import Home
from script import call, conversation, create_task, play, say, unique, use
from stalls import stood_still
from witness import Witness, ends, start, witness
from workers import working

from store import crash

# Seconds from the new worker's readiness to its next request, beside the heartbeat that notices the old one's death.
PROMPT = 5.0
HEARTBEAT = 5.0
SIDE_BY_SIDE = 4
# Tested in the files of refunds, compaction, two workers, retention and memory.
ELSEWHERE = ("prepare.", "check.", "mail.", "compact.", "store.", "retention.")
# The points that a run of three steps meets.
MET = [point for point in crash.POINTS if not point.startswith(ELSEWHERE)]


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


@dataclass(frozen=True)
class Told:
    """What came of a case, and how long after its start and its readiness the last worker's first request came."""

    seen: Witness
    from_start: float
    from_ready: float


@contextmanager
def told(home: Home, cases: Sequence[Case]) -> Iterator[dict[str, "Future[Told]"]]:
    """All cases, some side by side, each on a task queue of its own: what takes time is to notice a death."""
    tasks = {str(case): unique("crash") for case in cases}
    play(home, *map(three_steps, tasks.values()))
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {str(case): pool.submit(tell, home, case, tasks[str(case)]) for case in cases}


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


def on_time(shown: Told, case: Case) -> None:
    print(f"\n{case}: next request {shown.from_ready:.2f} s after ready, {shown.from_start:.2f} s after start")
    assert shown.from_ready <= PROMPT + HEARTBEAT or stood_still()


def as_if_nothing_had_happened(seen: Witness, case: Case) -> None:
    check(seen, again=case.again, unknown=case.unknown)
    assert (seen.record["result"], seen.record["step"]) == ("All is done.", 3)
    assert [task["source_id"] for task in seen.tasks].count(f"mail-{seen.run.run_id}") == 1
    assert [action.status for action in seen.state.actions.all] == ["done", "done"]
