"""The `datarecs` command: its sub-commands, and how every one of them ends.

A sub-command is one line of `COMMANDS`; its module is imported only when the command runs, so
`--help` stays fast. Tracebacks are printed only with -vv.
"""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from datarecs_cli import error_text
from datarecs_cli.border import StreamLostError, guarded_streams
from datarecs_cli.exit_codes import ExitCode, exit_code_of
from datarecs_cli.invocation import HELP, Invocation, UsageFault, current, enter, take_globals
from datarecs_cli.parts import Extra, require
from datarecs_core.errors.base import DatarecsError
from datarecs_runtime.environment import process_environment

if TYPE_CHECKING:
    import typer
    from typer import _click as click


class Command(NamedTuple):
    """One sub-command: `target` is `module:name` of a function, or of a `typer.Typer`."""

    name: str
    target: str
    summary: str
    needs: Extra | None = None
    """The extra that it needs, except for its help."""


COMMANDS: tuple[Command, ...] = (
    Command("up", "datarecs_cli.commands.up:up", "start the platform on this machine", Extra.LOCAL),
    Command("down", "datarecs_cli.commands.up:down", "stop the platform; --reset deletes data"),
    Command("status", "datarecs_cli.commands.up:status", "show which parts run and answer"),
    Command(
        *("demo", "datarecs_cli.commands.demo:demo", "run a demo with two comparisons"),
        needs=Extra.ALL,
    ),
    Command("init", "datarecs_cli.commands.init:init", "write a job for two files or tables"),
    Command("apply", "datarecs_cli.commands.resources:apply", "create or replace declarations"),
    Command("get", "datarecs_cli.commands.resources:get", "list resources and runs, or show one"),
    Command("changes", "datarecs_cli.commands.resources:changes", "show who changed a resource"),
    Command(
        *("describe", "datarecs_cli.commands.controllers:describe"),
        "show a resource with its conditions",
    ),
    Command("wait", "datarecs_cli.commands.controllers:wait", "wait until a condition holds"),
    Command("reconcile", "datarecs_cli.commands.controllers:reconcile", "check a resource now"),
    Command("pause", "datarecs_cli.commands.controllers:pause", "stop checks of a resource"),
    Command("resume", "datarecs_cli.commands.controllers:resume", "end a pause"),
    Command("delete", "datarecs_cli.commands.resources:delete", "delete a resource"),
    Command("schedule", "datarecs_cli.commands.schedules:app", "show the times of a schedule"),
    Command("run", "datarecs_cli.commands.runs:run", "run a job and wait for its verdict"),
    Command("retry", "datarecs_cli.commands.runs:retry", "run the job of an ended run again"),
    Command("watch", "datarecs_cli.commands.runs:watch", "follow a run to its end"),
    Command("cancel", "datarecs_cli.commands.runs:cancel", "stop a run"),
    Command("capture", "datarecs_cli.commands.captures:app", "capture tables, follow captures"),
    Command("sink", "datarecs_cli.commands.sinks:app", "read and steer sinks of Kafka topics"),
    Command("diff", "datarecs_cli.commands.results:diff", "show differences side by side"),
    Command("explain", "datarecs_cli.commands.explain:explain", "show likely causes, or one key"),
    Command("export", "datarecs_cli.commands.export:export", "write differences to a file"),
    Command("report", "datarecs_cli.commands.results:report", "save the report of a run"),
    Command("history", "datarecs_cli.commands.history:history", "show outcomes of a job's runs"),
    Command("events", "datarecs_cli.commands.events:app", "print events of a run"),
    Command("catalog", "datarecs_cli.commands.catalog:app", "read and verify the catalogue"),
    Command("validate", "datarecs_cli.commands.validate:validate", "check job files"),
    Command("schema", "datarecs_cli.commands.validate:schema", "print JSON Schema of a kind"),
    Command("compare", "datarecs_cli.commands.compare:compare", "compare files without a server"),
    Command("plan", "datarecs_cli.commands.plan:plan", "show what a job would compare"),
    Command("doctor", "datarecs_cli.commands.doctor:doctor", "open a job's sources step by step"),
    Command("verify", "datarecs_cli.commands.verify:verify", "check that a result is unaltered"),
    Command("judge", "datarecs_cli.commands.judge:judge", "judge a result by other tolerances"),
    Command("errors", "datarecs_cli.commands.errors:errors", "explain an error code"),
    Command("config", "datarecs_cli.commands.config:app", "show settings and their files"),
    Command("login", "datarecs_cli.commands.contexts:login", "store the key of a server"),
    Command("logout", "datarecs_cli.commands.contexts:logout", "remove a stored key"),
    Command("whoami", "datarecs_cli.commands.contexts:whoami", "show the key and its permissions"),
    Command("key", "datarecs_cli.commands.keys:app", "manage API keys"),
    Command("webhook", "datarecs_cli.commands.webhook_actions:app", "receive and resend webhooks"),
    Command("notify", "datarecs_cli.commands.notify:app", "preview, mute, list, resend mails"),
    Command(
        *("admin", "datarecs_cli.commands.admin:app", "manage database, topics, tenants"),
        needs=Extra.SERVER,
    ),
    Command(
        "completion", "datarecs_cli.commands.completion:completion", "print a completion script"
    ),
    Command("version", "datarecs_cli.commands.version:version", "print the version"),
)
"""In the order of the help. A new command is one line here and a module in `commands`."""


