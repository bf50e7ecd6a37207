"""Whatever the plain Temporal CLI sends, a run closes with a clear message or goes on; it never hangs."""

import asyncio
import contextlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from checker import check, history_replays, no_task_of_the_workflow_failed
from homes import Home
from script import call, conversation, play, say, unique, use
from temporalio.client import Client, WorkflowContinuedAsNewError, WorkflowFailureError
from temporalio.common import RetryPolicy
from witness import ends, junk, rows, send, start, witness

from client.converter import converter
from domain.state import RunState
from domain.status import Status

SECONDS = 15.0
BRIEF = '{"agent": "brief"}'
# What a run is started with, and words of the message that it fails with.
STARTS = {
    "no input": ((), "exactly one input"),
    "two inputs": (("--input", BRIEF, "--input", BRIEF), "2 were given"),
    "empty object": (("--input", "{}"), "agent: Field required"),
    "list": (("--input", "[]"), "JSON array"),
    "string": (("--input", '"brief"'), "JSON string"),
    "number": (("--input", "7"), "JSON number"),
    "null": (("--input", "null"), "JSON null"),
    "unknown agent": (("--input", '{"agent": "breif"}'), "known agents: brief"),
    "agent of another type": (("--input", '{"agent": 7}'), "agent: it has to be a string"),
    "path as agent": (("--input", '{"agent": "../brief"}'), "there is no agent"),
    "control character": (("--input", '{"agent": "bri\\u0000ef"}'), "agent: it has to match pattern"),
    "task of another type": (("--input", '{"agent": "brief", "task": ["a"]}'), "task: it has to be a string"),
    "blank task": (("--input", '{"agent": "brief", "task": "  "}'), "task: it has to have at least 1 character"),
    "lone surrogate": (("--input", '{"agent": "brief", "task": "\\ud800"}'), "cannot be decoded as 'json/plain'"),
    "extra field": (("--input", '{"agent": "brief", "colour": "red"}'), "colour: Extra inputs are not permitted"),
    "no limit at all": (("--input", '{"agent": "brief", "limits": {"steps": 0}}'), "limits.steps"),
    "text as limit": (("--input", '{"agent": "brief", "limits": {"tokens": "10"}}'), "limits.tokens"),
}
ENCODINGS = ["json/plain", "json/protobuf", "binary/plain", "binary/strange", ""]
IDS = {
    "blank id": (" ", "blank or not printable"),
    "line break in the id": ("a\nb", "blank or not printable"),
    "long id": ("i" * 201, "at most 200"),
}

BY = '{"by": "ana"}'
# Signals that cannot be used, and words of the reason that is kept.
SIGNALS = {
    "misnamed": ("aprove", ("--input", BY), "there is no such signal"),
    "misnamed, without input": (" ", (), "there is no such signal"),
    "no input": ("pause", (), "exactly one JSON object, got 0 inputs"),
    "two inputs": ("pause", ("--input", BY, "--input", BY), "got 2 inputs"),
    "string": ("message", ("--input", '"hello"'), "exactly one JSON object"),
    "list": ("resume", ("--input", "[]"), "exactly one JSON object"),
    "null": ("raise_budget", ("--input", "null"), "exactly one JSON object"),
    "missing field": ("message", ("--input", '{"text": "hello"}'), "from: Field required"),
    "extra field": ("pause", ("--input", '{"by": "ana", "now": true}'), "now: Extra inputs"),
    "wrong type": (
        "raise_budget",
        ("--input", '{"by": "ana", "tokens": "many"}'),
        "tokens: it has to be a whole number",
    ),
    "lone surrogate": ("message", ("--input", '{"text": "\\ud800", "from": "ana"}'), "cannot be decoded"),
}
MEGABYTE = 1_000_000


def tell(home: Home, run_id: str, name: str, *inputs: str) -> None:
    """Send a signal by the plain CLI."""
    home.temporal("workflow", "signal", "--workflow-id", run_id, "--name", name, *inputs)


