"""What the Messages API refuses about a request as a whole: its fields, tools, system prompt and cache breakpoints."""

import json
import re
from collections.abc import Iterator
from typing import Any

from sandbox import exchange
from sandbox.errors import ApiError, invalid
from sandbox.request import Block, markers

MAX_BYTES = 32 * 1024 * 1024
MAX_MESSAGES = 100_000
MAX_BREAKPOINTS = 4
FIELDS = frozenset(
    {
        "betas",
        "billing_policy",
        "cache_control",
        "compaction",
        "container",
        "context_management",
        "diagnostics",
        "fallback_credit_token",
        "fallbacks",
        "inference_geo",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "thread",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
        "user_profile_id",
        "workspace_id",
    }
)
# Models on which a forced tool call, a prefill and `thinking: disabled` are errors; the sandbox's own is one of them.
CURRENT = ("claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-1", "claude-fable-5-2", "dayflow-sandbox")
SHAPES: dict[str, tuple[type, str]] = {
    "cache_control": (dict, "dictionary"),
    "metadata": (dict, "dictionary"),
    "output_config": (dict, "dictionary"),
    "stop_sequences": (list, "list"),
    "stream": (bool, "boolean"),
    "thinking": (dict, "dictionary"),
    "tool_choice": (dict, "dictionary"),
}
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
# An escape of a lone surrogate or of NUL can only stand in the raw text like this; anything else need not be walked.
SUSPICIOUS = re.compile(rb"\\u(?:d[89a-f]|0000)", re.IGNORECASE)


def parse(raw: bytes) -> dict[str, Any]:
    """The body as JSON, or the 413 or 400 that says why not."""
    if len(raw) > MAX_BYTES:
        raise too_large()
    try:
        body = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise invalid(f"The request body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise invalid("The request body must be a JSON object")
    if SUSPICIOUS.search(raw):
        _check_characters(body, "")
    return body


def too_large() -> ApiError:
    """The 413 for a body over the limit."""
    return ApiError(413, "Request exceeds the maximum size")


def check(body: dict[str, Any], *, counting: bool = False) -> None:
    """Raise the 400 for the first rule that a body breaks; `counting` asks for no `max_tokens`."""
    for name in body:
        if name not in FIELDS:
            raise invalid(f"{name}: Extra inputs are not permitted")
    for name, (shape, word) in SHAPES.items():
        if body.get(name) is not None and not isinstance(body[name], shape):
            raise invalid(f"{name}: Input should be a valid {word}")
    _check_model(body)
    if not counting:
        _check_max_tokens(body)
    _check_system(body.get("system"))
    _check_tools(body.get("tools"))
    messages = _messages(body)
    exchange.check(messages, tools=bool(body.get("tools")))
    _check_sampling(body)
    _check_thinking(body)
    _check_breakpoints(body)


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    messages = body.get("messages")
    if messages is None:
        raise invalid("messages: Field required")
    if not isinstance(messages, list):
        raise invalid("messages: Input should be a valid list")
    if not messages:
        raise invalid("messages: at least one message is required")
    if len(messages) > MAX_MESSAGES:
        count = len(messages)
        raise invalid(f"messages: List should have at most {MAX_MESSAGES} items after validation, not {count}")
    return messages


def _check_model(body: dict[str, Any]) -> None:
    model = body.get("model")
    if model is None:
        raise invalid("model: Field required")
    if not isinstance(model, str) or not model:
        raise invalid("model: Input should be a valid string")


def _check_max_tokens(body: dict[str, Any]) -> None:
    limit = body.get("max_tokens")
    if limit is None:
        raise invalid("max_tokens: Field required")
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise invalid("max_tokens: Input should be a valid integer")
    if limit < 0:
        raise invalid("max_tokens: Input should be greater than or equal to 0")
    if limit == 0 and body.get("stream"):
        raise invalid("max_tokens: 0 fills the prompt cache without an answer and cannot be streamed")


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        raise invalid("system: Input should be a valid string or list")
    for at, block in enumerate(system):
        exchange.check_text(block, f"system.{at}", "system")


def _check_tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list):
        raise invalid("tools: Input should be a valid list")
    names = [_check_tool(tool, f"tools.{at}") for at, tool in enumerate(tools)]
    if len(set(names)) < len(names):
        raise invalid("tools: Tool names must be unique.")


