"""A finished message as the server-sent events of a stream."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sandbox.request import Block, encode

DELTAS = 6
SHORTEST = 24


class Event(NamedTuple):
    """One event: its name, its bytes on the wire, and the content block it belongs to."""

    name: str
    data: bytes
    block: int = -1


PING = b'event: ping\ndata: {"type":"ping"}\n\n'


def event(name: str, payload: dict[str, Any]) -> Event:
    """Encode one event; lone surrogates go out as JSON escapes."""
    return Event(name, b"event: %s\ndata: %s\n\n" % (name.encode(), dump(payload)), payload.get("index", -1))


def dump(payload: Any) -> bytes:
    """JSON as bytes, in UTF-8 where that is possible."""
    return wire(encode(payload))


def wire(text: str) -> bytes:
    """JSON text as bytes: what UTF-8 cannot hold is escaped."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text).encode()


def events(message: dict[str, Any]) -> list[Event]:
    """Every event of a message, from `message_start` to `message_stop`."""
    begun = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
    begun["usage"] = {**message["usage"], "output_tokens": 1}
    begun["usage"].pop("output_tokens_details", None)
    found = [event("message_start", {"type": "message_start", "message": begun}), Event("ping", PING)]
    for index, block in enumerate(message["content"]):
        found += _block(index, block)
    found.append(event("message_delta", _delta(message)))
    found.append(event("message_stop", {"type": "message_stop"}))
    return found


def _delta(message: dict[str, Any]) -> dict[str, Any]:
    delta = {key: message[key] for key in ("stop_reason", "stop_sequence", "stop_details")}
    usage = {key: value for key, value in message["usage"].items() if key not in ("cache_creation", "service_tier")}
    return {"type": "message_delta", "delta": delta, "usage": usage}


def _block(index: int, block: Block) -> Iterator[Event]:
    start, deltas = _parts(block)
    yield event("content_block_start", {"type": "content_block_start", "index": index, "content_block": start})
    for delta in deltas:
        yield event("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})
    yield event("content_block_stop", {"type": "content_block_stop", "index": index})


def _parts(block: Block) -> tuple[Block, list[Block]]:
    """How a block begins, and the deltas that complete it."""
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": part} for part in _chunks(block["text"])]
            return {**block, "text": ""}, deltas
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": part} for part in _chunks(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case "tool_use" | "server_tool_use":
            parts = ["", *_chunks(wire(encode(block["input"])).decode())]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
        case _:
            return block, []


def _chunks(text: str) -> list[str]:
    size = max(SHORTEST, -(-len(text) // DELTAS))
    return [text[at : at + size] for at in range(0, len(text), size)]
