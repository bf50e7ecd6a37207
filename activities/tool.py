"""What a tool file hands over: the function, its arguments, and what it declares of its effect."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict

from domain.tool import Effect, Read, ToolSpec
from store.database import Database
from store.settings import Settings


class Arguments(BaseModel):
    """Base of a tool's arguments: the class docstring is the tool's prompt, unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Context:
    """What a tool may know of the action it carries out.

    idempotency_key: the same for every attempt of this action, over workers, executions and resets.
    nth: this is the n-th effect of its tool in the run, counted by those that are done; after a reset, too.
    """

    settings: Settings
    database: Database
    namespace: str
    run_id: str
    action_id: str
    idempotency_key: str
    attempt: int
    nth: int = 1


Outcome = str | dict[str, Any] | list[Any] | BaseModel


@dataclass(frozen=True)
class Happened:
    """The destination says that the effect happened; `outcome` is what the tool would have answered."""

    outcome: Outcome


class Verdict(Enum):
    """What else a destination may say."""

    DID_NOT_HAPPEN = "did not happen"
    UNSURE = "unsure"


Found = Happened | Verdict


@dataclass(frozen=True)
class Tool:
    """One tool. `run(arguments, context)` may be sync (it gets a thread) or async.

    It returns text, JSON or a model; it raises `errors.ToolFailed` to tell the model why not.
    intent: what the effect does, made of what identifies it and of no wording; None if it has none.
    check: looks, before a person is asked, whether the effect can be carried out at all; `errors.ToolFailed` if not.
    amount: what it moves, in the main unit of its currency; the approval rules go by it.
    reconcile: asks the destination whether the effect of `context.idempotency_key` happened; it may say so, deny it,
    or be unsure. It never does the effect. An effect that declares `lookup` has to have one.
    """

    run: Callable[[Any, Context], Any]
    arguments: type[Arguments]
    declares: Read | Effect
    intent: Callable[[Any, Context], str] | None = None
    check: Callable[[Any, Context], Awaitable[None]] | None = None
    amount: Callable[[Any], Decimal] | None = None
    reconcile: Callable[[Any, Context], Awaitable[Found]] | None = None

    def __post_init__(self) -> None:
        """Refuse a declaration that cannot be kept."""
        lookup = isinstance(self.declares, Effect) and self.declares.safety == "lookup"
        if lookup and self.reconcile is None:
            raise TypeError(f"{self.name} declares `lookup` but has no reconcile")

    @property
    def name(self) -> str:
        """The function's name is the tool's name and the type of its activity."""
        return self.run.__name__

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as the model is told of it; a schema takes milliseconds to make, and each run asks for all."""
        return ToolSpec(
            name=self.name,
            description=inspect.getdoc(self.arguments) or "",
            input_schema=self.arguments.model_json_schema(),
            declares=self.declares,
        )
