"""Logs: what went wrong and where; where encryption is on, without an error's words, which may be those of a mail."""

import logging
import os
import traceback
from collections.abc import Iterator
from types import TracebackType

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class _Discreet(logging.Formatter):
    def formatException(self, ei: Raised) -> str:
        return told(ei[1]).rstrip() if ei[1] else ""


def begin(handler: logging.Handler | None = None) -> None:
    """Log warnings from now on to the handler, by default to stderr."""
    handler = handler or logging.StreamHandler()
    handler.setFormatter(_Discreet(FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def told(error: BaseException) -> str:
    """The traceback of an error and of those behind it, as it may be logged."""
    if not _discreet():
        return "".join(traceback.format_exception(error))
    return "".join(line for one in _behind(error) for line in (*traceback.format_tb(one.__traceback__), _kind(one)))


def line(error: BaseException) -> str:
    """An error in one line, as it may be shown."""
    kind, words = type(error).__name__, str(error)
    return kind if _discreet() or not words else f"{kind}: {words}"


def _discreet() -> bool:
    """Whether keys are set; errors are logged, too, while no setting can be read."""
    return bool(os.environ.get("DAYFLOW_ENCRYPTION_KEYS"))


def _behind(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _kind(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}\n"
