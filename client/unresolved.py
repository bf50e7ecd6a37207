"""What waits for a person to say whether it happened, over all runs: why, and the command that answers it."""

from collections.abc import Mapping
from typing import Any

from client.dayflow import Dayflow
from domain import commands, errors, views
from store.database import Database
from store.effects import Effects


async def find(dayflow: Dayflow, store: Database) -> tuple[list[dict[str, Any]], list[str]]:
    """Oldest first: what runs wait for, and what the ledger knows of besides, such as of a run that was cancelled.

    And why other runs cannot be read.
    """
    waiting, lost = await dayflow.waiting()
    asked = [_asked(row) for row in waiting if row["status"] == "unknown"]
    known = {(row["run_id"], row["action_id"]) for row in asked}
    ledger = await Effects(store).unknowns(dayflow.client.namespace)
    left = [await _left(dayflow, row) for row in ledger if (row["run_id"], row["action_id"]) not in known]
    return sorted([*asked, *left], key=lambda row: str(row["since"])), lost


def _asked(row: Mapping[str, Any]) -> dict[str, Any]:
    """One that its run asks about; the ledger may have it as done, with other arguments."""
    same = ("run_id", "action_id", "tool", "intent", "why", "idempotency_key", "arguments")
    command = views.resolving(row["run_id"], row["action_id"])
    return {name: row[name] for name in same} | {"since": row["requested_at"], "command": command}


async def _left(dayflow: Dayflow, row: Mapping[str, Any]) -> dict[str, Any]:
    same = ("run_id", "action_id", "intent", "arguments")
    renamed = {"tool": row["name"], "why": row["error"], "idempotency_key": row["key"]}
    command = await _command(dayflow, row)
    return {name: row[name] for name in same} | renamed | {"since": row["began_at"].isoformat(), "command": command}


async def _command(dayflow: Dayflow, row: Mapping[str, Any]) -> str | None:
    """A run that has ended asks again once it goes on from that step; None where the server knows the run no more."""
    try:
        run = await dayflow.get(row["run_id"])
    except errors.NotFound:
        return None
    if run.open:
        return views.resolving(row["run_id"], row["action_id"])
    return commands.line("reset", row["run_id"], options=f"--at {row['step']}")
