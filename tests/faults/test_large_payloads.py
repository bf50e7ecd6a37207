"""Nothing that is large ends a run or stops it for ever; what was stored and is gone is named, and waited for."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mischief
import pytest
from checker import check, each_ask_is_sent_once, history_replays
from homes import Home, until
from script import call, conversation, create_task, play, say, unique, use
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from witness import Witness, ends, send, start, witness
from workers import working

from store.blobs import Blob, Blobs

QUEUE = "large"
DONE = say("That is all.")
MOST_IN_HISTORY = 1_000_000
MOST_IN_ONE_TASK = 3_000_000


def reads(*how: str) -> dict[str, Any]:
    """A turn that calls a tool in each of these ways."""
    return call(*(use("read_inbox", {"how": one}) for one in how))


# What a model and its tools say in one run, and a part of the transcript that comes of it.
LARGE = {
    "a result of 3 MB": ([reads("much"), DONE], "[clipped: 3000000 bytes, the first 64000 are shown]"),
    "16 results of 200 KB": ([reads(*["some"] * 16), DONE], "[clipped: 200000 bytes, the first 64000 are shown]"),
    "an argument of 900 KB": ([reads("a" * 900_000), DONE], "KeyError"),
    "16 arguments of 60 KB": ([reads(*["a" * 60_000] * 16), DONE], "KeyError"),
    "an answer near 1 MB": ([say("b" * 990_000)], "b" * 990_000),
    "text of 900 KB beside a call": ([{"content": [*say("c" * 900_000)["content"], use("read_tasks")]}, DONE], "tasks"),
    "12 results of 64 KB, one after the other": ([*[reads(f"some,{n}") for n in range(12)], DONE], "[clipped"),
}
TASKS = {name: unique("large") for name in LARGE}


@pytest.fixture(scope="module")
def begun(home: Home) -> Iterator[Home]:
    """All runs, begun side by side on one worker."""
    play(home, *({**conversation(TASKS[name], *turns), "turn_by": "step"} for name, (turns, _) in LARGE.items()))
    with working(home, QUEUE, host=mischief.host) as worker:
        for task in TASKS.values():
            start(home, task, {"agent": "brief", "task": task, "limits": {"tokens": 5_000_000}}, QUEUE)
        worker.ready()
        yield home


@pytest.mark.parametrize("name", LARGE)
def test_large_things_go_through_and_the_history_stays_small(begun, name):
    ends(begun, TASKS[name])

    seen = witness(begun, TASKS[name])
    check(seen)
    assert LARGE[name][1] in json.dumps(seen.state.transcript.messages)
    small(seen)


def small(seen: Witness) -> None:
    """Nothing in the history, and no workflow task, is near what the server takes."""
    tasks: Counter[int] = Counter()
    for event in seen.recorded:
        assert event.ByteSize() < MOST_IN_HISTORY
        tasks[event.activity_task_scheduled_event_attributes.workflow_task_completed_event_id] += event.ByteSize()
    del tasks[0]
    assert max(tasks.values()) < MOST_IN_ONE_TASK


def test_a_message_of_nearly_two_megabytes_is_refused_and_the_run_goes_on(begun, tmp_path):
    task, large = unique("large-message"), tmp_path / "message.json"
    large.write_text(json.dumps({"text": "x" * 1_900_000, "from": "ana"}))
    slow = {**reads("some"), "faults": [{"kind": "silence", "seconds": 3, "pings": True}]}
    play(begun, conversation(task, slow, DONE))
    start(begun, task, {"agent": "brief", "task": task}, QUEUE)

    begun.temporal("workflow", "signal", "--workflow-id", task, "--name", "message", "--input-file", str(large))

    ends(begun, task)
    seen = witness(begun, task)
    check(seen)
    [bad] = seen.state.bad_messages.last
    assert "at most 20000 characters" in bad.why


def test_a_signal_that_looks_like_a_reference_of_somebody_else_is_refused_and_the_run_goes_on(begun):
    task = unique("foreign-reference")
    slow = {**reads("some"), "faults": [{"kind": "silence", "seconds": 3, "pings": True}]}
    play(begun, conversation(task, slow, DONE))
    start(begun, task, {"agent": "brief", "task": task}, QUEUE)

    metadata = {"encoding": b"json/protobuf", "messageType": b"temporal.api.sdk.v1.ExternalStorageReference"}
    send(begun, task, "message", RawValue(Payload(metadata=metadata, data=b'{"driverName": "s3"}')))

    ends(begun, task)
    seen = witness(begun, task)
    check(seen)
    assert [bad.name for bad in seen.state.bad_messages.last] == ["message"]


@pytest.fixture
def sparing(new_home: Callable[..., Home]) -> Home:
    """A home whose histories hold next to nothing."""
    return new_home(DAYFLOW_PAYLOAD_BYTES="1000")


def paused(home: Home) -> tuple[str, Blob]:
    """A run that was paused before its first step, and the one payload that it has stored: its definition."""
    task = unique("lost")
    play(home, conversation(task, call(use("read_tasks")), DONE))
    with working(home, task) as worker:
        start(home, task, {"agent": "brief", "task": task}, task)
        send(home, task, "pause", {"by": "ana"})
        worker.ready()
        ends(home, task, "paused", "by ana")
    [stored] = Blobs(home.settings.blobs).all()
    return task, stored


HARMS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda path: path.unlink(), "is missing: there is no"),
    "altered": (lambda path: path.write_bytes(b"other"), "is altered"),
}
COMMANDS = ["show", "steps", "actions", "transcript", "replay", "watch"]


ALTERED = pytest.param(*HARMS["altered"], id="altered", marks=pytest.mark.long)


@pytest.mark.parametrize(("harm", "words"), [pytest.param(*HARMS["missing"], id="missing"), ALTERED])
def test_a_lost_payload_is_named_and_the_run_goes_on_when_it_is_back(sparing, harm, words):
    task, stored = paused(sparing)
    path = Blobs(sparing.settings.blobs).path(stored.name)
    whole = path.read_bytes()
    harm(path)

    with working(sparing, task) as worker:
        worker.ready()
        send(sparing, task, "resume", {"by": "ana"})
        failed = until("the workflow task has failed", lambda: task_failure(sparing, task))
        assert f"stored payload {stored.name[:12]} {words}" in failed
        for command in COMMANDS:
            told = sparing.dayflow(command, task, code=1)
            assert told.stderr.startswith(f"error: stored payload {stored.name[:12]} {words}")
            assert "Traceback" not in told.stderr
        listed = sparing.dayflow("runs", code=1)
        assert f"{task} cannot be read: stored payload {stored.name[:12]} {words}" in listed.stderr
        path.write_bytes(whole)
        ends(sparing, task, seconds=90)

    seen = witness(sparing, task)
    history_replays(seen)
    each_ask_is_sent_once(seen, {})


def task_failure(home: Home, run_id: str) -> str | None:
    """What the newest workflow task that failed said, without reading any payload."""
    told = json.loads(home.temporal("workflow", "show", "--workflow-id", run_id, "--output", "json").stdout)
    for event in told["events"]:
        if event["eventType"] == "EVENT_TYPE_WORKFLOW_TASK_FAILED":
            return str(event["workflowTaskFailedEventAttributes"]["failure"]["message"])
    return None


@pytest.mark.long
@pytest.mark.parametrize(("tool", "point"), [("create_task", "effect.begin"), ("read_inbox", "read.done")])
def test_an_action_whose_arguments_are_lost_does_not_end_its_run(sparing, tool, point):
    """An effect waits for them; of a reading tool the model is told, after four attempts."""
    task = unique("arguments")
    effect = tool == "create_task"
    arguments = {"title": "A", "source_id": task, "notes": "n" * 2_000} if effect else {"how": "a" * 2_000}
    play(sparing, conversation(task, call(use(tool, arguments)), DONE))
    start(sparing, task, {"agent": "brief", "task": task}, task)
    with working(sparing, task, host=mischief.host, DAYFLOW_CRASH_AT=point) as worker:
        worker.died()
    blobs = Blobs(sparing.settings.blobs)
    [path] = [path for path in map(blobs.path, names(blobs)) if b'"action_id"' in path.read_bytes()]
    whole = path.read_bytes()
    path.unlink()

    with working(sparing, task, host=mischief.host) as worker:
        if effect:
            until("an attempt has failed", lambda: "Failed decoding arguments" in described(sparing, task))
            assert sparing.show(task)["status"] == "running"
            assert not path.exists(), "to look at a run writes nothing"
            path.write_bytes(whole)
        seen = ends(sparing, task, seconds=90)

    assert seen.state is not None
    [action] = seen.state.actions.all
    assert action.status == ("done" if effect else "failed")
    assert effect or "Failed decoding arguments" in str(action.result)
    path.write_bytes(whole)
    check(witness(sparing, task))


def names(blobs: Blobs) -> list[str]:
    """Every blob's name."""
    return [blob.name for blob in blobs.all()]


