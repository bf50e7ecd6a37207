"""Approvals: how an action comes to wait for a person, and what a decision does to it."""

from datetime import datetime, timedelta

from domain import actions, decisions, errors
from domain.actions import Action
from domain.decisions import Authority, Decision, Resolution, Ruling, Standing
from domain.state import RunState
from domain.tool import Conflict, Grant, Preparation, Prepared, ToolResult

# How long a request stays open where no rule says so: a conflict of an effect that needs no approval by itself.
OPEN_S = 7 * 24 * 3600.0


def request(state: RunState, action: Action, prepared: Prepared, now: datetime) -> None:
    """Let an action wait for a person."""
    inform(action, prepared)
    action.requested_at = now
    action.expires_at = now + timedelta(seconds=action.rule.expires_s if action.rule else OPEN_S)
    action.status = "awaiting_approval"
    state.settle_status(now)


def inform(action: Action, prepared: Prepared) -> None:
    """Keep what was found out about an action before it runs."""
    action.intent, action.amount = prepared.intent, prepared.amount
    action.conflict = prepared.conflict or action.conflict


def needed(action: Action) -> bool:
    """Whether a person has to be asked about an action, as far as is known."""
    return action.conflict is not None or (action.rule is not None and action.rule.needs(action.amount))


def authority(state: RunState, decision: Decision, action: Action) -> Authority:
    """What `check_authority` has to know. Who says no, or other arguments, need not be allowed what was asked for."""
    sha256 = action.arguments_sha256
    if decision.verdict == "edit":
        sha256 = actions.arguments_digest(action.tool, decision.arguments or {})
    return Authority(
        run=state.first_execution_run_id,
        decision=decision,
        arguments_sha256=sha256,
        role=action.rule.role if action.rule else None,
        amount=str(action.amount) if action.amount is not None and decision.verdict == "approve" else None,
        requested_by=state.frozen().requested_by,
    )


def objection(state: RunState, decision: Decision, now: datetime) -> str | None:
    """Why the run itself cannot take a decision."""
    if state.closed:
        return f"too late: the run is {state.status.value}"
    if state.rulings.known(decision) is None and state.rulings.misnamed(decision):
        return f"malformed: the decision id {decision.decision_id!r} is that of another decision"
    by = state.definition.requested_by if state.definition else None
    return decisions.objection(decision, state.actions.find(decision.action_id), by, now)


def edited(state: RunState, decision: Decision) -> Preparation:
    """What an edit would make of an action, to be looked at before the edit is taken."""
    action = state.actions.find(decision.action_id)
    if action is None:
        raise errors.Broken(f"no action {decision.action_id} can be edited")
    other = action.model_copy(deep=True)
    _edit(state, other, decision)
    said = {"editor": decision.approver, "role": action.rule.role if action.rule else None}
    return other.preparation().model_copy(update=said)


def unseen_conflict(state: RunState, decision: Decision) -> str | None:
    """Why an approval cannot be taken that does not say that the conflict was seen."""
    action = state.actions.find(decision.action_id)
    return decisions.unseen_conflict(decision, action) if action else None


def take(state: RunState, decision: Decision, now: datetime) -> Ruling:
    """Carry a decision out that nothing speaks against."""
    action = state.actions.find(decision.action_id)
    if action is None:
        return rule(state, decision, decisions.UNKNOWN_ACTION, now, accepted=False)
    if decision.verdict == "approve":
        _approve(state, action, decision)
        done = "approved"
    elif decision.verdict == "deny":
        _deny(state, action, decision, now)
        done = "denied"
    else:
        _edit(state, action, decision)
        done = f"edited, now {action.action_id}"
    ruling = rule(state, decision, done, now, accepted=True)
    state.settle_status(now)
    return ruling


def rule(state: RunState, decision: Decision, reason: str, now: datetime, *, accepted: bool) -> Ruling:
    """Write down what became of a decision."""
    return state.rulings.add(
        Ruling(
            action_id=decision.action_id,
            verdict=decision.verdict,
            approver=decision.approver,
            decision_id=decision.decision_id,
            arguments_sha256=decision.arguments_sha256,
            comment=decision.comment,
            accepted=accepted,
            reason=reason,
            at=now,
            identity=decision.identity,
        )
    )


def malformed(state: RunState, verdict: str | None, raw: object, why: str, now: datetime) -> Ruling:
    """Write down a decision that could not be read."""
    state.bad_messages.add(verdict or "decide", raw, why, now)
    ruling = Ruling(action_id="", verdict=verdict or "", approver="", accepted=False, reason=why[:500], at=now)
    return state.rulings.add(ruling)


