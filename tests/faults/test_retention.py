"""What is closed and old goes, from the server, the ledger and the payloads; what is open or unsure stays."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from homes import Home, running, until
from refunds import Refund, approve, asked, begin
from script import call, conversation, create_task, play, say, unique, use
from temporalio.client import Client, WorkflowFailureError
from witness import ends, look, rows, start
from workers import working

from client.converter import converter
from store.blobs import Blobs
from store.payloads import references

pytestmark = pytest.mark.long

COUNT = 30
# Steps of the one closed run that went through several executions, and of each of the others.
LONG, SHORT = 20, 2
OLD_AT_ONCE = {"runs": 0, "model_calls": 0, "payloads": 0, "grace": 0}
QUEUE = "tidy"


@dataclass
class Tidied:
    """A home before and after a clean-up whose worker was killed with -9 in the middle of it."""

    home: Home
    closed: list[str]
    waiting: Refund
    unknown: Refund
    cancelled: Refund
    dry: dict[str, Any]
    report: dict[str, Any]
    again: dict[str, Any]

    @property
    def kept(self) -> set[str]:
        """The runs that have to stay."""
        return {self.waiting.run_id, self.unknown.run_id, self.cancelled.run_id}


@pytest.fixture(scope="module")
def tidied(tmp_path_factory, sample_orders):
    """30 closed runs, an open approval, an open unknown, and an unknown whose run was cancelled."""
    folder = tmp_path_factory.mktemp("home")
    settings = {"DAYFLOW_PAYLOAD_BYTES": "1000", "DAYFLOW_EVENTS": "60", "DAYFLOW_SAMPLE_ORDERS": str(sample_orders)}
    with running(Home(folder, **settings, DAYFLOW_EXPORTS=str(folder / "exports"))) as home:
        waiting, unknown, cancelled = Refund("waiting"), Refund("unknown"), Refund("cancelled")
        closed = populated(home, waiting, unknown, cancelled)
        dry = killed = None
        with working(home, QUEUE) as worker:
            worker.ready()
            dry = clean_up(home, dry_run=True, **OLD_AT_ONCE)
        before = state(home)
        with working(home, QUEUE, DAYFLOW_CRASH_AT="retention.deleted:11") as doomed:
            killed = begun(home, **OLD_AT_ONCE)
            doomed.died()
        assert before["runs"] == {*closed, waiting.run_id, unknown.run_id, cancelled.run_id}
        with working(home, QUEUE) as worker:
            report = result(home, killed)
            again = clean_up(home, **OLD_AT_ONCE)
            yield Tidied(home, closed, waiting, unknown, cancelled, dry, report, again)


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


def begun(home: Home, *, dry_run: bool = False, **ages: float) -> str:
    """Start a clean-up; its id."""
    run_id = unique("tidy")

    async def go() -> None:
        wanted = {"dry_run": dry_run, "ages": ages}
        await (await client(home)).start_workflow("Retention", wanted, id=run_id, task_queue=QUEUE)

    asyncio.run(go())
    return run_id


def result(home: Home, run_id: str) -> dict[str, Any]:
    """The report of a clean-up, once it has come to its end."""

    async def wait() -> dict[str, Any]:
        async with asyncio.timeout(90):
            told: dict[str, Any] = await (await client(home)).get_workflow_handle(run_id).result()
            return told

    return asyncio.run(wait())


def clean_up(home: Home, **how: Any) -> dict[str, Any]:
    """A whole clean-up; its report."""
    return result(home, begun(home, **how))


async def client(home: Home) -> Client:
    """A client of the home's server."""
    return await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(home.settings))


def state(home: Home) -> dict[str, Any]:
    """All that is kept: the server's runs, the ledger's rows by run and kind, payloads, and what is referred to."""

    async def kept() -> tuple[set[str], set[str]]:
        runs, referred = set(), set()
        connected = await client(home)
        async for one in connected.list_workflows():
            runs |= {one.id} if one.workflow_type == "AgentRun" else set()
            handle = connected.get_workflow_handle(one.id, run_id=one.run_id)
            told = [one.raw_info, *[event async for event in handle.fetch_history_events()]]
            referred |= {found.claim_data["sha256"] for found in references(told)}
        return runs, referred

    runs, referred = asyncio.run(kept())
    ledger = Counter((row["run_id"], row["kind"]) for row in rows(home, "SELECT * FROM ledger"))
    return {
        "runs": runs,
        "ledger": ledger,
        "payloads": {one.name for one in Blobs(home.settings.blobs).all()},
        "referred": referred,
    }


def test_a_dry_run_says_exactly_what_a_clean_up_then_does(tidied):
    would = {kind: tally["due"] for kind, tally in tidied.dry["kinds"].items()}
    went = {kind: tally["gone"] for kind, tally in tidied.report["kinds"].items()}

    assert would["runs"] == went["runs"] == COUNT
    assert would["model_calls"] == went["model_calls"] == LONG + (COUNT - 1) * SHORT
    assert would["effects"] == went["effects"] == would["claims"] == went["claims"] == 0
    assert went["payloads"] >= would["payloads"] > 0


def test_exactly_the_closed_and_old_runs_are_gone_though_the_worker_was_killed_in_the_middle(tidied):
    found = state(tidied.home)

    assert found["runs"] == tidied.kept
    assert {run for run, kind in found["ledger"] if kind == "model"} == tidied.kept
    assert {run for run, kind in found["ledger"] if kind == "effect"} >= {*tidied.closed, tidied.unknown.run_id}
    assert found["referred"] <= found["payloads"]


def test_a_closed_run_with_an_effect_that_may_have_happened_is_kept_and_named(tidied):
    assert tidied.report["kinds"]["runs"]["kept"] == {"an effect is open": 1}
    assert tidied.home.show(tidied.cancelled.run_id)["status"] == "cancelled"
    listed = {row["run_id"]: row["command"] for row in tidied.home.json("actions", "--unknown")}
    assert set(listed) == {tidied.unknown.run_id, tidied.cancelled.run_id}
    assert listed[tidied.cancelled.run_id].startswith("dayflow reset")


def test_a_second_clean_up_finds_nothing_more(tidied):
    gone = {kind: tally["gone"] for kind, tally in tidied.again["kinds"].items()}

    assert {kind: count for kind, count in gone.items() if kind != "payloads"} == {
        "runs": 0,
        "model_calls": 0,
        "effects": 0,
        "claims": 0,
        "reports": 0,
    }


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
    assert (report["kinds"]["effects"]["gone"], report["kinds"]["claims"]["gone"]) == (COUNT, COUNT)
    assert {run for run, kind in found["ledger"] if kind == "effect"} == {
        tidied.unknown.run_id,
        tidied.cancelled.run_id,
    }
    assert {row["run_id"] for row in rows(tidied.home, "SELECT * FROM claims")} == tidied.kept


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
    last = tidied.home.dayflow("retention", "--last").stdout
    both = tidied.home.dayflow("retention", "--dry-run", "--last", code=2).stderr

    assert "nothing was deleted" in would
    assert "closed runs" in would
    assert last == would
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
    assert found["referred"] <= found["payloads"]


def test_an_input_that_cannot_be_used_deletes_nothing_and_says_what_is_wrong(tidied):
    with pytest.raises(WorkflowFailureError) as refused:
        clean_up(tidied.home, rnus=1)

    assert "ages.rnus" in str(refused.value.__cause__)