def asked(home: Home, run_id: str, query: str, *inputs: str) -> Any:
    """The answer to a query by the plain CLI."""
    told = home.temporal("workflow", "query", "--workflow-id", run_id, "--type", query, *inputs, "--output", "json")
    return json.loads(told.stdout)["queryResult"][0]


def began(home: Home, run_id: str, *inputs: str) -> None:
    """Start a run by the plain CLI."""
    where = ("--type", "AgentRun", "--task-queue", "dayflow", "--workflow-id", run_id)
    home.temporal("workflow", "start", *where, *inputs)


def fails_with(home: Home, run_id: str, words: str) -> None:
    """The run closes as Failed in time, and says this both to Temporal's users and to ours."""
    run = ends(home, run_id, "failed", "refused", seconds=SECONDS)

    told = home.temporal("workflow", "result", "--workflow-id", run_id, code=1)
    assert words in told.stdout + told.stderr
    assert words in run.record()["error"]["message"]
    seen = witness(home, run_id)
    history_replays(seen)
    no_task_of_the_workflow_failed(seen)


@pytest.mark.parametrize(("inputs", "words"), STARTS.values(), ids=STARTS)
def test_a_run_with_a_bad_input_fails_and_says_why(staffed, inputs, words):
    run_id = unique("bad-input")

    began(staffed, run_id, *inputs)

    fails_with(staffed, run_id, words)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_bytes_that_cannot_be_decoded_are_refused(staffed, encoding):
    run_id = unique("bad-input")

    start(staffed, run_id, junk(encoding))

    fails_with(staffed, run_id, "JSON")


@pytest.mark.parametrize(("run_id", "words"), IDS.values(), ids=IDS)
def test_an_id_that_people_cannot_type_is_refused(staffed, run_id, words):
    began(staffed, run_id, "--input", BRIEF)

    fails_with(staffed, run_id, words)


def test_a_large_input_is_refused(staffed, tmp_path):
    run_id, large = unique("bad-input"), tmp_path / "input.json"
    large.write_text(json.dumps({"agent": "brief", "task": "x" * MEGABYTE}))

    began(staffed, run_id, "--input-file", str(large))

    fails_with(staffed, run_id, "at most 200000 are taken")


def forged(run_id: str) -> dict[str, Any]:
    """What only an execution that was handed over may take: a state, in which everything is done."""
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    state = RunState(namespace="default", run_id=run_id, first_execution_run_id="f", started_at=now, updated_at=now)
    return state.model_copy(update={"status": Status.DONE, "result": "forged"}).model_dump(mode="json")


async def ends_of(home: Home, run_id: str, **repeats: Any) -> list[str]:
    """How the first execution of such a run ends, and the one that the server starts after it, if it does."""
    client = await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(home.settings))
    begun = await client.start_workflow("AgentRun", forged(run_id), id=run_id, task_queue="dayflow", **repeats)
    execution, told = begun.result_run_id, []
    while execution and len(told) < 2:
        handle = client.get_workflow_handle(run_id, run_id=execution)
        with contextlib.suppress(WorkflowFailureError, WorkflowContinuedAsNewError):
            await asyncio.wait_for(handle.result(follow_runs=False), SECONDS)
        last = (await handle.fetch_history()).events[-1]
        end = getattr(last, last.WhichOneof("attributes"))
        told.append(end.failure.message)
        execution = end.new_execution_run_id
    return told


@pytest.mark.parametrize(
    ("repeats", "executions"),
    [({"retry_policy": RetryPolicy(maximum_attempts=3)}, 1), ({"cron_schedule": "@every 1s"}, 2)],
    ids=["retry", "cron"],
)
def test_what_the_server_would_start_again_is_refused_and_takes_no_state_from_anybody(staffed, repeats, executions):
    limit = timedelta(seconds=SECONDS)

    told = asyncio.run(ends_of(staffed, unique("repeated"), execution_timeout=limit, **repeats))

    assert len(told) == executions
    assert all("no retry policy and no cron schedule" in words for words in told)


