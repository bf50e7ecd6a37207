"""The sandbox as a process: how it starts, refuses to start, stops, and remembers."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BODY = {"model": "dayflow-sandbox-1", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]}


def start(tmp_path, *arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "sandbox", "--home", str(tmp_path), *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def running(tmp_path, *arguments, **environment):
    with start(tmp_path, "--port", "0", *arguments, **environment) as process:
        try:
            yield process, process.stdout.readline().split()[-1]
        finally:
            process.kill()


def refused(process):
    """The exit code and what was printed, of a process that should not start."""
    out, error = process.communicate(timeout=20)
    assert out == ""
    return process.returncode, error


def call(url, path, body=None):
    raw = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(url + path, data=raw), timeout=10) as answer:
        return json.load(answer)


def test_it_serves_until_sigterm_and_counts_on_after_kill(tmp_path):
    with running(tmp_path) as (process, url):
        health = call(url, "/health")
        first = call(url, "/v1/messages", BODY)
        process.kill()

    with running(tmp_path, DAYFLOW_SANDBOX_JOURNAL_BODIES="off") as (process, url):
        call(url, "/v1/messages", BODY)
        lines = [line for line in call(url, "/sandbox/journal") if line["event"] == "request"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        assert process.stderr.read() == ""

    assert health == {"ok": True, "service": "dayflow-sandbox", "pid": health["pid"], "home": str(tmp_path)}
    assert first["stop_reason"] == "end_turn"
    assert [(line["n"], line["attempt"], "body" in line) for line in lines] == [(1, 1, True), (2, 2, False)]


def test_a_taken_port_is_one_line_and_exit_2(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, error = refused(start(tmp_path, "--port", str(taken.getsockname()[1])))

    assert code == 2
    assert "the port is taken" in error
    assert len(error.splitlines()) == 1


def test_a_bad_script_is_one_line_and_exit_2(tmp_path):
    script = tmp_path / "script.json"
    script.write_text('{"turns": [{"content": [{"type": "text"}]}]}')

    code, error = refused(start(tmp_path, DAYFLOW_SANDBOX_SCRIPT=str(script)))

    assert code == 2
    assert f"{script}: conversations.0.turns.0: " in error
    assert len(error.splitlines()) == 1


def test_a_script_file_plays_and_a_bad_setting_does_not_start(tmp_path):
    script = tmp_path / "script.json"
    script.write_text('{"turns": [{"content": [{"type": "text", "text": "played"}]}]}')

    with running(tmp_path, "--script", str(script)) as (_, url):
        played = call(url, "/v1/messages", BODY)
    code, error = refused(start(tmp_path, DAYFLOW_SANDBOX_PORT="none"))

    assert played["content"] == [{"type": "text", "text": "played"}]
    assert code == 2
    assert "DAYFLOW_SANDBOX_PORT" in error
