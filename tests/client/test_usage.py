"""Wrong use: one line in one style, whoever finds it, and exit code 2."""

import pytest
from homes import Home

# What is typed, and what the one line says.
MISUSED = [
    (("brief", "--steps", "x"), "--steps: it has to be a whole number. `dayflow brief --help` shows its use"),
    (("brief", "--usd", "0"), "--usd: it has to be above 0, and 0 is not"),
    (("raise", "r-1", "--usd", "0"), "--usd: it has to be above 0, and 0 is not"),
    (("runs", "-n", "5000"), "--limit / -n: it has to be less than or equal to 1000. `dayflow runs --help`"),
    (("schedule", "brief", "--missed", "never"), "--missed: 'never' is not one of 'catch-up', 'skip'. `dayflow sch"),
    (("runs", "--agent"), "Option '--agent' requires an argument. `dayflow --help` shows its use"),
    (("run",), "Missing argument 'agent'. `dayflow run --help` shows its use"),
    (("bried",), "No such command 'bried'. Did you mean 'brief', 'raise'? `dayflow --help` shows its use"),
    (("brief", "--nix: 'a': b"), "No such option: --nix: 'a': b"),
]


@pytest.mark.parametrize(("arguments", "line"), MISUSED)
def test_it_is_one_line_that_says_what_to_do(tmp_path, arguments, line):
    said = Home(tmp_path).dayflow(*arguments, code=2).stderr

    assert said.startswith(f"error: {line}")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ({"DAYFLOW_TIMEZONE": "Mars"}, "DAYFLOW_TIMEZONE: 'Mars' is no IANA time zone"),
        ({"DAYFLOW_PORT": "x"}, "DAYFLOW_PORT: it has to be a whole number. Set it right"),
    ],
)
def test_a_bad_setting_is_named_in_plain_words(tmp_path, setting, line):
    assert Home(tmp_path).dayflow("runs", env=setting, code=2).stderr.startswith(f"error: {line}")


@pytest.mark.parametrize(("arguments", "code"), [((), 2), (("memory",), 2), (("--help",), 0), (("runs", "--help"), 0)])
def test_help_is_no_error(tmp_path, arguments, code):
    told = Home(tmp_path).dayflow(*arguments, code=code)

    assert "Usage: dayflow" in told.stdout
    assert told.stderr == ""
