"""Views of one state: the record, the steps, the actions, and the line that says what the run waits for."""

import shlex
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from domain import digest
from domain.actions import Action
from domain.spend import Totals, Usage
from domain.state import RunState, Step
from domain.status import Status
from domain.transcript import PAGE_BYTES

DETAIL_CHARACTERS = 1_000


class Waiting(BaseModel):
    """What a run waits for, and the exact command that answers it."""

    what: str
    command: str


def waiting(state: RunState) -> Waiting | None:
    """What the run waits for, if it waits for a person."""
    if state.status == Status.PAUSED:
        return Waiting(what=state.reason or "a person", command=f"dayflow resume {shlex.quote(state.run_id)}")
    if state.status == Status.FAILED and state.definition is not None:
        return Waiting(what=state.reason or "a person", command=f"dayflow resume {shlex.quote(state.run_id)}")
    return None


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
        "step": len(state.steps),
        "totals": totals(state.totals),
        "waiting_for": waits.what if waits else None,
        "next_command": waits.command if waits else None,
        "error": state.error.model_dump(mode="json") if state.error else None,
        "refused_messages": state.bad_messages.model_dump(mode="json"),
        "started_at": _time(state.started_at),
        "updated_at": _time(state.updated_at),
        "result": state.result,
    }


def totals(used: Totals) -> dict[str, Any]:
    """Tokens and dollars; what was possibly paid besides stands apart and is in no other number."""
    maybe = used.possibly_paid
    return {
        **_tokens(used.usage),
        "cost_usd": None if used.cost_usd is None else round(float(used.cost_usd), 6),
        "possibly_paid": {"calls": maybe.calls, **_tokens(maybe.usage)},
    }


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
    """Steps `start` to `end`, both included, counted from 1."""
    return [step(taken) for taken in state.steps[max(start, 1) - 1 : end]]


def steps_page(state: RunState, start: int = 1, end: int | None = None) -> dict[str, Any]:
    """As many steps as fit into one page, at least one."""
    rows: list[dict[str, Any]] = []
    size = 0
    wanted = state.steps[start - 1 : end]
    for row in map(step, wanted):
        size += len(digest.canonical(row))
        if rows and size > PAGE_BYTES:
            break
        rows.append(row)
    return {"steps": rows, "next": start + len(rows) if len(rows) < len(wanted) else None}


def action(one: Action) -> dict[str, Any]:
    """One action as a row."""
    return one.model_dump(mode="json")


def details(state: RunState) -> str:
    """Markdown for the web UI's current details."""
    lines = [f"**{state.status.value}**" + (f": {state.reason}" if state.reason else "")]
    if state.definition:
        task = state.definition.task[:DETAIL_CHARACTERS]
        lines.append(f"Agent `{state.definition.agent}`, step {len(state.steps)}. Task: {task}")
    used = totals(state.totals)
    cost = "unknown" if used["cost_usd"] is None else f"${used['cost_usd']:.4f}"
    lines.append(f"Tokens {state.totals.usage.total:,}, cost {cost}.")
    if state.error:
        lines.append(f"Error: {state.error.message[:DETAIL_CHARACTERS]}")
    if waits := waiting(state):
        lines.append(f"Waits for: {waits.what}. Answer with: `{waits.command}`")
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


def _time(moment: datetime) -> str:
    return moment.isoformat()
