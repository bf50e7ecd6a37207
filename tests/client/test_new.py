"""`dayflow new`: what it writes loads, is clean and tells the truth; what it must not write, it refuses."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from homes import BIN
from typer.testing import CliRunner, Result

from activities.tool import Tool
from client.commands import new
from domain import errors
from domain.agent import Agent
from domain.tool import TAKEN, Effect, Read

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"read": [], **{kind.value: ["--effect", kind.value] for kind in new.Safety}}
# In an empty clone ruff cannot see which modules are ours.
OURS = 'lint.isort.known-first-party = ["activities", "domain"]'
LONGEST = "a" + "_bcd" * 5 + "xy"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with nothing in it."""
    for folder in ("activities/tools", "domain/agents"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def run(clone: Path, *arguments: str) -> Result:
    """The command as a user types it."""
    app = typer.Typer()
    new.register(app)
    # A second command, as in the real one: a Typer app with one alone has no name for it.
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["new", *arguments, "--into", str(clone)])


def written(clone: Path) -> list[str]:
    return sorted(str(path.relative_to(clone)) for path in clone.rglob("*.py"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"made_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_loads_and_declares_what_was_asked_for(clone, kind):
    assert run(clone, "tool", "book_room", *KINDS[kind]).exit_code == 0

    tool = load(clone / "activities/tools/book_room.py").TOOL
    assert isinstance(tool, Tool)
    assert tool.name == "book_room"
    assert len(tool.spec.description) > 20
    assert tool.spec.input_schema["additionalProperties"] is False
    if kind == "read":
        assert isinstance(tool.declares, Read)
    else:
        assert isinstance(tool.declares, Effect)
        assert tool.declares.safety == kind
        assert tool.declares.approval
        assert tool.intent
        assert bool(tool.reconcile) == (kind == "lookup")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_that_is_not_written_yet_says_so(clone, kind):
    run(clone, "tool", "book_room", *KINDS[kind])
    tool = load(clone / "activities/tools/book_room.py").TOOL
    context: Any = None

    with pytest.raises(errors.ToolFailed, match="book_room is not written yet"):
        await tool.run(tool.arguments.model_construct(), context)


@pytest.mark.parametrize("kind", KINDS)
def test_its_test_is_where_such_tests_are(clone, kind):
    run(clone, "tool", "book_room", *KINDS[kind])

    test = "tests/activities/test_book_room.py" if kind == "read" else "tests/contract/book_room.py"
    assert written(clone) == ["activities/tools/book_room.py", test]


@pytest.mark.parametrize("name", ["xy", LONGEST])
@pytest.mark.parametrize("tool", ["ruff check", "ruff format --check"])
def test_what_is_written_is_clean(clone, name, tool):
    for kind, options in KINDS.items():
        assert run(clone, "tool", f"{name[:21]}_{kind}", *options).exit_code == 0
    assert run(clone, "agent", name, "--tool", f"{name[:21]}_read", "--tool", f"{name[:21]}_key").exit_code == 0

    checked = subprocess.run(
        [str(BIN / "ruff"), *tool.split()[1:], "--config", str(ROOT / "pyproject.toml"), "--config", OURS, "."],
        cwd=clone,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout
    assert len(written(clone)) == 10


def test_an_agent_loads_with_its_tools(clone):
    for name in ("read_one", "read_two"):
        run(clone, "tool", name)
    assert run(clone, "agent", "concierge", "--tool", "read_one", "--tool", "read_two").exit_code == 0

    agent = load(clone / "domain/agents/concierge.py").AGENT
    assert isinstance(agent, Agent)
    assert (agent.name, agent.tools) == ("concierge", ("read_one", "read_two"))
    assert agent.limits.steps
    assert "tests/domain/test_agent_concierge.py" in written(clone)


def test_an_agent_without_tools_loads_too(clone):
    run(clone, "agent", "concierge")

    assert load(clone / "domain/agents/concierge.py").AGENT.tools == ()


def test_the_test_of_a_reading_tool_passes(clone):
    run(clone, "tool", "book_room")
    place = clone / "activities/tools/book_room.py"
    sys.modules["activities.tools.book_room"] = load(place)
    try:
        test = load(clone / "tests/activities/test_book_room.py")
    finally:
        del sys.modules["activities.tools.book_room"]

    test.test_it_reads_and_says_so()
    test.test_arguments_that_it_does_not_know_are_refused()


# Names that cannot be, each for a reason of its own.
BAD = [
    "",
    "x",
    "Book",  # one name for one thing, whatever the file system thinks of capitals
    "book-room",
    "book room",
    "1room",
    "_room",
    "../room",
    "a/b",
    "räume",
    "import",
    "a" * 29,
    "call_model",
    "load_agent",
    "prepare_action",
    "check_authority",
    "resolve_effect",
]


@pytest.mark.parametrize("what", ["tool", "agent"])
@pytest.mark.parametrize("name", BAD)
def test_a_name_that_cannot_be_is_refused(clone, what, name):
    result = run(clone, what, "--", name) if name.startswith("-") else run(clone, what, name)

    assert isinstance(result.exception, errors.BadRequest)
    assert written(clone) == []


@pytest.mark.parametrize("taken", ["activities/tools/book_room.py", "tests/contract/book_room.py"])
def test_nothing_is_replaced_and_nothing_written_by_halves(clone, taken):
    (clone / taken).parent.mkdir(parents=True, exist_ok=True)
    (clone / taken).write_text("mine")
    result = run(clone, "tool", "book_room", "--effect", "key")

    assert isinstance(result.exception, errors.BadRequest)
    assert "exists" in str(result.exception)
    assert written(clone) == [taken]
    assert (clone / taken).read_text() == "mine"


def test_an_agent_of_a_tool_that_does_not_exist_is_refused(clone):
    result = run(clone, "agent", "concierge", "--tool", "book_room")

    assert "dayflow new tool book_room" in str(result.exception)
    assert written(clone) == []


def test_a_folder_that_is_no_clone_is_refused(tmp_path):
    result = run(tmp_path, "tool", "book_room")

    assert "no clone of Dayflow" in str(result.exception)


def test_an_unknown_kind_of_effect_is_refused(clone):
    assert run(clone, "tool", "book_room", "--effect", "magic").exit_code == 2
    assert written(clone) == []


def test_names_that_are_taken_are_those_of_the_worker():
    """Every activity that a worker registers besides the tools."""
    source = "\n".join(path.read_text() for path in (ROOT / "activities").glob("*.py"))
    named = set(re.findall(r'@activity\.defn\(name="(\w+)"', source))

    assert named == TAKEN


def test_the_intent_of_an_effect_is_made_of_an_id_and_says_so(clone):
    run(clone, "tool", "book_room", "--effect", "key")

    module = load(clone / "activities/tools/book_room.py")
    assert "subject_id" in module.TOOL.arguments.model_fields
    assert "such as an order's id" in module.intent.__doc__
