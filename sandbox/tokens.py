"""How many tokens a block would be: an estimate by length, 2.4 characters a token for JSON and 3.5 for prose."""

from math import ceil
from typing import Any

JSON_CHARACTERS = 2.4
PROSE_CHARACTERS = 3.5
IMAGE_TOKENS = 1600


def estimate(block: dict[str, Any], length: int) -> int:
    """Tokens of a content block, a tool or a system block whose JSON text has `length` characters."""
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return of_text(block["text"])
        case "thinking" if isinstance(block.get("thinking"), str):
            return of_text(block["thinking"])
        case "image":
            return IMAGE_TOKENS
        case "tool_result" if isinstance(block.get("content"), str):
            return of_text(block["content"]) + 8
        case "tool_result" if isinstance(block.get("content"), list):
            return sum(estimate(part, _length(part)) for part in block["content"]) + 8
        case _:
            return ceil(length / JSON_CHARACTERS)


def of_text(text: str) -> int:
    """Tokens of a string, taken as JSON when it begins like JSON."""
    rate = JSON_CHARACTERS if text.lstrip()[:1] in ("{", "[") else PROSE_CHARACTERS
    return ceil(len(text) / rate)


def of_content(content: list[dict[str, Any]]) -> tuple[int, int]:
    """Output tokens of an answer: all of them, and those that are thinking."""
    thinking = sum(of_text(block["thinking"]) for block in content if block.get("type") == "thinking")
    rest = sum(estimate(block, _length(block)) for block in content if block.get("type") != "thinking")
    return max(1, thinking + rest), thinking


def _length(block: dict[str, Any]) -> int:
    return len(str(block))
