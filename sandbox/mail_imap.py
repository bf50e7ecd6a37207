"""The IMAP side of the sandbox's mailbox: pymap's server in memory, over what lies on disk."""

import asyncio
import uuid
import warnings
from argparse import Namespace

from pysasl.creds.server import ServerCredentials
from pysasl.hashing import Cleartext

from sandbox.mail_faults import Faults, ImapDown
from sandbox.mail_store import INBOX, Disk, Stored
from store.settings import SANDBOX_MAIL_PASSWORD, SANDBOX_MAIL_USER

with warnings.catch_warnings():
    # pymap imports passlib where it is installed, and passlib imports a module that Python 3.13 drops.
    warnings.simplefilter("ignore", DeprecationWarning)
    from proxyprotocol.sock import SocketInfoLocal
    from pymap.backend.dict import Config, Identity, Login
    from pymap.backend.dict.filter import FilterSet
    from pymap.backend.dict.mailbox import MailboxData, MailboxSet, Message
    from pymap.exceptions import InvalidAuth
    from pymap.imap import IMAPServer
    from pymap.parsing.message import AppendMessage
    from pymap.parsing.specials import ObjectId
    from pymap.user import UserMetadata


class Folder(MailboxData):
    """A folder whose new messages go to disk first. Flags and deletions last until the sandbox stops."""

    def __init__(self, mailbox: MailboxSet, disk: Disk, name: str) -> None:
        super().__init__(mailbox._content_cache, mailbox._thread_cache)
        self._disk = disk
        self._name = name

    async def append(self, append_msg: AppendMessage, *, recent: bool = False) -> Message:
        """Keep what a client puts there."""
        await asyncio.to_thread(self._disk.add, self._name, bytes(append_msg.literal))
        return await super().append(append_msg, recent=recent)

    async def show(self, stored: Stored, *, recent: bool = False) -> None:
        """Show what is on disk already."""
        await super().append(AppendMessage(stored.raw, stored.at), recent=recent)


class Mailbox(MailboxSet):
    """The one mailbox: every folder that is on disk."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self._disk = disk
        self._folders = {name: Folder(self, disk, name) for name in (INBOX, *disk.folders())}
        self._inbox = self._folders[INBOX]
        self._set = {name: folder for name, folder in self._folders.items() if name != INBOX}

    async def load(self) -> None:
        """Show everything that lies there."""
        for name, folder in self._folders.items():
            for stored in self._disk.messages(name):
                await folder.show(stored)

    async def show(self, name: str, stored: Stored) -> None:
        """Show a message that was filed into one of the folders that are always there."""
        await self._folders[name].show(stored, recent=True)

    async def add_mailbox(self, name: str) -> ObjectId:
        """A new folder."""
        if name in self._set:
            raise ValueError(name)
        self._disk.make(name)
        folder = Folder(self, self._disk, name)
        self._set[name] = folder
        return folder.mailbox_id


class Gate(Login):
    """Lets the one user in."""

    async def authenticate(self, credentials: ServerCredentials) -> Identity:
        """Compare name and password."""
        user = UserMetadata(self.config, SANDBOX_MAIL_USER, password=SANDBOX_MAIL_PASSWORD)
        if credentials.authcid != SANDBOX_MAIL_USER or not credentials.verify(user):
            raise InvalidAuth()
        self.users_dict[SANDBOX_MAIL_USER] = user
        return Identity(SANDBOX_MAIL_USER, self, None, frozenset())


class Imap:
    """The server."""

    def __init__(self, mailbox: Mailbox, faults: Faults) -> None:
        self._faults = faults
        self._connections: set[asyncio.Task[None]] = set()
        config = _config()
        config.set_cache[SANDBOX_MAIL_USER] = (mailbox, FilterSet())
        self._serve = IMAPServer(Gate(config), config)

    async def start(self, host: str, port: int) -> asyncio.Server:
        """Listen."""
        return await asyncio.start_server(self._connected, host, port)

    async def stop(self) -> None:
        """End what is still connected."""
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._faults.take(ImapDown):
            writer.transport.abort()
            return
        task: asyncio.Task[None] = asyncio.ensure_future(self._talk(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer, SocketInfoLocal(writer, unique_id=uuid.uuid4().bytes))
        except (OSError, EOFError):
            # The client went away in the middle of something.
            return
        finally:
            writer.close()


def _config() -> Config:
    arguments = Namespace(proxy_protocol=None, passlib_cfg=None)
    return Config(
        arguments,
        demo_data=False,
        demo_user=SANDBOX_MAIL_USER,
        demo_password=SANDBOX_MAIL_PASSWORD,
        host=None,
        port=0,
        tls_enabled=False,
        hash_context=Cleartext(),
        invalid_user_sleep=0.0,
    )
