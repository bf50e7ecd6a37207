"""Refund runs as a support lead meets them: started, decided about and looked at by the plain Temporal CLI."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import orders
from homes import Home
from orders import Order
from script import call, conversation, say, unique, use
from temporalio.client import Client
from witness import Run, watch

from client.converter import converter
from domain import views

LEAD, CLERK, DESK = "lead@example.com", "clerk@example.com", "desk@example.com"
PLAN = ("lookup_order", "lookup_customer", "propose_plan", "issue_refund", "send_email")


@dataclass(frozen=True)
class Refund:
    """One run that is to refund 40.00 of an order, by default an order of its own."""

    name: str = "refund"
    order: Order = field(default_factory=orders.take)
    run_id: str = ""
    queue: str = "dayflow"

    def __post_init__(self) -> None:
        if not self.run_id:
            object.__setattr__(self, "run_id", unique(self.name))

    @property
    def task(self) -> str:
        """What is asked for; no other run asks for the same."""
        return f"Order {self.order.id} arrived broken, refund 40.00 ({self.run_id})"

    @property
    def request(self) -> dict[str, Any]:
        """The input of the run."""
        return {"agent": "refund", "task": self.task, "requested_by": DESK}


def begin(home: Home, refund: Refund) -> None:
    """Start the run, as a support lead does."""
    home.start(refund.run_id, refund.request, refund.queue)


def asked(home: Home, refund: Refund, seconds: float = 60) -> dict[str, Any]:
    """Wait until a person is asked about exactly one action; that action."""
    [pending] = watch(home, refund.run_id, _waits, "it waits for approval", seconds).record()["pending_actions"]
    return dict(pending)


def signal(home: Home, run_id: str, name: str, *inputs: Any, code: int | None = 0) -> str:
    """Send a signal by the plain Temporal CLI; what it printed."""
    given = [part for one in inputs for part in ("--input", json.dumps(one))]
    done = home.temporal("workflow", "signal", "--workflow-id", run_id, "--name", name, *given, code=code)
    return done.stdout + done.stderr


def approve(home: Home, run_id: str, action_id: str, approver: str = LEAD, **more: Any) -> None:
    """Approve an action, as a support lead does."""
    signal(home, run_id, "approve", {"action_id": action_id, "approver": approver, **more})


def payments(home: Home, order: Order) -> list[dict[str, Any]]:
    """The refunds that the payment provider committed for an order."""
    return [line for line in home.sandbox("GET", "/sandbox/payments/journal") if line["charge"] == order.charge]


def mails(home: Home, order: Order) -> list[dict[str, Any]]:
    """The mails that were delivered to an order's customer."""
    return [line for line in home.sandbox("GET", "/sandbox/mail/journal") if line["to"] == order.email]


def scripted(refund: Refund, *, amount: str = "40.00", reason: str = "It arrived broken.", body: str = "Done.") -> Any:
    """A conversation in which the model goes the usual way, in these words."""
    order = refund.order
    items = [{"title": f"Use {tool}", "tool": tool} for tool in PLAN]
    mail = {"to": order.email, "subject": f"Your order {order.id}", "body": body}
    return conversation(
        refund.task,
        call(use("lookup_order", {"order_id": order.id})),
        call(use("lookup_customer", {"customer_id": order.customer})),
        call(use("propose_plan", {"items": items})),
        call(use("issue_refund", {"order_id": order.id, "amount": amount, "reason": reason})),
        call(use("send_email", mail)),
        say(f"Refunded {amount}."),
    )


def refunded_once(home: Home, order: Order, amount: int = 4000) -> None:
    """The money moved once, and one mail says so."""
    assert [line["amount"] for line in payments(home, order)] == [amount]
    assert len(mails(home, order)) == 1


def nothing_happened(home: Home, order: Order) -> None:
    """No money moved, no mail was sent."""
    assert payments(home, order) == []
    assert mails(home, order) == []


def _waits(run: Run) -> bool:
    return run.record()["status"] == "awaiting_approval"


def query(home: Home, run_id: str, name: str) -> Any:
    """The answer of the run's worker to a query."""

    async def ask() -> Any:
        client = await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(home.settings))
        return await client.get_workflow_handle(run_id).query(name)

    return asyncio.run(ask())


def update(home: Home, run_id: str, update_id: str, decision: Any) -> dict[str, Any]:
    """Send a decision by the update `decide` of the plain Temporal CLI; the answer."""
    where = ("--workflow-id", run_id, "--name", "decide", "--update-id", update_id)
    told = home.temporal("workflow", "update", "execute", *where, "--input", json.dumps(decision), "--output", "json")
    answer: dict[str, Any] = json.loads(told.stdout)["result"]
    return answer


def ruled(home: Home, run_id: str, count: int) -> list[dict[str, Any]]:
    """Wait until so many decisions have been ruled on; all of them."""
    run = watch(home, run_id, lambda run: len(_rulings(run)) >= count, f"{count} decisions are ruled on")
    return _rulings(run)


def _rulings(run: Run) -> list[dict[str, Any]]:
    return views.decisions(run.state) if run.state else []
