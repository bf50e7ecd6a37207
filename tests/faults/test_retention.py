"""What is closed and old goes, from the server, the ledger and the payloads; what is open or unsure stays."""

import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from cleanups import QUEUE, begun, clean_up, client, result
from homes import Home, running, until
from refunds import Refund, approve, asked, begin
from script import call, conversation, create_task, play, say, unique, use
from temporalio.client import WorkflowFailureError
from witness import ends, look, rows, start
from workers import working

from domain.retention import KINDS
from store.blobs import Blobs
from store.payloads import references

# The first test waits for all the runs.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

# More than two pages of runs.
COUNT = 200
# Steps of the one closed run that went through several executions, and of each of the others.
LONG, SHORT = 20, 2
# The youngest run takes so long, and is closed when all others have been for as long.
YOUNGER_S = 10.0
OLD_AT_ONCE = {"runs": 0, "model_calls": 0, "payloads": 0, "grace": 0}


@dataclass
class Tidied:
    """A home before and after a clean-up whose workers were killed with -9 in the middle of it.

    closed: what has to go. young: closed as well, and not old.
    """

    home: Home
    closed: list[str]
    young: str
    waiting: Refund
    unknown: Refund
    cancelled: Refund
    dry: dict[str, Any]
    before: dict[str, Any]
    report: dict[str, Any]
    printed: str
    after: dict[str, Any]
    again: dict[str, Any]

    @property
    def kept(self) -> set[str]:
        """The runs that have to stay."""
        return {self.waiting.run_id, self.unknown.run_id, self.cancelled.run_id, self.young}


@pytest.fixture(scope="module")
def tidied(tmp_path_factory, sample_orders):
    """200 closed runs and a young one, an open approval, an open unknown, and an unknown whose run was cancelled."""
    folder = tmp_path_factory.mktemp("home")
    settings = {"DAYFLOW_PAYLOAD_BYTES": "1000", "DAYFLOW_EVENTS": "60", "DAYFLOW_SAMPLE_ORDERS": str(sample_orders)}
    with running(Home(folder, **settings, DAYFLOW_EXPORTS=str(folder / "exports"))) as home:
        waiting, unknown, cancelled = Refund("waiting"), Refund("unknown"), Refund("cancelled")
        closed = populated(home, waiting, unknown, cancelled)
        since, young = time.time(), unique("young")
        only_just(home, young)
        with working(home, QUEUE) as worker:
            worker.ready()
            dry = clean_up(home, dry_run=True, **older_than(since))
        before = state(home)
        with working(home, QUEUE, DAYFLOW_CRASH_AT=f"retention.deleted:{COUNT // 2 + 11}") as doomed:
            doomed.ready()
            killed = begun(home, **older_than(since))
            doomed.died()
        with working(home, QUEUE, DAYFLOW_CRASH_AT="retention.cleared:2") as doomed:
            doomed.died()
        with working(home, QUEUE):
            report, printed = result(home, killed), home.dayflow("retention", "--last").stdout
            after, again = state(home), clean_up(home, **older_than(since))
            told = (dry, before, report, printed, after, again)
            yield Tidied(home, closed, young, waiting, unknown, cancelled, *told)


def older_than(since: float) -> dict[str, float]:
    """Ages by which what was closed before is old, and all the rest as old as can be."""
    return {**OLD_AT_ONCE, "runs": (time.time() - since) / 86_400}


def only_just(home: Home, task: str) -> None:
    """A run that is closed later than all others."""
    slow = [{"kind": "slow", "seconds": YOUNGER_S}]
    play(home, conversation(task, call(create_task(task), faults=slow), say("That is all.")))
    start(home, task, {"agent": "brief", "task": task})
    with working(home, "dayflow"):
        ends(home, task)


