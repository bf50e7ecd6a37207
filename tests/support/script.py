"""Scripted conversations: what the model says in a test, and which faults its answers meet."""

import uuid
from typing import Any

from homes import Home

Turn = dict[str, Any]


def say(text: str, **more: Any) -> Turn:
    """A turn of plain text."""
    return {"content": [{"type": "text", "text": text}], **more}


def call(*uses: dict[str, Any], **more: Any) -> Turn:
    """A turn that calls tools."""
    return {"content": list(uses), **more}


def use(name: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One tool_use block."""
    return {"type": "tool_use", "name": name, "input": arguments or {}, **more}


def create_task(source_id: str) -> dict[str, Any]:
    """The call that creates the task of a source."""
    return use("create_task", {"title": "Call Ana back", "source_id": source_id})


def unique(words: str) -> str:
    """A text that no other test has."""
    return f"{words}-{uuid.uuid4().hex[:8]}"


def conversation(task: str, *turns: Turn) -> dict[str, Any]:
    """The turns for the runs whose task is this."""
    return {"match": task, "turns": list(turns)}


def play(home: Home, *conversations: dict[str, Any]) -> None:
    """Play these conversations from now on, and no others."""
    home.sandbox("PUT", "/sandbox/script", {"conversations": list(conversations)})


def faults(home: Home, *found: dict[str, Any]) -> None:
    """Meet these faults from now on, and no others; none clears them."""
    home.sandbox("PUT", "/sandbox/faults", list(found))
