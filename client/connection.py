"""The connection to Temporal: the embedded server, or any other by Temporal's own configuration."""

import os
from typing import Any

from temporalio.client import Client
from temporalio.envconfig import ClientConfigProfile
from temporalio.service import RPCError

from client import logfile
from client.converter import converter
from domain import errors
from store.settings import Settings

NAMESPACE = "default"


def profile() -> ClientConfigProfile:
    """Temporal's own configuration: environment, then file. `errors.BadSetting` if it cannot be read."""
    try:
        return ClientConfigProfile.load()
    except Exception as error:
        raise errors.BadSetting("TEMPORAL_*", f"Temporal's client configuration cannot be read: {error}") from None


def embedded() -> bool:
    """Whether the embedded server is meant: nobody named another address."""
    return not profile().address


def address(settings: Settings) -> str:
    """`host:port` of the server that is meant."""
    return profile().address or f"127.0.0.1:{settings.port}"


def namespace() -> str:
    """The namespace that is meant."""
    return profile().namespace or NAMESPACE


async def connect(settings: Settings, **options: Any) -> Client:
    """Connect, or say in one line why not and what to do. options: what else `Client.connect` is told."""
    config: dict[str, Any] = dict(profile().to_client_connect_config())
    config.setdefault("target_host", address(settings))
    config.setdefault("namespace", NAMESPACE)
    try:
        return await Client.connect(**config, **options, data_converter=converter(settings), runtime=logfile.runtime())
    except (RuntimeError, RPCError, OSError) as error:
        start = "Start it with `dayflow up`." if embedded() else "Check TEMPORAL_ADDRESS and the network."
        raise errors.Unreachable(f"no Temporal server answers at {config['target_host']}. {start}") from error


def known_ui(settings: Settings) -> str | None:
    """Where the web UI is; None where it is that of one's own server, and nobody has said."""
    return ui_address(settings) if embedded() or os.environ.get("TEMPORAL_UI_ADDRESS") else None


def ui_address(settings: Settings) -> str:
    """Where the web UI of the embedded server is, or the one that was named."""
    return os.environ.get("TEMPORAL_UI_ADDRESS") or f"http://127.0.0.1:{settings.ui_port}"
