"""The stand-in for the model: which turn answers a request, under which fault, and for which time it was asked."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sandbox import binding, faults, players
from sandbox.cache import Cache
from sandbox.errors import invalid
from sandbox.faults import Fault
from sandbox.request import Request, blocks
from sandbox.script import Script
from sandbox.turns import Turn

ID = "dayflow-sandbox-1"
INFO = {
    "type": "model",
    "id": ID,
    "display_name": "Dayflow sandbox (rules, not a language model)",
    "created_at": "1970-01-01T00:00:00Z",
    "lifecycle": "active",
    "max_input_tokens": 1_000_000,
    "max_tokens": 128_000,
}


@dataclass(slots=True)
class Model:
    """A script, the process-wide faults, and what is remembered between requests."""

    script: Script | None = None
    faults: list[Fault] = field(default_factory=list)
    cache: Cache = field(default_factory=Cache)
    attempts: Counter[str] = field(default_factory=Counter)
    paused: set[str] = field(default_factory=set)

    def remember(self, lines: Iterable[dict[str, Any]]) -> None:
        """Take attempts and paused turns from a journal."""
        for line in lines:
            match line.get("event"):
                case "request" if line.get("transcript"):
                    self.attempts[_key(line["transcript"], line.get("ask", 1), line.get("run", ""))] += 1
                case "answered" if line.get("paused"):
                    self.paused.add(line["paused"])
                case "script":
                    self.attempts.clear()

    def play(self, script: Script | None) -> None:
        """Change the script; attempts are counted anew."""
        self.script = script
        self.attempts.clear()

    def admit(self, asked: Request) -> None:
        """Refuse what only the conversation can show: foreign thinking, and an end that is no end."""
        binding.check(asked)
        last = asked.messages[-1]
        if last["role"] == "assistant" and binding.digest_of(blocks(last["content"])) not in self.paused:
            raise invalid(
                "This model does not support assistant message prefill. The conversation must end with a user message."
            )

    def attempt(self, asked: Request) -> int:
        """Count this arrival; the first is 1."""
        key = _key(asked.transcript, asked.ask, asked.run)
        self.attempts[key] += 1
        return self.attempts[key]

    def turn(self, asked: Request) -> Turn:
        """The turn that answers: from the script if a conversation of it matches, else from a player."""
        conversation = self.script.conversation(asked) if self.script else None
        return conversation.turn(asked) if conversation else players.answer(asked)

    def fault(self, asked: Request, turn: Turn, attempt: int) -> Fault | None:
        """The fault this attempt meets: the turn's own before the process-wide ones."""
        return faults.pick(
            turn.faults + self.faults,
            attempt=attempt,
            ask=asked.ask,
            turn=asked.turn,
            text=asked.first_text,
            messages=len(asked.body["messages"]),
        )

    def answered(self, message: dict[str, Any]) -> str | None:
        """Remember a paused turn, so that it may come back as the end of a transcript; returns its digest."""
        if message["stop_reason"] != "pause_turn":
            return None
        digest = binding.digest_of(message["content"])
        self.paused.add(digest)
        return digest


def _key(transcript: str, ask: int, run: str) -> str:
    return f"{run}\0{ask}\0{transcript}"
