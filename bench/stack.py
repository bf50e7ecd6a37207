"""What the bench runs against: its own Temporal server and sandbox on free ports, in a home that is thrown away."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from temporalio.client import Client

from bench import scenario
from client import server
from client.converter import CONVERTER
from store.settings import Settings

HOST = "127.0.0.1"
STARTS_S = 30
STOPS_S = 5
# As `dayflow up` starts it.
FLAGS = ("--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000", "--sqlite-pragma", "journal_mode=wal")


@contextmanager
def home() -> Iterator[Path]:
    """A folder for everything that the bench writes."""
    path = Path(tempfile.mkdtemp(prefix="dayflow-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@asynccontextmanager
async def temporal(home: Path, synchronous: int = 1) -> AsyncIterator[Client]:
    """An embedded server with a file database, and a client of it."""
    folder = home / f"temporal-{synchronous}"
    folder.mkdir()
    port, ui_port = _free_port(), _free_port()
    command = [_binary(), "server", "start-dev", "--ip", HOST, "--port", str(port), "--ui-port", str(ui_port)]
    command += ["--db-filename", str(folder / "temporal.sqlite"), "--log-level", "error"]
    command += [*FLAGS, "--sqlite-pragma", f"synchronous={synchronous}"]
    with (folder / "log").open("wb") as log, _process(command, log.fileno()):
        client = await _connected(f"{HOST}:{port}")
        await server.register_search_attributes(client)
        yield client


@asynccontextmanager
async def sandbox(home: Path, lengths: list[int]) -> AsyncIterator[int]:
    """A sandbox that plays the scenario in these lengths; gives its port. Its journal keeps no request bodies."""
    script = home / "script.json"
    script.write_text(json.dumps(scenario.script(lengths)))
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--home", str(home / "sandbox")]
    command += ["--script", str(script), "--journal-bodies", "off"]
    with _process(command, subprocess.PIPE) as process:
        assert process.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), STARTS_S)
        yield int(line.decode().rpartition(":")[2])


def settings(home: Path, sandbox_port: int) -> Settings:
    """Settings of this home alone: no key and no address of the environment's is ever used."""
    values = {"DAYFLOW_HOME": home, "DAYFLOW_SANDBOX_PORT": sandbox_port, "DAYFLOW_DATABASE_URL": None}
    return Settings(**values, ANTHROPIC_API_KEY=None, ANTHROPIC_BASE_URL=None)  # type: ignore[arg-type]


@contextmanager
def _process(command: list[str], out: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own session: Ctrl-C reaches the bench alone, and the bench ends the process."""
    process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOPS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _connected(address: str) -> Client:
    async with asyncio.timeout(STARTS_S):
        while True:
            try:
                return await Client.connect(address, data_converter=CONVERTER)
            except RuntimeError:
                await asyncio.sleep(0.1)


def _binary() -> str:
    beside = shutil.which("temporal", path=sysconfig.get_path("scripts"))
    found = beside or shutil.which("temporal")
    if found is None:
        raise SystemExit("there is no `temporal` command; install the project's dependencies")
    return found


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port: int = taken.getsockname()[1]
        return port
