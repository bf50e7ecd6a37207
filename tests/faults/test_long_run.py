"""A run of thousands of steps: compacted again and again, in execution after execution, and no step costs more for it.

`LONG_RUN_STEPS=2000 pytest -s tests/faults/test_long_run.py` measures two thousand of them, in some minutes.
"""

import json
import os
from pathlib import Path
from statistics import median

import pytest
from homes import Home, until
from script import call, conversation, create_task, play, say, unique, use
from witness import ends, requests, rows, send, start, witness
from workers import Worker, working

STEPS = int(os.environ.get("LONG_RUN_STEPS", "120"))
HUNDRED = 100 if STEPS > 500 else 20
# Instructions and tools have some 2,900 tokens; a step adds 170.
AT = 12_000 if STEPS > 500 else 5_000
GROWTH = 1.3
AGAIN = STEPS // 2


@pytest.fixture
def roomy(new_home) -> Home:
    """A home in which transcripts are compacted early; its sandbox keeps bodies only of a short run."""
    return new_home(DAYFLOW_COMPACT_AT=str(AT), DAYFLOW_EVENTS="2000" if STEPS > 500 else "500")


def script(task: str, source: str) -> dict:
    """Step 3 creates a task, and so does one in the middle, for the same source; all others look something up."""
    text = {"type": "text", "text": "Number {n}: " + "the quick brown fox jumps over the lazy dog. " * 6}
    look = call(text, use("read_tasks", {"status": "unheard-of {n}"}))
    effect = call(create_task(source))
    turns = [{**look, "until": 2}, effect, {**look, "until": AGAIN}, effect, {**look, "until": STEPS - 1}, say("Done.")]
    return {**conversation(task, *turns), "turn_by": "step"}


def rss(worker: Worker) -> int:
    """The most memory that it has had, in MB."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) // 1024


@pytest.mark.timeout(1_800 if STEPS > 500 else 120)
def test_a_run_of_many_steps_forgets_nothing_and_costs_no_more_a_step(roomy):
    task, source = unique("thousands"), unique("source")
    play(roomy, script(task, source))
    memory = []
    with working(roomy, "dayflow") as worker:
        worker.ready()
        limits = {"steps": STEPS + 1, "tokens": 1_000_000_000}
        start(roomy, task, {"agent": "brief", "task": task, "limits": limits})
        until("it has begun", lambda: len(rows(roomy, "SELECT 1 FROM ledger")) > 1)
        send(roomy, task, "message", {"text": "Never before noon.", "from": "ana"})
        for hundred in range(HUNDRED, STEPS, HUNDRED):
            until(f"step {hundred}", lambda at=hundred: _reached(roomy, task) > at, 300)
            memory.append(rss(worker))
        ends(roomy, task, seconds=300)
    seen = witness(roomy, task)
    took = _seconds(roomy, task)

    parts = [1000 * median(took[at : at + HUNDRED]) for at in range(0, STEPS - HUNDRED, HUNDRED)]
    for at, (ms, mb) in enumerate(zip(parts, memory, strict=False)):
        print(f"steps {at * HUNDRED + 1:5} to {(at + 1) * HUNDRED:5}: {ms:6.1f} ms a step, worker's peak {mb} MB")
    compacted = [one for one in seen.record["compactions"] if not one["skipped"]]
    last = json.dumps(requests(roomy, task)[-1].messages)
    print(f"{len(compacted)} compactions, {len(seen.run.other_executions) + 1} executions")
    assert seen.record["step"] == STEPS
    assert len(compacted) >= (20 if STEPS > 500 else 5)
    assert len(seen.run.other_executions) >= (10 if STEPS > 500 else 2)
    assert {request.outcome["event"] for request in seen.requests} == {"answered"}
    assert len(seen.requests) == STEPS
    assert f"create_task task:{source}: done" in last
    assert "- ana: Never before noon." in last
    assert [one["source_id"] for one in seen.tasks] == [source]
    assert max(memory) <= GROWTH * memory[0]
    if STEPS > 500:
        assert median(parts[-5:]) <= GROWTH * median(parts[:5])


def _reached(home: Home, run_id: str) -> int:
    [row] = rows(home, "SELECT max(step) AS step FROM ledger WHERE run_id = ?", run_id)
    return row["step"] or 0


def _seconds(home: Home, run_id: str) -> list[float]:
    """Seconds of each step, from the ledger's row of one model call to the next one's."""
    query = """SELECT (julianday(lead(began_at) OVER (ORDER BY began_at)) - julianday(began_at)) * 86400 AS seconds
               FROM ledger WHERE run_id = ? AND kind = 'model' ORDER BY began_at"""
    return [row["seconds"] for row in rows(home, query, run_id) if row["seconds"] is not None]
