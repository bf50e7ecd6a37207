"""Where a run's mail and calendar are read from."""

from dataclasses import dataclass
from pathlib import Path

from activities.tool import Context


@dataclass(frozen=True)
class Sources:
    """inbox: a Maildir, an mbox file or a folder of .eml files. calendar: an .ics file or a folder of them."""

    inbox: Path
    calendar: Path


def of(context: Context) -> Sources:
    """The sources of the run in `context`."""
    return Sources(inbox=context.settings.inbox, calendar=context.settings.calendar)
