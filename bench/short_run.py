"""(b) Short runs: a step beside as many activities that do nothing, and what each part of it costs."""

from collections.abc import Mapping
from statistics import median

from bench import direct, runs
from bench.hosting import Contender
from bench.report import Figure, Part
from bench.stack import Stack

NOTHING = Contender("Nothing")
BARE, PULL, LEDGER, HTTP = (
    Contender("AgentRun", "bare"),
    Contender("AgentRun", "pull"),
    Contender("AgentRun", "ledger"),
    Contender("AgentRun", "http"),
)
BY_VALUE, BY_VALUE_HTTP = Contender("ByValue"), Contender("ByValue", "http")
NOT_EAGER = Contender("AgentRun", "pull", eager=False)
STUBBED_RATIO, HTTP_RATIO = 1.5, 2.2

# Milliseconds a step, a round each; by contender, and by the server's `synchronous`.
Times = Mapping[tuple[Contender, int], list[float]]


async def measure(stacks: Mapping[int, Stack], steps: int, rounds: int) -> Part:
    """All contenders in turn, on a server with `synchronous=1`; two of them on one with 2 as well."""
    measured = [(each, 1) for each in (NOTHING, BARE, PULL, LEDGER, HTTP, BY_VALUE, BY_VALUE_HTTP, NOT_EAGER)]
    measured += [(NOTHING, 2), (PULL, 2)]

    def run(contender: Contender, synchronous: int) -> runs.Measure:
        return lambda: runs.measure(stacks[synchronous], contender, steps)

    found = await runs.interleave(rounds, {which: run(*which) for which in measured})
    times = {which: [run.step_ms for run in some] for which, some in found.items()}
    cpu = {which: median(run.cpu_ms for run in some) for which, some in found.items()}
    _, own = direct.answer_ms(stacks[1].settings.sandbox_port, steps, 1, steps)
    figures = [*_claims(times), *_parts(times, own), *_others(times), *_cpu(cpu)]
    return Part("b", f"(b) {steps} steps, two tools each: milliseconds a step", figures)


def _claims(times: Times) -> list[Figure]:
    floor = times[NOTHING, 1]
    return [
        Figure("as many activities that do nothing", median(floor), "ms"),
        _step("Dayflow, model stubbed", times[PULL, 1]),
        Figure("… beside nothing", runs.ratio(times[PULL, 1], floor), "times", most=STUBBED_RATIO),
        _step("Dayflow, over HTTP, with every ledger commit", times[HTTP, 1]),
        Figure("… beside nothing", runs.ratio(times[HTTP, 1], floor), "times", most=HTTP_RATIO),
        _step("list-passing, model stubbed", times[BY_VALUE, 1]),
        Figure("… beside nothing", runs.ratio(times[BY_VALUE, 1], floor), "times"),
        _step("list-passing, over HTTP, no ledger", times[BY_VALUE_HTTP, 1]),
        Figure("… beside nothing", runs.ratio(times[BY_VALUE_HTTP, 1], floor), "times"),
    ]


def _parts(times: Times, own: float) -> list[Figure]:
    ladder = [times[each, 1] for each in (NOTHING, BARE, PULL, LEDGER, HTTP)]
    run, pull, ledger, http = (_between(*pair) for pair in zip(ladder[1:], ladder, strict=False))
    return [
        Figure("part: server and SDK, doing nothing", median(ladder[0]), "ms"),
        Figure("part: the run itself (state, search attributes, payloads, tools)", run, "ms"),
        Figure("part: pull of the transcript", pull, "ms"),
        Figure("part: ledger commits", ledger, "ms"),
        Figure("part: model SDK and HTTP", http - own, "ms"),
        Figure("part: the sandbox by itself", own, "ms"),
    ]


def _others(times: Times) -> list[Figure]:
    return [
        _step("Dayflow, model stubbed, eager activities off", times[NOT_EAGER, 1]),
        Figure("… beside on", runs.ratio(times[NOT_EAGER, 1], times[PULL, 1]), "times"),
        _step("nothing, server with synchronous=2", times[NOTHING, 2]),
        Figure("… beside synchronous=1", runs.ratio(times[NOTHING, 2], times[NOTHING, 1]), "times"),
        _step("Dayflow, model stubbed, server with synchronous=2", times[PULL, 2]),
        Figure("… beside synchronous=1", runs.ratio(times[PULL, 2], times[PULL, 1]), "times"),
    ]


def _cpu(cpu: Mapping[tuple[Contender, int], float]) -> list[Figure]:
    shown = {"nothing": NOTHING, "Dayflow, model stubbed": PULL, "Dayflow, over HTTP": HTTP}
    shown |= {"list-passing, model stubbed": BY_VALUE, "list-passing, over HTTP": BY_VALUE_HTTP}
    return [Figure(f"CPU of the worker: {who}", cpu[contender, 1], "ms") for who, contender in shown.items()]


def _step(who: str, times: list[float]) -> Figure:
    return Figure(who, median(times), "ms")


def _between(above: list[float], below: list[float]) -> float:
    return median(one - other for one, other in zip(above, below, strict=True))