def populated(home: Home, waiting: Refund, unknown: Refund, cancelled: Refund) -> list[str]:
    """The runs as they stand before; the ids of those that are closed, and hold nothing open."""
    closed = [unique("closed") for _ in range(COUNT)]
    play(home, *(talk(task, LONG if task == closed[0] else SHORT) for task in closed))
    lost = [{"kind": "stored", "times": "all", "match": one.order.charge} for one in (unknown, cancelled)]
    home.sandbox("PUT", "/sandbox/payments/faults", lost)
    with working(home, "dayflow") as worker:
        for task in closed:
            start(home, task, {"agent": "brief", "task": task})
        for refund in (waiting, unknown, cancelled):
            begin(home, refund)
        worker.ready()
        for refund in (unknown, cancelled):
            approve(home, refund.run_id, asked(home, refund)["action_id"])
        for task in closed:
            ends(home, task)
        assert len(look(home, closed[0]).other_executions) > 1
        home.dayflow("reset", closed[1], "--at", "2")
        until("it was reset", lambda: look(home, closed[1]).other_executions)
        ends(home, closed[1])
        for refund in (unknown, cancelled):
            ends(home, refund.run_id, "awaiting_resolution", seconds=90)
        home.dayflow("cancel", cancelled.run_id)
        ends(home, cancelled.run_id, "cancelled")
        asked(home, waiting)
    return closed


def talk(task: str, steps: int) -> Any:
    """A run that creates one task, and has so many steps."""
    reads = [call(use("read_tasks", {"status": f"unheard-of {n}"})) for n in range(steps - 2)]
    return conversation(task, call(create_task(task)), *reads, say("That is all."))


def state(home: Home) -> dict[str, Any]:
    """All that is kept: the server's runs, the ledger's rows by run and kind, payloads, and what is referred to."""

    async def kept() -> tuple[set[str], dict[str, set[str]]]:
        runs: set[str] = set()
        referred: dict[str, set[str]] = {}
        connected = await client(home)
        async for one in connected.list_workflows():
            runs |= {one.id} if one.workflow_type == "AgentRun" else set()
            handle = connected.get_workflow_handle(one.id, run_id=one.run_id)
            told = [one.raw_info, *[event async for event in handle.fetch_history_events()]]
            referred.setdefault(one.id, set()).update(found.claim_data["sha256"] for found in references(told))
        return runs, referred

    runs, referred = asyncio.run(kept())
    ledger = Counter((row["run_id"], row["kind"]) for row in rows(home, "SELECT * FROM ledger"))
    return {
        "runs": runs,
        "ledger": ledger,
        "payloads": {one.name for one in Blobs(home.settings.blobs).all()},
        "referred": referred,
    }


def referred(found: dict[str, Any], runs: set[str] | None = None) -> set[str]:
    """The payloads that these runs refer to, or any."""
    return {name for run, names in found["referred"].items() if runs is None or run in runs for name in names}


def test_a_dry_run_says_exactly_what_a_clean_up_then_does(tidied):
    would = {kind: tally["due"] for kind, tally in tidied.dry["kinds"].items()}
    went = {kind: tally["gone"] for kind, tally in tidied.report["kinds"].items()}

    assert would["runs"] == went["runs"] == COUNT
    assert would["model_calls"] == went["model_calls"] == LONG + (COUNT - 1) * SHORT
    assert would["effects"] == went["effects"] == would["claims"] == went["claims"] == 0
    assert went["payloads"] >= would["payloads"] > 0


def test_exactly_the_closed_and_old_runs_are_gone_though_the_worker_was_killed_in_the_middle(tidied):
    before, after = tidied.before, tidied.after
    theirs = referred(before, set(tidied.closed)) - referred(before, tidied.kept)

    assert before["runs"] == {*tidied.closed, *tidied.kept}
    assert after["runs"] == tidied.kept
    assert {run for run, kind in after["ledger"] if kind == "model"} == tidied.kept
    assert {run for run, kind in after["ledger"] if kind == "effect"} >= {*tidied.closed, tidied.unknown.run_id}
    assert theirs
    assert not theirs & after["payloads"]
    assert referred(after) <= after["payloads"]


def test_the_counts_are_printed(tidied):
    calls = LONG + (COUNT - 1) * SHORT

    assert re.search(rf"^closed runs .* {COUNT} .* 1 \(an effect is open\)", tidied.printed, re.MULTILINE)
    assert re.search(rf"^model calls in the ledger .* {calls} ", tidied.printed, re.MULTILINE)


def test_a_closed_run_with_an_effect_that_may_have_happened_is_kept_and_named(tidied):
    assert tidied.report["kinds"]["runs"]["kept"] == {"an effect is open": 1}
    assert tidied.home.show(tidied.cancelled.run_id)["status"] == "cancelled"
    listed = {row["run_id"]: row["command"] for row in tidied.home.json("actions", "--unknown")}
    assert set(listed) == {tidied.unknown.run_id, tidied.cancelled.run_id}
    assert listed[tidied.cancelled.run_id].startswith("dayflow reset")


