"""Whoever watches sees words as they come, and another attempt in place of a lost one; the run never notices."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import forks
import pytest
from forks import Fork
from homes import Home, until
from script import call, conversation, create_task, play, say, unique
from temporalio.api.enums.v1 import EventType
from witness import ends, look, start, witness
from workers import working

from store import seal

LINES = [f"Line {n} of what I am going to do, in some detail." for n in range(1, 7)]


def slowly(task: str, *seconds: float) -> dict[str, Any]:
    """A first turn whose attempts take so long, and a second one that ends."""
    faults = [{"kind": "slow", "seconds": each, "attempts": [n]} for n, each in enumerate(seconds, start=1)]
    said = {"type": "text", "text": "\n".join(LINES)}
    return conversation(task, call(said, create_task(task), faults=faults), say("All is done."))


@contextmanager
def watching(home: Home, *arguments: str) -> Iterator[tuple[Callable[[], str], Fork]]:
    """A command that follows a run, and what it has printed so far."""
    out = home.path / f"{unique('watch')}.log"
    out.touch()
    process = forks.dayflow([*arguments], home.env, out)
    try:
        yield out.read_text, process
    finally:
        process.kill()


def begin(home: Home, task: str) -> None:
    start(home, task, {"agent": "brief", "task": task}, task)


def streams_of(home: Home, task: str) -> list[Path]:
    """What is left of a run's streams."""
    first = look(home, task).record()["first_execution_run_id"]
    return list((home.path / "streams").glob(f"{first}*/*")) + list((home.path / "streams").glob(first))


def test_words_appear_before_the_step_is_recorded_and_watching_leaves_no_trace(home):
    watched, alone = unique("watched"), unique("alone")
    play(home, slowly(watched, 4), slowly(alone, 4))
    with working(home, watched), working(home, alone):
        begin(home, alone)
        begin(home, watched)
        with watching(home, "watch", watched) as (printed, process):
            until("a line is shown", lambda: f"│ {LINES[0]}" in printed())
            assert look(home, watched).record()["step"] == 0
            assert process.wait(60) == 0
        ends(home, alone)

    text = printed()
    assert [text.count(f"│ {line}") for line in LINES] == [1] * len(LINES)
    assert text.index("… create_task") < text.index("step 1  tool_use") < text.index("All is done.")
    seen = [[event.event_type for event in witness(home, task).events] for task in (watched, alone)]
    assert seen[0] == seen[1]
    assert EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED in seen[0]
    assert streams_of(home, watched) + streams_of(home, alone) == []


def test_a_watcher_outlives_a_killed_worker_and_shows_the_new_attempt_instead(home):
    task = unique("killed")
    play(home, slowly(task, 40, 3))
    begin(home, task)
    with watching(home, "watch", task) as (printed, process), watching(home, "watch", task, "--json") as (told, other):
        with working(home, task) as doomed:
            until("words are shown", lambda: f"│ {LINES[0]}" in printed(), 60)
            until("words are told", lambda: '"heard"' in told(), 60)
            doomed.kill()
        with working(home, task):
            assert process.wait(90) == 0
            assert other.wait(60) == 0

    before, _, after = printed().partition("  (step 1: attempt 1 was lost; it begins again)\n")
    assert "step 1  " not in before
    assert [after.count(f"│ {line}") for line in LINES] == [1] * len(LINES)
    assert after.count("step 1  tool_use") == 1
    assert streams_of(home, task) == []
    # Beside them it may be told, on stderr, that no worker is up just now.
    events = [json.loads(line) for line in told().splitlines() if line.startswith("{")]
    assert {one["attempt"] for one in events if one["event"] == "heard"} == {1, 2}
    assert [one["n"] for one in events if one["event"] == "step"] == [1, 2]
    assert (events[-1]["event"], events[-1]["status"]) == ("run", "done")


@pytest.mark.long
def test_run_verbose_shows_words_too(home):
    task = unique("verbose")
    play(home, slowly(task, 3))

    with watching(home, "run", "brief", task, "-v") as (printed, process):
        until("a line is shown", lambda: f"│ {LINES[0]}" in printed())
        assert "step 1" not in printed()
        assert process.wait(60) == 0


def test_a_stream_that_cannot_be_written_costs_no_call(new_home):
    home, task = new_home(), unique("unwritable")
    (home.path / "streams").touch()
    play(home, slowly(task, 2))
    begin(home, task)

    with working(home, task) as worker:
        run = ends(home, task)

    assert run.record()["totals"]["possibly_paid"]["calls"] == 0
    assert worker.log.read_text().count("step 1 cannot be watched") == 1


def test_words_come_through_the_database_where_one_is_named_and_encrypted_where_there_are_keys(new_home, postgres):
    home = new_home(DAYFLOW_DATABASE_URL=postgres.database(), DAYFLOW_ENCRYPTION_KEYS=seal.new_key("one"))
    task = unique("rows")
    play(home, slowly(task, 6))
    begin(home, task)
    with working(home, task), watching(home, "watch", task) as (printed, process):
        until("a line is shown", lambda: f"│ {LINES[0]}" in printed())
        assert "step 1" not in printed()
        assert process.wait(60) == 0

    assert not (home.path / "streams").exists()
