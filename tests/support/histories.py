"""Recorded histories: real runs, kept as files, that today's code has to replay. `python tests/support/histories.py`
records those that are missing; a released one is never recorded again."""

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import schedules
from cleanups import client, forgotten, remembered, result
from homes import Home, until
from script import call, conversation, play, say, use
from temporalio.client import WorkflowHistory
from witness import send_all

FOLDER = Path(__file__).resolve().parent.parent / "histories"
IDENTITIES = ("identity", "workerIdentity")
# A worker's own queue is called by its process and its machine.
OWN_QUEUE = re.compile(r"\d+@")


def brief(home: Home, run_id: str) -> None:
    """A whole brief, tasks and all."""
    home.dayflow("brief", "--id", run_id)


def brief_crashed(home: Home, run_id: str) -> None:
    """A brief whose worker died after step 2, and which went on."""
    home.dayflow("brief", "--id", run_id, "--crash-after", "2", code=-9)
    home.dayflow("resume", run_id)


def refund(home: Home, run_id: str) -> None:
    """A refund that was approved after three decisions that were refused."""
    home.start(run_id, {"agent": "refund", "task": "Refund 40.00 of order 1042", "requested_by": "desk@example.com"})
    with home.worker():
        home.ends(run_id, "awaiting_approval")
        for name in ("desk@example.com", "clerk@example.com", "nobody@example.com"):
            home.dayflow("approve", run_id, "--as", name, code=1)
        home.dayflow("approve", run_id, "--as", "lead@example.com")
        home.ends(run_id)


def refund_denied(home: Home, run_id: str) -> None:
    """A refund that a person said no to."""
    home.start(run_id, {"agent": "refund", "task": "Refund 10.00 of order 1043", "requested_by": "desk@example.com"})
    with home.worker():
        home.ends(run_id, "awaiting_approval")
        home.dayflow("deny", run_id, "--as", "lead@example.com")
        home.ends(run_id, "cancelled")


def refund_edited(home: Home, run_id: str) -> None:
    """A refund of which a person made half, and another approved it."""
    home.start(run_id, {"agent": "refund", "task": "Refund 40.00 of order 1041", "requested_by": "desk@example.com"})
    with home.worker():
        [asked] = home.ends(run_id, "awaiting_approval")["pending_actions"]
        less = json.dumps({**asked["arguments"], "amount": "20.00"})
        home.dayflow("edit", run_id, less, "--as", "lead@example.com")
        home.dayflow("approve", run_id, "--as", "lead@example.com")
        home.ends(run_id)


def long(home: Home, run_id: str) -> None:
    """A run that was compacted, was given more, and went on in other executions; its newest one."""
    words = {"type": "text", "text": "Number {n}: " + "the quick brown fox jumps over the lazy dog. " * 20}
    look = call(words, use("read_tasks", {"status": "unheard-of {n}"}))
    script = {**conversation(run_id, {**look, "until": 12}, say("That is all.")), "turn_by": "step"}
    play(home, script)
    home.start(run_id, {"agent": "brief", "task": run_id, "limits": {"steps": 10}})
    with home.worker(DAYFLOW_EVENTS="100", DAYFLOW_COMPACT_AT="5000"):
        home.ends(run_id, "paused")
        home.dayflow("raise", run_id, "--steps", "20")
        home.ends(run_id)


def handed_over(home: Home, run_id: str) -> str:
    """A refund that waited until its execution was long enough; the execution that ended for another one."""
    home.start(run_id, {"agent": "refund", "task": "Refund 10.00 of order 1042", "requested_by": "desk@example.com"})
    with home.worker(DAYFLOW_EVENTS="60"):
        first = home.ends(run_id, "awaiting_approval")["execution"]
        send_all(home, run_id, [("misspelt", {"n": n}) for n in range(60)])
        until("it went on in another execution", lambda: home.show(run_id)["execution"] != first)
        home.dayflow("deny", run_id, "--as", "lead@example.com")
        home.ends(run_id, "cancelled")
    return str(first)


