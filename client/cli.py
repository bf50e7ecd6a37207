"""`dayflow`: composes the commands, turns our errors into one line and an exit code."""

import contextlib
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import metadata
from typing import TYPE_CHECKING, Annotated

import typer

from client import logfile, output
from client.commands import inspect, memory, new, people, runs, schedule, stack, tasks, tidy
from client.output import Exit, escape
from domain import characters, errors
from domain.wording import plain
from store import logs, settings

if TYPE_CHECKING:
    from temporalio.client import Client

    from store.settings import Settings

Host = Callable[["Client", "Settings", str], AbstractAsyncContextManager[None]]


def _version(wanted: bool) -> None:
    if wanted:
        output.say(f"dayflow {metadata.version('dayflow')}")
        raise typer.Exit


app = typer.Typer(
    name="dayflow",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Durable AI agents on Temporal. Begin with `dayflow brief`; kill it at any moment; `dayflow resume` goes on.",
)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


for group in (runs, schedule, people, inspect, tasks, memory, new, tidy, stack):
    group.register(app)


def main(host: Host, arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    output.begin()
    with contextlib.suppress(errors.BadSetting):  # whoever needs the settings says so
        logfile.begin(settings.load().home)
    output.leave(_run(host, arguments))


def _run(host: Host, arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        return int(app(args=arguments, obj=host, prog_name="dayflow", standalone_mode=False) or Exit.DONE)
    except typer.TyperException as error:
        return _misused(error)
    except SystemExit as exit_:
        return int(exit_.code or 0)
    except KeyboardInterrupt:
        return 130
    except errors.Unreachable as error:
        return _told(error, Exit.NO_SERVER)
    except errors.Refused as error:
        return _told(_misread(words) or error, Exit.USAGE)
    except errors.DayflowError as error:
        return _told(error, Exit.FAILED)
    except Exception as error:
        return _unexpected(error, words)


def _misused(error: typer.TyperException) -> int:
    """What the option parser says, in one line like ours; nothing where it has shown its help instead."""
    said = " ".join(error.format_message().split())
    if not said:
        return error.exit_code
    if said.startswith("Invalid value for '"):
        place, _, why = said.removeprefix("Invalid value for ").partition("': ")
        said = f"{place.replace(chr(39), '')}: {plain(why)}"
    stop = "" if said.endswith((".", "?")) else "."
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "dayflow"
    return _told(errors.BadRequest(f"{said}{stop} `{where} --help` shows its use"), Exit.USAGE)


def _misread(arguments: Sequence[str]) -> errors.BadRequest | None:
    """What is wrong with words that were typed in another encoding, if any were."""
    word = next(filter(characters.refused, arguments), None)
    if word is None:
        return None
    return errors.BadRequest(f"{word!r} is no text in UTF-8; type it in a terminal that is set to UTF-8")


def _told(error: errors.DayflowError, code: Exit) -> int:
    output.err.print(f"[bold red]error:[/] {escape(str(error))}")
    return int(code)


def _unexpected(error: Exception, arguments: Sequence[str]) -> int:
    """A fault of ours, or of a server: one line for the person, the rest for who mends it."""
    from temporalio.service import RPCError, RPCStatusCode

    if isinstance(error, RPCError) and error.status is RPCStatusCode.UNAVAILABLE:
        gone = f"the Temporal server could not answer: {error.message}. `dayflow status` shows what runs."
        return _told(errors.Unreachable(gone), Exit.NO_SERVER)
    if misread := _misread(arguments):
        return _told(misread, Exit.USAGE)
    logging.getLogger("dayflow").error("not foreseen", exc_info=error)
    err = escape(logs.line(error))
    output.err.print(f"[bold red]error:[/] {err}. This was not foreseen; the details are in logs/cli.log of the home")
    return int(Exit.FAILED)
