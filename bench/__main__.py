"""`python -m bench [a] [b] [c]`: measure, print each figure beside its claim, and end with 1 if one is not met."""

import argparse
import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

from bench import crowd, hosting, long_run, report, short_run, stack
from bench.report import Figure, Part
from client import output

INTERRUPTED = 130
PARTS = ("a", "b", "c")
CROWD_STEPS = 10


def main() -> int:
    """Measure what was asked for."""
    chosen = _arguments()
    parts: list[Part] = []

    def keep(measured: Part, load: Figure) -> None:
        part = replace(measured, figures=[load, *measured.figures])
        parts.append(part)
        if not chosen.json:
            part.show()

    try:
        asyncio.run(_measure(chosen, keep))
    except asyncio.CancelledError:
        return INTERRUPTED
    if chosen.json:
        output.as_json([part.as_json() for part in parts])
    return 0 if all(part.met for part in parts) else 1


async def _measure(chosen: argparse.Namespace, keep: Callable[[Part, Figure], None]) -> None:
    """The parts one after another, each on a server of its own."""
    _stop_on_signals()
    hosting.quiet()
    long, short, many = (100, 20, 10) if chosen.quick else (500, 40, 50)
    rounds = 1 if chosen.quick else chosen.rounds
    with stack.home() as home:
        async with stack.sandbox(home, [long, short, CROWD_STEPS]) as port, AsyncExitStack() as up:
            for part in chosen.parts or PARTS:
                async with stack.up(home / part, port) as one:
                    load = report.machine()
                    match part:
                        case "a":
                            keep(await long_run.measure(one, long, rounds), load)
                        case "b":
                            safe = await up.enter_async_context(stack.up(home / "b-safe", port, synchronous=2))
                            keep(await short_run.measure({1: one, 2: safe}, short, rounds), load)
                        case "c":
                            keep(await crowd.measure(one, many, CROWD_STEPS, rounds), load)


def _stop_on_signals() -> None:
    """Ctrl-C and SIGTERM end the task, and with it everything that it has started."""
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="long run, short runs, crowd; else all")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, one round: does it run at all")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured, in turn (default 3)")
    return parser.parse_args()


if __name__ == "__main__":
    output.leave(main())
