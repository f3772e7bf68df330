"""The global flags: the same for every command, at any place of the command line.

They are removed before the command parses its arguments, so `datarecs status -o json` and
`datarecs -o json status` are equal and no command declares these flags again.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum


class Output(StrEnum):
    """Formats of the data on stdout; a command may support fewer."""

    TABLE = "table"
    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    CSV = "csv"
    MD = "md"
    NAME = "name"
    GITHUB = "github"


class UsageFault(Exception):  # noqa: N818  what the user typed, not a failure of ours
    """The command line cannot be understood; exit code 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """The global flags of one command line."""

    output: Output | None = None
    """None: the default of the command, usually a table."""
    context: str | None = None
    server: str | None = None
    timeout_s: float | None = None
    quiet: bool = False
    verbose: int = 0
    color: bool = False
    no_input: bool = False

    @property
    def is_json(self) -> bool:
        return self.output is Output.JSON

    def say(self, text: str) -> None:
        """Print a message or progress to stderr; nothing under --quiet."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)


HELP: tuple[tuple[str, str], ...] = (
    ("-o, --output FORMAT", "table (default), json, jsonl, yaml, csv, md, name, github"),
    ("--context NAME", "entry of the credentials file to use"),
    ("--server URL", "address of the API"),
    ("--timeout SECONDS", "stop waiting after this time"),
    ("-q, --quiet", "print data only, no messages"),
    ("-v, --verbose", "print more messages; -vv also tracebacks"),
    ("--no-color", "print no colours, as with NO_COLOR"),
    ("--no-input", "never prompt"),
    ("--version", "print the version"),
    ("-h, --help", "print this, or the help of a command"),
)

_VALUES = {
    "-o": "output",
    "--output": "output",
    "--context": "context",
    "--server": "server",
    "--timeout": "timeout_s",
}
_SWITCHES: Mapping[str, Callable[[Invocation], Invocation]] = {
    "-q": lambda before: replace(before, quiet=True),
    "--quiet": lambda before: replace(before, quiet=True),
    "--no-color": lambda before: replace(before, color=False),
    "--no-input": lambda before: replace(before, no_input=True),
}
_VERBOSE = {"-v": 1, "--verbose": 1, "-vv": 2, "-vvv": 3}

_current: ContextVar[Invocation] = ContextVar("invocation")


def current() -> Invocation:
    """The current invocation; one without flags outside `main`."""
    return _current.get(Invocation())


def enter(invocation: Invocation) -> None:
    """Make it the current one; called once by `main`."""
    _current.set(invocation)


def take_globals(
    arguments: Sequence[str], *, environment: Mapping[str, str], stdout_is_terminal: bool
) -> tuple[Invocation, list[str]]:
    """The global flags, and the arguments without them; arguments after `--` stay as they are.

    Raises:
        UsageFault: a flag without a value, or an unknown value.
    """
    invocation = Invocation(color=_wants_color(environment, stdout_is_terminal=stdout_is_terminal))
    rest: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        flag, equals, value = word.partition("=")
        if word == "--":
            return invocation, [*rest, word, *waiting]
        if word in _SWITCHES:
            invocation = _SWITCHES[word](invocation)
        elif word in _VERBOSE:
            invocation = replace(invocation, verbose=invocation.verbose + _VERBOSE[word])
        elif flag in _VALUES:
            if not equals and not waiting:
                raise UsageFault(f"{flag}: a value is missing")
            text = value if equals else waiting.pop(0)
            invocation = _with(invocation, flag=flag, value=text)
        else:
            rest.append(word)
    return invocation, rest


def _with(invocation: Invocation, *, flag: str, value: str) -> Invocation:
    match _VALUES[flag]:
        case "output":
            try:
                return replace(invocation, output=Output(value))
            except ValueError:
                known = ", ".join(Output)
                raise UsageFault(f"{flag} {value}: unknown format; known: {known}") from None
        case "timeout_s":
            return replace(invocation, timeout_s=_seconds(flag, value))
        case "context":
            return replace(invocation, context=value)
        case _:
            return replace(invocation, server=value)


def _seconds(flag: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageFault(f"{flag} {value}: write a number of seconds above 0")
    return seconds


def _wants_color(environment: Mapping[str, str], *, stdout_is_terminal: bool) -> bool:
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return bool(environment.get("FORCE_COLOR")) or stdout_is_terminal
