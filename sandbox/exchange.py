"""What the Messages API refuses about the messages: roles, block shapes, and calls without their results."""

import re
from typing import Any

from sandbox.errors import invalid
from sandbox.request import Block, blocks

ROLES = ("user", "assistant", "system")
ALLOWED = {
    "text": {"type", "text", "cache_control", "citations"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller", "toolset_name"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
ASSISTANT_ONLY = ("tool_use", "thinking", "redacted_thinking", "server_tool_use")
USER = ("text", "image", "document", "search_result", "tool_result", "container_upload", "compaction")
IN_RESULT = ("text", "image", "search_result", "document", "tool_reference", "browser_state")
ID = re.compile(r"[a-zA-Z0-9_-]+")
LONGEST_NAME = 200
UNANSWERED = (
    "`tool_use` ids were found without `tool_result` blocks immediately after: {ids}."
    " Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
UNEXPECTED = (
    "unexpected `tool_use_id` found in `tool_result` blocks: {id}."
    " Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)


def check(messages: list[Any], *, tools: bool) -> None:
    """Raise the 400 for the first rule that the messages break."""
    seen: set[str] = set()
    open_calls: list[str] = []
    for at, message in enumerate(messages):
        content = _check_message(message, at)
        if message["role"] == "user":
            _check_user(content, at, open_calls)
            open_calls = []
        elif open_calls:
            raise _unanswered(at - 1, open_calls)
        if message["role"] == "assistant":
            open_calls = _check_assistant(content, at, seen)
    if open_calls:
        raise _unanswered(len(messages) - 1, open_calls)
    if seen and not tools:
        raise invalid("Requests which include `tool_use` or `tool_result` blocks must define tools")


def check_text(block: Any, place: str, subject: str) -> None:
    """Raise the 400 for a bad text block."""
    if not isinstance(block, dict) or block.get("type") != "text":
        raise invalid(f"{place}.type: Input should be 'text'")
    text = block.get("text")
    if not isinstance(text, str):
        raise invalid(f"{place}.text.text: Field required")
    if not text and block.get("cache_control"):
        raise invalid(f"{place}.cache_control: cache_control cannot be set for empty text blocks")
    if not text:
        raise invalid(f"{subject}: text content blocks must be non-empty")
    if not text.strip():
        raise invalid(f"{subject}: text content blocks must contain non-whitespace text")
    _check_fields(block, place)


def _check_message(message: Any, at: int) -> list[Block]:
    """The content as blocks, once the message's own shape is right."""
    if not isinstance(message, dict):
        raise invalid(f"messages.{at}: Input should be a valid dictionary")
    role = message.get("role")
    if role not in ROLES:
        raise invalid(f'messages: Unexpected role "{role}". Allowed roles are "user", "assistant" and "system"')
    if at == 0 and role != "user":
        raise invalid('messages: first message must use the "user" role')
    for name in message:
        if name not in ("role", "content"):
            raise invalid(f"messages.{at}.{name}: Extra inputs are not permitted")
    content = message.get("content")
    if not isinstance(content, str | list):
        raise invalid(f"messages.{at}.content: Input should be a valid string or list")
    if not content:
        raise invalid(f"messages.{at}: all messages must have non-empty content")
    found = blocks(content)
    for index, block in enumerate(found):
        _check_block(block, f"messages.{at}.content.{index}", role)
    return found


def _check_block(block: Any, place: str, role: str) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        raise invalid(f"{place}.type: Field required")
    if kind == "text":
        check_text(block, place, "messages")
    elif role == "system":
        raise invalid(f"{place}.type: a system message takes text only, not {kind!r}")
    elif role == "user":
        _check_user_block(block, place, kind)
    else:
        _check_assistant_block(block, place, kind)


def _check_user_block(block: Block, place: str, kind: str) -> None:
    if kind in ASSISTANT_ONLY:
        raise invalid(f"{place}: `{kind}` blocks can only be in `assistant` messages")
    if kind not in USER:
        raise invalid(f"{place}: Input tag {kind!r} does not match any of the expected tags")
    if kind == "tool_result":
        _check_result(block, place)


def _check_assistant_block(block: Block, place: str, kind: str) -> None:
    if kind == "tool_result":
        raise invalid(f"{place}: `tool_result` blocks can only be in `user` messages")
    if kind in ("thinking", "redacted_thinking"):
        _check_thinking(block, place, kind)
    elif kind == "tool_use":
        _check_call(block, place)


def _check_thinking(block: Block, place: str, kind: str) -> None:
    if "cache_control" in block:
        raise invalid(f"{place}.cache_control: cache_control cannot be set for {kind} blocks")
    for name in ("thinking", "signature") if kind == "thinking" else ("data",):
        if not isinstance(block.get(name), str):
            raise invalid(f"{place}.{kind}.{name}: Field required")
    _check_fields(block, place)


def _check_call(block: Block, place: str) -> None:
    for name in ("id", "name"):
        if not isinstance(block.get(name), str):
            raise invalid(f"{place}.tool_use.{name}: Field required")
    if not 0 < len(block["name"]) <= LONGEST_NAME:
        raise invalid(f"{place}.tool_use.name: String should have at least 1 and at most {LONGEST_NAME} characters")
    if not ID.fullmatch(block["id"]):
        raise invalid(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not isinstance(block.get("input"), dict):
        raise invalid(f"{place}.tool_use.input: Input should be a valid dictionary")
    _check_fields(block, place)


def _check_result(block: Block, place: str) -> None:
    if not isinstance(block.get("tool_use_id"), str):
        raise invalid(f"{place}.tool_result.tool_use_id: Field required")
    if not isinstance(block.get("is_error", False), bool):
        raise invalid(f"{place}.tool_result.is_error: Input should be a valid boolean")
    _check_fields(block, place)
    content = block.get("content", "")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise invalid(f"{place}.tool_result.content: Input should be a valid string or list")
    for index, part in enumerate(content):
        _check_part(part, f"{place}.tool_result.content.{index}", failed=block.get("is_error", False))


def _check_part(part: Any, place: str, *, failed: bool) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in IN_RESULT:
        raise invalid(f"{place}: Input tag {kind!r} does not match any of the expected tags")
    if failed and kind != "text":
        raise invalid(f"{place}: all content must be type 'text' if `is_error` is true")
    if kind == "text":
        check_text(part, place, "messages")


def _check_fields(block: Block, place: str) -> None:
    kind = block["type"]
    extra = block.keys() - ALLOWED[kind]
    if extra:
        raise invalid(f"{place}.{kind}.{min(extra)}: Extra inputs are not permitted")


def _check_user(content: list[Block], at: int, open_calls: list[str]) -> None:
    """The results of a user turn: first in it, one for each call of the turn before, none else."""
    answered: set[str] = set()
    leading = True
    for index, block in enumerate(content):
        if block["type"] != "tool_result":
            leading = False
            continue
        known = block["tool_use_id"]
        if known not in open_calls:
            raise invalid(f"messages.{at}.content.{index}: {UNEXPECTED.format(id=known)}")
        if known in answered:
            raise invalid(
                f"messages.{at}.content.{index}: each tool_use must have a single result."
                f" Found multiple `tool_result` blocks with id: {known}"
            )
        if not leading:
            raise _unanswered(at - 1, [call for call in open_calls if call not in answered])
        answered.add(known)
    if missing := [call for call in open_calls if call not in answered]:
        raise _unanswered(at - 1, missing)


def _check_assistant(content: list[Block], at: int, seen: set[str]) -> list[str]:
    """The ids of the client calls of an assistant turn, none of them used before."""
    calls = []
    for index, block in enumerate(content):
        if block["type"] == "tool_use":
            if block["id"] in seen:
                raise invalid(f"messages.{at}.content.{index}: `tool_use` ids must be unique")
            seen.add(block["id"])
            calls.append(block["id"])
    return calls


def _unanswered(at: int, ids: list[str]) -> Exception:
    return invalid(f"messages.{at}: {UNANSWERED.format(ids=', '.join(ids))}")