def described(home: Home, run_id: str) -> str:
    """What the server says of a run, its pending activities too."""
    return home.temporal("workflow", "describe", "--workflow-id", run_id, "--output", "json").stdout


def test_a_state_of_more_than_two_megabytes_is_handed_over(new_home):
    home, task = new_home(DAYFLOW_EVENTS="60", DAYFLOW_COMPACT_AT="100000000"), unique("carried")
    play(home, conversation(task, *[reads(*[f"some,{n}.{m}" for m in range(5)]) for n in range(9)], DONE))
    start(home, task, {"agent": "brief", "task": task, "limits": {"tokens": 50_000_000}}, task)
    with working(home, task, host=mischief.host) as worker:
        worker.ready()
        run = ends(home, task, seconds=100)

    assert len(run.other_executions) >= 2
    seen = witness(home, task)
    small(seen)
    [state] = seen.recorded[0].workflow_execution_started_event_attributes.input.payloads
    assert state.external_payloads[0].size_bytes > 2_000_000
    assert len(home.json("steps", task)) == 10
    assert home.json("replay", task)["ok"]


def test_a_run_with_everything_stored_outside_survives_a_kill_and_is_shown_with_no_worker(sparing):
    task = unique("sparing")
    turns = [call(use("read_tasks"), create_task(f"{task}-{n}")) for n in range(4)]
    play(sparing, conversation(task, *turns, say("Done. " + "d" * 5_000)))
    start(sparing, task, {"agent": "brief", "task": task + " t" * 2_000}, task)
    with working(sparing, task, DAYFLOW_CRASH_AT="effect.committed:2") as worker:
        worker.died()
    with working(sparing, task) as worker:
        worker.ready()
        ends(sparing, task)

    assert len(sparing.show(task)["result"]) > 5_000
    assert sparing.json("replay", task)["ok"]
    assert len(sparing.json("steps", task)) == 5
    check(witness(sparing, task))
