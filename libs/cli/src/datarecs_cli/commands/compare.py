"""`datarecs compare`: compares files, or the sources of a job file, without a server."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from datarecs_cli.exit_codes import ExitCode, Gate, TerminatedError, exit_code_of_run
from datarecs_cli.invocation import Invocation, Output, UsageFault, current
from datarecs_cli.local.folder import DEFAULT, OutFolder
from datarecs_cli.output import cell
from datarecs_cli.parameters import named_values
from datarecs_core.errors.base import DatarecsError

if TYPE_CHECKING:
    from datarecs_cli.local.engines import EngineChoice
    from datarecs_cli.local.faults import JobRefusedError
    from datarecs_cli.local.question import Flags
    from datarecs_cli.local.terminal_reporter import TerminalReporter
    from datarecs_cli.screen import Screen

_FORMS = (None, Output.TABLE, Output.TEXT, Output.JSON, Output.MD, Output.NAME)
ENGINES = "auto, kernel, spark or reference"
KEY = (
    "columns that identify a row; default all columns, so that whole rows are compared; a name "
    "with a comma is in double quotes, such as '\"a,b\",c'"
)

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE | SOURCE SOURCE…",
        help="a job file, or files, s3:// and postgresql:// addresses; the first is the reference",
    ),
]
Key = Annotated[list[str] | None, typer.Option(metavar="A,B", help=KEY)]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN[=LIMIT]",
        help="a column to compare, such as amount=0.01, qty=1% or at=PT1S; repeat it for more; "
        "a name with = is in double quotes; default all other columns, exactly",
    ),
]
LeftOut = Annotated[
    list[str] | None,
    typer.Option("--except", metavar="A,B", help="columns not to compare, without --measure"),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="a job parameter; repeat it for a list"),
]

AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="read Iceberg tables and captured folders as they were, such as "
        "2026-01-31T12:00:00Z; sources with a `snapshot` keep theirs",
    ),
]


def compare(
    sources: Sources,
    *,
    key: Key = None,
    measure: Limits = None,
    left_out: LeftOut = None,
    param: Parameters = None,
    as_of: AsOf = None,
    gate: Annotated[
        Gate | None, typer.Option(help="acceptance: the job's `accept` limits decide the exit code")
    ] = None,
    engine: Annotated[str, typer.Option(help=ENGINES)] = "auto",
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="such as 4GiB, instead of the job's execution.memory"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="folder for run.json, report.html and differences; default datarecs-compare/<job>"
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="also write the verdict as JUnit XML, for pipelines")
    ] = None,
) -> ExitCode:
    """Compare files, or the sources of a job file, on this machine without a server."""
    from datarecs_cli.saving import refuse_stdout
    from datarecs_cli.screen import Screen
    from datarecs_runtime.environment import process_environment

    invocation = current()
    _refuse_unknown_form(invocation)
    refuse_stdout("--out", out)
    refuse_stdout("--junit", junit)
    memory_bytes = None if memory is None else _memory_bytes(memory)
    flags = flags_of(sources, key, measure, left_out, param, as_of=as_of)
    screen = Screen.of(invocation, process_environment())
    screen.begin(f"preparing to compare {cell(', '.join(flags.sources))}")
    try:
        return _compared(flags, _engine(engine), memory_bytes, out, screen, _After(junit, gate))
    finally:
        screen.clear()


class _After(NamedTuple):
    """Write the reports and print the result after a comparison."""

    junit: Path | None
    gate: Gate | None


def _compared(  # noqa: PLR0917  the command's flags
    flags: "Flags",
    engine: "EngineChoice",
    memory_bytes: int | None,
    out: Path | None,
    screen: "Screen",
    after: _After,
) -> ExitCode:
    from datarecs_cli.local.deadline import ended_by_signals
    from datarecs_cli.local.faults import JobRefusedError
    from datarecs_cli.local.question import prepare_question
    from datarecs_cli.local.running import Local, compare_locally
    from datarecs_cli.local.terminal_reporter import TerminalReporter
    from datarecs_runtime.clock import SystemClock, UuidV7Ids
    from datarecs_runtime.environment import process_environment

    invocation, clock = current(), SystemClock()
    prepared = prepare_question(flags, now=clock.now(), invocation=invocation)
    if prepared is None:
        return ExitCode.USAGE
    reporter = TerminalReporter.of(invocation, process_environment(), clock, screen)
    local = Local(
        run_id=str(UuidV7Ids().new()),
        out=OutFolder(out or DEFAULT / prepared.question.job.name),
        engine=engine,
        memory_bytes=memory_bytes,
        reporter=reporter,
        clock=clock,
    )
    try:
        with ended_by_signals():
            document = compare_locally(prepared, local)
    except JobRefusedError as refused:
        reporter.done()
        return show_refusal(refused)
    except DatarecsError as error:
        _errored(prepared.question.job.name, error, after.junit)
        raise
    except KeyboardInterrupt as ended:
        return _ended_early(ended, reporter)
    finally:
        reporter.done()
    if after.junit is not None:
        _save_junit(document, after.junit)
    return _print(document, local.out, reporter, after.gate)


def show_refusal(refused: "JobRefusedError") -> ExitCode:
    """Print the faults of a file as `validate` does."""
    from datarecs_cli.declared_files import print_findings

    print_findings([refused.file], current())
    return ExitCode.USAGE


def _ended_early(ended: KeyboardInterrupt, reporter: "TerminalReporter") -> ExitCode:
    """Print that there is no verdict."""
    code = ended.exit_code if isinstance(ended, TerminatedError) else ExitCode.INTERRUPTED
    word = "interrupted" if code is ExitCode.INTERRUPTED else "terminated "
    with suppress(OSError):  # a terminal that was closed
        reporter.print_line(f"{word}  there is no verdict")
    return code


def flags_of(
    sources: list[str],
    key: list[str] | None,
    measure: list[str] | None,
    left_out: list[str] | None,
    param: list[str] | None,
    *,
    as_of: str | None = None,
) -> "Flags":
    """The flags of `compare` and `plan` that declare the comparison."""
    from datarecs_cli.local.as_of import check_as_of
    from datarecs_cli.local.column_names import column_names, measure_flag
    from datarecs_cli.local.database_address import read_addresses
    from datarecs_cli.local.question import Flags
    from datarecs_runtime.clock import SystemClock

    places, databases = read_addresses(sources)
    return Flags(
        sources=places,
        databases=databases,
        keys=column_names(key or ()),
        measures=tuple(map(measure_flag, measure or ())),
        left_out=column_names(left_out or ()),
        parameters=named_values(param or []),
        as_of=None if as_of is None else check_as_of(as_of, SystemClock().now()),
    )


def _save_junit(document: Mapping[str, object], target: Path) -> None:
    from datarecs_cli.saving import save
    from datarecs_reports.junit import run_junit

    save(target, run_junit(document))


def _errored(job: str, error: DatarecsError, junit: Path | None) -> None:
    """Write JUnit XML in which a failed comparison is an error, never an empty list of tests."""
    from datarecs_application.child_frames import failure_words
    from datarecs_cli.local.faults import QuestionRefusedError
    from datarecs_cli.saving import save
    from datarecs_reports.junit import ending_junit

    if junit is not None and not isinstance(error, QuestionRefusedError):
        run = {"job": job, "status": "ERRORED", "error": failure_words(error)}
        save(junit, ending_junit(run))


def _memory_bytes(text: str) -> int:
    from datarecs_cli.local.memory_size import memory_bytes

    return memory_bytes(text, "--memory")


def _engine(name: str) -> "EngineChoice":
    from datarecs_cli.local.engines import EngineChoice
    from datarecs_cli.parts import Extra, require

    try:
        engine = EngineChoice(name)
    except ValueError:
        raise UsageFault(f"--engine {name}: unknown engine; known: {ENGINES}") from None
    if engine is EngineChoice.SPARK:
        require("--engine spark", Extra.SPARK)
    return engine


def _refuse_unknown_form(invocation: Invocation) -> None:
    if invocation.output not in _FORMS:
        raise UsageFault(f"-o {invocation.output} is not a format of this command")


def _print(
    document: Mapping[str, object], out: OutFolder, reporter: "TerminalReporter", gate: Gate | None
) -> ExitCode:
    from datarecs_cli.local.view import print_result
    from datarecs_reports.decoding import run_facts

    facts = run_facts(document)
    print_result(document, facts, out, not_compared=reporter.not_compared)
    return exit_code_of_run("COMPLETED", facts.result, acceptance=facts.acceptance, gate=gate)
