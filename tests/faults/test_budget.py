"""A budget holds over kills, restarts and lost answers: what was spent stays spent, and no call goes out beyond it."""

import signal
from typing import Any

import pytest
from checker import check
from homes import Home
from refunds import LEAD, Refund, approve, asked, scripted
from script import call, conversation, faults, play, say, unique, use
from witness import Run, Witness, ends, look, send, start, watch, witness
from workers import working

from domain import budget

# What the API is said to have counted in each step of the refund: four of these are 9,000.
COUNTED = {"input_tokens": 2_000, "output_tokens": 250, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def counted(refund: Refund) -> dict[str, Any]:
    told = scripted(refund)
    return {**told, "turns": [{**turn, "usage": COUNTED} for turn in told["turns"]]}


def spent(home: Home, run_id: str) -> int:
    return look(home, run_id).state.totals.usage.total


def charged(seen: Witness) -> int:
    """What the sandbox itself counted of all requests whose answer had begun."""
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(request.outcome["usage"][name] or 0 for request in seen.requests if request.charged for name in names)


def test_9000_of_10000_are_spent_a_person_is_waited_for_the_worker_is_killed_and_the_next_call_is_not_sent(home):
    refund = Refund("spent", queue=unique("budget"))
    play(home, counted(refund))
    with working(home, refund.queue) as worker:
        worker.ready()
        start(home, refund.run_id, {**refund.request, "limits": {"tokens": 10_000}}, refund.queue)
        pending = asked(home, refund)
        assert spent(home, refund.run_id) == 9_000
        worker.signal(signal.SIGKILL)
        worker.died()

    with working(home, refund.queue) as worker:
        worker.ready()
        approve(home, refund.run_id, pending["action_id"])
        ends(home, refund.run_id, "paused", "budget")
        told = home.show(refund.run_id)
        assert told["used"]["tokens"] == 9_000
        assert told["error"]["message"].startswith("tokens: 9,000 of 10,000 used, and the next call may take ")
        assert told["next_command"] == f"dayflow raise {refund.run_id} --tokens 20000 --by NAME"
        assert len(witness(home, refund.run_id).requests) == 4

        again = home.dayflow("resume", refund.run_id, code=4)
        assert f"next:   {told['next_command']}" in again.stdout
        home.dayflow("raise", refund.run_id, "--tokens", "20000", "--by", "clerk@example.com", code=1)
        home.dayflow("raise", refund.run_id, "--tokens", "5000", "--by", LEAD, code=1)
        assert len(witness(home, refund.run_id).requests) == 4

        taken = home.dayflow("raise", refund.run_id, "--tokens", "20000", "--by", LEAD)
        assert "tokens 10,000 → 20,000" in taken.stdout
        ends(home, refund.run_id)

    seen = witness(home, refund.run_id)
    check(seen)
    assert charged(seen) == seen.state.totals.usage.total == 6 * 2_250
    raised = [one for one in home.json("decisions", refund.run_id) if one["verdict"] == "raise_budget"]
    assert [(one["approver"], one["accepted"], one["reason"]) for one in raised] == [
        ("clerk@example.com", False, "below the needed role: it needs 'lead'"),
        (LEAD, False, "tokens: 9000 are used already, 5000 is less"),
        (LEAD, True, "tokens 10,000 → 20,000"),
    ]


def steps(count: int) -> list[dict[str, Any]]:
    """So many steps, each with a call of its own; each answer is as long as the least room that a call gets."""
    long = {"output_tokens": budget.LEAST_ANSWER}
    return [call(use("read_inbox", {"limit": n + 1}), use("read_tasks"), usage=long) for n in range(count)]


SMALL, LARGE = (pytest.param(tokens, marks=pytest.mark.long) for tokens in (12_000, 40_000))


@pytest.mark.parametrize("tokens", [SMALL, 20_000, LARGE])
def test_what_the_sandbox_counts_never_passes_the_limit(staffed, tokens):
    task = unique("bounded")
    play(staffed, conversation(task, *steps(20)))
    start(staffed, task, {"agent": "brief", "task": task, "limits": {"tokens": tokens}})

    run = ends(staffed, task, "paused", "budget")

    seen = witness(staffed, task)
    assert charged(seen) == run.state.totals.usage.total <= tokens
    assert charged(seen) + run.state.reservation.input_tokens + budget.LEAST_ANSWER > tokens


def test_attempts_that_were_lost_count_and_stop_the_next_one(staffed):
    """Each attempt may cost 10,000: two fit, so the third is not sent, though none has given an answer."""
    task = unique("lost")
    play(staffed, conversation(task, say("Done.")))
    faults(staffed, {"kind": "cut", "after_event": "content_block_start", "attempts": "all", "match": task})
    start(staffed, task, {"agent": "brief", "task": task, "limits": {"tokens": 25_000}})

    run = ends(staffed, task, "paused", "budget")

    assert len(witness(staffed, task).requests) == 2
    assert "2 attempts of this call gave no answer and may have been paid" in run.state.error.message
    faults(staffed)
    send(staffed, task, "raise_budget", {"by": "ana", "tokens": 60_000})
    used = ends(staffed, task).record()
    assert used["totals"]["possibly_paid"]["calls"] == 2
    assert used["used"]["tokens"] > used["totals"]["possibly_paid"]["held_tokens"] > 16_384


def test_a_limit_of_dollars_holds_too(staffed):
    task = unique("dollars")
    play(staffed, conversation(task, *steps(20)))
    start(staffed, task, {"agent": "brief", "task": task, "limits": {"usd": 0.05}})

    run = ends(staffed, task, "paused", "budget")

    assert 0.02 < float(run.state.totals.cost_usd) <= 0.05
    assert run.record()["next_command"].startswith(f"dayflow raise {task} --usd 0.1")


def test_what_is_spent_and_held_goes_on_when_the_run_continues_as_new(new_home):
    home = new_home(DAYFLOW_EVENTS="30")
    task = unique("carried")
    play(home, conversation(task, *steps(20)))
    with working(home, "dayflow") as worker:
        worker.ready()
        start(home, task, {"agent": "brief", "task": task, "limits": {"tokens": 40_000}})
        first = ends(home, task, "paused", "budget")
        assert len(first.other_executions) > 0
        home.dayflow("raise", task, "--tokens", "60000")
        run = watch(home, task, lambda run: _paused_at(run, 60_000), "it is paused at the new limit")

    seen = witness(home, task)
    assert 40_000 < charged(seen) == run.state.totals.usage.total <= 60_000
    assert run.state.used(run.state.updated_at).steps == len(seen.requests)
    assert [one["reason"] for one in home.json("decisions", task)] == ["tokens 40,000 → 60,000"]


def _paused_at(run: Run, limit: int) -> bool:
    return run.state is not None and run.state.paused and run.state.limits.tokens == limit
