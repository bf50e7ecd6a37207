"""Many runs that wait for people on one worker: they are listed fast, cost little memory, and outlive the worker.

`WAITING_RUNS=1000 pytest -s tests/faults/test_many_waiting.py` measures a thousand of them, in some minutes.
"""

import asyncio
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import orders
import pytest
from homes import Home, until
from refunds import LEAD, Refund
from temporalio.client import Client
from workers import Worker, working

from client.converter import converter
from client.dayflow import Dayflow

RUNS = int(os.environ.get("WAITING_RUNS", "40"))
APPROVED = min(RUNS // 2, 100)
AT_ONCE = 20
LIST_S, RSS_MB = 3.0, 300


@pytest.fixture
def crowded(new_home: Any, tmp_path: Path) -> Home:
    """A home with an order for each run."""
    file = orders.written(tmp_path / "many.json", RUNS + 1_000)
    home: Home = new_home(DAYFLOW_SAMPLE_ORDERS=str(file), DAYFLOW_SANDBOX_JOURNAL_BODIES="off")
    return home


async def each(home: Home, refunds: list[Refund], act: Any) -> None:
    """Do something with every run, some of them at once."""
    dayflow = Dayflow(await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(home.settings)))
    free = asyncio.Semaphore(AT_ONCE)

    async def one(refund: Refund) -> None:
        async with free:
            await act(dayflow, refund)

    await asyncio.gather(*map(one, refunds))


def count(home: Home, status: str) -> int:
    """How many runs the server lists with this status."""
    query = f'DayflowStatus="{status}"'
    told = home.temporal("workflow", "count", "--query", query)
    return int(told.stdout.split()[-1])


def memory(worker: Worker) -> dict[str, int]:
    """Its resident memory in MB, now and at its peak."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines())
    return {name: int(lines[name].split()[0]) // 1024 for name in ("VmRSS", "VmHWM")}


def listed(home: Home) -> dict[str, dict[str, Any]]:
    """What `dayflow approvals` lists, by run."""
    began = time.monotonic()
    rows = home.json("approvals")
    seconds = time.monotonic() - began
    print(f"dayflow approvals: {len(rows)} actions in {seconds:.2f} s")
    assert seconds < LIST_S
    return {row["run_id"]: row for row in rows}


@pytest.mark.long
@pytest.mark.timeout(1_200 if RUNS > 100 else 120)
def test_many_waiting_runs_are_listed_fast_and_outlive_their_worker(crowded):
    refunds = [Refund("many") for _ in range(RUNS)]
    with working(crowded, "dayflow", cold=True) as worker:
        worker.ready()
        idle = memory(worker)
        began = time.monotonic()
        asyncio.run(each(crowded, refunds, lambda dayflow, refund: dayflow.start(refund.run_id, refund.request)))
        until("all wait for approval", lambda: count(crowded, "awaiting_approval") == RUNS, RUNS)
        print(
            f"\n{RUNS} runs up to their approval: {time.monotonic() - began:.0f} s; worker {idle} → {memory(worker)} MB"
        )
        before = listed(crowded)
        assert memory(worker)["VmHWM"] < RSS_MB
    assert set(before) == {refund.run_id for refund in refunds}
    assert listed(crowded) == before

    with working(crowded, "dayflow", cold=True) as worker:
        worker.ready()
        chosen = refunds[:APPROVED]
        began = time.monotonic()
        asyncio.run(each(crowded, chosen, lambda dayflow, refund: said(dayflow, refund, before[refund.run_id])))
        until("those approved are done", lambda: count(crowded, "done") == APPROVED, RUNS)
        print(f"{APPROVED} approved and done: {time.monotonic() - began:.0f} s; worker {memory(worker)} MB")
        assert memory(worker)["VmHWM"] < RSS_MB
        left = listed(crowded)

    made = Counter(line["metadata"]["dayflow_run"] for line in crowded.sandbox("GET", "/sandbox/payments/journal"))
    assert made == Counter(refund.run_id for refund in chosen)
    sent = Counter(line["to"] for line in crowded.sandbox("GET", "/sandbox/mail/journal"))
    assert sent == Counter(refund.order.email for refund in chosen)
    assert left == {run: row for run, row in before.items() if run not in made}


async def said(dayflow: Dayflow, refund: Refund, row: dict[str, Any]) -> None:
    """Approve what was listed."""
    await dayflow.signal(refund.run_id, "approve", {"action_id": row["action_id"], "approver": LEAD})
