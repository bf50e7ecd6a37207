"""What the bench runs against: its own Temporal server and sandbox on free ports, in a home that is thrown away."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from bench import scenario
from client import server
from client.converter import converter
from client.embedded import Server
from store.settings import Settings

HOST = "127.0.0.1"
STARTS_S = 30.0
STOPS_S = 5.0
SYNCHRONOUS = "--sqlite-pragma=synchronous="


@dataclass(frozen=True)
class Stack:
    """One home with its server and sandbox up."""

    client: Client
    settings: Settings


@contextmanager
def home() -> Iterator[Path]:
    """A folder for everything that the bench writes."""
    path = Path(tempfile.mkdtemp(prefix="dayflow-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@asynccontextmanager
async def up(home: Path, sandbox_port: int, synchronous: int = 1) -> AsyncIterator[Stack]:
    """A server started as `dayflow up` starts it, but for SQLite's `synchronous`, and a client of it."""
    home.mkdir()  # noqa: ASYNC240  (nothing else runs yet)
    wanted = settings(home, sandbox_port)
    part = Server(wanted)
    command = [f"{SYNCHRONOUS}{synchronous}" if one.startswith(SYNCHRONOUS) else one for one in part.command()]
    with (home / "server.log").open("wb") as log, process(command, log.fileno(), part.environment()):
        client = await _connected(part.address, wanted)
        await server.register_search_attributes(client)
        yield Stack(client, wanted)


@asynccontextmanager
async def sandbox(home: Path, lengths: list[int]) -> AsyncIterator[int]:
    """A sandbox that plays the scenario in these lengths; gives its port. Its journal keeps no request bodies."""
    script = home / "script.json"
    script.write_text(json.dumps(scenario.script(lengths)))
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--home", str(home / "sandbox")]
    command += ["--script", str(script), "--journal-bodies", "off"]
    with process(command, subprocess.PIPE) as child:
        line = await first_line(child)
        yield int(line.rpartition(":")[2])


def settings(home: Path, sandbox_port: int) -> Settings:
    """Settings of this home alone: no key, address or database of the environment's is ever used."""
    ports = {"DAYFLOW_PORT": _free_port(), "DAYFLOW_UI_PORT": _free_port(), "DAYFLOW_SANDBOX_PORT": sandbox_port}
    unset = dict.fromkeys(("DAYFLOW_DATABASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"))
    return Settings.model_validate({"DAYFLOW_HOME": home, **ports, **unset})


@contextmanager
def process(
    command: list[str], out: int, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own session: Ctrl-C reaches the bench alone, and the bench ends the process."""
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
    )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(STOPS_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


async def first_line(child: subprocess.Popen[bytes]) -> str:
    """The first line that a process says, when it is ready."""
    if child.stdout is None:
        raise ValueError("the process has no pipe")
    line = await asyncio.wait_for(asyncio.to_thread(child.stdout.readline), STARTS_S)
    return line.decode().strip()


async def _connected(address: str, settings: Settings) -> Client:
    async with asyncio.timeout(STARTS_S):
        while True:
            try:
                return await Client.connect(address, data_converter=converter(settings))
            except RuntimeError:
                await asyncio.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port: int = taken.getsockname()[1]
        return port
