"""Moments in which this whole machine stood still, as a virtual one may while its neighbours are busy.

A heartbeat that falls into one comes too late, and then an attempt is repeated that nobody killed.
"""

import threading
import time
from collections import deque

TICK = 0.1
# Shorter than any timeout of the product.
LONG = 1.5
# A test that looks at what happened looks back this far.
WITHIN = 120.0

_seen: deque[float] = deque(maxlen=1000)


def watch() -> None:
    """Take note of them from now on, for as long as this process lives."""
    threading.Thread(target=_watch, name="stalls", daemon=True).start()


def stood_still() -> bool:
    """Whether this machine stood still a short while ago."""
    return any(time.monotonic() - when < WITHIN for when in _seen)


def _watch() -> None:
    last = time.monotonic()
    while True:
        time.sleep(TICK)
        now = time.monotonic()
        if now - last > LONG:
            _seen.append(now)
        last = now
