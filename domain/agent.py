"""An agent: what its author writes, and the definition that `load_agent` freezes into a run's history."""

import importlib
import pkgutil
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from domain import digest, errors
from domain.compaction import Summariser
from domain.spend import Price
from domain.tool import Read, ToolSpec

# An execution of so many events, some 130 steps, is replayed in less than a second.
EVENTS = 2_000


class Limits(BaseModel):
    """Where a run stops and asks. None is no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    steps: Annotated[int, Field(gt=0)] | None = None
    tokens: Annotated[int, Field(gt=0)] | None = None
    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    def over(self, stricter: "Limits | None") -> "Limits":
        """These limits, with each one that `stricter` names taken from there."""
        return self.model_copy(update=stricter.model_dump(exclude_none=True) if stricter else {})


class Rule(BaseModel):
    """Who has to approve a tool's actions.

    from_amount: the smallest amount that needs it; None is every amount. expires_s: how long a request stays open.
    on_deny: whether the model is told, or the run ends.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str
    role: str
    from_amount: Decimal | None = None
    expires_s: float = 7 * 24 * 3600.0
    on_deny: Literal["tell", "cancel"] = "tell"

    def needs(self, amount: Decimal | None) -> bool:
        """Whether an action of this amount needs a person; one without an amount always does."""
        return self.from_amount is None or amount is None or amount >= self.from_amount


class Agent(BaseModel):
    """An agent as its file in `domain/agents/` states it. `task` is what a run does that names no task.

    budget_role: who may give a run new limits; None is whoever can reach it.
    compact_at: tokens of a request with its answer, from which on the transcript is compacted; None is only when the
    API says that the window is full. keep_last: how many of the newest turns stay as they were said. summariser: who
    sums the rest up, rules or the model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str
    instructions: str
    tools: tuple[str, ...]
    task: str | None = None
    model: str = "claude-sonnet-5-5"
    max_tokens: int = 8_192
    limits: Limits = Limits(steps=50)
    budget_role: str | None = None
    rules: tuple[Rule, ...] = ()
    compact_at: Annotated[int, Field(gt=0)] | None = 40_000
    keep_last: Annotated[int, Field(ge=1)] = 1
    summariser: Summariser = "rules"

    def task_for(self, given: str | None, example: str) -> str:
        """The task of a run that was given this one, or none. example: how to give one to an agent that has none."""
        task = given or self.task
        if task is None:
            raise errors.BadRequest(f"the agent {self.name!r} needs a task: {example}")
        return task


class Definition(BaseModel):
    """Everything of an agent that a run goes by, as it was when the run began.

    run: the first execution run id, the same over continue-as-new and reset.
    search_attributes: whether the server knows Dayflow's search attributes; without, the run does without.
    simulated: the sandbox answers, not a language model.
    events: how many events one execution may have before the run is continued as new; None is for benches.
    """

    model_config = ConfigDict(frozen=True)

    run: str
    agent: str
    instructions: str
    task: str
    model: str
    max_tokens: int
    tools: list[ToolSpec]
    limits: Limits
    budget_role: str | None = None
    rules: list[Rule] = []
    price: Price | None
    requested_by: str | None = None
    search_attributes: bool = False
    simulated: bool = False
    events: int | None = EVENTS
    compact_at: int | None = None
    keep_last: Annotated[int, Field(ge=1)] = 1
    summariser: Summariser = "rules"

    @property
    def sha256(self) -> str:
        """Its digest, after which the transcript's is chained."""
        return digest.sha256(self.model_dump(mode="json"))

    @property
    def plans(self) -> bool:
        """Whether the agent proposes a plan before it acts."""
        return any(isinstance(tool.declares, Read) and tool.declares.saves_plan for tool in self.tools)

    def rule(self, tool: str) -> Rule | None:
        """The approval rule of a tool, if it has one."""
        return next((rule for rule in self.rules if rule.tool == tool), None)

    def tool(self, name: str) -> ToolSpec | None:
        """The tool of that name, if this run has it."""
        return next((tool for tool in self.tools if tool.name == name), None)


def discover() -> dict[str, Agent]:
    """Every agent of `domain/agents/`, by name."""
    from domain import agents

    found = [importlib.import_module(f"domain.agents.{m.name}").AGENT for m in pkgutil.iter_modules(agents.__path__)]
    return {agent.name: agent for agent in found}


def find(name: str) -> Agent:
    """The agent of that name; `errors.BadRequest` names those that exist."""
    known = discover()
    if name not in known:
        raise errors.BadRequest(f"there is no agent {name!r}; known agents: {', '.join(sorted(known))}")
    return known[name]
