"""The rule-based players: each module here has `plays(request)` and `answer(request)`; `echo` answers the rest."""

import importlib
import pkgutil
from typing import Protocol, cast

from sandbox.players import echo
from sandbox.request import Request
from sandbox.turns import Turn


class Player(Protocol):
    """What a module of this package offers."""

    def plays(self, asked: Request) -> bool:
        """Whether this player knows how to answer."""

    def answer(self, asked: Request) -> Turn:
        """The turn, made from what was really sent."""


def _found() -> list[Player]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "echo")
    return [cast(Player, importlib.import_module(f"{__name__}.{name}")) for name in names]


PLAYERS = _found()


def answer(asked: Request) -> Turn:
    """The answer of the first player that plays this; no rules say what an agent with memory is to remember."""
    players = [] if "remember" in asked.tools else PLAYERS
    return next((player.answer(asked) for player in players if player.plays(asked)), None) or echo.answer(asked)
