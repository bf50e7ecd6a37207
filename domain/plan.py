"""The plan: what an agent means to do, said once, and how far it has come."""

from collections import Counter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from domain.actions import Actions

MAX_ITEMS = 30


class Item(BaseModel):
    """One item: what is to be done, and by which tool."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    tool: Annotated[str, StringConstraints(min_length=1, max_length=64)]


class Plan(BaseModel):
    """The items, in order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: Annotated[list[Item], Field(min_length=1, max_length=MAX_ITEMS)]

    def results(self, actions: Actions) -> list[dict[str, Any]]:
        """Each item with what became of it: the n-th item of a tool goes with the n-th done action of that tool."""
        seen: Counter[str] = Counter()
        rows = []
        for item in self.items:
            done = [one for one in actions.all if one.tool == item.tool and one.status == "done"]
            action = done[seen[item.tool]] if seen[item.tool] < len(done) else None
            seen[item.tool] += 1
            rows.append(
                {
                    **item.model_dump(),
                    "status": "done" if action else "open",
                    "action_id": action.action_id if action else None,
                    "result": action.result if action else None,
                }
            )
        return rows

    def current(self, actions: Actions) -> str:
        """`4 of 5`: the first item that is not done; all of them when none is left."""
        rows = self.results(actions)
        first = next((n for n, row in enumerate(rows, start=1) if row["status"] == "open"), len(rows))
        return f"{first} of {len(rows)}"
