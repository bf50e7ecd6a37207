"""Raises: a person gives a run new limits. Each is in the record, taken or refused, with its reason."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from domain import actions
from domain.agent import Limits
from domain.decisions import Ruling, same_person
from domain.messages import RaiseBudget
from domain.state import RunState

VERDICT: Literal["raise_budget"] = "raise_budget"
# What a raise is about, where a decision names its action.
ABOUT = "budget"


class Raise(BaseModel):
    """Input of `check_raise`: who gives which limits to which run, and the role that this needs."""

    model_config = ConfigDict(frozen=True)

    run: str
    by: str
    role: str
    sha256: str
    signature: str | None


def limits_digest(limits: Limits) -> str:
    """Hex sha256 of the limits that are given; it is what a signature binds."""
    return actions.arguments_digest(VERDICT, limits.model_dump(mode="json", exclude_none=True))


def objection(state: RunState, wish: RaiseBudget, now: datetime) -> str | None:
    """Why the run itself cannot take new limits."""
    if state.closed:
        return f"too late: the run is {state.status.value}"
    given = wish.limits.model_dump(exclude_none=True)
    if not given:
        return "no limit is named: tokens, usd, steps or seconds"
    definition = state.frozen()
    if definition.budget_role and same_person(wish.by, definition.requested_by):
        return "own request: who asks for the run may not raise its budget"
    if definition.price is None and wish.usd is not None:
        return f"the price of {definition.model!r} is not known, so a limit in usd cannot hold; limit tokens"
    used = state.used(now).model_dump()
    low = (name for name, limit in given.items() if used[name] is not None and limit < used[name])
    return next((f"{name}: {float(used[name]):g} are used already, {given[name]:g} is less" for name in low), None)


def to_check(state: RunState, wish: RaiseBudget) -> Raise | None:
    """What `check_raise` has to know; None where nobody's role has to be looked up."""
    role = state.frozen().budget_role
    if role is None:
        return None
    return Raise(
        run=state.first_execution_run_id,
        by=wish.by,
        role=role,
        sha256=limits_digest(wish.limits),
        signature=wish.signature,
    )


def take(state: RunState, wish: RaiseBudget, now: datetime) -> None:
    """The new limits count from now on; a run that stands still for its budget tries to go on."""
    given = wish.limits.model_dump(exclude_none=True)
    changed = [f"{name} {_said(getattr(state.limits, name))} → {_said(limit)}" for name, limit in given.items()]
    state.limits = state.limits.over(wish.limits)
    rule(state, wish, ", ".join(changed), now, accepted=True)
    if state.reason == "budget":
        state.leave_pause(now)


def rule(state: RunState, wish: RaiseBudget, reason: str, now: datetime, *, accepted: bool) -> None:
    """Write down what became of it."""
    ruling = Ruling(action_id=ABOUT, verdict=VERDICT, approver=wish.by, accepted=accepted, reason=reason, at=now)
    state.rulings.add(ruling)


def _said(limit: float | None) -> str:
    return "none" if limit is None else f"{limit:,}"
