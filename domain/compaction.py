"""Compaction: which part of a transcript is cut, and the summary that takes its place.

The summary only helps the model along; what has to be right comes from the record, see `domain.recap`.
"""

import json
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from domain import digest
from domain.model import ModelCall
from domain.spend import Usage
from domain.transcript import Message

Summariser = Literal["rules", "model"]

OPENING = "Earlier in this run (compacted):"
QUOTE = "> "
SAID = "said: "
ASKED = "Sum up this part of an agent's work"
SHOWN_CHARACTERS = 200
# Rather few, so that a summary of the length that was asked for is never cut.
CHARACTERS_A_TOKEN = 2
_LEFT_OUT = "earlier lines are left out"


class Compact(BaseModel):
    """Input of `compact_transcript`: what is to be summed up.

    call: names the transcript. end: the messages from 1 up to and without this one are cut. characters: how long the
    summary may be.
    """

    model_config = ConfigDict(frozen=True)

    call: ModelCall
    end: int
    characters: int
    by: Summariser


class Summary(BaseModel):
    """Output of `compact_transcript`. skipped: why there is no text; what was paid for it counts all the same."""

    model_config = ConfigDict(frozen=True)

    text: str = ""
    skipped: str | None = None
    usage: Usage = Usage()
    possibly_paid: list[Usage] = []


class Compaction(BaseModel):
    """One compaction of a run, as the record has it.

    before, after: how many messages. tokens: of the newest request and answer before it. skipped: why the transcript
    stayed as it was.
    """

    step: int
    before: int
    after: int
    tokens: int
    by: Summariser
    skipped: str | None = None
    usage: Usage = Usage()
    at: datetime


def outline(messages: list[Message]) -> str:
    """Hex sha256 of the course that a transcript tells: what was said and called, and what worked.

    Not of what reading brought, nor of summaries of that: it may read otherwise the next time.
    """
    return digest.sha256([_course(message) for message in messages])


def _course(message: Message) -> Any:
    if message["role"] == "assistant":
        return message["content"]
    told = [_without_summary(block["text"]) for block in _blocks(message, "text")]
    answered = [[block["tool_use_id"], block.get("is_error", False)] for block in _blocks(message, "tool_result")]
    return [told, answered]


def _without_summary(text: str) -> str:
    if not text.startswith(OPENING):
        return text
    return "\n".join(line for line in text.splitlines() if not line.startswith(QUOTE))


def is_recap(message: Message) -> bool:
    """Whether this is what an earlier compaction left."""
    return any(block["text"].startswith(OPENING) for block in _blocks(message, "text"))


def cut(messages: list[Message], keep_last: int) -> int | None:
    """Where the part begins that stays: the newest pairs of an assistant turn and its results; None if nothing goes.

    The task stays too, and more turns where one of them has a result whose call came before: the server's own tools
    may answer a turn later. A history that ends on an assistant turn is in the middle of an exchange, and is not cut.
    """
    if messages[-1]["role"] != "user":
        return None
    said = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    if len(said) <= keep_last:
        return None
    ends = reversed(said[: len(said) - keep_last + 1])
    return next((end for end in ends if end > 2 and _closed(messages[end:])), None)


def _closed(messages: list[Message]) -> bool:
    """Whether the call of each result is among them."""
    blocks = [block for message in messages for block in message["content"]]
    return {block["tool_use_id"] for block in blocks if "tool_use_id" in block} <= {block.get("id") for block in blocks}


def digested(messages: list[Message], characters: int) -> str:
    """The deterministic summary: one line for each text and call; the oldest lines are counted where too many."""
    lines: list[str] = []
    answers = {block["tool_use_id"]: block for message in messages for block in _blocks(message, "tool_result")}
    for message in messages:
        if message["role"] == "user":
            lines += [line for block in _blocks(message, "text") for line in _earlier(block["text"])]
            continue
        lines += [f"{SAID}{short(block['text'])}" for block in _blocks(message, "text") if block["text"].strip()]
        lines += [_call_line(block, answers.get(block["id"])) for block in _blocks(message, "tool_use")]
    return "\n".join(newest(lines, characters, longer=SAID))


def rendered(messages: list[Message]) -> str:
    """The messages as plain text, for a model that sums them up: no blocks, no calls, nothing to go on with."""
    turns = ((message["role"], json.dumps(message["content"], ensure_ascii=False)) for message in messages)
    return "\n\n".join(f"[{role}]\n{content}" for role, content in turns)


def newest(lines: list[str], characters: int, longer: str | None = None) -> list[str]:
    """The newest lines that fit, after one that says how many are left out.

    Those that begin with `longer` go first into one half of the room.
    """
    told = [line for line in lines if not line.endswith(_LEFT_OUT)]
    before = sum(int(line.split()[0]) for line in lines if line.endswith(_LEFT_OUT))
    first = [n for n, line in enumerate(told) if longer and line.startswith(longer)]
    kept = _fitting(told, first[::-1], characters // 2)
    used = sum(len(told[n]) + 1 for n in kept)
    kept |= _fitting(told, [n for n in reversed(range(len(told))) if n not in kept], characters - used)
    count = before + len(told) - len(kept)
    left = [f"{count} {_LEFT_OUT}"] if count else []
    return [*left, *(told[n] for n in sorted(kept))]


def _fitting(lines: list[str], places: list[int], characters: int) -> set[int]:
    """As many of these places as fit, one after the other, and the first of them in any case."""
    kept: set[int] = set()
    for n in places:
        characters -= len(lines[n]) + 1
        if characters < 0 and kept:
            break
        kept.add(n)
    return kept


def _earlier(text: str) -> list[str]:
    """The lines of the summary before this one, if the text is one."""
    if not text.startswith(OPENING):
        return []
    return [line.removeprefix(QUOTE) for line in text.splitlines() if line.startswith(QUOTE)]


def _call_line(call: dict[str, Any], answer: dict[str, Any] | None) -> str:
    line = f"{call['name']}({short(json.dumps(call['input'], ensure_ascii=False))})"
    if answer is None:
        return f"{line}: not answered"
    text = "\n".join(block.get("text", "") for block in answer["content"])
    return f"{line}: {'error' if answer.get('is_error') else 'ok'}, {_size(text)}: {short(text)}"


def _size(text: str) -> str:
    """How much came back: the items of a JSON list, or of the first list in a JSON object, else lines of text."""
    try:
        value = json.loads(text)
    except ValueError:
        return f"{len(text.splitlines())} lines"
    parts = value.values() if isinstance(value, dict) else [value]
    items = next((part for part in parts if isinstance(part, list)), None)
    return f"{len(text)} characters" if items is None else f"{len(items)} items"


def short(text: str, most: int = SHOWN_CHARACTERS) -> str:
    """One line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _blocks(message: Message, kind: str) -> list[dict[str, Any]]:
    return [block for block in message["content"] if block.get("type") == kind]