_ENDED_BY_SIGNAL = (ExitCode.HUNG_UP, ExitCode.INTERRUPTED, ExitCode.TERMINATED)
_MANY_OBJECTS = 50_000
_HELP_FLAGS = frozenset({"--help", "-h"})


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The process entry: run one command line and exit with its code."""
    # Imports and rows make many objects and few cycles: a collection every 700 objects took a
    # quarter of the time of a small comparison.
    gc.set_threshold(_MANY_OBJECTS)
    if sys.stdout is None:  # closed by the caller
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  of the process
    code = _flushed(run(sys.argv[1:] if arguments is None else arguments))
    if code in _ENDED_BY_SIGNAL:
        with suppress(AttributeError, OSError):  # a stream was closed
            sys.stderr.flush()
        # Skips the interpreter's shutdown, in which native libraries print false reports of leaks.
        os._exit(code)
    sys.exit(code)


def _flushed(code: int) -> int:
    """The exit code after what is left in the buffer of stdout; nothing is written at exit."""
    try:
        sys.stdout.flush()
    except OSError as failure:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code != ExitCode.ERRORED and not isinstance(failure, BrokenPipeError):
            return _lost(failure)
    return code


def _lost(failure: OSError) -> int:
    print(f"stdout cannot be written: {failure.strerror}", file=sys.stderr)
    return ExitCode.ERRORED


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Messages go to stderr."""
    with guarded_streams():
        try:
            invocation, rest = take_globals(
                arguments,
                environment=process_environment(),
                stdout_is_terminal=sys.stdout.isatty(),
            )
            enter(invocation)
            return _dispatch(rest)
        except UsageFault as fault:
            return _usage(str(fault))


def _dispatch(rest: Sequence[str]) -> int:
    if not rest or rest[0] in _HELP_FLAGS:
        return ending(lambda: _show_help(is_wanted=bool(rest)), current())
    if rest[0] == "--version":
        rest = ["version"]
    by_name = {command.name: command for command in COMMANDS}
    command = by_name.get(rest[0])
    if command is None:
        return _usage(f"unknown command {rest[0]!r}{_nearest(rest[0], list(by_name))}")
    return ending(lambda: _carry_out(command, rest[1:]), current())


def _show_help(*, is_wanted: bool) -> int:
    print(help_text())
    return ExitCode.DONE if is_wanted else ExitCode.USAGE


