"""The tools, one per file; each file exports `TOOL`."""

import importlib
import pkgutil
import re

from activities.tool import Tool
from domain.tool import TAKEN

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def discover() -> dict[str, Tool]:
    """Every tool of this folder, by name. A file without a `TOOL`, or with a name that cannot be, does not load."""
    found: dict[str, Tool] = {}
    for module in pkgutil.iter_modules(__path__):
        tool = getattr(importlib.import_module(f"{__name__}.{module.name}"), "TOOL", None)
        if not isinstance(tool, Tool):
            raise TypeError(f"activities/tools/{module.name}.py exports no TOOL; docs/adding.md shows one")
        if tool.name in TAKEN or tool.name in found or not NAME.fullmatch(tool.name):
            raise TypeError(f"activities/tools/{module.name}.py: the name {tool.name!r} is taken or not allowed")
        found[tool.name] = tool
    return found
