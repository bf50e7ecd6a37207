"""The prompt cache: where a request marks what may be kept, and whether the marks are of any use."""

from collections.abc import Sequence

from domain.spend import Usage
from domain.transcript import Message

EPHEMERAL = {"type": "ephemeral"}
# A breakpoint finds what was kept up to 20 blocks before it; blocks of thinking can have none.
SPACING = 15
MARKABLE = {"text", "tool_use", "tool_result"}
# Of the four breakpoints that a request may have: one is after the instructions.
MOST = 3

# Above every published minimum of what can be kept; so many steps in a row are no chance.
LONG_PROMPT = 8_192
STEPS_UNTIL_WARNING = 3

Place = tuple[int, int]


def marked(messages: list[Message]) -> list[Message]:
    """The messages with breakpoints on the newest user turn's last block, and between it and the request before.

    However many calls the step in between had, one of them finds what that request kept.
    """
    places = _since_the_request_before(messages)
    changed = list(messages)
    for at in _spread(len(places) - 1):
        turn, block = next(place for place in reversed(places[: at + 1]) if _markable(messages, place))
        content = list(changed[turn]["content"])
        content[block] = {**content[block], "cache_control": EPHEMERAL}
        changed[turn] = {**changed[turn], "content": content}
    return changed


def warning(usages: Sequence[Usage]) -> str | None:
    """Why the newest of these calls cost more than they should, if the cache was of no use to any of them."""
    newest = usages[-STEPS_UNTIL_WARNING:]
    if len(newest) < STEPS_UNTIL_WARNING or any(one.prompt < LONG_PROMPT or one.cache_read_tokens for one in newest):
        return None
    head = (
        f"the prompt cache did not help: the last {STEPS_UNTIL_WARNING} prompts, of {newest[-1].prompt:,} tokens now, "
    )
    if any(one.cache_write_tokens for one in newest):
        return head + "were written and never read. They differ at their beginning, or come too late one after another"
    return head + "were neither written nor read. The model keeps none, or something on the way takes the marks out"


def _since_the_request_before(messages: list[Message]) -> list[Place]:
    """Every block from the last one of the request before to the last one of the newest user turn."""
    end = _last(messages, "user", len(messages))
    start = _last(messages, "user", _last(messages, "assistant", end))
    first = len(messages[start]["content"]) - 1 if start >= 0 else 0
    places = [(turn, at) for turn in range(max(start, 0), end + 1) for at in range(len(messages[turn]["content"]))]
    return places[first:] if start >= 0 else places[-1:]


def _last(messages: list[Message], role: str, before: int) -> int:
    return next((at for at in range(before - 1, -1, -1) if messages[at]["role"] == role), -1)


def _spread(last: int) -> list[int]:
    """Which of so many blocks are marked: the last one, and others until the first one is in reach of a mark."""
    marks = [last]
    while marks[-1] > SPACING and len(marks) < MOST:
        marks.append(marks[-1] - SPACING)
    if marks[-1] > SPACING:
        marks[-1] = 0
    return marks


def _markable(messages: list[Message], place: Place) -> bool:
    block = messages[place[0]]["content"][place[1]]
    return block["type"] in MARKABLE
