"""Retention: what may go when, and the report of what went. Nothing that is open, or that nobody is sure of, may."""

from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from domain import errors, memory, request
from domain.memory import Entry

# What is kept, each for its own time; in this order, because what comes later is kept for what comes before.
Kind = Literal["runs", "model_calls", "effects", "memory_commits", "claims", "memory", "streams", "reports", "payloads"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# How it stands with a thing: open or young is no case for retention, `new` enters its grace period, `due` may go.
Verdict = Literal[
    "open", "young", "due for a review", "new", "in grace", "due", "kept by a person", "an effect is open"
]
# Of what cannot be deleted, enters its grace period or is due for a review, a report names so many.
NAMED = 50
# Days that the report of a clean-up, or of a firing of a schedule, is kept.
REPORTS = 90

EXAMPLE = '{"dry_run": true, "ages": {"runs": 30}}'


class Ages(BaseModel):
    """For how many days each is kept; None is what the worker's settings say. grace: until an expired run goes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: float | None = Field(None, ge=0)
    model_calls: float | None = Field(None, ge=0)
    effects: float | None = Field(None, ge=0)
    memory_commits: float | None = Field(None, ge=0)
    reports: float | None = Field(None, ge=0)
    payloads: float | None = Field(None, ge=0)
    grace: float | None = Field(None, ge=0)


class Wanted(BaseModel):
    """The input of a clean-up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dry_run: bool = False
    ages: Ages = Ages()


class Plan(BaseModel):
    """What a clean-up goes by from its beginning to its end. at: when it began, by the clock of the server.

    kinds: what it looks at; a worker that knows more of them replays it as it was.
    """

    model_config = ConfigDict(frozen=True)

    dry_run: bool
    at: datetime
    days: dict[str, float]
    kinds: tuple[Kind, ...] = KINDS

    def age(self, kind: Kind) -> float:
        """The days that it is kept. A claim on a run id is kept for the effects that were done under it."""
        return self.days["effects" if kind == "claims" else kind]

    def before(self, kind: Kind) -> datetime:
        """What is older than this may go."""
        return self.at - timedelta(days=self.age(kind))

    @property
    def marked_before(self) -> datetime:
        """A run whose grace period began before this may go."""
        return self.at - timedelta(days=self.days["grace"])


class Mark(BaseModel):
    """What is noted of a run: when its grace period began, and who keeps it."""

    marked_at: datetime | None = None
    kept_by: str | None = None


class Look(BaseModel):
    """One page of one kind is looked at, behind the cursor."""

    kind: Kind
    plan: Plan
    cursor: str | None = None


class Found(BaseModel):
    """What a page has. due: may go now. new: their grace period begins. kept: how many stay, by their reason.

    review: those that a person should look at.
    """

    due: list[str] = []
    new: list[str] = []
    review: list[str] = []
    kept: dict[str, int] = {}
    cursor: str | None = None

    def sort(self, name: str, verdict: Verdict) -> None:
        """Put a name where its verdict leads."""
        match verdict:
            case "due":
                self.due.append(name)
            case "new":
                self.new.append(name)
            case "open" | "young":
                pass
            case why:
                self.kept[why] = self.kept.get(why, 0) + 1
                self.review += [name] if why == "due for a review" else []


class Batch(BaseModel):
    """What is to be marked, or to go."""

    kind: Kind
    plan: Plan
    names: list[str]


class Done(BaseModel):
    """What became of a batch. gone: how many are no more. troubles: why others are still there."""

    gone: int = 0
    exported: int = 0
    troubles: dict[str, str] = {}


class Tally(BaseModel):
    """The sums of one kind. due: what may go, or could have gone in a dry run."""

    due: int = 0
    gone: int = 0
    exported: int = 0
    entered_grace: int = 0
    kept: dict[str, int] = {}
    named: list[str] = []
    review: list[str] = []
    troubles: dict[str, str] = {}

    def saw(self, found: Found) -> None:
        """Count a page."""
        self.due += len(found.due)
        self.entered_grace += len(found.new)
        self.named = [*self.named, *found.new][:NAMED]
        self.review = [*self.review, *found.review][:NAMED]
        for why, count in found.kept.items():
            self.kept[why] = self.kept.get(why, 0) + count

    def did(self, done: Done) -> None:
        """Count what became of a batch."""
        self.gone += done.gone
        self.exported += done.exported
        self.troubles = dict([*self.troubles.items(), *done.troubles.items()][:NAMED])


class Report(BaseModel):
    """What a clean-up did, or would have done. more: it stopped before the end, and the next one goes on."""

    plan: Plan
    kinds: dict[Kind, Tally] = {kind: Tally() for kind in KINDS}
    more: bool = False


def parse(raw: Any) -> Wanted:
    """The input of a clean-up; `errors.BadRequest` says what is wrong with it."""
    try:
        return Wanted.model_validate(raw[0] if raw else {})
    except ValidationError as error:
        raise errors.BadRequest(f"the input cannot be used: {request.explain(error)}; such as {EXAMPLE}") from None


def judge(closed_at: datetime | None, mark: Mark, plan: Plan, *, open_effects: bool) -> Verdict:
    """How it stands with a run. A mark from before it was closed last, as by a reset, does not count."""
    if closed_at is None:
        return "open"
    if closed_at >= plan.before("runs"):
        return "young"
    if open_effects:
        return "an effect is open"
    if mark.kept_by:
        return "kept by a person"
    if not plan.days["grace"]:
        return "due"
    if mark.marked_at is None or mark.marked_at < closed_at:
        return "new"
    return "due" if mark.marked_at <= plan.marked_before else "in grace"


def judge_entry(entry: Entry, at: datetime) -> Verdict:
    """How it stands with an entry of memory: at its end it is taken out, which its grace period undoes."""
    if memory.is_gone(entry, at):
        return "due"
    if entry.ended:
        return "in grace"
    if not memory.is_live(entry, at):
        return "new"
    return "due for a review" if memory.is_due(entry, at) else "young"