def retention(home: Home, run_id: str) -> str:
    """A clean-up after a brief, and of memory: some goes, some enters its grace, some is named."""
    brief(home, f"{run_id}-brief")
    scope = "recorded/retention"
    ids = remembered(home, scope, {"It is due for a review.": 100, "It is unused.": 200, "It is over.": 40})
    forgotten(home, ids["It is over."], 20)
    ages = dict.fromkeys(("runs", "grace", "model_calls", "effects", "payloads"), 0)
    with home.worker():
        home.temporal(
            *("workflow", "start", "--type", "Retention", "--task-queue", "dayflow", "--workflow-id", run_id),
            *("--input", json.dumps({"ages": ages})),
        )
        result(home, run_id)
    return run_id


def fired(home: Home, name: str, times: int = 1) -> str:
    """A schedule that fired and started the run of its day; the workflow of the firing."""
    schedules.scheduled(home, "brief", name, "--at", "07:30", "--tz", "Europe/Berlin")
    with home.worker():
        for count in range(1, times + 1):
            schedules.trigger(home, name)
            schedules.outcomes(home, name, count)
        return schedules.told(home, name).took[0].workflow_id


def fired_again(home: Home, name: str) -> str:
    """The same, after the run of the day was there."""
    return fired(home, name, times=2)


# Each may name the execution that is kept, if not the newest one.
RUNS: dict[str, Callable[[Home, str], str | None]] = {
    "brief": brief,
    "brief-crashed": brief_crashed,
    "refund": refund,
    "refund-denied": refund_denied,
    "refund-edited": refund_edited,
    "long": long,
    "handed-over": handed_over,
}
# Workflows that are no runs; each gives its id.
OTHERS: dict[str, Callable[[Home, str], str]] = {"retention": retention, "fired": fired, "fired-again": fired_again}


def record(home: Home, name: str) -> None:
    """Let it happen, and keep its history without the names of this machine."""
    run_id, execution = f"recorded-{name}", None
    if name in OTHERS:
        run_id = OTHERS[name](home, run_id)
    else:
        execution = RUNS[name](home, run_id)
    until(f"{run_id} is closed", lambda: asyncio.run(_closed(home, run_id)))
    history = asyncio.run(_fetch(home, run_id, execution))
    (FOLDER / f"{name}.json").write_text(json.dumps(_anonymous(history), indent=1, ensure_ascii=False) + "\n")


def load(path: Path) -> WorkflowHistory:
    """A recorded history."""
    return WorkflowHistory.from_json(f"recorded-{path.stem}", path.read_text())


async def _closed(home: Home, run_id: str) -> bool:
    return (await (await client(home)).get_workflow_handle(run_id).describe()).close_time is not None


async def _fetch(home: Home, run_id: str, execution: str | None) -> dict[str, Any]:
    handle = (await client(home)).get_workflow_handle(run_id, run_id=execution)
    history: dict[str, Any] = json.loads((await handle.fetch_history()).to_json())
    return history


def _anonymous(value: Any) -> Any:
    if isinstance(value, str) and OWN_QUEUE.match(value):
        return "worker"
    if isinstance(value, dict):
        return {key: "worker" if key in IDENTITIES else _anonymous(inner) for key, inner in value.items()}
    return [_anonymous(inner) for inner in value] if isinstance(value, list) else value


def main() -> None:
    """Record what is missing, or what is named."""
    wanted = sys.argv[1:] or [name for name in RUNS | OTHERS if not (FOLDER / f"{name}.json").exists()]
    home = Home(Path(tempfile.mkdtemp()))
    home.dayflow("up", "--no-worker")
    try:
        for name in wanted:
            record(home, name)
            print(f"recorded {name}")
    finally:
        home.dayflow("down", code=None)


if __name__ == "__main__":
    main()
