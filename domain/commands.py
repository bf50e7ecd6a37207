"""Commands: lines of `dayflow` that a person pastes into a shell, whatever the ids in them are made of."""

import shlex


def line(verb: str, *arguments: str, options: str = "") -> str:
    """`dayflow VERB ARGUMENTS OPTIONS`; with an argument that begins with a dash, after `--`."""
    given = " ".join(map(shlex.quote, arguments))
    if any(one.startswith("-") for one in arguments):
        return " ".join(filter(None, ["dayflow", verb, options, "--", given]))
    return " ".join(filter(None, ["dayflow", verb, given, options]))
