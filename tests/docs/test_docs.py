"""The documentation against the product: commands, links, settings, crash points, limits, tables."""

import importlib
import re
import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

from client import variables
from client.cli import app
from client.commands.tidy import LABELS
from client.output import Exit
from domain import agent
from domain.agent import Agent
from domain.retention import KINDS
from domain.status import MOVES, Status
from store import crash
from store.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "sandbox" / "README.md", *ROOT.glob("bench/*.md")]
}
OPERATING, DESIGN, README = (PAGES[name] for name in ("docs/operating.md", "docs/design.md", "README.md"))
COMMAND = typer.main.get_command(app)
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ASSIGNED = re.compile(r"\w+=\S*")
# What stands for something else in the docs.
STANDS_FOR = re.compile(r"[A-Z]+|…")
UNITS = {"ms": 1.0, "s": 1.0, "min": 60.0, "day": 86_400.0, "days": 86_400.0}


def spoken(text: str) -> list[str]:
    """Every command line of a page that begins with `dayflow`, variables before it left off."""
    lines = [line for block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    found = []
    for candidate in [*lines, *INLINE.findall(FENCE.sub("", text))]:
        for part in re.split(r"&&|;", candidate.removeprefix("$ ").split("  #")[0]):
            words = part.split()
            while words and ASSIGNED.fullmatch(words[0]):
                words.pop(0)
            if words and words[0] in ("dayflow", ".venv/bin/dayflow"):
                found.append(" ".join(words[1:]))
    return found


def resolve(words: list[str]) -> tuple[Any, list[str]]:
    """The command that is named, and the words that are left for it."""
    command: Any = COMMAND
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        found = command.get_command(None, words[0])
        assert found, f"there is no command {words[0]!r}"
        command, words = found, words[1:]
    return command, words


def rows(text: str, heading: str) -> Iterator[list[str]]:
    """The cells of the tables under a heading, without their heads."""
    section = re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    for line in section.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]


SPOKEN = sorted({(page, line) for page, text in PAGES.items() for line in spoken(text)})


@pytest.mark.parametrize(("page", "line"), SPOKEN)
def test_a_command_that_is_named_exists_with_its_options(page, line):
    words = [word for word in shlex.split(line, comments=True) if word not in ("…", "|")]
    if not words or STANDS_FOR.fullmatch(words[0]):
        return
    command, rest = resolve(words)
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}

    used = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    assert used - known == set()


def test_commands_are_really_found():
    assert {"resume -v", "approvals", "up --no-worker"} <= {line for page, line in SPOKEN if page == "README.md"}
    with pytest.raises(AssertionError):
        resolve(["imagine"])


def anchors(text: str) -> set[str]:
    """The names under which headings can be linked to."""
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


LINKS = [
    (page, link)
    for page, text in PAGES.items()
    for link in LINK.findall(FENCE.sub("", text))
    if not re.match(r"[a-z]+:", link)
]


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_a_relative_link_leads_somewhere(page, link):
    place, _, anchor = link.partition("#")
    target = (ROOT / page).parent / place if place else ROOT / page

    assert target.exists()
    if anchor:
        assert anchor in anchors(target.read_text("utf-8"))


@pytest.mark.parametrize(
    "name", [str(field.alias) for field in Settings.model_fields.values()] + list(variables.OTHERS)
)
def test_a_setting_is_on_the_page(name):
    assert name in {row[0].strip("`") for row in rows(OPERATING, "Settings")}


def test_the_page_has_no_setting_that_does_not_exist():
    known = {str(field.alias) for field in Settings.model_fields.values()} | set(variables.OTHERS) | {"DAYFLOW_AS"}

    assert {row[0].strip("`") for row in rows(OPERATING, "Settings")} - {"variable"} - known == set()


def test_a_port_or_another_simple_default_is_the_one_on_the_page():
    told = {row[0].strip("`"): row[1] for row in rows(OPERATING, "Settings")}
    for field in Settings.model_fields.values():
        if isinstance(field.default, int | str):
            assert told[str(field.alias)] == str(field.default)


