"""Answers what no other player knows: says that this is the sandbox, and how to get a real answer."""

from sandbox.request import Request
from sandbox.turns import Turn, say

TEXT = """\
This is Dayflow's sandbox, not a language model: it has no rules for this task and cannot answer it.

The task was {length} characters long. {tools}

For a real answer set ANTHROPIC_API_KEY and start again. To play a conversation that you wrote yourself, set \
DAYFLOW_SANDBOX_SCRIPT to its file; sandbox/README.md describes the format."""


def plays(_: Request) -> bool:
    """Everything."""
    return True


def answer(asked: Request) -> Turn:
    """One text, no tool calls."""
    names = ", ".join(asked.tools)
    tools = f"These tools were offered: {names}." if names else "No tools were offered."
    return say(TEXT.format(length=len(asked.first_text), tools=tools))
