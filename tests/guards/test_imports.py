"""The arrows between the folders, read off every import, those inside functions too."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = {"worker", "domain", "workflows", "store", "activities", "client", "sandbox", "bench", "tests"}

# Which of our own parts a part may import; each may import itself.
ARROWS = {
    "worker": {"domain", "workflows", "store", "activities", "client", "sandbox"},
    "client": {"workflows", "store", "domain"},
    "workflows": {"domain"},
    "activities": {"store", "domain"},
    "sandbox": {"store", "domain"},
    "store": {"domain"},
    "domain": set(),
}
# Which foreign packages a part may import besides the standard library; what is not named here is free.
FOREIGN = {"domain": {"pydantic"}, "workflows": {"pydantic", "temporalio"}}
# What has no place in deterministic or pure code, though it is of the standard library.
IMPURE = {"os", "random", "secrets", "socket", "subprocess", "threading", "time", "urllib", "http", "tempfile", "uuid"}

# Calls that answer otherwise at each replay, though nothing impure is imported for them.
UNSTEADY = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "open", "input", "hash", "id"}


def imported(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a module imports, by whatever way."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, f"{package}.{node.module or ''}" if node.level else node.module or ""
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"importlib.import_module", "__import__"}:
            (name, *_) = node.args
            parts = name.values if isinstance(name, ast.JoinedStr) else [name]
            yield node.lineno, str(parts[0].value) if isinstance(parts[0], ast.Constant) else package


def modules(root: Path, part: str) -> list[Path]:
    """Every module of a part."""
    return [root / f"{part}.py"] if part == "worker" else sorted((root / part).rglob("*.py"))


def wrong(root: Path) -> list[str]:
    """Every import that goes against an arrow, as `file:line imports name`."""
    found = []
    for part, arrows in ARROWS.items():
        for path in modules(root, part):
            for line, name in imported(ast.parse(path.read_text()), part):
                if not allowed(part, arrows, name.split(".")[0]):
                    found.append(f"{path.relative_to(root)}:{line} imports {name}")
    return found


def allowed(part: str, arrows: set[str], top: str) -> bool:
    """Whether a part may import what is of that top level."""
    if top in OURS:
        return top == part or top in arrows
    if part in FOREIGN:
        return top in FOREIGN[part] or (top in sys.stdlib_module_names and top not in IMPURE)
    return True


def test_every_import_follows_the_arrows():
    assert wrong(ROOT) == []


def test_every_part_is_looked_at():
    assert {part for part in ARROWS if modules(ROOT, part)} == set(ARROWS)
    assert len(modules(ROOT, "domain")) > 10


# Where an import is put that goes against an arrow, the import.
BREAKS = [
    ("domain/state.py", "import temporalio"),
    ("domain/state.py", "from store.ledger import Ledger"),
    ("domain/agents/brief.py", "def later():\n    import anthropic"),
    ("domain/state.py", "import time"),
    ("domain/loop.py", "import random"),
    ("domain/state.py", "import importlib\nimportlib.import_module('store.ledger')"),
    ("domain/state.py", "import importlib\nimportlib.import_module(f'activities.tools.{1}')"),
    ("domain/state.py", "if True:\n    from activities import model as m"),
    ("workflows/agent_run.py", "import anthropic"),
    ("workflows/agent_run.py", "from activities.tools import discover"),
    ("workflows/agent_run.py", "async def run():\n    from store import database"),
    ("workflows/agent_run.py", "from client.converter import CONVERTER"),
    ("workflows/steps.py", "from uuid import uuid4"),
    ("workflows/steps.py", "try:\n    import sqlalchemy.ext\nexcept ImportError:\n    pass"),
    ("store/ledger.py", "from activities import cleaning"),
    ("store/ledger.py", "from workflows import steps"),
    ("activities/model.py", "from workflows.steps import HEARTBEAT"),
    ("activities/model.py", "import client"),
    ("activities/model.py", "def later():\n    __import__('sandbox.app')"),
    ("sandbox/app.py", "from activities import model"),
    ("client/cli.py", "def later():\n    from activities.tools import discover"),
    ("client/cli.py", "import sandbox"),
    ("client/cli.py", "from worker import host"),
    ("activities/model.py", "import tests.support"),
]


@pytest.mark.parametrize(("place", "code"), BREAKS)
def test_an_import_against_an_arrow_is_found(tmp_path, place, code):
    for part in ARROWS:
        (tmp_path / part).mkdir()
    (tmp_path / "worker.py").touch()
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)

    (break_,) = wrong(tmp_path)

    assert break_.startswith(f"{place}:")


# Imports that follow the arrows.
FINE = [
    ("domain/state.py", "import json\nfrom domain import digest\nfrom pydantic import BaseModel"),
    ("workflows/agent_run.py", "import asyncio\nfrom temporalio import workflow\nfrom domain import loop"),
    ("client/cli.py", "from workflows.agent_run import AgentRun\nfrom store import settings\nimport typer"),
    ("activities/model.py", "import anthropic\nfrom store import crash\nfrom domain import digest"),
    ("domain/agents/brief.py", "from . import other"),
]


@pytest.mark.parametrize(("place", "code"), FINE)
def test_an_import_along_an_arrow_is_fine(tmp_path, place, code):
    for part in ARROWS:
        (tmp_path / part).mkdir()
    (tmp_path / "worker.py").touch()
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)

    assert wrong(tmp_path) == []


def unsteady(root: Path) -> list[str]:
    """Every line of pure or deterministic code whose answer is another one at each replay."""
    found = []
    for path in (path for part in FOREIGN for path in modules(root, part)):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in UNSTEADY:
                found.append(f"{path.relative_to(root)}:{node.lineno} calls {ast.unparse(node.func)}")
            elif isinstance(node, ast.For | ast.comprehension) and _is_a_set(node.iter):
                found.append(f"{path.relative_to(root)}:{node.iter.lineno} goes through a set")
    return found


def _is_a_set(node: ast.expr) -> bool:
    made = isinstance(node, ast.Call) and ast.unparse(node.func) in {"set", "frozenset"}
    return made or isinstance(node, ast.Set | ast.SetComp)


def test_deterministic_code_asks_nothing_that_changes_between_replays():
    assert unsteady(ROOT) == []


@pytest.mark.parametrize(
    "code", ["from datetime import datetime; datetime.now()", "open('x')", "for x in set('ab'): pass"]
)
def test_a_call_that_changes_between_replays_is_found(tmp_path, code):
    (tmp_path / "domain").mkdir()
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "seeded.py").write_text(code)

    assert len(unsteady(tmp_path)) == 1