def _check_tool(tool: Any, place: str) -> str:
    if not isinstance(tool, dict):
        raise invalid(f"{place}: Input should be a valid dictionary")
    if not isinstance(tool.get("type"), str | None):
        raise invalid(f"{place}.type: Input should be a valid string")
    if tool.get("type") not in (None, "custom"):
        return str(tool.get("name") or tool["type"])
    name = tool.get("name")
    if not isinstance(name, str):
        raise invalid(f"{place}.custom.name: Field required")
    if not TOOL_NAME.fullmatch(name):
        raise invalid(f"{place}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if not isinstance(tool.get("description", ""), str):
        raise invalid(f"{place}.custom.description: Input should be a valid string")
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        raise invalid(f"{place}.custom.input_schema: Field required")
    if schema.get("type") != "object":
        raise invalid(f"{place}.custom.input_schema.type: Input should be 'object'")
    return name


def _check_sampling(body: dict[str, Any]) -> None:
    defaults: dict[str, tuple[Any, ...]] = {"temperature": (None, 1), "top_p": (None,), "top_k": (None,)}
    for name, allowed in defaults.items():
        if body.get(name) not in allowed:
            raise invalid(f"{name}: this model does not accept sampling parameters other than the default")


def _check_thinking(body: dict[str, Any]) -> None:
    current = body["model"].startswith(CURRENT)
    choice = (body.get("tool_choice") or {}).get("type")
    if choice not in (None, "auto", "any", "tool", "none"):
        raise invalid("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    if current and choice in ("any", "tool"):
        raise invalid(f"tool_choice: this model does not support forcing tool use ({choice!r})")
    thinking = body.get("thinking") or {}
    kind = thinking.get("type")
    if kind not in (None, "adaptive", "enabled", "disabled", "between_tools"):
        raise invalid("thinking.type: Input should be 'adaptive', 'between_tools', 'disabled' or 'enabled'")
    if current and kind == "disabled":
        raise invalid("thinking.type: thinking cannot be disabled on this model")
    if kind == "enabled":
        _check_budget(thinking.get("budget_tokens"), body.get("max_tokens"))


def _check_budget(budget: Any, limit: int | None) -> None:
    if not isinstance(budget, int) or budget < 1024:
        raise invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if limit is not None and limit <= budget:
        raise invalid("`max_tokens` must be greater than `thinking.budget_tokens`")


def _check_breakpoints(body: dict[str, Any]) -> None:
    found = list(_breakpoints(body))
    for marker in found:
        _check_marker(marker)
    if len(found) > MAX_BREAKPOINTS:
        raise invalid(f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {len(found)}.")
    ttls = [marker.get("ttl", "5m") for marker in found]
    if "5m" in ttls and "1h" in ttls[ttls.index("5m") :]:
        raise invalid("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")


def _breakpoints(body: dict[str, Any]) -> Iterator[Block]:
    yield from (tool["cache_control"] for tool in body.get("tools") or [] if tool.get("cache_control"))
    system = body.get("system")
    yield from (block["cache_control"] for block in _list(system) if block.get("cache_control"))
    for message in body["messages"]:
        for block in _list(message["content"]):
            if "cache_control" in block or block.get("type") == "tool_result":
                yield from markers(block)
    if body.get("cache_control"):
        yield body["cache_control"]


def _list(content: Any) -> list[Block]:
    return content if isinstance(content, list) else []


def _check_marker(marker: Any) -> None:
    if not isinstance(marker, dict) or marker.get("type") != "ephemeral":
        raise invalid("cache_control.type: Input should be 'ephemeral'")
    if marker.get("ttl", "5m") not in ("5m", "1h"):
        raise invalid("cache_control.ephemeral.ttl: Input should be '5m' or '1h'")


def _check_characters(value: Any, place: str) -> None:
    match value:
        case str() if "\0" in value:
            raise invalid(f"{place.lstrip('.')}: null characters are not permitted")
        case str() if any("\ud800" <= character <= "\udfff" for character in value):
            raise invalid(f"The request body is not valid JSON: lone surrogate in string at {place.lstrip('.')}")
        case list():
            for at, each in enumerate(value):
                _check_characters(each, f"{place}.{at}")
        case dict():
            for key, each in value.items():
                _check_characters(key, f"{place}.(key)")
                _check_characters(each, f"{place}.{key}" if key.isascii() else f"{place}.(key)")
