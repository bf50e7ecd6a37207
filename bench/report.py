"""The report: each figure beside the bound that is claimed of it, and whether it was met."""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from client import output


@dataclass(frozen=True)
class Figure:
    """One measured figure. most, least: the bound that is claimed; without one it is there to be known."""

    what: str
    value: float | str
    unit: str = ""
    most: float | None = None
    least: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the claim holds; None where nothing is claimed."""
        if isinstance(self.value, str) or (self.most is None and self.least is None):
            return None
        return (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)

    @property
    def row(self) -> tuple[str, str, str, str]:
        """As a line of the table."""
        verdict = {True: "ok", False: "NOT MET", None: ""}[self.met]
        return self.what, f"{_short(self.value)} {self.unit}".strip(), self._bound(), verdict

    def _bound(self) -> str:
        most = "" if self.most is None else f"at most {_short(self.most)}"
        return most if self.least is None else f"at least {_short(self.least)}"


@dataclass(frozen=True)
class Part:
    """The figures of one measurement."""

    name: str
    title: str
    figures: Sequence[Figure]

    def show(self) -> None:
        """Print the table."""
        output.table(("", "measured", "claimed", ""), (figure.row for figure in self.figures), title=f"\n{self.title}")
        sys.stdout.flush()

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        rows = [{**asdict(figure), "met": figure.met} for figure in self.figures]
        return {"part": self.name, "title": self.title, "figures": rows}

    @property
    def met(self) -> bool:
        """Whether every claim holds."""
        return all(figure.met is not False for figure in self.figures)


def machine() -> Figure:
    """How busy the machine is before a measurement: beside other programs every ratio grows."""
    cores = os.cpu_count() or 1
    return Figure(f"load of this machine when it began, {cores} cores", os.getloadavg()[0])


def _short(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
