"""Everything that bears witness of one run: its history and state, the sandbox's journal, the store."""

import asyncio
import base64
import json
import sqlite3
import time
import tomllib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import postgres
from homes import Home, until
from sqlalchemy import make_url
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory
from temporalio.common import RawValue

from client.converter import converter
from client.dayflow import Dayflow
from client.run import Run
from domain.state import RunState
from store.blobs import Blobs
from store.payloads import reference, within
from store.settings import SAMPLES
from workflows.agent_run import STATUS


@dataclass(frozen=True)
class Request:
    """One request as the sandbox's journal has it. outcome: the line that says what became of it; None if none did."""

    line: dict[str, Any]
    outcome: dict[str, Any] | None

    @property
    def place(self) -> tuple[int, int]:
        """Step and ask."""
        headers = self.line["headers"]
        return int(headers["x-dayflow-step"]), int(headers["x-dayflow-ask"])

    @property
    def time(self) -> float:
        """When it arrived, in seconds since the epoch."""
        return datetime.fromisoformat(self.line["time"]).timestamp()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages as they were sent."""
        messages: list[dict[str, Any]] = self.line["body"]["messages"]
        return messages

    @property
    def max_tokens(self) -> int:
        """The room that it gave the answer."""
        return int(self.line["body"]["max_tokens"])

    @property
    def fault(self) -> str | None:
        """The fault that its answer met on purpose."""
        fault: str | None = self.line.get("fault")
        return fault

    @property
    def charged(self) -> bool:
        """Whether the answer began, so that a provider would have charged it."""
        return self.outcome is not None and "usage" in self.outcome


@dataclass(frozen=True)
class Witness:
    """One run as all of its witnesses tell it. events: with whatever is stored outside of what was `recorded`."""

    run: Run
    divergence: str | None
    events: list[HistoryEvent]
    recorded: list[HistoryEvent]
    requests: list[Request]
    ledger: list[dict[str, Any]]
    commits: list[dict[str, Any]]
    tasks: list[dict[str, Any]]
    refunds: list[dict[str, Any]]
    mails: list[dict[str, Any]]
    approvers: dict[str, list[str]]

    @property
    def record(self) -> dict[str, Any]:
        """The record."""
        return self.run.record()

    @property
    def state(self) -> RunState:
        """The state, replayed from history."""
        assert self.run.state is not None
        return self.run.state

    @property
    def history(self) -> str:
        """The exported history, every payload decoded."""
        return json.dumps([_plain(WorkflowHistory(self.run.run_id, self.events).to_json_dict()), self.record])


def watch(home: Home, run_id: str, until: Callable[[Run], bool], what: str, seconds: float = 60) -> Run:
    """Follow a run until its worker has recorded that it is as wanted."""

    async def follow() -> Run:
        dayflow, last = await _client(home), None
        try:
            async with asyncio.timeout(seconds):
                async for last in dayflow.follow(run_id):
                    if until(last):
                        return last
        except TimeoutError:
            pass
        raise AssertionError(f"{run_id}: not within {seconds:g} s: {what}; it is {last and last.record()}")

    return asyncio.run(follow())


def look(home: Home, run_id: str) -> Run:
    """The run as it stands."""

    async def get() -> Run:
        return await (await _client(home)).get(run_id)

    return asyncio.run(get())


def retried(home: Home, run_id: str, activity: str, attempt: int = 3) -> str:
    """Wait until a part of the run is at this attempt or beyond; what the record says of the one before."""

    def told() -> str | None:
        parts = look(home, run_id).record()["retrying"]
        return next((one["error"] for one in parts if one["activity"] == activity and one["attempt"] >= attempt), None)

    return until(f"{activity} is tried again", told)


def ends(home: Home, run_id: str, status: str = "done", reason: str | None = None, seconds: float = 60) -> Run:
    """Wait until a run has this status and this reason; a replay, which is dear, only when the server says so too."""

    async def reached() -> Run:
        dayflow, run = await _client(home), None
        handle = dayflow.client.get_workflow_handle(run_id)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            told = await handle.describe()
            if told.typed_search_attributes.get(STATUS) == status or told.close_time:
                run = await dayflow.get(run_id)
                if (run.record()["status"], run.record()["reason"]) == (status, reason):
                    return run
            await asyncio.sleep(0.1)
        run = run or await dayflow.get(run_id)
        raise AssertionError(f"{run_id}: not within {seconds:g} s: {status}: {reason}; it is {run.record()}")

    return asyncio.run(reached())


def start(home: Home, run_id: str, request: Any, task_queue: str = "dayflow") -> None:
    """Start a run by the typed client."""

    async def begin() -> None:
        await (await _client(home)).start(run_id, request, task_queue)

    asyncio.run(begin())


def send(home: Home, run_id: str, signal: str, content: Any) -> None:
    """Send a signal by the typed client."""

    async def tell() -> None:
        await (await _client(home)).signal(run_id, signal, content)

    asyncio.run(tell())


def send_all(home: Home, run_id: str, signals: list[tuple[str, Any]], *, at_once: bool = False) -> float:
    """Send signals by one typed client, one after the other or all at once; the seconds that it took."""

    async def tell() -> float:
        dayflow = await _client(home)
        began = time.monotonic()
        if at_once:
            await asyncio.gather(*(dayflow.signal(run_id, name, content) for name, content in signals))
        else:
            for name, content in signals:
                await dayflow.signal(run_id, name, content)
        return time.monotonic() - began

    return asyncio.run(tell())


def junk(encoding: str) -> RawValue:
    """Bytes that no converter decodes, under this encoding."""
    return RawValue(Payload(metadata={"encoding": encoding.encode()}, data=b"\xff\x00\x80\xc0\xfe"))


def witness(home: Home, run_id: str) -> Witness:
    """Hear all witnesses of a run."""

    async def hear() -> tuple[Run, str | None, list[HistoryEvent]]:
        dayflow = await _client(home)
        return await dayflow.get(run_id), await dayflow.divergence(run_id), await dayflow.events(run_id)

    run, divergence, events = asyncio.run(hear())
    task = run.state.definition.task if run.state and run.state.definition else None
    actions = run.state.actions.all if run.state else []
    keys = [action.idempotency_key for action in actions]
    to = {action.arguments.get("to") for action in actions if action.tool == "send_email"}
    tables = ("task_commits", "memory_commits")
    made = [row for table in tables for row in rows(home, f"SELECT idempotency_key, committed_at FROM {table}")]
    commits = [row for row in made if row["idempotency_key"] in keys]
    return Witness(
        run=run,
        events=[_whole(home, event) for event in events],
        recorded=events,
        divergence=divergence,
        requests=requests(home, task) if task else [],
        ledger=rows(home, "SELECT * FROM ledger WHERE run_id = ? ORDER BY began_at", run_id),
        commits=commits,
        tasks=rows(home, "SELECT * FROM tasks"),
        refunds=[
            one
            for one in home.sandbox("GET", "/sandbox/payments/journal")
            if one["metadata"].get("dayflow_run") == run_id
        ],
        mails=[one for one in home.sandbox("GET", "/sandbox/mail/journal") if one["to"] in to],
        approvers=approvers(home),
    )


def _whole(home: Home, event: HistoryEvent) -> HistoryEvent:
    """A copy of an event with the stored payloads in their places."""
    copy = HistoryEvent.FromString(event.SerializeToString())
    for payload in within(copy):
        if found := reference(payload):
            payload.CopyFrom(Payload.FromString(Blobs(home.settings.blobs).get(found.claim_data["sha256"])))
    return copy


def requests(home: Home, task: str) -> list[Request]:
    """The requests of the runs with this task, in order of arrival."""
    lines = home.sandbox("GET", f"/sandbox/journal?about={quote(task)}")
    outcomes = {line["n"]: line for line in lines if "n" in line and line["event"] != "request"}
    return [
        Request(line, outcomes.get(line["n"])) for line in lines if line["event"] == "request" and _asks(line, task)
    ]


def rows(home: Home, query: str, *values: Any) -> list[dict[str, Any]]:
    """Rows of the store."""
    address = home.env.get("DAYFLOW_DATABASE_URL")
    if address and address.startswith("postgresql"):
        return postgres.rows(address, query, *values)
    path = make_url(address).database if address else home.path / "dayflow.sqlite"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as store:
        store.row_factory = sqlite3.Row
        return [dict(row) for row in store.execute(query, values)]


def approvers(home: Home) -> dict[str, list[str]]:
    """Whoever stands in the approvers file, and their roles."""
    path = Path(home.env.get("DAYFLOW_APPROVERS", SAMPLES / "approvers.toml"))
    return {one["name"]: one["roles"] for one in tomllib.loads(path.read_text())["approvers"]}


async def _client(home: Home) -> Dayflow:
    return Dayflow(await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(home.settings)))


def _asks(line: dict[str, Any], task: str) -> bool:
    body = line.get("body")
    first = body["messages"][0]["content"] if isinstance(body, dict) else ""
    return task in json.dumps(first)


def _plain(value: Any) -> Any:
    """A copy with the data of every payload decoded."""
    match value:
        case {"metadata": _, "data": str(data)}:
            return base64.b64decode(data).decode(errors="replace")
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list():
            return [_plain(one) for one in value]
        case _:
            return value