def test_the_crash_points_are_on_the_page():
    told = {row[0].strip("`"): row[1].replace("`", "") for row in rows(OPERATING, "Crash points")}

    assert {name: told.get(name) for name in crash.POINTS} == {
        name: where.replace("`", "") for name, where in crash.POINTS.items()
    }


def test_the_report_of_a_clean_up_on_the_page_has_each_kind():
    tables = [block for block in FENCE.findall(OPERATING) if "dayflow retention --dry-run" in block]

    assert [set(re.findall(r"^(.+?)  +\d+ days? ", table, re.MULTILINE)) for table in tables] == [set(LABELS.values())]
    assert set(LABELS) == set(KINDS)


def test_the_exit_codes_are_on_the_page():
    told = {row[0] for row in rows(OPERATING, "Exit codes")}

    assert {str(int(code)) for code in Exit} | {"130", "137"} <= told


LIMITS = [(row[1], row[2].strip("`")) for row in rows(OPERATING, "Limits") if row[2].startswith("`")]


@pytest.mark.parametrize(("told", "constant"), LIMITS)
def test_a_limit_on_the_page_is_the_one_in_the_code(told, constant):
    module, _, name = constant.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    number, _, unit = told.partition(" ")

    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    assert float(number.replace(",", "")) * UNITS.get(unit, 1.0) == float(seconds)


def test_the_limits_are_many():
    assert len(LIMITS) > 40


@pytest.mark.parametrize("name", ["brief", "desk", "refund"])
def test_the_limits_of_an_agent_are_on_the_page(name):
    one: Agent = agent.find(name)

    assert f"`{name}` {one.limits.steps} steps and {one.limits.tokens:,} tokens" in OPERATING


@pytest.mark.parametrize("status", [one.value for one in Status])
def test_a_status_and_what_to_do_is_on_the_page(status):
    assert f"`{status}`" in {row[0] for row in rows(OPERATING, "Statuses, and what to do")}


def test_the_table_of_moves_is_that_of_the_code():
    told: dict[str, set[str]] = {}
    for start, ends in rows(DESIGN, "Status"):
        for one in re.findall(r"`(\w+)`", start):
            told[one] = set(re.findall(r"`(\w+)`", ends))

    assert told == {start.value: {end.value for end in ends} for start, ends in MOVES.items()}


def test_the_verbs_of_make_exist():
    verbs = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set()
    for text in PAGES.values():
        named |= {
            word for line in re.findall(r"\bmake((?: [a-z]+\b)+)", "\n".join(code(text))) for word in line.split()
        }

    assert {"demo", "test", "check"} <= named
    assert named - verbs == set()


def code(text: str) -> list[str]:
    """All that is set as code."""
    return [*FENCE.findall(text), *INLINE.findall(FENCE.sub("", text))]


def test_the_readme_begins_with_the_two_commands():
    commands = re.findall(r"^\$ (\w+ \w+)", README, re.MULTILINE)

    assert commands[:2] == ["make demo", "make test"]


def test_every_page_of_the_docs_is_named_in_the_readme():
    linked = {link.partition("#")[0] for link in LINK.findall(README)}

    assert {page for page in PAGES if page.startswith("docs/")} <= linked


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith(("sandbox/", "bench/"))])
def test_prose_has_one_sentence_a_line(page):
    """In prose; lists and tables may hold more."""
    prose = FENCE.sub("", PAGES[page])
    doubled = [
        line
        for line in prose.splitlines()
        if not re.match(r"\s*([-|#<]|\d+\.)", line) and re.search(r"[a-z`)][.!?] [A-Z`*]", line)
    ]

    assert doubled == []


def test_every_module_that_the_pages_name_exists():
    named = {
        found for text in PAGES.values() for found in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|md|toml))`", text)
    }
    made_up = {place for place in named if re.search(r"days_until|countdown|activities/chat", place)}

    assert {place for place in named - made_up if not (ROOT / place).exists()} == set()
