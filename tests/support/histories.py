"""Recorded histories: real runs, kept as files, that today's code has to replay. `python tests/support/histories.py`
records those that are missing; a released one is never recorded again."""

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from homes import Home, until
from script import call, conversation, play, say, use
from temporalio.client import Client, WorkflowHistory

from client.converter import converter

FOLDER = Path(__file__).resolve().parent.parent / "histories"
IDENTITIES = ("identity", "workerIdentity")


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


RUNS: dict[str, Callable[[Home, str], None]] = {
    "brief": brief,
    "brief-crashed": brief_crashed,
    "refund": refund,
    "refund-denied": refund_denied,
    "refund-edited": refund_edited,
    "long": long,
}


def record(home: Home, name: str) -> None:
    """Let it happen, and keep its history without the names of this machine."""
    run_id = f"recorded-{name}"
    RUNS[name](home, run_id)
    until(f"{run_id} is closed", lambda: not home.show(run_id)["status"].startswith(("running", "received")))
    history = asyncio.run(_fetch(home, run_id))
    (FOLDER / f"{name}.json").write_text(json.dumps(_anonymous(history), indent=1, ensure_ascii=False) + "\n")


def load(path: Path) -> WorkflowHistory:
    """A recorded history."""
    return WorkflowHistory.from_json(f"recorded-{path.stem}", path.read_text())


async def _fetch(home: Home, run_id: str) -> dict[str, Any]:
    client = await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(home.settings))
    history: dict[str, Any] = json.loads((await client.get_workflow_handle(run_id).fetch_history()).to_json())
    return history


def _anonymous(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "worker" if key in IDENTITIES else _anonymous(inner) for key, inner in value.items()}
    return [_anonymous(inner) for inner in value] if isinstance(value, list) else value


def main() -> None:
    """Record what is missing, or what is named."""
    wanted = sys.argv[1:] or [name for name in RUNS if not (FOLDER / f"{name}.json").exists()]
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
