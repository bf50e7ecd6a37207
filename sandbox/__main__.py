"""`python -m sandbox`: parse the arguments and serve."""

import argparse
import asyncio
import errno
import os
import sys
from pathlib import Path

from domain import errors
from sandbox import app, mail, script
from sandbox.errors import BadScript
from store import settings

USAGE = 2


def main() -> int:
    """Serve until told to stop; 2 when that cannot begin."""
    try:
        chosen = _arguments(settings.load())
        played = script.load(chosen.script) if chosen.script else None
    except (errors.BadSetting, BadScript) as error:
        return _refuse(str(error))
    try:
        application = app.build(
            chosen.home,
            played,
            journal_bodies=chosen.journal_bodies,
            smtp_port=chosen.smtp_port,
            imap_port=chosen.imap_port,
            orders=chosen.orders,
        )
    except (ValueError, KeyError) as error:
        return _refuse(f"{str(chosen.orders)!r} holds no sample orders: {error!r}")
    except OSError as error:
        return _refuse(f"cannot keep a journal in {str(chosen.home)!r}: {error.strerror}. Give another --home.")
    try:
        asyncio.run(app.serve(application, chosen.port))
    except mail.CannotServe as error:
        return _refuse(str(error))
    except (OSError, OverflowError) as error:
        return _refuse(f"cannot serve on {app.HOST}:{chosen.port}: {_why(error)}. Give another --port.")
    return 0


def _arguments(defaults: settings.Settings) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description="Dayflow's stand-in of the Messages API.")
    parser.add_argument("--port", type=int, default=defaults.sandbox_port, help="0 picks a free one")
    parser.add_argument("--home", type=Path, default=defaults.home, help="state folder; the journal lies in it")
    parser.add_argument("--script", type=Path, default=defaults.sandbox_script, help="conversation to play")
    parser.add_argument(
        "--journal-bodies",
        choices=("on", "off"),
        default=os.environ.get("DAYFLOW_SANDBOX_JOURNAL_BODIES", "on"),
        help="whether the journal keeps whole request bodies",
    )
    chosen = parser.parse_args()
    chosen.home = chosen.home.expanduser().absolute()
    chosen.journal_bodies = chosen.journal_bodies != "off"
    chosen.smtp_port = _beside(defaults.sandbox_smtp, chosen.port, 1)
    chosen.orders = defaults.sample_orders
    chosen.imap_port = _beside(defaults.sandbox_imap, chosen.port, 2)
    return chosen


def _beside(given: int | None, port: int, by: int) -> int:
    return settings.beside(port, by) if given is None else given


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "the port is taken"
    return str(error)


def _refuse(why: str) -> int:
    print(f"sandbox: {why}", file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
