"""The contract test finds a new effect tool by itself, and lets none through that it cannot check."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from string import Template

import pytest
from homes import FOREIGN

from client.commands import new

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("worker.py", "pyproject.toml", "domain", "activities", "store", "sandbox", "client", "workflows")
TESTS = ("tests/conftest.py", "tests/support", "tests/contract")
NEW = '''
"""book_room: books a room, in a file that stands for a hotel."""

import json
from typing import Any

from activities.tool import Arguments, Context, Tool
from domain import errors
from domain.tool import Effect


class BookRoom(Arguments):
    """Book a room."""

    room: str


async def book_room(arguments: BookRoom, context: Context) -> dict[str, Any]:
    """Once for each key."""
    file = context.settings.home / "hotel.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for line in lines if {checks_key} else []:
        if line["key"] == context.idempotency_key:
            if line["room"] != arguments.room:
                raise errors.ArgumentsChanged("another room")
            return {{"booked": arguments.room}}
    with file.open("a") as journal:
        journal.write(json.dumps({{"key": context.idempotency_key, "room": arguments.room}}) + "\\n")
    return {{"booked": arguments.room}}


TOOL = Tool(run=book_room, arguments=BookRoom, declares=Effect(safety="key"))
'''
DESCRIPTION = '''
"""What the contract test has to know of `book_room`."""

ARGUMENTS = {"room": "1"}
OTHER_ARGUMENTS = {"room": "2"}


async def commits(context):
    """The hotel's file."""
    file = context.settings.home / "hotel.jsonl"
    return file.read_text().count(context.idempotency_key) if file.exists() else 0
'''


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the contract test needs."""
    root = tmp_path_factory.mktemp("clone")
    for place in (*NEEDED, *TESTS):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / place).is_dir():
            shutil.copytree(ROOT / place, root / place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / place, root / place)
    return root


def outcome_of(
    clone: Path, *, described: bool, checks_key: bool = True, as_written: bool = False
) -> subprocess.CompletedProcess[str]:
    """What `make test` says about a new tool. as_written: its description is the one that `dayflow new` writes."""
    (clone / "activities" / "tools" / "book_room.py").write_text(NEW.format(checks_key=checks_key))
    description = clone / "tests" / "contract" / "book_room.py"
    description.unlink(missing_ok=True)
    if described:
        description.write_text(Template(new.CONTRACT).substitute(name="book_room") if as_written else DESCRIPTION)
    env = {name: value for name, value in os.environ.items() if not name.startswith((*FOREIGN, "PYTEST_"))}
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/contract/test_effects.py")
    return subprocess.run(
        [*command, "-k", "book_room"],
        cwd=clone,
        env={**env, "PYTHONPATH": str(clone), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.long
def test_an_effect_without_a_description_fails_the_tests(clone):
    told = outcome_of(clone, described=False)

    assert told.returncode == 1, told.stdout
    assert "the effect tool 'book_room' has no tests/contract/book_room.py" in told.stdout


@pytest.mark.long
def test_a_description_that_is_not_filled_in_is_one_failure_of_one_line(clone):
    told = outcome_of(clone, described=True, as_written=True)

    assert told.returncode == 1, told.stdout
    assert "1 failed, 7 skipped" in told.stdout
    assert "tests/contract/book_room.py: fill in ARGUMENTS, OTHER_ARGUMENTS and commits" in told.stdout
    assert "Traceback" not in told.stdout


def test_a_new_effect_gets_every_test_by_being_there(clone):
    told = outcome_of(clone, described=True)

    assert told.returncode == 0, told.stdout
    assert "8 passed" in told.stdout


@pytest.mark.long
def test_an_effect_whose_destination_does_not_keep_its_promise_fails_them(clone):
    told = outcome_of(clone, described=True, checks_key=False)

    assert told.returncode == 1, told.stdout
    assert "FAILED tests/contract/test_effects.py::test_sent_twice_with_one_key" in told.stdout
    assert "FAILED tests/contract/test_effects.py::test_killed_on_the_way" in told.stdout