def expire(state: RunState, action: Action, now: datetime) -> None:
    """Nobody decided in time: an outcome of its own."""
    until = action.expires_at.isoformat() if action.expires_at else "now"
    state.end_without_running(action, "expired", f"Nobody decided until {until}; the request expired.", now)


def refuse_again(state: RunState, action: Action, by: str, now: datetime) -> None:
    """The model asks again for what was denied: no person is asked a second time."""
    why = f"Denied: {by} said no to this before, and it is not asked again."
    state.end_without_running(action, "denied", why, now)


def void(state: RunState, action: Action, why: str, now: datetime) -> None:
    """The approver may no longer approve it: it waits again."""
    if action.grant:
        told = Decision(action_id=action.action_id, verdict="approve", approver=action.grant.approver)
        state.rulings.add(
            Ruling(
                action_id=action.action_id,
                verdict="approve",
                approver=told.approver,
                accepted=False,
                reason=f"no longer entitled: {why}",
                at=now,
            )
        )
    _unapprove(state, action, now)


def contest(state: RunState, action: Action, conflict: Conflict | None, now: datetime) -> None:
    """Another action took its intent in the meantime: a person has to see that, and it waits again."""
    action.conflict = conflict
    _unapprove(state, action, now)


def _unapprove(state: RunState, action: Action, now: datetime) -> None:
    state.rulings.forget(action.action_id)
    action.grant, action.status = None, "proposed"
    if state.winding_up:
        state.wind_up(state.winding_up, now)
    state.settle_status(now)


def hold(state: RunState, action: Action, result: ToolResult, now: datetime) -> None:
    """It may or may not have happened: a person has to say which."""
    action.status, action.result, action.attempts = "unknown", result.content, result.attempts
    action.conflict = result.conflict or action.conflict
    state.settle_status(now)


def standing(state: RunState, resolution: Resolution, action: Action) -> Standing:
    """What `resolve_effect` has to know."""
    return Standing(
        resolution=resolution,
        idempotency_key=action.idempotency_key or "",
        role=action.rule.role if action.rule else None,
        requested_by=state.frozen().requested_by,
        changed=action.conflict is not None and action.conflict.changed,
    )


def resolve(state: RunState, action: Action, resolution: Resolution, now: datetime) -> None:
    """A person said whether it happened."""
    resolved(state, resolution, resolution.outcome, now, accepted=True)
    if resolution.outcome == "done":
        text = resolution.result or f"It happened, as {resolution.by} found."
        state.settle(action, ToolResult(content=text, attempts=action.attempts), now)
    else:
        text = f"It did not happen, as {resolution.by} found. Ask for it again if it is still wanted."
        state.settle(action, ToolResult(content=text, outcome="failed", attempts=action.attempts), now)


def resolved(state: RunState, resolution: Resolution, reason: str, now: datetime, *, accepted: bool) -> None:
    """Write down what became of a resolution."""
    state.rulings.add(
        Ruling(
            action_id=resolution.action_id,
            verdict="resolve",
            approver=resolution.by,
            accepted=accepted,
            reason=reason,
            at=now,
        )
    )


def _approve(state: RunState, action: Action, decision: Decision) -> None:
    action.status = "approved"
    action.grant = Grant(
        approver=decision.approver,
        role=action.rule.role if action.rule else None,
        amount=action.amount,
        requested_by=state.frozen().requested_by,
        again=decision.again,
    )


def _deny(state: RunState, action: Action, decision: Decision, now: datetime) -> None:
    state.actions.denied[action.same] = decision.approver
    action.grant = Grant(approver=decision.approver, role=None, amount=None, requested_by=None)
    comment = f": {decision.comment}" if decision.comment else "."
    state.end_without_running(action, "denied", f"Denied by {decision.approver}{comment}", now)
    if action.rule and action.rule.on_deny == "cancel":
        state.wind_up(f"denied by {decision.approver}", now)


def _edit(state: RunState, action: Action, decision: Decision) -> None:
    """Other arguments make another action, under its own rules: it has to be decided anew."""
    action.former_ids.append(action.action_id)
    action.edit += 1
    action.arguments = dict(decision.arguments or {})
    action.arguments_sha256 = actions.arguments_digest(action.tool, action.arguments)
    action.action_id = actions.action_id(action.step, action.position, action.arguments_sha256, action.edit)
    where = (state.namespace, state.first_execution_run_id, action.step, action.position, action.tool, action.edit)
    action.idempotency_key = actions.idempotency_key(*where)
    action.intent, action.amount = None, None
    action.conflict, action.status = None, "proposed"
