"""The bench's worker as a process of its own: says its memory when it is ready, and its peak when stdin ends."""

import asyncio
import json
import resource
import sys
from pathlib import Path
from typing import Any

from temporalio.client import Client

from bench import hosting
from bench.hosting import Contender
from client import output
from client.converter import converter
from store.settings import Settings

STATUS = Path("/proc/self/status")


async def work(wanted: dict[str, Any]) -> None:
    """Host one contender until stdin ends."""
    hosting.quiet()
    settings = Settings.model_validate(wanted["settings"])
    client = await Client.connect(wanted["address"], data_converter=converter(settings))
    async with hosting.host(client, settings, Contender(**wanted["contender"]), wanted["steps"]):
        print(peak_mb(), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        print(peak_mb(), flush=True)


def peak_mb() -> float:
    """The most memory that this process has held so far."""
    if STATUS.exists():
        # Not from getrusage, which on Linux knows the memory of the process before exec.
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


if __name__ == "__main__":
    asyncio.run(work(json.loads(sys.argv[1])))
    output.leave(0)
