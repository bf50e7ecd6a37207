"""What ties a thinking block to its model and to the conversation before it: the signature, made and checked here.

The key is no secret: a signature here shows that a block came back unchanged, not who made it.
"""

import base64
import hashlib
import hmac
import json
from typing import Any

from sandbox.errors import ApiError, invalid
from sandbox.request import Block, Request, bare, blocks

KEY = b"dayflow-sandbox"
THINKING = ("thinking", "redacted_thinking")
PART = 12


def sign(asked: Request, content: list[Block]) -> list[Block]:
    """An answer's content with its unsigned thinking blocks signed."""
    signed: list[Block] = []
    for block in content:
        signed.append(_signed(block, asked.model, _prefix(asked.transcript, signed)))
    return signed


def check(asked: Request) -> None:
    """Refuse thinking blocks that are unknown, changed, or stand in another conversation or before another model."""
    for at, message in enumerate(asked.messages):
        if message["role"] == "assistant":
            _check_message(asked, at, blocks(message["content"]))


def digest_of(content: list[Block]) -> str:
    """What stays the same when a client reorders keys, adds nulls, or leaves out blank texts, as it has to."""
    sent = [block for block in content if block["type"] != "text" or block["text"].strip()]
    plain = [{key: value for key, value in bare(block).items() if value is not None} for block in sent]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _check_message(asked: Request, at: int, content: list[Block]) -> None:
    for index, block in enumerate(content):
        if block["type"] in THINKING:
            error = _fault_of(block, asked.model, _prefix(asked.before[at], content[:index]))
            if error:
                raise invalid(f"messages.{at}.content.{index}: {error.message}", error.code)


def _fault_of(block: Block, model: str, prefix: str) -> ApiError | None:
    kind = block["type"]
    parts = _parts(block["signature"] if kind == "thinking" else block["data"].partition(".")[0])
    if not parts or parts[3] != _mac("ours", parts[0] + parts[1]):
        return invalid(f"Invalid `{'signature' if kind == 'thinking' else 'data'}` in `{kind}` block")
    if parts[2] != _mac("text", _text(block).encode("utf-8", "surrogatepass")):
        return invalid(f"`{kind}` blocks must be passed back as they were received; this one has been modified")
    if parts[0] != _mac("model", model.encode()):
        return invalid(
            f"this `{kind}` block was created by another model (model_binding_mismatch)", "model_binding_mismatch"
        )
    if parts[1] != _mac("prefix", prefix.encode()):
        return invalid(
            f"the messages before this `{kind}` block have changed since it was created (prefix_binding_mismatch)",
            "prefix_binding_mismatch",
        )
    return None


def _signed(block: Block, model: str, prefix: str) -> Block:
    if block["type"] == "thinking" and "signature" not in block:
        return {**block, "signature": _signature(_text(block), model, prefix)}
    if block["type"] == "redacted_thinking" and "." not in block["data"]:
        return {**block, "data": f"{_signature(block['data'], model, prefix)}.{block['data']}"}
    return block


def _signature(text: str, model: str, prefix: str) -> str:
    bound = _mac("model", model.encode()) + _mac("prefix", prefix.encode())
    whole = bound + _mac("text", text.encode("utf-8", "surrogatepass")) + _mac("ours", bound)
    return base64.urlsafe_b64encode(whole).decode()


def _parts(signature: str) -> list[bytes] | None:
    try:
        whole = base64.urlsafe_b64decode(signature.encode())
    except ValueError:
        return None
    return [whole[at : at + PART] for at in range(0, 4 * PART, PART)] if len(whole) == 4 * PART else None


def _mac(purpose: str, data: bytes) -> bytes:
    return hmac.digest(KEY, purpose.encode() + b"\0" + data, "sha256")[:PART]


def _prefix(before: str, content: list[dict[str, Any]]) -> str:
    return f"{before}:{digest_of(content)}"


def _text(block: Block) -> str:
    text: str = block["thinking"] if block["type"] == "thinking" else block["data"].partition(".")[2] or block["data"]
    return text
