"""Encrypted runs: junk that says it is encrypted wedges nothing, and a worker without the key spoils nothing."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from checker import history_replays, no_task_of_the_workflow_failed
from homes import Home, until
from script import call, conversation, play, say, unique, use
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue
from witness import ends, look, send, start, watch, witness
from workers import working

from client import codec
from store import seal
from store.settings import Settings

ONE, OTHER = seal.new_key("one"), seal.new_key("other")
KEYS = "DAYFLOW_ENCRYPTION_KEYS"


@pytest.fixture(scope="module")
def sealed(home: Home) -> Home:
    """The session's home, with encryption on."""
    return keyed(home, ONE)


def keyed(home: Home, *keys: str) -> Home:
    """The same home for whoever has these keys."""
    twin = Home.__new__(Home)
    twin.__dict__ |= {**home.__dict__, "env": {**home.env, KEYS: ",".join(keys)}}
    return twin


def locked(data: bytes) -> RawValue:
    """Bytes that say that they are encrypted."""
    return RawValue(Payload(metadata={"encoding": codec.ENCODING}, data=data))


def begin(home: Home, task: str, queue: str) -> None:
    start(home, task, {"agent": "brief", "task": task}, queue)


def signal(home: Home, run_id: str, name: str, value: RawValue) -> None:
    """Send a payload as it is: this client has no codec."""

    async def tell() -> None:
        client = await Client.connect(f"127.0.0.1:{home.port}")
        await client.get_workflow_handle(run_id).signal(name, value)

    asyncio.run(tell())


def waiting(task: str) -> dict[str, Any]:
    """A run that thinks for long enough to be spoken to."""
    waits = {**call(use("read_tasks")), "faults": [{"kind": "silence", "seconds": 4, "pings": True}]}
    return conversation(task, waits, say("Done."))


JUNK = {
    "no bytes": b"",
    "random bytes": b"\xff\x00\x80\xc0\xfe" * 9,
    "the mark alone": seal.MARK,
    "sealed, and changed": Settings.model_validate({KEYS: ONE}).seal.seal(b"{}")[:-1] + b"\x00",
    "sealed under an unknown key": Settings.model_validate({KEYS: OTHER}).seal.seal(b"{}"),
    "sealed, and no payload in it": Settings.model_validate({KEYS: ONE}).seal.seal(b"\xff\xff"),
}
SIGNALS = ("approve", "pause", "message", "aprove")


def test_junk_that_is_marked_as_encrypted_is_recorded_and_wedges_nothing(sealed):
    task = unique("junk-sealed")
    play(sealed, waiting(task))
    with working(sealed, task):
        begin(sealed, task, task)
        for name in SIGNALS:
            for data in JUNK.values():
                signal(sealed, task, name, locked(data))
        send(sealed, task, "message", {"text": "Be short.", "from": "ana"})

        ends(sealed, task)

    seen = witness(sealed, task)
    refused = seen.state.bad_messages.last
    assert Counter(bad.name for bad in refused) == dict.fromkeys(SIGNALS, len(JUNK))
    assert sum("the key 'other' is missing" in bad.why for bad in refused) == len(SIGNALS) - 1
    assert "Be short." in json.dumps(seen.state.transcript.messages)
    history_replays(seen)
    no_task_of_the_workflow_failed(seen)


WITHOUT = [pytest.param((), id="no key"), pytest.param((OTHER,), id="another key", marks=pytest.mark.long)]


@pytest.mark.parametrize("keys", WITHOUT)
def test_a_worker_without_the_key_waits_for_it_and_spoils_nothing(home, keys):
    mine, task = keyed(home, ONE), unique("keyless")
    without = keyed(home, *keys)
    play(home, waiting(task))
    begin(mine, task, task)
    with working(without, task) as worker:
        worker.ready()
        both = keyed(home, ONE, *keys)
        until("it wants the key", lambda: "'one' is missing" in (look(both, task).warning or ""))
        waits = without.dayflow("show", task)
    assert "'one' is missing" in " ".join(waits.stdout.split())

    with working(mine, task):
        ends(mine, task)
    told = without.dayflow("show", task, code=1)
    assert "'one' is missing" in told.stderr
    assert KEYS in told.stderr

    history_replays(witness(mine, task))


@pytest.mark.long
def test_a_run_that_lost_its_worker_with_the_key_goes_on_when_it_is_back(home):
    mine, task = keyed(home, ONE), unique("keyless-later")
    play(home, waiting(task))
    with working(mine, task) as worker:
        begin(mine, task, task)
        watch(mine, task, lambda run: run.state is not None and run.state.definition is not None, "it has begun")
        worker.kill()

    with working(keyed(home), task) as worker:
        worker.ready()
        until("its model call was tried without the key", lambda: "'one' is missing" in worker.log.read_text())

    with working(mine, task):
        ends(mine, task)
    history_replays(witness(mine, task))


@pytest.mark.long
def test_a_run_that_went_on_in_another_execution_waits_for_the_key_too(home):
    mine, task = keyed(home, ONE), unique("keyless-next")
    slow = {**call(use("read_tasks")), "faults": [{"kind": "silence", "seconds": 4, "pings": True}]}
    play(home, conversation(task, *[call(use("read_tasks"))] * 2, slow, say("Done.")))
    with working(mine, task, DAYFLOW_EVENTS="30") as worker:
        begin(mine, task, task)
        watch(mine, task, lambda run: run.came_from is not None, "it went on in another execution")
        worker.kill()

    with working(keyed(home), task) as worker:
        worker.ready()
        until("it wants the key", lambda: "'one' is missing" in worker.log.read_text())

    with working(mine, task):
        run = ends(mine, task)
    assert run.record()["step"] == 4
    history_replays(witness(mine, task))


def test_a_run_that_began_in_clear_goes_on_encrypted(home):
    mine, task = keyed(home, ONE), unique("clear-first")
    play(home, waiting(task))
    begin(home, task, task)

    with working(mine, task):
        ends(mine, task)

    seen = witness(mine, task)
    history_replays(seen)
    [result, *_] = [
        event.activity_task_completed_event_attributes.result.payloads[0]
        for event in seen.events
        if event.HasField("activity_task_completed_event_attributes")
    ]
    assert codec.key_of(result) == "one"


def test_after_a_rotation_a_run_goes_on_and_is_read(home):
    mine, rotated, task = keyed(home, ONE), keyed(home, OTHER, ONE), unique("rotated")
    play(home, waiting(task))
    with working(mine, task) as worker:
        begin(mine, task, task)
        watch(mine, task, lambda run: run.state is not None and run.state.definition is not None, "it has begun")
        worker.kill()

    with working(rotated, task):
        ends(rotated, task)

    history_replays(witness(rotated, task))
    assert look(rotated, task).record()["status"] == "done"
    assert "'other' is missing" in mine.dayflow("show", task, code=1).stderr


def test_the_list_of_runs_names_those_that_cannot_be_read(home):
    mine, task = keyed(home, ONE), unique("listed")
    play(home, waiting(task))
    with working(mine, task):
        begin(mine, task, task)
        ends(mine, task)

    told = home.dayflow("runs", code=1)

    assert f"{task} cannot be read: the encryption key 'one' is missing" in told.stderr
