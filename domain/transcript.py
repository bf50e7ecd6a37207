"""The transcript: the exact `messages` list of the next model call, with one digest that speaks for all of it."""

from typing import Any

from pydantic import BaseModel

from domain import characters, digest

PAGE_BYTES = 512_000

Message = dict[str, Any]


class Page(BaseModel):
    """A run of messages; `end` is where the next page begins, `length` how many there are in this epoch."""

    messages: list[Message]
    start: int
    end: int
    length: int
    epoch: int


class Transcript(BaseModel):
    """Append-only within an epoch. `head` is the digest chained over the definition and every message."""

    messages: list[Message] = []
    head: str = ""
    epoch: int = 0

    def append(self, message: Message) -> None:
        """Add one message at the end."""
        self.messages.append(message)
        self.head = digest.chain(self.head, message)

    def replace(self, messages: list[Message], head: str) -> None:
        """Begin another epoch with these messages; `head` is the digest over the definition."""
        self.epoch += 1
        self.messages, self.head = [], head
        for message in messages:
            self.append(message)

    def tool_use_ids(self) -> frozenset[str]:
        """The ids of all calls in it."""
        said = (message["content"] for message in self.messages if message["role"] == "assistant")
        return frozenset(block["id"] for content in said for block in content if block.get("type") == "tool_use")

    def page(self, start: int, end: int | None = None) -> Page:
        """Messages from `start` on, at least one and then as many as fit into one page."""
        stop = min(len(self.messages) if end is None else end, len(self.messages))
        taken: list[Message] = []
        size = 0
        for message in self.messages[start:stop]:
            size += len(digest.canonical(message))
            if taken and size > PAGE_BYTES:
                break
            taken.append(message)
        return Page(
            messages=taken,
            start=start,
            end=start + len(taken),
            length=len(self.messages),
            epoch=self.epoch,
        )


def fault(messages: list[Message]) -> str | None:
    """What makes these messages no valid request, if anything does: ends, empty turns, calls without their results."""
    if not messages or messages[0]["role"] != "user" or messages[-1]["role"] != "user":
        return "it has to begin and end with a user turn"
    due: list[str] = []
    for message in messages:
        content = message["content"]
        if not content or any(block["type"] == "text" and not block["text"].strip() for block in content):
            return "a turn is empty"
        answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if answered != due:
            return f"calls {due} are answered by results {answered}"
        due = [block["id"] for block in content if block["type"] == "tool_use"]
    return None


def user_text(text: str) -> Message:
    """A user turn of plain text."""
    return user([{"type": "text", "text": text}])


def user(content: list[dict[str, Any]]) -> Message:
    """A user turn."""
    return {"role": "user", "content": content}


def assistant(content: list[dict[str, Any]]) -> Message:
    """An assistant turn, its blocks untouched."""
    return {"role": "assistant", "content": content}


def returnable(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An answer's blocks as they can be sent back: the API gives blank texts, and takes none."""
    cleared = [
        {**block, "text": characters.cleared(block.get("text") or "")} if block.get("type") == "text" else block
        for block in content
    ]
    return [block for block in cleared if block.get("type") != "text" or block["text"].strip()]


def tool_result(tool_use_id: str, content: str, *, is_error: bool) -> dict[str, Any]:
    """One result block; blank text is not allowed on the wire."""
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": tool_use_id,
        "content": [{"type": "text", "text": content if content.strip() else "(no output)"}],
    }
    return {**block, "is_error": True} if is_error else block
