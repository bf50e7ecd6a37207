"""Where a run's mail and calendar are read from."""

from dataclasses import dataclass
from pathlib import Path

from activities.tool import Context
from store.runs import Runs


@dataclass(frozen=True)
class Sources:
    """inbox: a Maildir, an mbox file or a folder of .eml files. calendar: an .ics file or a folder of them."""

    inbox: Path
    calendar: Path


async def of(context: Context) -> Sources:
    """The sources of the run in `context`: its own, where it was started with some, else the settings'."""
    inbox, calendar = await Runs(context.database, context.namespace).sources(context.run_id)
    return Sources(inbox=inbox or context.settings.inbox, calendar=calendar or context.settings.calendar)
