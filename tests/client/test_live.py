"""What is said just now: on a terminal an attempt replaces the lost one, in a pipe there are whole lines only."""

import io

import pyte
import pytest
from rich.console import Console

from client.live import Lines, Partial, Window
from domain.model import Attempt

WIDTH, HEIGHT = 60, 12
FIRST, SECOND, LATER = Attempt(1, 1, 1), Attempt(1, 1, 2), Attempt(2, 1, 1)
TEXT, TOOL = {"type": "block", "block": 0, "kind": "text"}, {"type": "block", "block": 1, "kind": "tool_use"}


def said(words, block=0):
    return {"type": "text", "block": block, "text": words}


class Terminal:
    """A terminal, and what stands on it."""

    def __init__(self):
        self._written = io.StringIO()
        self.console = Console(file=self._written, force_terminal=True, width=WIDTH, height=HEIGHT, _environ={})

    @property
    def lines(self):
        screen = pyte.Screen(WIDTH, HEIGHT)
        screen.set_mode(pyte.modes.LNM)
        pyte.Stream(screen).feed(self._written.getvalue())
        return [line.rstrip() for line in screen.display if line.strip()]


@pytest.fixture
def terminal():
    return Terminal()


@pytest.fixture
def window(terminal):
    shown = Partial(Window(terminal.console), 0)
    yield shown
    shown.clear()


@pytest.fixture
def printed():
    return []


@pytest.fixture
def piped(printed):
    return Partial(Lines(printed.append), 0)


def hear(partial, attempt, *events):
    for event in events:
        partial.hear(attempt, event)


def test_a_terminal_shows_words_and_calls_as_far_as_they_have_come(terminal, window):
    hear(window, FIRST, TEXT, said("Let me "), said("see."), TOOL | {"name": "look"}, said('{"at": "ord', 1))

    assert terminal.lines == ["step 1  …", "  Let me see.", '  → look {"at": "ord']


def test_on_a_terminal_another_attempt_replaces_the_lost_one(terminal, window):
    hear(window, FIRST, TEXT, said("One.\nTwo.\nThree."), {"type": "lost"})
    assert terminal.lines[0] == "step 1  …  (lost; it begins again)"
    hear(window, SECOND, TEXT, said("Uno."))

    assert terminal.lines == ["step 1  …  (attempt 1 was lost; it begins again)", "  Uno."]


def test_on_a_terminal_nothing_partial_is_left_once_the_step_is_recorded(terminal, window):
    hear(window, FIRST, TEXT, said("One.\nTwo.\nThree."))
    window.clear()
    terminal.console.print("step 1  tool_use")

    assert terminal.lines == ["step 1  tool_use"]


def test_a_terminal_shows_the_end_of_a_long_text(terminal, window):
    hear(window, FIRST, TEXT, said("\n".join(f"Line {n}" for n in range(100))))

    assert terminal.lines[0] == "step 1  …"
    assert terminal.lines[-1] == "Line 99"
    assert len(terminal.lines) < HEIGHT


def test_words_cannot_steer_the_terminal(terminal, window):
    hear(window, FIRST, TEXT, said("\x1b[2J[bold]\x9b1mred\x07"))

    assert terminal.lines == ["step 1  …", "  [2J[bold]1mred"]


def test_a_pipe_gets_whole_lines_only(piped, printed):
    hear(piped, FIRST, TEXT, said("One.\nTw"), said("o.\nThr"))
    assert printed == ["  │ One.", "  │ Two."]
    hear(piped, FIRST, said("ee."), TOOL | {"name": "look"}, said("{}", 1))

    assert printed[2:] == ["  │ Three.", "  … look"]


def test_a_pipe_is_told_once_that_an_attempt_was_lost(piped, printed):
    hear(piped, FIRST, TEXT, said("One.\nTw"))
    hear(piped, SECOND, TEXT, said("Uno.\n"), {"type": "lost"})
    hear(piped, Attempt(1, 1, 3), TEXT, said("Un.\n"))
    hear(piped, Attempt(1, 2, 1), TEXT)

    assert printed == [
        "  │ One.",
        "  (step 1: attempt 1 was lost; it begins again)",
        "  │ Uno.",
        "  (this attempt was lost; it begins again)",
        "  │ Un.",
        "  (step 1: answer 1 was not used; it is asked again)",
    ]


def test_what_comes_before_its_turn_waits_and_what_comes_after_it_is_forgotten(piped, printed):
    hear(piped, LATER, TEXT, said("Second.\n"))
    hear(piped, FIRST, TEXT, said("First.\n"))
    piped.reach(1, ready=False)
    hear(piped, FIRST, said("Too late.\n"))
    assert printed == ["  │ First."]

    piped.reach(1, ready=True)

    assert printed == ["  │ First.", "  │ Second."]
