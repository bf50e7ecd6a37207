"""What a run's model is saying just now, shown beside the recorded steps; on a terminal the one replaces the other."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from client import output
from domain import errors
from domain.model import Attempt, Event

if TYPE_CHECKING:
    from client.run import Run
    from store.settings import Settings
    from store.streams import Channel

Hear = Callable[[Attempt, Event], None]
# Lines of a terminal that are left to what is recorded.
LEFT = 4
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Screen(Protocol):
    """Shows one attempt at a time."""

    def begin(self, attempt: Attempt, before: Attempt | None) -> None:
        """Another attempt; `before` is the one of the same step that it replaces."""

    def add(self, event: Event) -> None:
        """What it says next."""

    def clear(self) -> None:
        """The step is recorded, or nobody looks any more."""


@dataclass
class Part:
    """One block of an answer as far as it has come."""

    kind: str
    name: str | None = None
    text: str = ""

    @property
    def shown(self) -> str:
        """As it stands on the screen."""
        return output.visible(f"→ {self.name} {self.text}" if self.name else self.text)


class Window:
    """On a terminal: the end of what is said, below what is recorded, and gone when it is recorded itself."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._head = ""
        self._parts: dict[int, Part] = {}

    def begin(self, attempt: Attempt, before: Attempt | None) -> None:
        """Begin with an empty window."""
        self._parts = {}
        self._head = f"step {attempt.step}  …" + (f"  ({again(attempt, before)})" if before else "")
        self._draw()

    def add(self, event: Event) -> None:
        """Draw it anew."""
        match event:
            case {"type": "block", "block": int(at), "kind": str(kind)}:
                self._parts[at] = Part(kind, event.get("name"))
            case {"type": "text", "block": int(at), "text": str(text)} if at in self._parts:
                self._parts[at].text += _CONTROL.sub("", text)
            case {"type": "lost"}:
                self._head += "  (lost; it begins again)"
        self._draw()

    def clear(self) -> None:
        """Take the window away."""
        if self._live:
            self._live.stop()
        self._live = None

    def _draw(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
            self._live.start()
        whole = Text("\n".join(f"  {part.shown}" for part in self._parts.values() if part.shown), style="dim")
        room = max(1, self._console.height - LEFT)
        shown = whole.wrap(self._console, max(1, self._console.width - 1))[-room:]
        self._live.update(Text("\n").join([Text(self._head), *shown]), refresh=True)


class Lines:
    """Where lines cannot be taken back: whole lines only, and a word when an attempt begins again."""

    def __init__(self, say: Callable[[str], None] = output.say) -> None:
        self._say = say
        self._rest = ""
        self._words = self._lost = False

    def begin(self, attempt: Attempt, before: Attempt | None) -> None:
        """Say what it replaces."""
        if before and not self._lost:
            self._say(f"  (step {attempt.step}: {again(attempt, before)})")
        self._rest, self._lost = "", False

    def add(self, event: Event) -> None:
        """Say the lines that are whole now, and which tool is called."""
        match event:
            case {"type": "block"}:
                self._end_line()
                self._words = event.get("kind") in ("text", "thinking")
                if name := event.get("name"):
                    self._say(f"  … {name}")
            case {"type": "text", "text": str(text)} if self._words:
                *whole, self._rest = (self._rest + _CONTROL.sub("", text)).split("\n")
                for line in whole:
                    self._say(f"  │ {line}")
            case {"type": "lost"}:
                self._lost = True
                self._say("  (this attempt was lost; it begins again)")

    def clear(self) -> None:
        """Drop the line that is not whole: it stands in the step."""
        self._rest, self._lost = "", False

    def _end_line(self) -> None:
        if self._rest:
            self._say(f"  │ {self._rest}")
        self._rest = ""


@dataclass
class Partial:
    """Gives a screen what belongs to the step after the recorded ones, and holds back what comes early.

    ready: whether the recorded steps are shown with all of their results.
    """

    screen: Screen
    recorded: int
    ready: bool = True
    _shown: Attempt | None = None
    _early: list[tuple[Attempt, Event]] = field(default_factory=list)

    def hear(self, attempt: Attempt, event: Event) -> None:
        """Show it, keep it for later, or forget it because the step is recorded."""
        if attempt.step == self.recorded + 1 and self.ready:
            self._show(attempt, event)
        elif attempt.step > self.recorded:
            self._early.append((attempt, event))

    def reach(self, recorded: int, *, ready: bool) -> None:
        """So many steps are recorded."""
        if (recorded, ready) == (self.recorded, self.ready):
            return
        self.recorded, self.ready = recorded, ready
        early, self._early = self._early, []
        for one in early:
            self.hear(*one)

    def clear(self) -> None:
        """Nothing partial stays on the screen."""
        self.screen.clear()
        self._shown = None

    def _show(self, attempt: Attempt, event: Event) -> None:
        if attempt != self._shown:
            same = self._shown and self._shown.step == attempt.step
            self.screen.begin(attempt, self._shown if same else None)
            self._shown = attempt
        self.screen.add(event)


def again(attempt: Attempt, before: Attempt) -> str:
    """Why a step is answered anew."""
    if attempt.ask > before.ask:
        return f"answer {before.ask} was not used; it is asked again"
    return f"attempt {before.attempt} was lost; it begins again"


def screen() -> Screen:
    """The screen that the output is."""
    console = output.out
    return Window(console) if console.is_terminal and not console.is_dumb_terminal else Lines()


@asynccontextmanager
async def listening(settings: "Settings", hear: Hear | None) -> "AsyncIterator[Callable[[Run], None]]":
    """Hear a run's streams from when it is first named until the block ends; without `hear` nobody listens."""
    listener: asyncio.Task[None] | None = None

    def named(run: "Run") -> None:
        nonlocal listener
        if hear and listener is None and run.state is not None:
            listener = asyncio.create_task(_listen(settings, run.state.first_execution_run_id, hear))

    try:
        yield named
    finally:
        if listener:
            listener.cancel()
            with suppress(asyncio.CancelledError, errors.DayflowError):
                await listener


async def _listen(settings: "Settings", run: str, hear: Hear) -> None:
    from store import database, streams

    store = await database.connect(settings) if settings.database_url else None
    try:
        await _hear_all(streams.of(settings, store), run, hear)
    finally:
        if store:
            await store.close()


async def _hear_all(channel: "Channel", run: str, hear: Hear) -> None:
    """What cannot be heard is not missed: the steps are recorded all the same."""
    from store.streams import Tail

    tail = Tail(channel, run)
    while True:
        with suppress(OSError, errors.DayflowError):
            for attempt, event in await tail.news():
                hear(attempt, event)
        await asyncio.sleep(channel.rest)
