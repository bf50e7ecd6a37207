"""Every failure of the Messages API ends in a retry, in a later retry, or in a pause that a person can end."""

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from checker import check
from homes import Home
from script import call, conversation, create_task, play, say, unique
from witness import Witness, ends, send, start, witness
from workers import SECRET

OVER = "You have reached your specified API usage limits."


@dataclass(frozen=True)
class Case:
    """One fault of one turn of a run: turn 1 calls create_task, turn 2 ends.

    requests: how many requests that turn takes until it is answered, or until the run stands still.
    unknown: how many of them something else answered, so that nobody can know whether they were charged.
    """

    name: str
    fault: dict[str, Any]
    requests: int = 2
    turn: int = 1
    unknown: int = 0
    task: str = field(default_factory=lambda: unique("model-fault"))


def status(code: int, **more: Any) -> dict[str, Any]:
    return {"kind": "status", "status": code, **more}


def rate_limit(code: str) -> dict[str, Any]:
    return status(429, error_code=code)


# The run stands still after one request: it costs nothing more until a person has looked.
PARKED = {
    "needs repair": [
        Case("400", status(400), 1),
        Case("413", status(413), 1),
        Case("413 after decoding", status(413, error_code="request_body_too_large_after_decoding"), 1),
        Case("422", status(422), 1),
        Case("431", status(431), 1),
    ],
    "quota": [
        Case("own limit", status(400, message=OVER), 1),
        Case("402", status(402), 1),
        Case("enforced limit", rate_limit("enforced_spend_limit_reached"), 1),
        Case("contract limit", rate_limit("contract_spend_limit_reached"), 1),
    ],
    "credentials": [
        Case("401 that echoes the key", status(401, message=f"invalid x-api-key: {SECRET}"), 1),
        Case("403", status(403), 1),
        Case("404", status(404), 1),
        Case("in a stream", {"kind": "error_event", "error_type": "authentication_error"}, 1),
    ],
}
# The next attempt answers; nobody has to do anything.
HEALED = [
    Case("408", status(408)),
    Case("409", status(409)),
    Case("ramp limit", status(429, error_code="ramp_limit_exceeded", headers={"retry-after-ms": "50"})),
    Case("500 twice", status(500, attempts=[1, 2]), 3),
    Case("503 that forbids the SDK to retry", status(503, headers={"x-should-retry": "false"})),
    Case("504", status(504)),
    Case("529", status(529)),
    Case("overloaded in a stream", {"kind": "error_event"}),
    Case("error in mid-stream", {"kind": "error_event", "error_type": "api_error", "after": "content_block_delta"}),
    Case("unknown error in a stream", {"kind": "error_event", "error_type": "strange_error"}),
    Case("clean cut in a tool's input", {"kind": "cut", "clean": True, "after_event": 5}),
    Case("clean cut before the end", {"kind": "cut", "clean": True, "after_event": "message_delta"}),
    Case("clean cut of a text", {"kind": "cut", "clean": True, "after_event": "content_block_stop"}, turn=2),
    Case("reset in mid-stream", {"kind": "cut", "after_event": "content_block_start"}),
    Case("closed in mid-stream", {"kind": "cut", "after_event": "content_block_start", "reset": False}),
    Case("reset before the first byte", {"kind": "cut", "after_bytes": 0}),
    Case("HTML with status 200", {"kind": "html"}, unknown=1),
    Case("HTML with status 502", {"kind": "html", "status": 502}),
    Case("a body that is no message", {"kind": "body", "body": {"ok": True}}, unknown=1),
    Case("broken JSON", {"kind": "broken_json"}),
    Case("broken JSON in a tool's input", {"kind": "broken_tool_json"}),
]
LATER = Case("429 with retry-after", status(429, headers={"retry-after": "2"}))
SILENT = Case("silence with pings", {"kind": "silence", "seconds": 8, "pings": True}, 1)
MUTE = Case("silence before the first byte", {"kind": "silence", "seconds": 5, "at": "before_headers"}, 1)
SLOW = Case("slow", {"kind": "slow", "seconds": 5}, 1)
DOWN = Case("500 for ever", status(500, attempts=[1, 2, 3, 4, 5, 6]), 7)

