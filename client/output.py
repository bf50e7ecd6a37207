"""What the command prints: tables for people, `--json` for programs, one clear next step, and the exit codes."""

import io
import json
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NoReturn

from rich import markup
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

WIDTH_OF_PIPES = 200
# Between two columns; how narrow the first one gets for the others; of which a longer word never stays whole.
GAP, LEAST_FIRST, LONGEST_WORD = 2, 8, 20
SLOW_S = 2.0
# How a program ends that writes to nobody: killed by SIGPIPE, as a shell counts.
READER_GONE = 141
# What moves the cursor, turns the direction of text around, or cannot be seen; tab and newline stay.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


class Exit(IntEnum):
    """Exit codes; 137 besides is a process that was killed, and 141 one whose reader has gone."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    WAITING = 3
    PAUSED = 4
    NO_SERVER = 5


class Stream(io.TextIOWrapper):
    """A standard stream. Once its reader has gone, as `head` does, the command ends like any other then."""

    def write(self, text: str) -> int:
        """Write, or end."""
        with _read():
            return super().write(text)

    def flush(self) -> None:
        """Hand on what was written, or end."""
        with _read():
            super().flush()


@contextmanager
def _read() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise SystemExit(READER_GONE) from None


def begin() -> None:
    """Take over the standard streams; one that is closed leads nowhere."""
    for name in ("stdout", "stderr"):
        given = getattr(sys, name) or open(os.devnull, "w")  # noqa: SIM115  open to the end
        encoding, errors = given.encoding, given.errors
        line, through = given.line_buffering, given.write_through
        setattr(sys, name, Stream(given.detach(), encoding, errors, line_buffering=line, write_through=through))


def visible(text: str) -> str:
    """The text with what is hidden in it as JSON writes it, `\\u202e`; so JSON stays the same value."""
    return HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def escape(text: str) -> str:
    """The text as rich prints it unchanged: nothing in it is markup, and nothing is hidden."""
    return markup.escape(visible(text))


def as_json(value: Any) -> None:
    """Print one JSON value, for programs."""
    sys.stdout.write(visible(json.dumps(value, ensure_ascii=False, indent=2, default=str)) + "\n")


def as_json_line(value: Any) -> None:
    """Print one JSON value on a line of its own, at once."""
    sys.stdout.write(visible(json.dumps(value, ensure_ascii=False, default=str)) + "\n")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """Print a table; None is shown as a dash. The first column is what people copy: it is folded, and never cut."""
    grid = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    shown = [["–" if cell is None else visible(str(cell)) for cell in row] for row in rows]
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(WIDTH_OF_PIPES, _whole_first(columns, shown))
    for name, width in zip(columns, _widths(columns, shown, console.width), strict=True):
        grid.add_column(name, width=width, overflow="fold")
    for row in shown:
        grid.add_row(*map(markup.escape, row))
    console.print(grid)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int | None]:
    """How wide each column is: the first one gives way, then long words; what is left goes to the first ones.

    None is left to rich: all fits, or nothing does.
    """
    most, words = _measured(columns, rows)
    room = width - GAP * (len(columns) - 1)
    fits = (least for cap in range(LONGEST_WORD, 0, -1) if sum(least := _capped(words, cap)) <= room)
    least = next(fits, most)
    if sum(most) <= room or least is most:
        return [None] * len(columns)
    spare = room - sum(least)
    found: list[int | None] = []
    for wanted, needed in zip(most, least, strict=True):
        more = min(spare, wanted - needed)
        spare -= more
        found.append(needed + more)
    return found


def _whole_first(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """The width at which nothing of the first column is folded."""
    most, words = _measured(columns, rows)
    return sum([most[0], *_capped(words, LONGEST_WORD)[1:], GAP * (len(columns) - 1)])


def _measured(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[int], list[int]]:
    """Of each column its longest line and its longest word."""
    cells = [[name, *(row[place] for row in rows)] for place, name in enumerate(columns)]
    most = [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in cells]
    words = [max((cell_len(word) for cell in column for word in cell.split()), default=0) for column in cells]
    return most, words


def _capped(words: Sequence[int], cap: int) -> list[int]:
    return [min(words[0], LEAST_FIRST), *(min(word, cap) for word in words[1:])]


def say(text: str = "") -> None:
    """Print a line as it is: nothing in it is markup."""
    out.print(escape(text))


def note(text: str) -> None:
    """Print a line beside the result, on stderr."""
    err.print(escape(text))


@contextmanager
def slow(text: str) -> Iterator[None]:
    """Say what is done, beside the result, if it takes long; by a thread, for imports stop the event loop."""
    timer = threading.Timer(SLOW_S, note, (text,))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def fail(text: str, code: Exit = Exit.USAGE) -> NoReturn:
    """Say what is wrong and what to do, and end."""
    err.print(f"[bold red]error:[/] {escape(text)}")
    raise SystemExit(int(code))


def leave(code: int) -> NoReturn:
    """End at once: a process that ran a worker sometimes dies in the interpreter's teardown, after its work is done."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit:
        code = READER_GONE
    os._exit(code)
