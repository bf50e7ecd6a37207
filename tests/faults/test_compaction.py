"""A transcript that gets too long is compacted in mid-run: every request stays valid, and nothing is done again."""

import pytest
from checker import check
from homes import Home, running
from script import call, conversation, create_task, play, say, unique, use
from witness import Witness, ends, start, witness
from workers import working

from domain.compaction import ASKED, OPENING

NOT_TAKEN = {"kind": "status", "status": 400}
# Instructions and tools have some 2,900 tokens.
AT = 5_000
# So many steps that `look` until the transcript is too long.
LOOKS = 5
WORDS = "The quick brown fox jumps over the lazy dog. " * 30
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
FULL = {"kind": "status", "status": 400, "message": TOO_LONG, "attempts": "all"}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A home in which transcripts are compacted early and executions are short, with its server and its sandbox."""
    settings = {"DAYFLOW_COMPACT_AT": str(AT), "DAYFLOW_EVENTS": "300"}
    with running(Home(tmp_path_factory.mktemp("home"), **settings)) as home:
        yield home


@pytest.fixture(scope="module")
def staffed(small):
    """The same with a worker."""
    with working(small, "dayflow") as worker:
        worker.ready()
        yield small


def look(n: int) -> dict:
    """A turn that says much, and calls something that no other one calls."""
    return call({"type": "text", "text": f"{n}: {WORDS}"}, use("read_tasks", {"status": f"unheard-of {n}"}))


def looks(start: int, end: int) -> list[dict]:
    return [look(n) for n in range(start, end)]


def by_step(task: str, *turns) -> dict:
    """A conversation whose turns are chosen by the step: compaction takes turns out of the transcript."""
    return {**conversation(task, *turns), "turn_by": "step"}


def runs(home: Home, *turns, more=(), queue="dayflow", **request) -> str:
    task = unique("compacted")
    play(home, by_step(task, *turns), *more)
    start(home, task, {"agent": "brief", "task": task, "limits": {"steps": 200}, **request}, queue)
    return task


def seen_at(home: Home, run_id: str, status="done", reason=None) -> Witness:
    ends(home, run_id, status, reason, 120)
    return witness(home, run_id)


def recaps(seen: Witness) -> list[str]:
    """The recap in the last request, line by line."""
    second = seen.requests[-1].messages[1]["content"][0]["text"]
    assert second.startswith(OPENING)
    return second.splitlines()


def test_a_long_run_is_compacted_again_and_again_and_forgets_nothing(staffed):
    same = unique("source")
    effect = call(create_task(same))

    run_id = runs(staffed, *looks(0, 2), effect, *looks(2, 27), effect, *looks(27, 37), say("That is all."))

    seen = seen_at(staffed, run_id)
    done = [one for one in seen.record["compactions"] if one["skipped"] is None]
    assert len(done) >= 3
    assert seen.run.other_executions
    assert [request.outcome["event"] for request in seen.requests] == ["answered"] * 40
    assert len(seen.requests[-1].messages) < 20
    assert f"- {seen.state.actions.all[0].action_id} create_task task:{same}: done" in "\n".join(recaps(seen))
    assert [task["source_id"] for task in seen.tasks].count(same) == 1
    told = staffed.json("steps", run_id)
    assert [step["n"] for step in told] == list(range(1, 41))
    assert all(step["tool_results"] for step in told[:-1])


def test_a_full_window_is_made_room_in_and_asked_again(staffed):
    cut = {"content": [{"type": "text", "text": "The"}], "stop_reason": "model_context_window_exceeded"}

    run_id = runs(staffed, *looks(0, 3), {**cut, "asks": [say("That is all.")]})

    seen = seen_at(staffed, run_id)
    check(seen)
    assert len(seen.record["compactions"]) == 1
    assert len(seen.requests[-1].messages) < len(seen.requests[-2].messages)
    assert [ask.stop_reason for ask in seen.state.steps[-1].refused] == ["model_context_window_exceeded"]


def test_a_request_that_is_too_long_is_made_shorter_and_sent_again(staffed):
    task = unique("compacted")
    play(staffed, by_step(task, *looks(0, 3), {**say("That is all."), "faults": [{**FULL, "longer_than": 5}]}))
    start(staffed, task, {"agent": "brief", "task": task})

    seen = seen_at(staffed, task)

    check(seen, again={(4, 1): 1})
    assert [one["skipped"] for one in seen.record["compactions"]] == [None]
    assert len(seen.requests) == 5


def test_where_nothing_can_be_left_out_the_run_waits_for_a_person(staffed):
    task = unique("compacted")
    play(staffed, by_step(task, {**say("That is all."), "faults": [FULL]}))
    start(staffed, task, {"agent": "brief", "task": task})

    seen = seen_at(staffed, task, "paused", "needs repair")

    assert "nothing more can be left out" in seen.record["error"]["message"]
    assert len(seen.requests) == 1


# What a model may make of the wish for a summary; the last one that is good counts.
WRITTEN = [
    ("good", [say("The tasks were read.")], True),
    ("good at last", [{"content": [], "stop_reason": "end_turn"}, say("The tasks were read.")], True),
    ("refused", [{"content": [], "stop_reason": "refusal"}] * 2, False),
    ("cut", [say("The user", stop_reason="max_tokens")] * 2, False),
    (
        "empty, then not taken",
        [{"content": [], "stop_reason": "end_turn"}, {**say("The"), "faults": [NOT_TAKEN]}],
        False,
    ),
    ("empty, then cut", [{"content": [], "stop_reason": "end_turn"}, say("The", stop_reason="max_tokens")], False),
]


@pytest.mark.parametrize(("answers", "taken"), [row[1:] for row in WRITTEN], ids=[row[0] for row in WRITTEN])
def test_a_model_sums_up_and_what_it_costs_counts(small, answers, taken):
    queue = unique("queue")
    first, *others = answers
    written = {"match": ASKED, "turns": [{**first, "asks": others}]}
    with working(small, queue, DAYFLOW_SUMMARISER="model") as worker:
        worker.ready()
        run_id = runs(small, *looks(0, LOOKS + 1), say("That is all."), more=[written], queue=queue)
        seen = seen_at(small, run_id)

    compactions = seen.record["compactions"]
    summed = [line for line in small.sandbox("GET", "/sandbox/journal") if line.get("run") == run_id]
    assert [one["by"] for one in compactions] == ["model"]
    assert (compactions[0]["skipped"] is None) == taken
    assert len(summed) == LOOKS + 2 + len(answers)
    told = [line["usage"] for line in _answers(small, run_id)]
    assert seen.record["totals"]["output_tokens"] == sum(usage["output_tokens"] for usage in told)
    if taken:
        assert f"> {answers[-1]['content'][0]['text']}" in recaps(seen)


# Where the worker dies, `{n}` being the summary's place among the model calls; and the requests for it in all.
KILLS = [
    ("compact.done", "rules", 0),
    pytest.param("compact.done", "model", 1, marks=pytest.mark.long),
    pytest.param("model.received:{n}", "model", 2, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("point", "by", "asked"), KILLS)
def test_a_kill_in_mid_compaction_loses_nothing_and_pays_once_more_at_the_most(small, point, by, asked):
    queue = unique("queue")
    more = [{"match": ASKED, "turns": [say("The tasks were read.")]}]
    turns = [*looks(0, LOOKS), say("That is all.")]
    with working(small, queue, DAYFLOW_SUMMARISER=by, DAYFLOW_CRASH_AT=point.format(n=LOOKS + 1)) as worker:
        worker.ready()
        run_id = runs(small, *turns, more=more, queue=queue)
        worker.died()
    with working(small, queue, DAYFLOW_SUMMARISER=by):
        seen = seen_at(small, run_id)

    [compaction] = seen.record["compactions"]
    sent = [line for line in small.sandbox("GET", "/sandbox/journal") if line.get("run") == run_id]
    maybe = seen.record["totals"]["possibly_paid"]
    counted = sum(line["usage"]["output_tokens"] for line in _answers(small, run_id))
    assert compaction["step"] == LOOKS + 1
    assert compaction["skipped"] is None
    assert len(sent) == len(turns) + asked
    assert seen.record["totals"]["output_tokens"] + maybe["output_tokens"] == counted
    assert maybe["calls"] == max(0, asked - 1)
    check(seen, unknown=maybe["calls"])


def _answers(home: Home, run_id: str) -> list[dict]:
    lines = home.sandbox("GET", "/sandbox/journal")
    mine = {line["n"] for line in lines if line.get("run") == run_id}
    return [line for line in lines if line.get("n") in mine and line["event"] == "answered"]