STANDING = [(reason, case) for reason, cases in PARKED.items() for case in cases]
PATIENT = [LATER, SILENT, MUTE, SLOW]


@pytest.fixture(scope="module")
def begun(staffed: Home) -> Home:
    """All runs, begun side by side: what takes time is to wait."""
    cases = [*(case for _, case in STANDING), *HEALED, *PATIENT, DOWN]
    play(staffed, *map(faulty, cases))
    for case in [DOWN, *cases[:-1]]:
        start(staffed, case.task, {"agent": "brief", "task": case.task})
    return staffed


def faulty(case: Case) -> dict[str, Any]:
    """The conversation of a case, with the fault on its turn."""
    turns = [call(create_task(case.task)), say("It is in the list now, and there is nothing else to do.")]
    turns[case.turn - 1]["faults"] = [case.fault]
    return conversation(case.task, *turns)


@pytest.mark.parametrize(
    ("reason", "case"), STANDING, ids=lambda value: value if isinstance(value, str) else value.name
)
def test_what_no_retry_heals_stands_still_after_one_request(begun, reason, case):
    run = ends(begun, case.task, "paused", reason)

    stands = run.record()
    assert stands["error"]["request_id"].startswith("req_")
    assert stands["next_command"] == f"dayflow resume {case.task}"
    assert stands["step"] == 0

    send(begun, case.task, "resume", {"by": "ana"})
    ends(begun, case.task)
    finished(begun, case, sent=2)


@pytest.mark.parametrize("case", HEALED, ids=lambda case: case.name)
def test_a_passing_failure_heals_by_itself(begun, case):
    ends(begun, case.task)

    finished(begun, case, sent=case.requests)


def test_a_rate_limit_is_waited_for(begun):
    ends(begun, LATER.task)

    seen = finished(begun, LATER, sent=2)
    first, second, *_ = [request.time for request in seen.requests]
    assert second - first >= 2


@pytest.mark.parametrize("case", [SILENT, MUTE, SLOW], ids=lambda case: case.name)
def test_a_slow_answer_outlives_the_heartbeat_timeout_in_one_attempt(begun, case):
    ends(begun, case.task)

    seen = finished(begun, case, sent=1)
    assert seen.record["totals"]["possibly_paid"]["calls"] == 0


def test_a_model_that_is_down_is_left_alone_and_asked_again_on_resume(begun):
    run = ends(begun, DOWN.task, "paused", "model down")
    stands = witness(begun, DOWN.task)
    assert run.record()["waiting_for"] == "model down"
    assert len(stands.requests) == 6
    assert all(later.time - earlier.time >= 0.4 for earlier, later in pairwise(stands.requests))

    record = json.loads(begun.dayflow("resume", DOWN.task, "--json", code=0).stdout)

    assert record["status"] == "done"
    finished(begun, DOWN, sent=7)


def test_resume_says_that_it_is_paused_again(begun):
    case = Case("400 twice", status(400, attempts=[1, 2]))
    play(begun, faulty(case))
    start(begun, case.task, {"agent": "brief", "task": case.task})
    ends(begun, case.task, "paused", "needs repair")

    begun.dayflow("resume", case.task, code=4)

    send(begun, case.task, "resume", {"by": "ana"})
    ends(begun, case.task)
    finished(begun, case, sent=3)


def finished(home: Home, case: Case, sent: int) -> Witness:
    """The run is done and kept every invariant; the faulty turn took so many requests."""
    seen = witness(home, case.task)
    check(seen, again={(case.turn, 1): sent - 1}, unknown=case.unknown)
    assert [action.status for action in seen.state.actions.all] == ["done"]
    assert [task["source_id"] for task in seen.tasks].count(case.task) == 1
    assert seen.state.steps[case.turn - 1].attempts == sent
    return seen