def test_a_used_id_is_not_used_again(staffed):
    task = unique("used")
    play(staffed, conversation(task, say("Done.")))
    began(staffed, task, "--input", json.dumps({"agent": "brief", "task": task}))
    first = ends(staffed, task)

    began(staffed, task, "--input", BRIEF)

    fails_with(staffed, task, "start with another --workflow-id")
    assert first.execution in ends(staffed, task, "failed", "refused").other_executions
    assert len(rows(staffed, "SELECT * FROM claims WHERE run_id = ?", task)) == 1
    # What the run did that has the id can still be seen.
    assert [step["n"] for step in staffed.json("steps", task)] == [1]
    assert json.loads(staffed.dayflow("export", task).stdout)["record"]["status"] == "done"
    assert staffed.json("show", task, "--execution", first.execution)["result"] == "Done."


def test_a_run_survives_every_bad_message(staffed, tmp_path):
    task, large = unique("bad-signals"), tmp_path / "message.json"
    large.write_text(json.dumps({"text": "x" * MEGABYTE, "from": "ana"}))
    waits = {**call(use("read_tasks")), "faults": [{"kind": "silence", "seconds": 5, "pings": True}]}
    play(staffed, conversation(task, waits, say("Done.")))
    began(staffed, task, "--input", json.dumps({"agent": "brief", "task": task}))

    for name, inputs, _ in SIGNALS.values():
        tell(staffed, task, name, *inputs)
    tell(staffed, task, "message", "--input-file", str(large))
    for encoding in ENCODINGS:
        send(staffed, task, "pause", junk(encoding))

    kept = asked(staffed, task, "record")["refused_messages"]
    assert kept["count"] == len(SIGNALS) + 1 + len(ENCODINGS)
    for (name, _, why), bad in zip(SIGNALS.values(), kept["last"], strict=False):
        assert bad["name"] == name
        assert why in bad["why"]
        assert len(bad["excerpt"]) <= 200
        assert len(bad["sha256"]) == 64
    ends(staffed, task)
    check(witness(staffed, task))


def test_odd_queries_are_answered(staffed):
    task = unique("odd-queries")
    play(staffed, conversation(task, say("Done.")))
    began(staffed, task, "--input", json.dumps({"agent": "brief", "task": task}))
    ends(staffed, task)

    for odd in ((), ("--input", "[]"), ("--input", '{"from": "x", "to": -1}'), ("--input", "1", "--input", "2")):
        assert asked(staffed, task, "record", *odd)["status"] == "done"
        assert "steps" in asked(staffed, task, "steps", *odd)
        assert "messages" in asked(staffed, task, "transcript", *odd)


# Signals that arrive before the run begins, and how the run stands once they were heard.
EARLY = {
    "a pause": ("pause", BY, "paused", "by ana"),
    "a limit": ("raise_budget", '{"by": "ana", "steps": 1}', "paused", "budget"),
    "a resume": ("resume", BY, "done", None),
    "words": ("message", '{"text": "Be short.", "from": "ana"}', "done", None),
    "no signal of ours": ("aprove", BY, "done", None),
    "no JSON object": ("pause", "[]", "done", None),
}


@pytest.mark.parametrize(("name", "content", "status", "reason"), EARLY.values(), ids=EARLY)
def test_a_signal_before_the_start_is_heard_or_kept(staffed, name, content, status, reason):
    task = unique("early")
    play(staffed, conversation(task, call(use("read_tasks")), say("Done.")))

    staffed.temporal(
        *("workflow", "signal-with-start", "--signal-name", name, "--signal-input", content, "--type", "AgentRun"),
        *("--task-queue", "dayflow", "--workflow-id", task, "--input", json.dumps({"agent": "brief", "task": task})),
    )

    ends(staffed, task, status, reason, seconds=SECONDS)
    seen = witness(staffed, task)
    refused = [bad.name for bad in seen.state.bad_messages.last]
    assert refused == ([name] if name == "aprove" or content == "[]" else [])
    assert ("Be short." in json.dumps(seen.state.transcript.messages)) == (name == "message")
    if status == "done":
        check(seen)