def test_a_second_clean_up_finds_nothing_more(tidied):
    gone = {kind: tally["gone"] for kind, tally in tidied.again["kinds"].items()}

    assert gone == dict.fromkeys(KINDS, 0) | {"payloads": gone["payloads"]}


def test_each_deleted_run_left_its_export(tidied):
    assert tidied.report["kinds"]["runs"]["exported"] == COUNT
    files = sorted((tidied.home.path / "exports").iterdir())

    assert [file.name for file in files] == sorted(f"{run}.json" for run in tidied.closed)
    for file in files:
        told = json.loads(file.read_text("utf-8"))
        steps = LONG if told["run_id"] == tidied.closed[0] else SHORT
        assert (told["record"]["status"], len(told["steps"]), len(told["actions"])) == ("done", steps, steps - 1)


def test_effects_and_claims_go_by_their_own_age_and_an_unknown_one_never(tidied):
    report = clean_up(tidied.home, **OLD_AT_ONCE, effects=0)

    found = state(tidied.home)
    # The young one went, too: to this clean-up every closed run is old.
    assert (report["kinds"]["effects"]["gone"], report["kinds"]["claims"]["gone"]) == (COUNT + 1, COUNT + 1)
    assert {run for run, kind in found["ledger"] if kind == "effect"} == {
        tidied.unknown.run_id,
        tidied.cancelled.run_id,
    }
    assert {row["run_id"] for row in rows(tidied.home, "SELECT * FROM claims")} == tidied.kept - {tidied.young}


def test_what_waited_for_approval_goes_on_after_it(tidied):
    with working(tidied.home, "dayflow") as worker:
        worker.ready()
        approve(tidied.home, tidied.waiting.run_id, asked(tidied.home, tidied.waiting)["action_id"])

        assert ends(tidied.home, tidied.waiting.run_id).record()["status"] == "done"


def test_an_expiry_is_undone_in_its_grace_period(tidied):
    home, (one, other) = tidied.home, (unique("grace"), unique("grace"))
    play(home, *(conversation(task, say("That is all.")) for task in (one, other)))
    with working(home, "dayflow"):
        for task in (one, other):
            start(home, task, {"agent": "brief", "task": task})
        for task in (one, other):
            ends(home, task)

    entered = clean_up(home, runs=0, grace=7)["kinds"]["runs"]
    assert {one, other} <= set(entered["named"])
    assert entered["gone"] == 0
    assert clean_up(home, runs=0, grace=7)["kinds"]["runs"]["kept"]["in grace"] >= 2
    home.dayflow("retention", "--keep", one)
    clean_up(home, runs=0, grace=0)

    assert home.show(one)["status"] == "done"
    assert "there is no run" in home.dayflow("show", other, code=2).stderr
    home.dayflow("retention", "--unkeep", one)
    assert clean_up(home, dry_run=True, runs=0, grace=0)["kinds"]["runs"]["due"] == 1


def test_the_command_prints_what_would_go_and_what_went(tidied):
    would = tidied.home.dayflow("retention", "--dry-run").stdout
    last = tidied.home.dayflow("retention", "--last")
    both = tidied.home.dayflow("retention", "--dry-run", "--last", code=2).stderr

    assert "nothing was deleted" in would
    assert "closed runs" in would
    assert last.stdout.startswith("clean-up at ")
    assert "A dry run was later" in last.stderr
    assert "take one of" in both


def test_two_clean_ups_at_once_come_to_the_same_end(tidied):
    home, tasks = tidied.home, [unique("twice") for _ in range(5)]
    play(home, *(conversation(task, say("That is all.")) for task in tasks))
    with working(home, "dayflow"):
        for task in tasks:
            start(home, task, {"agent": "brief", "task": task})
        for task in tasks:
            ends(home, task)

    for one in [begun(home, **OLD_AT_ONCE) for _ in range(2)]:
        assert result(home, one)["kinds"]["runs"]["troubles"] == {}

    found = state(home)
    assert not found["runs"] & set(tasks)
    assert {tidied.unknown.run_id, tidied.cancelled.run_id} <= found["runs"]
    assert referred(found) <= found["payloads"]


def test_an_input_that_cannot_be_used_deletes_nothing_and_says_what_is_wrong(tidied):
    with pytest.raises(WorkflowFailureError) as refused:
        clean_up(tidied.home, rnus=1)

    assert "ages.rnus" in str(refused.value.__cause__)
