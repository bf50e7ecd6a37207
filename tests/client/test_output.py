"""Output: what comes from outside is shown, and neither moves the cursor nor turns text around."""

import json
import re

import pytest

from client import output

# What came from outside, how it is shown.
HOSTILE = [
    ("\x1b[31mred\x1b]0;title\x07", r"\u001b[31mred\u001b]0;title\u0007"),
    ("abc\u202egpj.exe", r"abc\u202egpj.exe"),
    ("a\u2066b\u2069", r"a\u2066b\u2069"),
    ("over\rwritten\x08\x7f\x9b", r"over\rwritten\b\u007f\u009b"),
    ("half \ud800", r"half \ud800"),
    ("\U000e0041", r"\udb40\udc41"),
    ("[bold]no markup[/]", "[bold]no markup[/]"),
    ("Zoé, 王小明 👩\u200d💻\n\tشكرا", "Zoé, 王小明 👩\u200d💻\n        شكرا"),
]


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_hidden_characters_are_shown_as_what_they_are(capsys, text, shown):
    output.say(text)
    output.note(text)
    with pytest.raises(SystemExit):
        output.fail(text)

    printed = capsys.readouterr()
    assert printed.out.rstrip("\n") == shown
    assert printed.err.rstrip("\n") == f"{shown}\nerror: {shown}"


@pytest.mark.parametrize("text", [text for text, _ in HOSTILE])
def test_json_stays_the_same_value_and_hides_nothing(capsys, text):
    output.as_json({"text": text})

    printed = capsys.readouterr().out
    assert json.loads(printed) == {"text": text}
    assert not output.HIDDEN.search(printed)


def test_a_table_hides_nothing(capsys):
    output.table(("run", "agent"), [("abc\u202egpj", "\x1b[2J")])

    assert not output.HIDDEN.search(capsys.readouterr().out)


RUNS = ("run", "agent", "status", "steps", "tokens", "cost", "started")
LONG = ("x" * 300, "brief", "awaiting_approval", 3, "18,099", "$0.0186 (simulated)", "12 min ago")
SHORT = ("brief-20261130-022003-74fb", "brief", "done", 3, "18,099", "$0.0186 (simulated)", "1 s ago")


@pytest.mark.parametrize("width", [72, 80, 120, 400])
def test_of_a_long_id_no_other_column_is_cut(monkeypatch, capsys, width):
    printed = on_a_terminal(monkeypatch, capsys, width, [LONG, SHORT])

    assert printed.count("x") == 300
    words = printed.split()
    assert {*RUNS, "brief", "awaiting_approval", "done", "18,099", "$0.0186", "(simulated)"} <= set(words)
    assert max(map(len, printed.splitlines())) <= width


def test_where_all_is_narrow_long_words_are_folded_and_no_short_ones(monkeypatch, capsys):
    words = on_a_terminal(monkeypatch, capsys, 60, [LONG, SHORT]).split()

    assert {*RUNS, "brief", "done", "18,099", "$0.0186"} <= set(words)


def test_a_usual_id_is_whole_where_there_is_room(monkeypatch, capsys):
    assert SHORT[0] in on_a_terminal(monkeypatch, capsys, 100, [SHORT])


def on_a_terminal(monkeypatch, capsys, width, rows):
    """The table as a terminal of that width shows it."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    output.table(RUNS, rows)
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)


def test_in_a_pipe_an_id_is_whole(capsys):
    output.table(RUNS, [LONG, SHORT])

    assert LONG[0] in capsys.readouterr().out