def help_text() -> str:
    """The list of commands and global flags; builds it without importing a command."""
    width = max(len(left) for left, _ in HELP)
    lines = ["usage: datarecs COMMAND [ARGUMENTS]", "", "commands:"]
    lines += [f"  {command.name:{width}}  {command.summary}" for command in COMMANDS]
    lines += ["", "flags of every command:"]
    lines += [f"  {left:{width}}  {right}" for left, right in HELP]
    return "\n".join(lines)


def load(command: Command) -> "typer.Typer":
    """Import the command's module and make it a program."""
    import typer

    module, _, name = command.target.partition(":")
    target = getattr(import_module(module), name)
    if isinstance(target, typer.Typer):
        return target
    program = typer.Typer(add_completion=False, rich_markup_mode=None)
    program.command()(target)
    return program


def program_of(command: Command) -> "click.core.Command":
    """The command with its sub-commands; each help page ends with examples and exit codes."""
    import typer

    program = typer.main.get_command(load(command))
    _end_pages(program, command.name)
    return program


def _end_pages(program: "click.core.Command", path: str) -> None:
    from datarecs_cli.help_pages import epilog_of

    program.epilog = epilog_of(path) or program.epilog
    for name, inner in getattr(program, "commands", {}).items():
        _end_pages(inner, f"{path} {name}")


def _carry_out(command: Command, arguments: Sequence[str]) -> int:
    import typer

    program = program_of(command)
    try:
        if command.needs is not None and not _HELP_FLAGS.intersection(arguments):
            require(f"datarecs {command.name}", command.needs)
        ended = program.main(
            args=list(arguments), prog_name=f"datarecs {command.name}", standalone_mode=False
        )
    except UsageFault as fault:
        return _usage(str(fault), of=_path(program, command.name, arguments))
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except SystemExit as ended_by:
        # The parser ends the process when the reader has closed the pipe.
        if isinstance(ended_by.__context__, BrokenPipeError):
            return ExitCode.DONE
        raise
    except typer.TyperException as fault:
        message = fault.format_message().replace("Value error, ", "")
        return _usage(message, of=_path(program, command.name, arguments))
    return int(ended or 0)


def ending(act: Callable[[], int], invocation: Invocation) -> int:
    """Run it; every exception becomes a message and an exit code, never a traceback."""
    try:
        return act()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # `datarecs … | head`: the reader has closed the pipe
        return ExitCode.DONE
    except StreamLostError as lost:
        return _lost(lost)
    except DatarecsError as error:
        return _known(error, invocation)
    except Exception as error:  # noqa: BLE001  the process entry: a defect ends here, explained
        return _defect(error, invocation)


def _known(error: DatarecsError, invocation: Invocation) -> int:
    code = exit_code_of(error)
    if invocation.is_json:
        print(error_text.as_json(error, code))
    else:
        print(error_text.as_text(error), file=sys.stderr)
    _traceback_if_wanted(error, invocation)
    return code


def _defect(error: Exception, invocation: Invocation) -> int:
    from datarecs_cli.stack.jars import cache_folder

    folder = cache_folder(process_environment()) / "defects"
    trace_id, path = error_text.store_traceback(error, folder)
    print(
        f"internal error in datarecs ({type(error).__name__}, trace {trace_id}); see {path}",
        file=sys.stderr,
    )
    _traceback_if_wanted(error, invocation)
    return ExitCode.ERRORED


def _traceback_if_wanted(error: BaseException, invocation: Invocation) -> None:
    if invocation.verbose > 1:
        import traceback

        traceback.print_exception(error)


def _path(program: "click.core.Command", name: str, arguments: Sequence[str]) -> str:
    """The command with its sub-command, if one is typed."""
    inner = getattr(program, "commands", {})
    return f"{name} {arguments[0]}" if arguments and arguments[0] in inner else name


def _usage(message: str, *, of: str | None = None) -> int:
    name = f"datarecs {of}" if of else "datarecs"
    print(f"{error_text.plain(message)}\n  help  {name} --help", file=sys.stderr)
    return ExitCode.USAGE


def _nearest(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
