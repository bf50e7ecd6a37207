"""(c) Many runs at once on one worker: steps a second, and the memory of the worker."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from statistics import median

from bench import runs, stack
from bench.hosting import Contender
from bench.report import Figure, Part
from bench.stack import Stack

CONTENDERS = {
    "Dayflow, model stubbed": Contender("AgentRun", "pull"),
    "the same run, list-passing, model stubbed": Contender("ByValue"),
    "a bare loop, list-passing, model stubbed": Contender("BareLoop"),
    "Dayflow, over HTTP, with every ledger commit": Contender("AgentRun", "http"),
    "the same run, list-passing, over HTTP, no ledger": Contender("ByValue", "http"),
}


@dataclass(frozen=True)
class Crowd:
    """What one crowd of runs came to; memory in MB, before the first run and at its highest."""

    steps_a_second: float
    idle_mb: float
    peak_mb: float


async def measure(stack: Stack, crowd: int, steps: int, rounds: int) -> Part:
    """Each contender in turn, in a worker process of its own."""

    def run(contender: Contender) -> Callable[[], Awaitable[Crowd]]:
        return lambda: _crowd(stack, contender, crowd, steps)

    found = await runs.interleave(rounds, {who: run(contender) for who, contender in CONTENDERS.items()})
    rates = {who: [each.steps_a_second for each in some] for who, some in found.items()}
    stubbed, by_value, loop, http, by_value_http = CONTENDERS
    figures = [
        Figure(f"{stubbed}", median(rates[stubbed]), "steps/s"),
        Figure(f"{by_value}", median(rates[by_value]), "steps/s"),
        Figure("… Dayflow beside it", runs.ratio(rates[stubbed], rates[by_value]), "times", least=1.0),
        Figure(f"{loop}", median(rates[loop]), "steps/s"),
        Figure("… Dayflow beside it", runs.ratio(rates[stubbed], rates[loop]), "times"),
        Figure(f"{http}", median(rates[http]), "steps/s"),
        Figure(f"{by_value_http}", median(rates[by_value_http]), "steps/s"),
        Figure("… Dayflow beside it", runs.ratio(rates[http], rates[by_value_http]), "times"),
        *(_memory(who, some) for who, some in found.items()),
    ]
    return Part("c", f"(c) {crowd} runs of {steps} steps at once", figures)


async def _crowd(up: Stack, contender: Contender, crowd: int, steps: int) -> Crowd:
    wanted = {
        "address": up.client.service_client.config.target_host,
        "settings": up.settings.model_dump(mode="json", by_alias=True, exclude_none=True),
        "contender": asdict(contender),
        "steps": steps,
    }
    command = [sys.executable, "-m", "bench.child", json.dumps(wanted)]
    with stack.process(command, subprocess.PIPE) as child:
        idle = float(await stack.first_line(child))
        began = time.perf_counter()
        await asyncio.gather(*(_run(up, contender, steps) for _ in range(crowd)))
        took = time.perf_counter() - began
        child.stdin.close()  # type: ignore[union-attr]
        return Crowd(crowd * steps / took, idle, float(await stack.first_line(child)))


async def _run(up: Stack, contender: Contender, steps: int) -> None:
    error = await runs.end(await runs.start(up.client, contender, steps))
    if error:
        raise RuntimeError(f"a run of {contender} died: {error}")


def _memory(who: str, found: list[Crowd]) -> Figure:
    idle, peak = median(each.idle_mb for each in found), median(each.peak_mb for each in found)
    return Figure(f"memory of the worker: {who}", f"{idle:.0f} idle, {peak:.0f} at the peak", "MB")
