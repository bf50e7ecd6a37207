"""The loop: what an answer of the model means for the run. Only `tool_use` ever runs a tool."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from domain.model import ModelAnswer
from domain.tool import ToolSpec

MAX_ASKS = 3
MAX_REFUSED_IDS = 2
MAX_CONTINUATIONS = 5
MAX_CALLS = 16
# The API takes no longer name of a tool back.
LONGEST_NAME = 200
# What such an answer calls for is neither run nor sent again, whatever it holds.
DROPPED = {"max_tokens", "model_context_window_exceeded", "refusal"}
NUDGE = "Your last answer was empty. Go on with the task, or say in words that you are done."


@dataclass(frozen=True)
class RunTools:
    """Run these calls and send all results back in one turn."""

    calls: list[dict[str, Any]]


@dataclass(frozen=True)
class Finish:
    """The run is done; `reason` is set when the end is not a plain answer."""

    result: str | None
    reason: str | None = None


@dataclass(frozen=True)
class Continue:
    """The model paused in mid-turn: keep what it said and send the transcript again."""


@dataclass(frozen=True)
class AskAgain:
    """Drop this answer and ask once more, with more room or with a nudge."""

    why: str
    larger: bool = False
    nudge: str | None = None


@dataclass(frozen=True)
class MakeRoom:
    """The window is full: drop this answer, make the transcript shorter, and ask once more."""


@dataclass(frozen=True)
class Park:
    """A person has to look; the run stays open as `paused: <reason>`."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Fail:
    """This history leads nowhere."""

    reason: str
    detail: str


Move = RunTools | Finish | Continue | AskAgain | MakeRoom | Park | Fail


@dataclass(frozen=True)
class Facts:
    """What of the run so far bears on the decision.

    asks: how often this step was asked since it began or was last resumed, this answer included.
    continuations: how many `pause_turn` came in a row before this answer.
    used_ids: every tool_use id of the transcript.
    no_more_room: why a cut answer cannot be asked again with more room, if so.
    """

    asks: int
    nudged: bool
    continuations: int
    used_ids: frozenset[str]
    no_more_room: str | None = None


def decide(answer: ModelAnswer, facts: Facts) -> Move:
    """The one end that an answer has."""
    fault = _malformed(answer, facts.used_ids)
    if fault and answer.stop_reason not in DROPPED:
        return _again(fault, facts.asks, MAX_REFUSED_IDS)
    return _BY_REASON.get(answer.stop_reason, _unknown)(answer, facts)


def _malformed(answer: ModelAnswer, used: frozenset[str]) -> str | None:
    """Why the tool_use blocks of an answer can not stand in a transcript, if so."""
    seen = set(used)
    for block in answer.blocks("tool_use"):
        name = block.get("name")
        named = isinstance(block.get("id"), str) and isinstance(name, str) and 0 < len(name) <= LONGEST_NAME
        if not named or not isinstance(block.get("input"), dict):
            return f"the call of {str(name)[:LONGEST_NAME]!r} has no id, no name of a tool, or its input is no object"
        if block["id"] in seen:
            return f"the tool_use id {block['id']!r} was used before"
        seen.add(block["id"])
    return None


def _again(why: str, asks: int, most: int, *, larger: bool = False) -> Move:
    if asks < most:
        return AskAgain(why, larger=larger)
    return Park("needs repair", f"{why} ({asks} answers in a row)")


def _end(answer: ModelAnswer, facts: Facts) -> Move:
    if answer.text:
        return Finish(answer.text)
    if facts.nudged:
        return Finish(None, "no answer")
    return AskAgain("the answer was empty", nudge=NUDGE)


def _tools(answer: ModelAnswer, facts: Facts) -> Move:
    calls = answer.blocks("tool_use")
    return RunTools(calls) if calls else Park("needs repair", "stop_reason is tool_use but no tool was called")


def _cut(answer: ModelAnswer, facts: Facts) -> Move:
    if facts.no_more_room:
        return Park("budget", facts.no_more_room)
    return _again("the answer was cut at max_tokens", facts.asks, MAX_ASKS, larger=True)


def _window(answer: ModelAnswer, facts: Facts) -> Move:
    return MakeRoom()


def _pause(answer: ModelAnswer, facts: Facts) -> Move:
    if facts.continuations >= MAX_CONTINUATIONS:
        return Park("needs repair", f"the model paused {facts.continuations + 1} turns in a row (pause_turn)")
    if not answer.content:
        return _again("the model paused without a word", facts.asks, MAX_ASKS)
    if answer.blocks("tool_use"):
        return _again("the model paused behind a call, which nothing would answer", facts.asks, MAX_ASKS)
    return Continue()


def _refusal(answer: ModelAnswer, facts: Facts) -> Move:
    category = (answer.stop_details or {}).get("category") or "no category given"
    return Fail("refusal", f"the model refused ({category}); what was done before stands in the record")


def _unknown(answer: ModelAnswer, facts: Facts) -> Move:
    return Park("needs repair", f"the stop reason {answer.stop_reason!r} is not known")


_BY_REASON: dict[str, Callable[[ModelAnswer, Facts], Move]] = {
    "end_turn": _end,
    "stop_sequence": _end,
    "tool_use": _tools,
    "max_tokens": _cut,
    "model_context_window_exceeded": _window,
    "pause_turn": _pause,
    "refusal": _refusal,
}


def refuse_call(position: int, tool: ToolSpec | None, name: str, known: list[str]) -> str | None:
    """Why a call is answered without being run, if so: the text goes to the model as an error."""
    if tool is None:
        return f"There is no tool {name!r}. The tools of this run are: {', '.join(known) or 'none'}."
    if position > MAX_CALLS:
        return f"Not run: at most {MAX_CALLS} calls are run in one step. Call it again in the next step."
    return None
