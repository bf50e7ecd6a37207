"""(a) One long run in one execution: what a step adds to history, and whether it takes longer as the run grows."""

from statistics import median

from bench import direct, runs
from bench.hosting import Contender
from bench.report import Figure, Part
from bench.runs import Run
from bench.stack import Stack

STUB, HTTP = Contender("AgentRun", "pull"), Contender("AgentRun", "http")
BY_VALUE, BY_VALUE_HTTP = Contender("ByValue"), Contender("ByValue", "http")
STEP_BYTES = 8_000
GROWTH = 1.3


async def measure(stack: Stack, steps: int, rounds: int) -> Part:
    """All of it: the stub several times, the runs over HTTP once."""

    def run(contender: Contender) -> runs.Measure:
        return lambda: runs.measure(stack, contender, steps)

    stubbed = await runs.interleave(rounds, {each: run(each) for each in (STUB, BY_VALUE)})
    http = await runs.interleave(1, {each: run(each) for each in (HTTP, BY_VALUE_HTTP)})
    windows = Windows(steps)
    figures = [
        *_sizes("Dayflow, model stubbed", stubbed[STUB], claimed=True),
        *windows.growth("Dayflow, model stubbed", stubbed[STUB], claimed=True),
        *_sizes("Dayflow, over HTTP", http[HTTP], claimed=True),
        *windows.growth("Dayflow, over HTTP", http[HTTP]),
        *windows.per_kb(http[HTTP][0], stack.settings.sandbox_port),
        *_end("list-passing, model stubbed", stubbed[BY_VALUE]),
        *_end("list-passing, over HTTP", http[BY_VALUE_HTTP]),
    ]
    return Part("a", f"(a) {steps} steps in one execution, two results of 2 KB each a step", figures)


class Windows:
    """The two stretches of a run that are compared: near its begin and at its end."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._early, self._late = (10, 10 + steps // 5), (steps - steps // 5, steps)

    def growth(self, who: str, found: list[Run], *, claimed: bool = False) -> list[Figure]:
        """Milliseconds a step early and late, and their ratio."""
        early, late = ([run.window(*window) for run in found] for window in (self._early, self._late))
        return [
            Figure(f"{who}: a step, {self._name(self._early)}", median(early), "ms"),
            Figure(f"{who}: a step, {self._name(self._late)}", median(late), "ms"),
            Figure(f"{who}: late beside early", runs.ratio(late, early), "times", most=GROWTH if claimed else None),
        ]

    def per_kb(self, run: Run, port: int) -> list[Figure]:
        """What each further KB of request costs, all in all and in the sandbox by itself."""
        early_kb, early = direct.answer_ms(port, self._steps, *self._early)
        late_kb, late = direct.answer_ms(port, self._steps, *self._late)
        growth = run.window(*self._late) - run.window(*self._early)
        return [
            Figure("a request over HTTP, early and late", f"{early_kb:,.0f} and {late_kb:,.0f}", "KB"),
            Figure("a step over HTTP, by each KB of request", growth / (late_kb - early_kb), "ms"),
            Figure("of that the sandbox by itself", (late - early) / (late_kb - early_kb), "ms"),
        ]

    def _name(self, window: tuple[int, int]) -> str:
        return f"steps {window[0]} to {window[1]}"


def _sizes(who: str, found: list[Run], *, claimed: bool = False) -> list[Figure]:
    dead = next((run.error for run in found if run.error), None)
    if dead is not None:
        return [Figure(f"{who}: died", dead)]
    size = median(run.bytes / run.steps for run in found)
    return [
        Figure(f"{who}: history a step", size, "bytes", most=STEP_BYTES if claimed else None),
        Figure(f"{who}: events", median(run.events for run in found)),
    ]


def _end(who: str, found: list[Run]) -> list[Figure]:
    run = found[0]
    end = f"dies at model call {len(run.starts)}: {run.error}" if run.error else "came to its end"
    return [
        Figure(f"{who}", end),
        Figure(f"{who}: history a step until then", run.bytes / run.steps, "bytes"),
        Figure(f"{who}: events until then", run.events),
        Figure(f"{who}: a step, its first hundred", run.window(10, 110), "ms"),
        Figure(f"{who}: a step, its last twenty", run.window(-20, len(run.durations)), "ms"),
    ]
