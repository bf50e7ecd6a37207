"""One background process and its port: what it sees of the environment, and how it is recognised."""

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from homes import free_ports, until

from client import background, embedded, ports
from client.commands import common
from client.run import Run
from store import seal
from store.settings import Settings


def test_only_the_worker_sees_credentials_and_crash_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = seal.new_key("k1")
    given = {"ANTHROPIC_API_KEY": "k", "DAYFLOW_CRASH_AT": "model.done", "STRIPE_API_KEY": "s", "IMAP_PASSWORD": "p"}
    for name, value in {**given, "DAYFLOW_ENCRYPTION_KEYS": key}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DAYFLOW_HOME", str(tmp_path))
    settings = Settings()

    server = embedded.Server(settings).environment()
    sandbox = embedded.Sandbox(settings).environment()
    codec = embedded.Codec(settings).environment()
    worker = embedded.Worker(settings).environment()

    assert not set(given) & codec.keys()
    assert codec["DAYFLOW_ENCRYPTION_KEYS"] == worker["DAYFLOW_ENCRYPTION_KEYS"] == key
    assert "DAYFLOW_ENCRYPTION_KEYS" not in {*server, *sandbox}
    assert not {"ANTHROPIC_API_KEY", "DAYFLOW_CRASH_AT", "STRIPE_API_KEY"} & server.keys()
    assert not {"ANTHROPIC_API_KEY", "DAYFLOW_CRASH_AT"} & sandbox.keys()
    assert (worker["ANTHROPIC_API_KEY"], worker["DAYFLOW_CRASH_AT"]) == ("k", "model.done")


def test_parts_read_absolute_settings_and_none_of_the_callers_besides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAYFLOW_INBOX", "mail")
    settings = Settings()
    monkeypatch.setenv("DAYFLOW_MODEL", "set after the settings were read")

    seen = embedded.Worker(settings).environment()

    assert seen["DAYFLOW_INBOX"] == str(tmp_path / "mail")
    assert "DAYFLOW_MODEL" not in seen


def test_the_holder_of_a_port_is_found() -> None:
    (port,) = free_ports(1)
    with closing(socket.create_server(("127.0.0.1", port))):
        assert f"(pid {os.getpid()})" in (ports.holder(port) or "")
        assert ports.trouble(port)
    assert ports.holder(port) is None


def test_a_zombie_counts_as_gone() -> None:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {})
    try:
        until("it has ended", lambda: background.mark(pid) is None)
        os.kill(pid, 0)  # it is still there, waiting to be reaped
    finally:
        os.waitpid(pid, 0)


def test_a_process_that_ends_between_two_looks_was_seen_to_end() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    record = background.Record(process.pid, background.mark(process.pid) or "", "", [], "")
    looks: list[bool] = []

    async def gone() -> bool:
        looks.append(not record.alive)
        if not looks[-1]:
            process.kill()
            process.wait()
        return looks[-1]

    assert asyncio.run(background.until(gone, record, 10))


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({}, "http://127.0.0.1:8299"),
        ({"TEMPORAL_ADDRESS": "temporal.example.com:7233"}, None),
        ({"TEMPORAL_ADDRESS": "temporal.example.com:7233", "TEMPORAL_UI_ADDRESS": "http://ui"}, "http://ui"),
    ],
    ids=["embedded", "own", "own, and named"],
)
def test_a_run_on_a_server_of_ones_own_has_a_web_ui_only_where_that_was_named(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], address: str | None
) -> None:
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_UI_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    run = Run("r", "x", "dayflow", open=True, started_at=datetime.now(UTC), state=None)

    shown = common.run_address(Settings(DAYFLOW_UI_PORT=8299), run)

    assert shown == (address and f"{address}/namespaces/default/workflows/r/x/timeline")
