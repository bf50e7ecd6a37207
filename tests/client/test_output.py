"""Output: what comes from outside is shown, and neither moves the cursor nor turns text around."""

import json

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
