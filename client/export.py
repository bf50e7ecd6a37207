"""One run in one JSON object that says all that is known of it, and can be read without a server."""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from client import chain
from client.dayflow import Dayflow, Run
from domain import views
from domain.spend import Price

# What a reader has to know to read it; a change that older readers would misread counts it up.
FORMAT = "dayflow-export/1"


async def run(dayflow: Dayflow, run_id: str) -> dict[str, Any]:
    """A run by its id, over all of its executions; `errors.NotFound` if there is none."""
    return of(await dayflow.executions(run_id))


def of(executions: Sequence[Run]) -> dict[str, Any]:
    """A run from its executions, oldest first. `whole` is false where the server has forgotten the oldest of them."""
    newest = executions[-1]
    states = [one.state for one in executions if one.state is not None]
    definition = newest.state.definition if newest.state else None
    price = definition.price if definition else None
    steps = [views.step(step) | {"cost_usd": _cost(price, step.usage)} for step in chain.steps(states)]
    record = newest.record()
    return {
        "format": FORMAT,
        "run_id": newest.run_id,
        "whole": executions[0].came_from is None,
        "executions": [one.execution for one in executions],
        "record": record,
        "definition": definition.model_dump(mode="json") if definition else None,
        "steps": steps,
        "actions": [views.action(action) for action in chain.actions(states)],
        "decisions": views.decisions(states[-1]) if states else [],
        "costs": {"totals": record["totals"], "price": price.model_dump(mode="json") if price else None},
    }


def encode(exported: dict[str, Any]) -> bytes:
    """As it stands in a file."""
    return json.dumps(exported, ensure_ascii=False, indent=2, default=str).encode(errors="replace") + b"\n"


def write(path: Path, data: bytes) -> None:
    """Write a file that its owner alone may read: whole, or not at all."""
    number, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(number)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _cost(price: Price | None, usage: Any) -> float | None:
    return None if price is None else round(float(price.cost(usage)), 6)
