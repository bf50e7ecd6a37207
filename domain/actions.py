"""Actions: one tool call of one step, its id for people and its idempotency key for destinations."""

import hashlib
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from pydantic import BaseModel

from domain import digest
from domain.agent import Rule
from domain.tool import Conflict, Grant, Preparation, ToolCall

Status = Literal[
    "proposed",
    "awaiting_approval",
    "approved",
    "running",
    "unknown",
    "done",
    "failed",
    "denied",
    "expired",
    "cancelled",
]
OPEN: set[Status] = {"proposed", "awaiting_approval", "approved", "running", "unknown"}
# Of the effects that are over, the next execution is told of this many, each with so much of its result.
CARRIED_EFFECTS = 500
# The first ones are told as long as the run goes on.
FIRST_EFFECTS = 5
CARRIED_CHARACTERS = 1_000


class Action(BaseModel):
    """One tool call and what became of it.

    `proposed_arguments` is what the model asked for, `arguments` what is decided about and carried out.
    nth: it would be the n-th done by this tool in this run, wherever it stands in it.
    failed: the tool answered with an error, or the call could not be run. unknown: it may or may not have happened.
    """

    action_id: str
    former_ids: list[str] = []
    step: int
    position: int
    edit: int = 0
    nth: int = 1
    tool: str
    tool_use_id: str
    proposed_arguments: dict[str, Any]
    arguments: dict[str, Any]
    arguments_sha256: str
    effect: bool
    status: Status = "proposed"
    attempts: int = 0
    from_ledger: bool = False
    idempotency_key: str | None = None
    intent: str | None = None
    amount: Decimal | None = None
    conflict: Conflict | None = None
    rule: Rule | None = None
    grant: Grant | None = None
    result: str | None = None
    requested_at: datetime
    expires_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def place(self) -> str:
        """`s4.1`: where it stands in the run, whatever its arguments."""
        return f"s{self.step}.{self.position}"

    @property
    def open(self) -> bool:
        """Whether something is still to come of it."""
        return self.status in OPEN

    @property
    def same(self) -> str:
        """What makes two actions of one run the same to a person: the intent, else tool and arguments."""
        return self.intent or self.arguments_sha256

    def shortened(self) -> "Action":
        """The same with the beginning of its result only."""
        return self.model_copy(update={"result": self.result and self.result[:CARRIED_CHARACTERS]})

    def call(self) -> ToolCall:
        """The input of its activity."""
        return ToolCall(
            step=self.step,
            position=self.position,
            action_id=self.action_id,
            nth=self.nth,
            tool=self.tool,
            arguments=self.arguments,
            idempotency_key=self.idempotency_key,
            grant=self.grant,
        )

    def preparation(self) -> Preparation:
        """The input of `prepare_action`."""
        return Preparation(
            step=self.step,
            position=self.position,
            action_id=self.action_id,
            nth=self.nth,
            tool=self.tool,
            arguments=self.arguments,
            idempotency_key=self.idempotency_key or "",
        )


class Actions(BaseModel):
    """Every action of a run. `denied`: what people said no to, until a person speaks again."""

    all: list[Action] = []
    denied: dict[str, str] = {}

    def find(self, action_id: str) -> Action | None:
        """The action of that id; one that was edited is found by its former ids too."""
        named = (one for one in reversed(self.all) if action_id == one.action_id or action_id in one.former_ids)
        return next(named, None)

    def carried(self, step: int, named: set[str]) -> "Actions":
        """What the next execution has to know: what is open, the newest step, the newest effects, and those named."""
        effects = [one.action_id for one in self.all if one.effect]
        told = {*effects[:FIRST_EFFECTS], *effects[-CARRIED_EFFECTS:], *named}
        kept = [
            one if one.open or one.step == step else one.shortened()
            for one in self.all
            if one.open or one.step == step or one.action_id in told
        ]
        return Actions(all=kept, denied=self.denied)

    def next_of(self, tool: str) -> int:
        """Which number the next one of a tool has, by those that are done."""
        return 1 + max((one.nth for one in self.all if one.tool == tool and one.status == "done"), default=0)

    def of_status(self, *status: Status) -> list[Action]:
        """The actions that stand so."""
        return [one for one in self.all if one.status in status]

    def refused_before(self, action: Action) -> str | None:
        """Who said no to the same action before, if somebody did."""
        return self.denied.get(action.same)


def action_id(step: int, position: int, arguments_sha256: str, edit: int = 0) -> str:
    """`s4.1-3fa9c2`: step, position, six hex of the arguments' sha256; an edited action says which edit."""
    edited = f"e{edit}" if edit else ""
    return f"s{step}.{position}{edited}-{arguments_sha256[:6]}"


def idempotency_key(
    namespace: str, first_execution_run_id: str, step: int, position: int, tool: str, edit: int = 0
) -> str:
    """The same for every attempt, worker, execution and reset of one action; no word of the model is in it."""
    name = "\0".join((namespace, first_execution_run_id, str(step), str(position), tool, str(edit)))
    return "dayflow-" + hashlib.sha256(name.encode()).hexdigest()


def arguments_digest(tool: str, arguments: dict[str, Any]) -> str:
    """Hex sha256 that binds a decision, or a ledger row, to exactly these arguments of this tool."""
    return digest.sha256({"tool": tool, "arguments": arguments})
