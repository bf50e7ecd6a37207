"""Guards against a loop that leads nowhere: the same call without anything new, and tools that do not exist."""

from collections.abc import Sequence
from typing import Protocol

from pydantic import BaseModel

from domain import digest

# The same call with the same answer: so often in a row until it is not run any more, and until the run stands still.
TOLD_AT = 3
PARKED_AT = 5
# Steps in a row that call nothing but tools that do not exist.
UNKNOWN_TOOLS = 3
# Of so many different calls the last answer is remembered.
KEPT_CALLS = 64
DIGITS = 16
LOOPING, UNKNOWN = "looping", "unknown tools"
REASONS = {LOOPING, UNKNOWN}


class Call(Protocol):
    """What the guards look at in an action."""

    @property
    def tool(self) -> str:
        """The tool's name."""

    @property
    def arguments_sha256(self) -> str:
        """What the call is."""

    @property
    def status(self) -> str:
        """What became of it."""

    @property
    def result(self) -> str | None:
        """What it answered."""


class Guards(BaseModel):
    """What was called lately, and how it answered.

    answers: of each call the digest of its last answer, the newest last. alike: how often each call was made since
    something new came. unknown: steps in a row that called nothing but tools that do not exist.
    """

    answers: dict[str, str] = {}
    alike: dict[str, int] = {}
    unknown: int = 0

    def refusal(self, call: Call) -> str | None:
        """Why a call is answered without being run, if so."""
        before = self.alike.get(_name(call), 0)
        if before + 1 < TOLD_AT:
            return None
        return (
            f"Not run: {call.tool} was called {before} times with these arguments, and the answer did not change. "
            "Use the answer that you have, call it with other arguments, do something else, or say what you lack."
        )

    def note(self, calls: Sequence[Call], known: set[str]) -> None:
        """Count a step's calls. One that was refused here says nothing new."""
        self.unknown = 0 if any(call.tool in known for call in calls) else self.unknown + 1
        came = {_name(call): _answer(call) for call in calls if self.refusal(call) is None}
        new = any(self.answers.get(name) != answer for name, answer in came.items())
        made = {_name(call) for call in calls}
        self.alike = dict.fromkeys(sorted(made), 1) if new else self._counted(made)
        for name, answer in came.items():
            self.answers.pop(name, None)
            self.answers[name] = answer
        self.answers = dict(list(self.answers.items())[-KEPT_CALLS:])

    def after(self, reason: str | None) -> "Guards":
        """How it goes on from a pause: from anew, where the guards were why it stood still."""
        return Guards() if reason in REASONS else self

    def stuck(self, calls: Sequence[Call]) -> tuple[str, str] | None:
        """The reason and the words with which the run stands still after a step of these calls, if so."""
        if self.unknown >= UNKNOWN_TOOLS:
            names = ", ".join(sorted({call.tool for call in calls}))
            return UNKNOWN, f"{self.unknown} steps in a row called only tools that do not exist ({names})"
        for call in calls:
            if (made := self.alike.get(_name(call), 0)) >= PARKED_AT:
                return LOOPING, f"{call.tool} was called {made} times with the same arguments and nothing new came"
        return None

    def _counted(self, made: set[str]) -> dict[str, int]:
        return self.alike | {name: self.alike.get(name, 0) + 1 for name in sorted(made)}


def _name(call: Call) -> str:
    return call.arguments_sha256[:DIGITS]


def _answer(call: Call) -> str:
    return digest.sha256([call.status, call.result])[:DIGITS]
