"""Views of one state: the record, the steps, the actions, and the line that says what the run waits for."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from domain import caching, commands, digest
from domain.actions import Action
from domain.spend import Totals, Usage
from domain.state import RunState
from domain.status import Status
from domain.step import Step
from domain.transcript import PAGE_BYTES

DETAIL_CHARACTERS = 1_000
BRIEF_BYTES = 2_000


class Waiting(BaseModel):
    """What a run waits for, and the exact command that answers it."""

    what: str
    command: str


def waiting(state: RunState) -> Waiting | None:
    """What the run waits for, if it waits for a person."""
    if state.status == Status.AWAITING_APPROVAL:
        first = state.actions.of_status("awaiting_approval")[0]
        who = f" by {first.rule.role}" if first.rule else ""
        options = "--again --as NAME" if first.conflict else "--as NAME"
        what = f"approval{who} of {first.action_id} ({first.tool})"
        return Waiting(what=what, command=commands.line("approve", state.run_id, first.action_id, options=options))
    if state.status == Status.AWAITING_RESOLUTION:
        first = state.actions.of_status("unknown")[0]
        what = f"resolution of {first.action_id} ({first.tool})"
        return Waiting(what=what, command=resolving(state.run_id, first.action_id))
    if state.status == Status.PAUSED and state.reason == "budget" and (more := _raise(state)):
        return Waiting(what="budget", command=commands.line("raise", state.run_id, options=more))
    if state.status == Status.PAUSED:
        return Waiting(what=state.reason or "a person", command=commands.line("resume", state.run_id))
    if state.status == Status.FAILED and state.definition is not None:
        return Waiting(what=state.reason or "a person", command=commands.line("resume", state.run_id))
    return None


def waiting_for(state: RunState) -> str:
    """What it waits for as anybody may read it who lists runs: without the name that somebody gave."""
    waits = waiting(state)
    if waits is None:
        return ""
    return "a person" if state.status == Status.PAUSED and waits.what.startswith("by ") else waits.what


def _raise(state: RunState) -> str | None:
    """The options that give the run a limit with which it can go on."""
    bound = state.reservation.bound if state.reservation else None
    if bound is None:
        return None
    by = " --by NAME" if state.definition and state.definition.budget_role else ""
    return f"--{bound.limit} {bound.proposal}{by}"


def resolving(run_id: str, action_id: str) -> str:
    """The command that says whether an effect happened; which of the two, nobody but a person can add."""
    return commands.line("resolve", run_id, action_id, options="--as NAME")


def to_add(command: str) -> str:
    """What a person has to add to a command that answers; an answer that was merely pasted would be a guess."""
    return "with --done or --not-done" if command.startswith("dayflow resolve ") else ""


def record(state: RunState) -> dict[str, Any]:
    """The run in one JSON object; times are ISO 8601 in UTC, `cost_usd` is null when a price is unknown."""
    waits = waiting(state)
    return {
        "run_id": state.run_id,
        "first_execution_run_id": state.first_execution_run_id,
        "agent": state.definition.agent if state.definition else None,
        "model": state.definition.model if state.definition else None,
        "simulated": bool(state.definition and state.definition.simulated),
        "requested_by": state.definition.requested_by if state.definition else None,
        "status": state.status.value,
        "reason": state.reason,
        "step": state.step,
        "totals": totals(state.totals),
        "cache_warning": caching.warning([taken.usage for taken in state.steps]),
        "limits": state.limits.model_dump(mode="json"),
        "used": _used(state),
        "waiting_for": waits.what if waits else None,
        "next_command": waits.command if waits else None,
        "plan": state.plan.model_dump(mode="json")["items"] if state.plan else None,
        "current_step": state.plan.current(state.actions) if state.plan else None,
        "step_results": state.plan.results(state.actions) if state.plan else [],
        "pending_actions": pending(state),
        "approved_by": approved_by(state),
        "error": state.error.model_dump(mode="json") if state.error else None,
        "compactions": [one.model_dump(mode="json") for one in state.compactions],
        "refused_messages": state.bad_messages.model_dump(mode="json"),
        "started_at": _time(state.started_at),
        "updated_at": _time(state.updated_at),
        "result": state.result,
    }


def totals(used: Totals) -> dict[str, Any]:
    """Tokens and dollars; what was possibly paid besides stands apart. Dollars are null without a price.

    `cache_saved_usd`: what the same calls would have cost more without a prompt cache. What is `held` of the calls that
    were possibly paid, at the most, counts against the limits.
    """
    maybe, priced = used.possibly_paid, used.cost_usd is not None
    return {
        **_tokens(used.usage),
        "cost_usd": _dollars(used.cost_usd),
        "cache_saved_usd": _dollars(used.saved_usd if priced else None),
        "possibly_paid": {
            "calls": maybe.calls,
            **_tokens(maybe.usage),
            "held_tokens": maybe.held.total,
            "held_usd": _dollars(maybe.held_usd if priced else None),
        },
    }


def _used(state: RunState) -> dict[str, Any]:
    """What counts against the limits, as it stood when something last happened."""
    used = state.used(state.updated_at)
    return {"steps": used.steps, "tokens": used.tokens, "usd": _dollars(used.usd), "seconds": round(used.seconds, 3)}


def step(taken: Step) -> dict[str, Any]:
    """One step as a row; `assistant` and `tool_results` are the content blocks as they went over the wire."""
    return {
        "n": taken.n,
        "stop_reason": taken.stop_reason,
        "assistant": taken.assistant,
        "tool_results": taken.tool_results,
        **_tokens(taken.usage),
        "model": taken.model,
        "ask": taken.ask,
        "attempts": taken.attempts,
        "possibly_paid": taken.possibly_paid,
        "refused": [ask.model_dump(mode="json") for ask in taken.refused],
        "created_at": _time(taken.created_at),
    }


def steps(state: RunState, start: int = 1, end: int | None = None) -> list[dict[str, Any]]:
    """Steps `start` to `end`, both included, counted from 1; of those that this execution knows."""
    return [step(taken) for taken in _between(state, start, end)]


def steps_page(state: RunState, start: int = 1, end: int | None = None) -> dict[str, Any]:
    """As many steps as fit into one page, at least one."""
    rows: list[dict[str, Any]] = []
    size = 0
    wanted = _between(state, start, end)
    for row in map(step, wanted):
        size += len(digest.canonical(row))
        if rows and size > PAGE_BYTES:
            break
        rows.append(row)
    return {"steps": rows, "next": wanted[len(rows)].n if len(rows) < len(wanted) else None}


def _between(state: RunState, start: int, end: int | None) -> list[Step]:
    return [taken for taken in state.steps if taken.n >= start and (end is None or taken.n <= end)]


def pending(state: RunState, *, brief: bool = False) -> list[dict[str, Any]]:
    """What waits for a person: exactly what will run. `brief` leaves long arguments out."""
    rows = []
    for one in state.actions.of_status("awaiting_approval", "unknown"):
        long = brief and len(digest.canonical(one.arguments)) > BRIEF_BYTES
        rows.append(
            {
                "action_id": one.action_id,
                "tool": one.tool,
                "status": one.status,
                "arguments": {"…": "see dayflow actions"} if long else one.arguments,
                "arguments_sha256": one.arguments_sha256,
                "idempotency_key": one.idempotency_key,
                "intent": one.intent,
                "conflict": one.conflict.model_dump(mode="json") if one.conflict else None,
                "requested_at": _time(one.requested_at),
                "expires_at": _time(one.expires_at) if one.expires_at else None,
                "role": one.rule.role if one.rule else None,
                "why": one.result if one.status == "unknown" else None,
            }
        )
    return rows


def approved_by(state: RunState) -> list[dict[str, Any]]:
    """Who approved which action, and when; without the approvals that count no more.

    `at` is null where only an execution before a reset knows it.
    """
    taken = [one for one in state.rulings.all if one.accepted and one.verdict == "approve" and one.identity]
    rows: list[dict[str, Any]] = []
    for one in taken:
        rows.append({"action_id": one.action_id, "approver": one.approver, "at": _time(one.at)})
    known = {one.action_id for one in taken}
    for action in state.actions.all:
        if action.from_ledger and action.grant and action.action_id not in known:
            rows.append({"action_id": action.action_id, "approver": action.grant.approver, "at": None})
    return rows


def decisions(state: RunState) -> list[dict[str, Any]]:
    """Every decision, taken or refused, oldest first."""
    return [ruling.model_dump(mode="json", exclude={"identity"}) for ruling in state.rulings.all]


def action(one: Action) -> dict[str, Any]:
    """One action as a row."""
    return one.model_dump(mode="json")


def details(state: RunState) -> str:
    """Markdown for the web UI's current details."""
    lines = [f"**{state.status.value}**" + (f": {state.reason}" if state.reason else "")]
    if state.definition:
        task = state.definition.task[:DETAIL_CHARACTERS]
        lines.append(f"Agent `{state.definition.agent}`, step {state.step}. Task: {task}")
    dollars = state.totals.cost_usd
    cost = "unknown" if dollars is None else f"${dollars:.4f}"
    lines.append(f"Tokens {state.totals.usage.total:,}, cost {cost}.")
    if state.error:
        lines.append(f"Error: {state.error.message[:DETAIL_CHARACTERS]}")
    for one in state.actions.of_status("awaiting_approval", "unknown"):
        arguments = json.dumps(one.arguments, ensure_ascii=False)[:DETAIL_CHARACTERS]
        lines.append(f"`{one.action_id}` **{one.tool}** `{arguments}` sha256 `{one.arguments_sha256}`")
        if one.conflict:
            lines.append(f"Conflict: {one.conflict.run_id} {one.conflict.action_id} did the same before.")
    if waits := waiting(state):
        lines.append(f"Waits for: {waits.what}. Answer with: `{waits.command}` {to_add(waits.command)}".rstrip())
    if state.result:
        lines.append(state.result)
    return "\n\n".join(lines)


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
    }


def _dollars(amount: Decimal | None) -> float | None:
    return None if amount is None else round(float(amount), 6)


def _time(moment: datetime) -> str:
    return moment.isoformat()
