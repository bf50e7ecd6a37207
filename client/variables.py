"""Every variable that Dayflow reads: its value and where that comes from, with nothing secret in it."""

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from store.settings import Settings

# Read by the libraries below, or by one process alone; not fields of Settings.
OTHERS = {
    "DAYFLOW_AS": "who decides, where `--as` is not given",
    "DAYFLOW_SANDBOX_JOURNAL_BODIES": "whether the sandbox's journal keeps whole request bodies (on, off)",
    "TEMPORAL_ADDRESS": "your own Temporal server, instead of the embedded one",
    "TEMPORAL_NAMESPACE": "namespace on that server",
    "TEMPORAL_API_KEY": "key for that server",
    "TEMPORAL_UI_ADDRESS": "web UI of that server",
}
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|META|CODEC_AUTH|DATA")
LOGIN = re.compile(r"(?<=//)[^/@\s]*@")
PARAMETER = re.compile(r"(?i)((?:password|passwd|pwd|secret|token|key)=)[^&\s]*")


@dataclass(frozen=True)
class Variable:
    """One row: what a person may see of a variable."""

    name: str
    value: str | None
    source: str
    about: str


def listed() -> list[Variable]:
    """Each setting, then Temporal's own variables."""
    settings = [_setting(field) for field in Settings.model_fields.values()]
    set_besides = [name for name in sorted(os.environ) if name.startswith("TEMPORAL_") and name not in OTHERS]
    others = {**OTHERS, **dict.fromkeys(set_besides, "read by Temporal's client")}
    return settings + [_variable(name, about) for name, about in others.items()]


def unknown() -> Iterator[str]:
    """Variables that look like ours and are not: a slip of the pen goes unnoticed otherwise."""
    known = [str(field.alias) for field in Settings.model_fields.values()] + list(OTHERS)
    for name in sorted(os.environ):
        if name.startswith("DAYFLOW_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            yield f"{name} is no setting" + (f"; {near[0]} is" if near else "")


def _setting(field: FieldInfo) -> Variable:
    name, secret = str(field.alias), "SecretStr" in str(field.annotation)
    default = None if field.default is None or isinstance(field.default, SecretStr) else str(field.default)
    return _variable(name, field.description or "", default, secret=secret)


def _variable(name: str, about: str, default: str | None = None, *, secret: bool = False) -> Variable:
    given = os.environ.get(name)
    if secret or SECRET.search(name.removeprefix("DAYFLOW_DATABASE")):
        return Variable(name, "set" if given else "not set", "env" if given else "default", about)
    return Variable(name, shown(given) if given else default, "env" if given else "default", about)


def shown(value: str) -> str:
    """An address without the login and the passwords in it."""
    return PARAMETER.sub(r"\1***", LOGIN.sub("***@", value))
