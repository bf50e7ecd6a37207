"""Steps: what the model said, what came of it, and the answers that were refused on the way."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from domain.spend import Usage


class Ask(BaseModel):
    """An answer that was refused, and why; it cost what `usage` says."""

    ask: int
    stop_reason: str
    why: str
    usage: Usage


class Step(BaseModel):
    """One assistant turn plus the tool results that answer it."""

    n: int
    ask: int
    stop_reason: str
    assistant: list[dict[str, Any]]
    tool_results: list[dict[str, Any]] = []
    usage: Usage
    model: str
    attempts: int
    possibly_paid: int
    refused: list[Ask] = []
    created_at: datetime
