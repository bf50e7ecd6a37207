"""Retention: what may go when, and the report of what went. Nothing that is open, or that nobody is sure of, may."""

from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from domain import errors, request

# What is kept, each for its own time; in this order, because what comes later is kept for what comes before.
Kind = Literal["runs", "model_calls", "effects", "claims", "reports", "payloads"]
KINDS: tuple[Kind, ...] = ("runs", "model_calls", "effects", "claims", "reports", "payloads")
# How it stands with a run: open or young is no case for retention, `new` enters its grace period, `due` may go.
Verdict = Literal["open", "young", "new", "in grace", "due", "kept by a person", "an effect is open"]
# Of what cannot be deleted, and of runs that enter their grace period, a report names so many.
NAMED = 50
# Days that the report of a clean-up is kept.
REPORTS = 90

EXAMPLE = '{"dry_run": true, "ages": {"runs": 30}}'


class Ages(BaseModel):
    """For how many days each is kept; None is what the worker's settings say. grace: until an expired run goes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: float | None = Field(None, ge=0)
    model_calls: float | None = Field(None, ge=0)
    effects: float | None = Field(None, ge=0)
    reports: float | None = Field(None, ge=0)
    payloads: float | None = Field(None, ge=0)
    grace: float | None = Field(None, ge=0)


class Wanted(BaseModel):
    """The input of a clean-up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dry_run: bool = False
    ages: Ages = Ages()


class Plan(BaseModel):
    """What a clean-up goes by from its beginning to its end. at: when it began."""

    model_config = ConfigDict(frozen=True)

    dry_run: bool
    at: datetime
    days: dict[str, float]

    def before(self, kind: Kind) -> datetime:
        """What is older than this may go. A claim on a run id is kept for the effects that were done under it."""
        return self.at - timedelta(days=self.days["effects" if kind == "claims" else kind])

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
    """What a page has. due: may go now. new: runs whose grace period begins. kept: how many stay, by their reason."""

    due: list[str] = []
    new: list[str] = []
    kept: dict[str, int] = {}
    cursor: str | None = None


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
    troubles: dict[str, str] = {}

    def saw(self, found: Found) -> None:
        """Count a page."""
        self.due += len(found.due)
        self.entered_grace += len(found.new)
        self.named = [*self.named, *found.new][:NAMED]
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
