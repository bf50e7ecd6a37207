"""One run in one JSON object that says all that is known of it, and can be read without a server."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from temporalio.client import Client

from client import chain
from client.dayflow import Dayflow
from client.run import Run
from domain import views
from domain.spend import Price

# What a reader has to know to read it; a change that older readers would misread counts it up.
FORMAT = "dayflow-export/1"


async def run(dayflow: Dayflow, run_id: str, execution: str | None = None) -> dict[str, Any]:
    """A run by its id, over all of its executions; `errors.NotFound` if there is none."""
    return of(await dayflow.executions(run_id, execution))


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


def exporter(client: Client) -> Callable[[str], Awaitable[tuple[bytes, bool]]]:
    """What gives the file of a run, and whether it is whole, for whoever has no typed client."""

    async def exported(run_id: str) -> tuple[bytes, bool]:
        found = await run(Dayflow(client), run_id)
        return encode(found), found["whole"]

    return exported


def encode(exported: dict[str, Any]) -> bytes:
    """As it stands in a file."""
    return json.dumps(exported, ensure_ascii=False, indent=2, default=str).encode(errors="replace") + b"\n"


def _cost(price: Price | None, usage: Any) -> float | None:
    return None if price is None else round(float(price.cost(usage)), 6)
