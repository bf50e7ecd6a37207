"""Ports on loopback: whether one is free, and if not, which program has it."""

import contextlib
import errno
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

LOOPBACK = "127.0.0.1"
LISTENING = "0A"
PROC = Path("/proc")


def trouble(port: int) -> str | None:
    """Why nothing can be served on this port; None if it is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"port {port} is taken{by(port)}"
            return f"port {port} cannot be used: {error.strerror}"
    return None


def by(port: int) -> str:
    """` by NAME (pid N)` if it can be found out who listens there, else nothing."""
    found = holder(port)
    return f" by {found}" if found else ""


def holder(port: int) -> str | None:
    """The program that listens on this port; only the owner and root may know."""
    return _by_proc(port) if PROC.joinpath("net/tcp").exists() else _by_lsof(port)


def _by_proc(port: int) -> str | None:
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in PROC.glob("[0-9]*") if sockets else ():
        if sockets.intersection(_open_files(process)):
            return f"{process.joinpath('comm').read_text().strip()} (pid {process.name})"
    return None


def _open_files(process: Path) -> Iterator[str]:
    """What the process has open, as far as we may know; it can end while we look."""
    with contextlib.suppress(OSError):
        for file in process.joinpath("fd").iterdir():
            with contextlib.suppress(OSError):
                yield os.readlink(file)


def _inodes(port: int) -> Iterator[str]:
    for table in ("net/tcp", "net/tcp6"):
        try:
            lines = PROC.joinpath(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _by_lsof(port: int) -> str | None:
    if not shutil.which("lsof"):
        return None
    command = ["lsof", "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    found = {line[0]: line[1:] for line in reversed(lines)}
    return f"{found['c']} (pid {found['p']})" if {"c", "p"} <= found.keys() else None
