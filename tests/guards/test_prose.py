"""What every file of the repository keeps to."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from activities.tools import discover as tools
from domain import agent

ROOT = Path(__file__).resolve().parents[2]
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".yml",
    ".yaml",
    ".json",
    ".txt",
    ".ini",
    ".mako",
    ".sh",
    ".cfg",
    ".html",
    ".js",
    ".ics",
    ".eml",
}
# Folders of one machine: homes of people, and where this tree itself lies.
MACHINE = re.compile("/(?:root|home/[a-z]+|Users/[A-Za-z]+)/")
AGENTS = agent.discover()


def files(root: Path = ROOT) -> list[Path]:
    """Every text file of the repository."""
    found = []
    for path in sorted(root.iterdir()):
        hidden = path.name.startswith(".") and path.name not in {".github", ".ci"}
        if hidden or path.name in {"__pycache__", "dist", "build"} or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            found += files(path)
        elif path.suffix in TEXT or path.name in {"Makefile", "Dockerfile"}:
            found.append(path)
    return found


def machine_paths(text: str) -> list[str]:
    """Paths in a text that exist on one machine only."""
    return MACHINE.findall(text) + ([str(ROOT)] if str(ROOT) in text and len(ROOT.parts) > 2 else [])


MODULES = [path for path in files() if path.suffix == ".py"]


def opening(path: Path) -> str | None:
    """The first paragraph of a module's docstring, in one line; None if the module is empty."""
    tree = ast.parse(path.read_text())
    if not tree.body:
        return None
    return " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())


def named(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_no_file_holds_a_path_of_a_machine():
    assert {str(path.relative_to(ROOT)): found for path in files() if (found := machine_paths(path.read_text()))} == {}


@pytest.mark.parametrize(
    "text", ["see /" + "home/ann/x", "/" + "Users/Ann/x", "cd /" + "root/x", f"python {ROOT}/worker.py"]
)
def test_a_path_of_a_machine_is_found(text):
    assert machine_paths(text)


def test_the_files_are_really_looked_at():
    assert {ROOT / "worker.py", ROOT / "pyproject.toml", Path(__file__).resolve()} <= set(files())


@pytest.mark.parametrize("path", MODULES, ids=named(MODULES))
def test_a_module_opens_with_a_sentence(path):
    sentence = opening(path)

    assert sentence is None or (sentence.endswith((".", ":")) and 10 < len(sentence) < 400)


@pytest.mark.parametrize("name", AGENTS)
def test_every_tool_of_an_agent_exists(name):
    assert set(AGENTS[name].tools) - set(tools()) == set()


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_is_named_as_its_file_and_says_what_it_does(name):
    assert (ROOT / "domain" / "agents" / f"{name}.py").exists()
    assert AGENTS[name].description.endswith(".")
    assert AGENTS[name].limits.steps


@pytest.mark.parametrize("name", tools())
def test_a_tool_is_named_as_its_file_and_has_a_prompt(name):
    tool = tools()[name]

    assert Path(inspect.getfile(tool.run)).stem == name
    assert len(tool.spec.description) > 20
    assert tool.spec.input_schema["additionalProperties"] is False
