"""Decisions: what people may say about an action, and why a decision is taken or refused.

Every decision leaves a trace, taken or refused.
"""

import json
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from domain import characters, digest, errors, messages, request
from domain.actions import Action
from domain.request import Name, explain, undecodable

KEPT = 500
KEPT_CHARACTERS = 200
UNKNOWN_ACTION = "unknown action: `dayflow approvals` lists those that wait"
# All edited actions of one step may be started by one workflow task, beside the answer that proposed them.
MAX_ARGUMENTS_BYTES = 100_000

Verdict = Literal["approve", "deny", "edit"]
Id = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Comment = Annotated[str, StringConstraints(max_length=2_000)]


class Decision(BaseModel):
    """One decision as a person sends it; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action_id: Id
    verdict: Verdict
    approver: Name
    arguments_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    arguments: dict[str, Any] | None = None
    again: bool = False
    comment: Comment | None = None
    decision_id: Id | None = None
    expires_at: AwareDatetime | None = None
    signature: Annotated[str, StringConstraints(max_length=200)] | None = None

    @model_validator(mode="after")
    def _arguments_belong_to_an_edit(self) -> "Decision":
        if (self.verdict == "edit") != (self.arguments is not None):
            raise ValueError("`arguments` belongs to the verdict `edit`, and to no other")
        return self

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes two decisions one."""
        said = (self.approver, self.action_id, self.verdict, digest.sha256(self.arguments))
        return (self.decision_id or "", *said)


class Authority(BaseModel):
    """Input of `check_authority`: a decision, and what it is about."""

    model_config = ConfigDict(frozen=True)

    run: str
    decision: Decision
    arguments_sha256: str
    role: str | None
    amount: str | None
    requested_by: str | None


class Resolution(BaseModel):
    """`resolve {action_id, outcome, result?, by}`: a person says whether an unknown effect happened."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    action_id: Id
    outcome: Literal["done", "not_done"]
    result: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    by: Name


class Standing(BaseModel):
    """Input of `resolve_effect`: the resolution, and the row that it is about.

    changed: the row is of other arguments, so its answer is not that of the action.
    """

    model_config = ConfigDict(frozen=True)

    resolution: Resolution
    idempotency_key: str
    role: str | None
    requested_by: str | None
    changed: bool = False


class Objection(BaseModel):
    """Output of `check_authority` and `resolve_effect`: why it may not be; None if it may."""

    model_config = ConfigDict(frozen=True)

    why: str | None = None


class Ruling(BaseModel):
    """A decision or a resolution and what became of it. `reason` says why it was refused, or what it did.

    identity: what the same decision would have, too; empty where it counts no more.
    """

    action_id: str
    verdict: str
    approver: str
    decision_id: str | None = None
    arguments_sha256: str | None = None
    comment: str | None = None
    accepted: bool
    reason: str
    at: datetime
    identity: tuple[str, ...] = ()


class Rulings(BaseModel):
    """Every ruling, oldest first; of the refused ones the newest are kept, and how many there were."""

    all: list[Ruling] = []
    refused: int = 0

    def add(self, ruling: Ruling) -> Ruling:
        """Keep one."""
        self.all.append(ruling)
        self.refused += not ruling.accepted
        if len(self.all) > KEPT:
            oldest_refused = next((i for i, kept in enumerate(self.all) if not kept.accepted), None)
            if oldest_refused is not None:
                del self.all[oldest_refused]
        return ruling

    def forget(self, action_id: str) -> None:
        """What was approved of an action counts no more: it has to be decided anew, by the same person too."""
        for ruling in self.all:
            if ruling.accepted and ruling.action_id == action_id:
                ruling.identity = ()

    def known(self, decision: Decision) -> Ruling | None:
        """The ruling on the same decision, if it was taken before."""
        same = (ruling for ruling in self.all if ruling.accepted and ruling.identity == decision.identity)
        return next(same, None)

    def misnamed(self, decision: Decision) -> bool:
        """Whether its id is that of another decision: to answer as if it were that one would be a lie."""
        return decision.decision_id is not None and any(
            ruling.accepted and ruling.identity[:1] == (decision.decision_id,) for ruling in self.all
        )


def parse(verdict: Verdict | None, raw: Sequence[Any]) -> Decision:
    """A decision from raw inputs; a signal names its verdict itself. `errors.BadRequest` says what is wrong."""
    if len(raw) != 1 or not isinstance(raw[0], dict):
        raise errors.BadRequest(f"malformed: {messages.not_one_object(raw)}")
    if why := undecodable(raw[0]):
        raise errors.BadRequest(f"malformed: {why}")
    value = dict(raw[0])
    if verdict is not None and value.setdefault("verdict", verdict) != verdict:
        raise errors.BadRequest(f"malformed: the signal says {verdict!r} and the verdict {value['verdict']!r}")
    try:
        decision = Decision.model_validate_json(json.dumps(value, allow_nan=False), strict=True)
    except ValidationError as error:
        raise errors.BadRequest(f"malformed: {explain(error)}") from None
    except ValueError:
        raise errors.BadRequest("malformed: NaN and Infinity are no JSON") from None
    if characters.refused(value):
        raise errors.BadRequest(f"malformed: {request.NO_NUL}")
    if (size := len(digest.canonical(decision.arguments))) > MAX_ARGUMENTS_BYTES:
        raise errors.BadRequest(f"malformed: the arguments have {size} bytes; at most {MAX_ARGUMENTS_BYTES} are taken")
    return decision


def same_person(one: str, other: str | None) -> bool:
    """Whether two names mean one person, however they are spelt."""
    return other is not None and spelling(one) == spelling(other)


def spelling(name: str) -> str:
    """A name without regard to case, to how its letters are composed, and to what nobody sees of it."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(char for char in folded if unicodedata.category(char) != "Cf").strip()


def objection(decision: Decision, action: Action | None, requested_by: str | None, now: datetime) -> str | None:
    """Why a decision cannot be taken, as far as the run itself can tell."""
    if action is None:
        return UNKNOWN_ACTION
    if action.action_id != decision.action_id:
        return f"other arguments: it was edited and is now {action.action_id}"
    if action.status != "awaiting_approval":
        return _late(action)
    if decision.arguments_sha256 not in (None, action.arguments_sha256):
        return "other arguments: the sha256 is not that of this action"
    if decision.expires_at and decision.expires_at <= now:
        return "expired: the decision was good until " + decision.expires_at.isoformat()
    if action.expires_at and action.expires_at <= now:
        return "expired: the request was open until " + action.expires_at.isoformat()
    if same_person(decision.approver, requested_by):
        return "own request: who asks for it may not decide it"
    return None


def unseen_conflict(decision: Decision, action: Action) -> str | None:
    """Why an approval cannot be taken that does not say that the conflict was seen."""
    if action.conflict is None or decision.verdict != "approve" or decision.again:
        return None
    return f'conflict: {action.conflict.run_id} holds the same intent; say "again": true (--again) to approve it'


def _late(action: Action) -> str:
    if action.status in ("denied", "approved") and action.grant:
        return f"already decided: {action.status} by {action.grant.approver}"
    if action.grant:
        return f"too late: approved by {action.grant.approver}, and it is {action.status}"
    if action.status == "expired":
        return "expired: nobody decided in time"
    if action.status == "proposed":
        return f"{UNKNOWN_ACTION}; this one is not up for decision"
    return f"too late: the action is {action.status}"
