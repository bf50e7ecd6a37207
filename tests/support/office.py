"""Several machines that work for one server: each has a home of its own; store and payload folder are the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checker import check, cut_short
from homes import Home, running
from refunds import Refund, approve, asked, begin, refunded_once
from script import call, conversation, create_task, play, say, unique, use
from witness import Witness, ends, start, witness
from workers import Worker, working

# So much goes outside of the history that every machine has to read what another one has put there.
PAYLOAD_BYTES = "2000"
LONG = {"type": "text", "text": "I look at what there is to do. " * 100}
SECONDS = 110


@dataclass
class Office:
    """One server with its sandbox, and machines that share its store. tasks: names of briefs that can be played."""

    home: Home
    tasks: Iterator[str]
    approved: list[Refund] = field(default_factory=list)

    @contextmanager
    def machine(self, queue: str, **env: str) -> Iterator[Worker]:
        """A worker as on a machine of its own."""
        own = {
            "DAYFLOW_HOME": str(self.home.path / unique("machine")),
            "TEMPORAL_ADDRESS": f"127.0.0.1:{self.home.port}",
        }
        with working(self.home, queue, **own, **env) as worker:
            yield worker

    def brief(self, queue: str) -> str:
        """Start a run of four steps: one reads, two have an effect each, one ends."""
        task = next(self.tasks)
        start(self.home, task, {"agent": "brief", "task": task}, queue)
        return task

    def refund(self, queue: str) -> Refund:
        """Start a run that is to refund an order, and asks a person."""
        refund = Refund("office", queue=queue)
        begin(self.home, refund)
        return refund

    def approve(self, refund: Refund) -> None:
        """Say yes to it, once it asks."""
        self.approved.append(refund)
        approve(self.home, refund.run_id, asked(self.home, refund, SECONDS)["action_id"])

    def finished(self, run: str | Refund) -> Witness:
        """Wait until it is done, and see that each effect was done once; who is asked on the way says yes."""
        if isinstance(run, Refund) and run not in self.approved:
            self.approve(run)
        run_id = run.run_id if isinstance(run, Refund) else run
        ends(self.home, run_id, seconds=SECONDS)
        seen = witness(self.home, run_id)
        again, unknown = cut_short(seen)
        check(seen, again=again, unknown=unknown)
        assert {action.status for action in seen.state.actions.all} == {"done"}
        if isinstance(run, Refund):
            refunded_once(self.home, run.order)
        else:
            made = [task["source_id"] for task in seen.tasks if task["run_id"] == run_id]
            assert sorted(made) == [f"{run_id}-1", f"{run_id}-2"]
        return seen


@contextmanager
def office(folder: Path, store: str, sample_orders: Path, briefs: int = 300) -> Iterator[Office]:
    """An office whose store is at this address."""
    home = Home(
        folder / "home",
        DAYFLOW_SAMPLE_ORDERS=str(sample_orders),
        DAYFLOW_DATABASE_URL=store,
        DAYFLOW_PAYLOADS=str(folder / "payloads"),
        DAYFLOW_PAYLOAD_BYTES=PAYLOAD_BYTES,
    )
    tasks = [unique("office") for _ in range(briefs)]
    with running(home):
        play(home, *map(_conversation, tasks))
        yield Office(home, iter(tasks))


def _conversation(task: str) -> dict[str, Any]:
    effects = [call(LONG, create_task(f"{task}-{n}")) for n in (1, 2)]
    return conversation(task, call(use("read_tasks")), *effects, say("All is done."))
