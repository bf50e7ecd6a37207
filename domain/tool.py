"""What a tool declares of itself, and the call and the result that cross between workflow and activity."""

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

# The activities that are no tools; a tool cannot be called as one of them.
TAKEN = frozenset(
    {
        *("load_agent", "call_model", "compact_transcript", "prepare_action"),
        *("check_authority", "check_raise", "resolve_effect"),
        *("plan_retention", "find_expired", "mark_expired", "delete_expired", "due_run"),
    }
)


class Read(BaseModel):
    """The tool changes nothing outside. saves_plan: its arguments are the run's plan, which is saved once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["read"] = "read"
    deadline_s: float = 60.0
    saves_plan: bool = False


class Approval(BaseModel):
    """Who has to approve an action, and from which amount on; None is every amount."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: str
    from_amount: Decimal | None = None


class Effect(BaseModel):
    """The tool changes a destination; how that destination keeps an effect from happening twice.

    safety: `key` it checks an idempotency key; `lookup` it can be asked afterwards; `none` neither.
    key_lifetime_s: how long the destination remembers a key, in seconds; None is for ever.
    deadline_s: how long an attempt may be sending; nothing is looked up before it has passed.
    held_intent: who answers when another action holds the same intent: a person, or the destination itself.
    approval: who has to approve it; an agent's own rule goes before this one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["effect"] = "effect"
    safety: Literal["key", "lookup", "none"]
    key_lifetime_s: float | None = None
    deadline_s: float = 60.0
    held_intent: Literal["person", "destination"] = "person"
    approval: Approval | None = None


Declaration = Annotated[Read | Effect, Field(discriminator="kind")]


class ToolSpec(BaseModel):
    """A tool as the model is told of it, frozen into the run's history by `load_agent`."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    input_schema: dict[str, Any]
    declares: Declaration


class Grant(BaseModel):
    """A person's approval, as the effect's activity checks it once more. again: the held intent was seen."""

    model_config = ConfigDict(frozen=True)

    approver: str
    role: str | None
    amount: Decimal | None
    requested_by: str | None
    again: bool = False


class ToolCall(BaseModel):
    """Input of a tool's activity: one action of one step; only an effect has an idempotency key."""

    model_config = ConfigDict(frozen=True)

    step: int
    position: int
    action_id: str
    nth: int = 1
    tool: str
    arguments: dict[str, Any]
    idempotency_key: str | None = None
    grant: Grant | None = None


class Conflict(BaseModel):
    """Who did, or is doing, what this action wants to do. changed: it is this action itself, with other arguments."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    action_id: str
    changed: bool = False


Outcome = Literal["done", "failed", "unknown", "conflict", "not entitled", "changed arguments"]


class ToolResult(BaseModel):
    """Outcome of a tool's activity; `content` is what the model reads, cleaned and clipped.

    unknown: the effect may or may not have happened. conflict: another action holds its intent, nothing was sent.
    not entitled: the approver may no longer approve it, nothing was sent. changed arguments: its key was used with
    other ones, nothing was sent.
    """

    model_config = ConfigDict(frozen=True)

    content: str
    outcome: Outcome = "done"
    attempts: int = 1
    from_ledger: bool = False
    blob: str | None = None
    intent: str | None = None
    conflict: Conflict | None = None
    grant: Grant | None = None

    @property
    def is_error(self) -> bool:
        """Whether the model is told that it did not work."""
        return self.outcome != "done"


class Preparation(BaseModel):
    """Input of `prepare_action`: an effect that may need a person, before anyone is asked.

    editor, role: who wrote these arguments, if a person did, and the role in which they may.
    """

    model_config = ConfigDict(frozen=True)

    step: int
    position: int
    action_id: str
    nth: int = 1
    tool: str
    arguments: dict[str, Any]
    idempotency_key: str
    editor: str | None = None
    role: str | None = None


class Prepared(BaseModel):
    """What is known of an effect before it runs.

    refusal: why it cannot run as it is, for the model. already: it was done before with these arguments, by an
    earlier course of the same run; nothing will be sent, and nobody is asked again. begun: an attempt may have been
    sent, and nothing is known of it yet.
    """

    model_config = ConfigDict(frozen=True)

    refusal: str | None = None
    already: bool = False
    begun: bool = False
    intent: str | None = None
    amount: Decimal | None = None
    conflict: Conflict | None = None
