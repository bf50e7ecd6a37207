"""A long run goes on in execution after execution, and nobody who looks at it or talks to it notices."""

import json
from collections import Counter
from typing import Any

import pytest
from homes import Home, running, until
from refunds import LEAD, Refund, asked, begin
from script import call, conversation, create_task, play, say, unique, use
from witness import ends, look, requests, send, send_all, start, witness
from workers import working

EVENTS = 60


@pytest.fixture(scope="module")
def brisk(tmp_path_factory, sample_orders):
    """A home whose executions are short."""
    settings = {"DAYFLOW_EVENTS": str(EVENTS), "DAYFLOW_SAMPLE_ORDERS": str(sample_orders)}
    with running(Home(tmp_path_factory.mktemp("home"), **settings)) as home:
        yield home


@pytest.fixture(scope="module")
def short(brisk):
    """The same with a worker."""
    with working(brisk, "dayflow") as worker:
        worker.ready()
        yield brisk


def odd(n: int) -> dict[str, Any]:
    """A call like no other: a run that only repeats itself is stopped."""
    return use("read_tasks", {"status": f"unheard-of {n}"})


def long_run(home: Home, steps: int, *more) -> str:
    """A run of so many steps, each with two reads; every tenth creates a task."""
    task = unique("long")
    turns = [call(use("read_tasks"), create_task(task) if n == 4 else odd(n)) for n in range(steps)]
    play(home, conversation(task, *turns, *more, say("That is all.")))
    start(home, task, {"agent": "brief", "task": task, "limits": {"steps": 100}})
    return task


def test_every_step_is_told_once_and_in_order_over_all_executions(short):
    run_id = long_run(short, 40)
    ends(short, run_id)

    seen = witness(short, run_id)
    told = short.json("steps", run_id)
    sent = requests(short, run_id)

    assert [step["n"] for step in told] == list(range(1, 42))
    assert len(seen.run.other_executions) >= 4
    assert len(seen.events) < EVENTS + 30
    assert len(sent) == 41
    assert seen.record["step"] == 41
    assert seen.record["totals"]["input_tokens"] == sum(request.outcome["usage"]["input_tokens"] for request in sent)
    assert [message for step in told[:-1] for message in (step["assistant"], step["tool_results"])] == [
        [{name: value for name, value in block.items() if name != "cache_control"} for block in message["content"]]
        for message in sent[-1].messages[1:]
    ]
    assert len(short.json("actions", run_id)) == 80
    assert [task for task in seen.tasks if task["source_id"] == run_id] != []
    assert len(seen.commits) == 0 or len(seen.commits) == 1
    assert short.json("replay", run_id)["ok"] is True
    assert Counter(row["run_id"] for row in short.json("runs"))[run_id] == 1


def test_words_that_arrive_in_a_hand_over_are_heard_once_each(short):
    run_id = long_run(short, 25)
    words = [f"word {n} of {run_id}" for n in range(60)]
    until("it has begun", lambda: requests(short, run_id))
    send_all(short, run_id, [("message", {"text": text, "from": "ana"}) for text in words])
    ends(short, run_id)

    heard = json.dumps(look(short, run_id).state.transcript.messages)

    assert {text: heard.count(f'{text}"') for text in words} == dict.fromkeys(words, 1)
    assert witness(short, run_id).run.other_executions


@pytest.mark.long
def test_a_run_that_waits_for_approval_outlives_any_number_of_signals(short):
    refund = Refund("storm")
    begin(short, refund)
    pending = asked(short, refund)
    send_all(short, refund.run_id, [("aprove", {"n": n}) for n in range(150)])
    until("it went on in another execution", lambda: look(short, refund.run_id).other_executions)

    waits = look(short, refund.run_id)
    approval = {"action_id": pending["action_id"], "approver": LEAD}
    send_all(
        short, refund.run_id, [("approve", approval)] * 3 + [("aprove", {"n": n}) for n in range(150)], at_once=True
    )
    ends(short, refund.run_id)

    seen = witness(short, refund.run_id)
    assert waits.record()["status"] == "awaiting_approval"
    assert waits.record()["pending_actions"][0]["requested_at"] == pending["requested_at"]
    assert waits.record()["pending_actions"][0]["expires_at"] == pending["expires_at"]
    assert len(seen.refunds) == 1
    assert len(seen.mails) == 1
    assert seen.record["refused_messages"]["count"] == 300
    assert [one["accepted"] for one in short.json("decisions", refund.run_id)] == [True]
    assert {action["status"] for action in short.json("actions", refund.run_id)} == {"done"}
    assert seen.record["current_step"] == "5 of 5"


def test_a_cancel_that_comes_with_what_ends_an_execution_ends_the_run(brisk):
    refund = Refund("cancelled", queue=unique("cancelled"))
    begin(brisk, refund)
    with working(brisk, refund.queue):
        asked(brisk, refund)
    send_all(brisk, refund.run_id, [("aprove", {"n": n}) for n in range(EVENTS)])
    brisk.dayflow("cancel", refund.run_id)
    with working(brisk, refund.queue):
        ends(brisk, refund.run_id, "cancelled")

    assert witness(brisk, refund.run_id).refunds == []


def test_words_that_come_with_what_ends_an_execution_are_heard(brisk):
    refund = Refund("told", queue=unique("told"))
    begin(brisk, refund)
    with working(brisk, refund.queue):
        pending = asked(brisk, refund)
    send_all(brisk, refund.run_id, [("aprove", {"n": n}) for n in range(EVENTS)])
    send_all(brisk, refund.run_id, [("approve", {"action_id": pending["action_id"], "approver": LEAD})] * 2)
    with working(brisk, refund.queue):
        ends(brisk, refund.run_id)

    seen = witness(brisk, refund.run_id)
    assert seen.run.other_executions
    assert len(seen.refunds) == 1


@pytest.mark.long
def test_a_paused_run_stays_paused_in_its_next_execution(short):
    run_id = long_run(short, 10)
    send(short, run_id, "pause", {"by": "ana"})
    ends(short, run_id, "paused", "by ana")
    send_all(short, run_id, [("resum", {"n": n}) for n in range(80)])
    until("it went on in another execution", lambda: look(short, run_id).other_executions)

    assert look(short, run_id).record()["reason"] == "by ana"
    send(short, run_id, "resume", {"by": "ana"})
    ends(short, run_id)


@pytest.mark.long
def test_a_run_is_reset_to_a_step_of_an_earlier_execution(short):
    run_id = long_run(short, 20)
    ends(short, run_id)
    before = witness(short, run_id)

    short.dayflow("reset", run_id, "--at", "3")
    ends(short, run_id)

    after = witness(short, run_id)
    assert after.run.execution != before.run.execution
    assert [step["n"] for step in short.json("steps", run_id)] == list(range(1, 22))
    assert len(after.requests) == len(before.requests)
    assert len(after.commits) == len(before.commits)


def test_kills_between_executions_repeat_nothing(brisk):
    task = unique("killed")
    play(brisk, conversation(task, *[call(odd(n)) for n in range(12)], say("That is all.")))
    start(brisk, task, {"agent": "brief", "task": task, "limits": {"steps": 100}}, task)
    for passed in (4, 5):
        with working(brisk, task, DAYFLOW_CRASH_AT=f"step.end:{passed}") as worker:
            worker.died()
    with working(brisk, task):
        ends(brisk, task)

    assert [request.place[0] for request in requests(brisk, task)] == list(range(1, 14))
    assert look(brisk, task).other_executions
