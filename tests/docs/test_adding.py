"""The examples of docs/adding.md: written into a copy of the code, loaded there, checked, and one of them run."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from homes import BIN, Home, free_ports, until

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "adding.md"
PARTS = ("worker.py", "domain", "workflows", "store", "activities", "client", "sandbox")
TESTS = ("tests/support", "tests/contract")
CHECKS = Path(__file__).with_name("adding_checks.py")
BLOCK = re.compile(r"<!-- file: (?P<place>\S+) -->\n```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
TASK = "How long is it until 2090-01-01?"


def examples() -> dict[str, str]:
    """The files of the page."""
    return {found["place"]: found["code"] for found in BLOCK.finditer(PAGE.read_text("utf-8"))}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code with the examples in it."""
    root = tmp_path_factory.mktemp("copy")
    for part in PARTS:
        source, target = ROOT / part, root / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    for part in TESTS:
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "tests" / "conftest.py", root / "tests")
    for place, code in examples().items():
        assert not (root / place).exists()
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(code, "utf-8")
    return root


def test_every_kind_of_file_has_an_example():
    assert set(examples()) == {
        "activities/tools/days_until.py",
        "activities/tools/grant_credit.py",
        "activities/tools/save_report.py",
        "activities/tools/post_to_chat.py",
        "tests/contract/save_report.py",
        "activities/chat.py",
        "domain/agents/countdown.py",
        "gateway.py",
    }


def test_no_python_on_the_page_is_left_out():
    assert len(examples()) == PAGE.read_text("utf-8").count("```python")


def test_the_examples_load_and_keep_their_promises(copy):
    config = f"--config-file={ROOT / 'pyproject.toml'}"
    done = subprocess.run(
        [str(BIN / "pytest"), "-q", "-p", "no:cacheprovider", config, f"--rootdir={copy}", str(CHECKS)],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "DAYFLOW_COPY": str(copy)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_the_effect_whose_contract_file_is_shown_keeps_the_contract(copy):
    config = f"--config-file={ROOT / 'pyproject.toml'}"
    done = subprocess.run(
        [
            *(str(BIN / "pytest"), "-q", "-p", "no:cacheprovider", config, f"--rootdir={copy}"),
            *("-o", f"pythonpath={copy / 'tests/support'} {copy}"),
            *("-k", "save_report", str(copy / "tests/contract/test_effects.py")),
        ],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout


@pytest.mark.parametrize("tool", ["ruff check", "ruff format --check", pytest.param("mypy", marks=pytest.mark.long)])
def test_the_examples_are_as_clean_as_our_own_code(copy, tool):
    name, *arguments = tool.split()
    config = "--config-file" if name == "mypy" else "--config"
    done = subprocess.run(
        [str(BIN / name), *arguments, config, str(ROOT / "pyproject.toml"), *examples()],
        cwd=copy,
        env={**os.environ, "MYPYPATH": str(copy)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_agent_runs_with_its_tools(copy, tmp_path):
    with running(tmp_path / "home", copy) as home:
        home.sandbox("PUT", "/sandbox/script", script())
        with home.worker():
            home.start("c-1", {"agent": "countdown", "task": TASK})
            waits = home.ends("c-1", "awaiting_approval")
            home.dayflow("approve", "c-1", "--as", "lead@example.com")
            record = home.ends("c-1")

        (report,) = (home.path / "reports").iterdir()
        assert waits["pending_actions"][0]["tool"] == "save_report"
        assert record["result"] == "A long time."
        assert report.read_text("utf-8") == "It is a long time."


@pytest.mark.long
def test_the_gateway_answers_as_a_provider(copy, tmp_path):
    (port,) = free_ports(1)
    with gateway(copy, port), running(tmp_path / "home", copy, ANTHROPIC_BASE_URL=f"http://127.0.0.1:{port}") as home:
        command = [str(BIN / "dayflow"), "run", "countdown", "Say something.", "--model", "some-model", "--json"]
        done = subprocess.run(command, env=home.env, capture_output=True, text=True)

    record = json.loads(done.stdout)
    assert record["status"] == "done"
    assert record["result"] == "The gateway was sent 1 message(s)."
    assert record["totals"]["cost_usd"] is None


def script() -> dict[str, object]:
    """What the model says: it counts, saves, and answers."""
    count = {"type": "tool_use", "name": "days_until", "input": {"day": "2090-01-01"}}
    save = {"type": "tool_use", "name": "save_report", "input": {"title": "Until 2090", "text": "It is a long time."}}
    said = {"type": "text", "text": "A long time."}
    return {"conversations": [{"match": TASK, "turns": [{"content": [one]} for one in (count, save, said)]}]}


@contextlib.contextmanager
def running(path: Path, copy: Path, **settings: str) -> Iterator[Home]:
    """A home whose processes run the code of the copy."""
    path.mkdir()
    home = Home(path, PYTHONPATH=str(copy), **settings)
    home.dayflow("up", "--no-worker")
    try:
        yield home
    finally:
        home.dayflow("down", code=None)


@contextlib.contextmanager
def gateway(copy: Path, port: int) -> Iterator[None]:
    """The gateway of the page, as a process."""
    process = subprocess.Popen(
        [sys.executable, "gateway.py"],
        cwd=copy,
        env={**os.environ, "GATEWAY_PORT": str(port)},
        stdin=subprocess.DEVNULL,
    )
    try:
        until("the gateway answers", lambda: answers(port))
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)


def answers(port: int) -> bool:
    body = json.dumps({"model": "m", "messages": []}).encode()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/messages", body, timeout=2) as answer:
            return b"message_stop" in answer.read()
    except (urllib.error.URLError, OSError):
        return False
