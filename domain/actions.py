"""Actions: one tool call of one step, its id for people and its idempotency key for destinations."""

import hashlib
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from domain import digest


class Action(BaseModel):
    """One tool call and what became of it. `failed` means that the tool answered with an error."""

    action_id: str
    step: int
    position: int
    tool: str
    tool_use_id: str
    arguments: dict[str, Any]
    arguments_sha256: str
    effect: bool
    status: Literal["proposed", "running", "done", "failed", "unknown"] = "proposed"
    attempts: int = 0
    idempotency_key: str | None = None
    result: str | None = None
    requested_at: datetime
    finished_at: datetime | None = None


def action_id(step: int, position: int, arguments_sha256: str, edit: int = 0) -> str:
    """`s4.1-3fa9c2`: step, position, six hex of the arguments' sha256; an edited action says which edit."""
    edited = f"e{edit}" if edit else ""
    return f"s{step}.{position}{edited}-{arguments_sha256[:6]}"


def idempotency_key(
    namespace: str, first_execution_run_id: str, step: int, position: int, tool: str, edit: int = 0
) -> str:
    """The same for every attempt, worker, execution and reset of one action; no word of the model is in it."""
    name = "\0".join((namespace, first_execution_run_id, str(step), str(position), tool, str(edit)))
    return "dayflow-" + hashlib.sha256(name.encode()).hexdigest()


def arguments_digest(tool: str, arguments: dict[str, Any]) -> str:
    """Hex sha256 that binds a decision, or a ledger row, to exactly these arguments of this tool."""
    return digest.sha256({"tool": tool, "arguments": arguments})
