"""Commands: what is printed can be pasted, and means the same run."""

import shlex

import pytest

from domain import commands

# Arguments, options, the words that a shell makes of the line after `dayflow approve`.
LINES = [
    (("r1", "s1.1-ab"), "--as NAME", ["r1", "s1.1-ab", "--as", "NAME"]),
    (("r1",), "", ["r1"]),
    (("""a'b"c $(x)`y`""",), "", ["""a'b"c $(x)`y`"""]),
    (("-x", "s1.1-ab"), "--as NAME", ["--as", "NAME", "--", "-x", "s1.1-ab"]),
    (("--help",), "", ["--", "--help"]),
]


@pytest.mark.parametrize(("arguments", "options", "words"), LINES)
def test_a_shell_reads_the_arguments_as_they_are(arguments, options, words):
    assert shlex.split(commands.line("approve", *arguments, options=options)) == ["dayflow", "approve", *words]
