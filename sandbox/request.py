"""A request as the stand-in sees it: its blocks in order, their digests, and who asked for which time.

The transcript digest is the sha256 over, for each content block in order, the role, a NUL, the block as compact JSON
without `cache_control`, and a newline. A string content counts as one text block.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sandbox import tokens

Block = dict[str, Any]

encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Piece(NamedTuple):
    """One cacheable piece of a request: a tool, a system block or a content block."""

    data: bytes
    tokens: int
    ttl: str | None
    cacheable: bool


@dataclass(slots=True)
class Call:
    """One client tool call of the transcript with its result, if that came back."""

    name: str
    input: dict[str, Any]
    result: str | None = None
    failed: bool = False


@dataclass(slots=True)
class Request:
    """A validated request and what is derived from it."""

    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
    fixed: list[Piece] = field(init=False)
    pieces: list[Piece] = field(init=False)
    before: list[str] = field(init=False)
    transcript: str = field(init=False)

    def __post_init__(self) -> None:
        self.fixed = [_piece("tools", tool) for tool in self.body.get("tools") or []]
        self.fixed += [_piece("system", block) for block in blocks(self.body.get("system") or [])]
        self.pieces, self.before = [], []
        digest = hashlib.sha256()
        for message in self.messages:
            self.before.append(digest.hexdigest())
            for block in blocks(message["content"]):
                piece = _piece(message["role"], block)
                digest.update(piece.data)
                self.pieces.append(piece)
        self.transcript = digest.hexdigest()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages as sent."""
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self.body["model"])

    @property
    def ask(self) -> int:
        """Which try this is to get the turn, from the header `x-dayflow-ask`."""
        return _number(self.headers.get("x-dayflow-ask"), 1)

    @property
    def run(self) -> str:
        """The run that asks, from the header `x-dayflow-run`; empty when it does not say."""
        return self.headers.get("x-dayflow-run", "")

    @property
    def turn(self) -> int:
        """How many assistant messages came before: the index of the turn that is asked for."""
        return sum(message["role"] == "assistant" for message in self.messages)

    @property
    def step(self) -> int:
        """Like `turn`, but from the header `x-dayflow-step` (counted from 1) where that is given."""
        return _number(self.headers.get("x-dayflow-step"), self.turn + 1) - 1

    @property
    def first_text(self) -> str:
        """The text of the first user message."""
        return text_of(self.messages[0]["content"])

    @property
    def system_text(self) -> str:
        """The system prompt as text."""
        return text_of(self.body.get("system") or "")

    @property
    def tools(self) -> list[str]:
        """The names of the tools that the model was given."""
        return [tool["name"] for tool in self.body.get("tools") or [] if "name" in tool]

    def calls(self) -> list[Call]:
        """Every client tool call of the transcript, in order."""
        found: dict[str, Call] = {}
        for block in self._all_blocks():
            if block["type"] == "tool_use":
                found[block["id"]] = Call(block["name"], block["input"])
            elif block["type"] == "tool_result" and block["tool_use_id"] in found:
                call = found[block["tool_use_id"]]
                call.result, call.failed = text_of(block.get("content") or ""), bool(block.get("is_error"))
        return list(found.values())

    def _all_blocks(self) -> Iterator[Block]:
        for message in self.messages:
            yield from blocks(message["content"])


def blocks(content: str | list[Block]) -> list[Block]:
    """Content as a list of blocks; a string is one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text_of(content: str | list[Block]) -> str:
    """The text blocks of a content, a line each."""
    return "\n".join(block["text"] for block in blocks(content) if block.get("type") == "text")


def dayflow_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those headers by which Dayflow says who asks."""
    return {name.lower(): value for name, value in headers.items() if name.lower().startswith("x-dayflow-")}


def bare(block: Block) -> Block:
    """A block without its cache breakpoints, its own and those inside a tool result."""
    plain = {key: value for key, value in block.items() if key != "cache_control"}
    if isinstance(plain.get("content"), list):
        plain["content"] = [bare(part) if isinstance(part, dict) else part for part in plain["content"]]
    return plain


def markers(block: Block) -> Iterator[Block]:
    """The cache breakpoints of a block, those inside a tool result first."""
    if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        yield from (part["cache_control"] for part in block["content"] if part.get("cache_control"))
    if block.get("cache_control"):
        yield block["cache_control"]


def _piece(role: str, block: Block) -> Piece:
    ttl = next((marker.get("ttl", "5m") for marker in markers(block)), None)
    plain = block if ttl is None and "cache_control" not in block else bare(block)
    text = encode(plain)
    thinks = block.get("type") in ("thinking", "redacted_thinking")
    return Piece(f"{role}\0{text}\n".encode(), tokens.estimate(plain, len(text)), ttl, not thinks)


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and int(text) > 0 else default
