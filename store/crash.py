"""Named crash points: at each durable boundary the process can be told to kill itself with SIGKILL.

Off unless `DAYFLOW_CRASH_AT=name[:n]` is set; the n-th time that the point is passed in this process, it dies.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable

POINTS: dict[str, str] = {
    "load.done": "after the agent was loaded and the run's id claimed, before that is recorded",
    "step.end": "a step is recorded; before the next model call spends anything",
    "model.begin": "before the ledger's `begun` of a model call",
    "model.begun": "after `begun`, before the request is sent",
    "model.stream": "in mid-stream, after message_start",
    "model.received": "after the last byte, before the ledger's `done`",
    "model.done": "after the ledger's `done`, before the result is recorded",
    "compact.done": "after a transcript was summed up, before that is recorded",
    "read.done": "after a reading tool ran, before its result is recorded",
    "prepare.done": "after an effect was looked at before anyone is asked, before that is recorded",
    "check.done": "after it was checked who may decide, before that is recorded",
    "effect.begin": "before the ledger's `begun` of an effect",
    "effect.begun": "after `begun`, before the effect",
    "mail.accepted": "after the mail server took a mail, before its copy goes into Sent",
    "effect.committed": "after the effect, before the ledger's `done`",
    "effect.done": "after the ledger's `done`, before the result is recorded",
    "store.commit": "in a transaction of the store, which holds its locks, before its commit",
    "retention.marked": "after a grace period has begun, before that is recorded",
    "retention.deleted": "after a run that was old is deleted from the server, before that is recorded",
    "retention.cleared": "after all of a page is deleted, before that is recorded",
}

_passed: Counter[str] = Counter()
_last_words: list[Callable[[], None]] = []


def parse(spec: str) -> tuple[str, int]:
    """Split `name[:n]`; a ValueError names the points that exist."""
    name, _, count = spec.partition(":")
    if name not in POINTS or (count and not (count.isdigit() and int(count) > 0)):
        raise ValueError(f"{spec!r} is no crash point; `dayflow doctor --crash-points` lists them (NAME or NAME:N)")
    return name, int(count or 1)


def say_before(words: Callable[[], None]) -> None:
    """Call this before the process dies here."""
    _last_words.append(words)


def point(name: str) -> None:
    """Die here by SIGKILL if this point and this passage were asked for."""
    spec = os.environ.get("DAYFLOW_CRASH_AT")
    if not spec:
        return
    wanted, count = parse(spec)
    _passed[name] += 1
    if name == wanted and _passed[name] == count:
        for words in _last_words:
            words()
        os.kill(os.getpid(), signal.SIGKILL)
