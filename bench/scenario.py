"""The one scenario of every measurement: an agent, its two tools of 2 KB each, and what the model says."""

import hashlib
from typing import Any

from activities.tool import Arguments, Context, Tool
from domain import transcript
from domain.agent import Definition, Limits
from domain.model import ModelAnswer
from domain.spend import PRICES, SANDBOX_MODEL, Usage
from domain.tool import Read
from domain.transcript import Message

TASK_QUEUE = "bench"
RESULT_BYTES = 2_000
DONE = "All pages are read."
INSTRUCTIONS = "Read the pages one by one, both columns of a page in one go, then say that you are done."
LINE = "{column} of page {page}: the quick brown fox jumps over the lazy dog, and nobody minds. "


class Page(Arguments):
    """Read one column of a page."""

    page: str


async def read_a(arguments: Page, context: Context) -> str:
    """The left column."""
    return _column("left", arguments.page)


async def read_b(arguments: Page, context: Context) -> str:
    """The right column."""
    return _column("right", arguments.page)


TOOLS = {tool.name: tool for tool in (Tool(run, Page, Read()) for run in (read_a, read_b))}


def task(steps: int) -> str:
    """The task of a run; the script and the stub know by it how long the run is."""
    return f"Read pages 1 to {steps}."


def definition(run: str, steps: int, *, search_attributes: bool = True) -> Definition:
    """The agent as it is frozen into a run: no limits, the tools of this scenario."""
    return Definition(
        run=run,
        agent="bench",
        instructions=INSTRUCTIONS,
        task=task(steps),
        model=SANDBOX_MODEL,
        max_tokens=1_024,
        tools=[TOOLS[name].spec for name in sorted(TOOLS)],
        limits=Limits(),
        price=PRICES[SANDBOX_MODEL],
        search_attributes=search_attributes,
        simulated=True,
        events=None,
    )


def answer(run: str, step: int, steps: int) -> ModelAnswer:
    """What the stubbed model says at a step: both tools, or at the end a text."""
    calls = [_call(run, step, name) for name in sorted(TOOLS)] if step <= steps else []
    content = calls or [{"type": "text", "text": DONE}]
    return ModelAnswer(
        content=content,
        stop_reason="tool_use" if calls else "end_turn",
        usage=Usage(input_tokens=100, output_tokens=60, cache_read_tokens=1_200 * step, cache_write_tokens=1_200),
        model=SANDBOX_MODEL,
        message_id=f"msg_{step:024d}",
    )


def messages(run: str, steps: int) -> list[Message]:
    """The transcript of a run of `steps` steps, as it stands before its last call."""
    found = [transcript.user_text(task(steps))]
    for step in range(1, steps + 1):
        calls = answer(run, step, steps).content
        results = [transcript.tool_result(call["id"], _result(call), is_error=False) for call in calls]
        found += [transcript.assistant(calls), {"role": "user", "content": results}]
    return found


def script(lengths: list[int]) -> dict[str, Any]:
    """The same conversation for the sandbox, once for each length of run."""
    return {"conversations": [_conversation(steps) for steps in lengths]}


def _conversation(steps: int) -> dict[str, Any]:
    calls = [{"type": "tool_use", "name": name, "input": {"page": "{n}"}} for name in sorted(TOOLS)]
    turns = [{"content": calls, "repeat": steps}, {"content": [{"type": "text", "text": DONE}]}]
    return {"name": f"{steps} steps", "match": task(steps), "turns": turns}


def _call(run: str, step: int, name: str) -> dict[str, Any]:
    id_ = "toolu_" + hashlib.sha256(f"{run}:{step}:{name}".encode()).hexdigest()[:24]
    return {"type": "tool_use", "id": id_, "name": name, "input": {"page": str(step)}}


def _result(call: dict[str, Any]) -> str:
    return _column("left" if call["name"] == "read_a" else "right", call["input"]["page"])


def _column(column: str, page: str) -> str:
    line = LINE.format(column=column, page=page)
    return (line * (RESULT_BYTES // len(line) + 1))[:RESULT_BYTES]
