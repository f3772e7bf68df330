"""`datarecs doctor`: opens the sources of a job step by step; each step has a result and a fix.

The steps are those of the connectors, as in `plan --check-connections`. The first failed step ends
the steps of its source, then the next source is opened.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import UsageFault, current
from datarecs_cli.output import Column, print_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datarecs_application.ports.comparing import ProbeStep
    from datarecs_cli.client import Json
    from datarecs_cli.local.question import PreparedQuestion

_COLUMNS = (
    Column(title="SOURCE", member="source"),
    Column(title="STEP", member="step"),
    Column(title="STATE", member="state"),
    Column(title="MS", member="ms", number=True),
    Column(title="SEEN", member="seen"),
    Column(title="FIX", member="fix"),
)


def doctor(
    file: Annotated[str, typer.Argument(metavar="FILE", help="a job file; - for stdin")],
    *,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="a job parameter; repeat it for a list"),
    ] = None,
) -> ExitCode:
    """Open every source of a job step by step: address, login, privileges, table or files.

    Sources are opened from this machine with your rights. No value of a source is shown.
    """
    from datarecs_cli.commands.compare import flags_of
    from datarecs_cli.local.question import prepare_question
    from datarecs_runtime.clock import SystemClock

    invocation = current()
    flags = flags_of([file], None, None, None, param)
    if not flags.is_job:
        raise UsageFault(f"{file}: doctor needs a job file that ends in .yaml, .yml or .json")
    question = prepare_question(flags, now=SystemClock().now(), invocation=invocation)
    if question is None:
        return ExitCode.USAGE
    from datarecs_reports.figures import counted

    rows = list(_rows(question))
    print_list("doctor", _COLUMNS, rows, invocation)
    failed = [row for row in rows if row["state"] == "fail"]
    invocation.say(f"{counted(len(rows), 'step')}, {len(failed)} failed")
    return ExitCode.ERRORED if failed else ExitCode.DONE


def _rows(question: "PreparedQuestion") -> "Iterator[Json]":
    from datarecs_cli.error_text import fix_of
    from datarecs_cli.local.sources import LocalSources
    from datarecs_core.errors.base import DatarecsError
    from datarecs_runtime.clock import SystemClock

    sources = LocalSources(question, SystemClock())
    for source in question.question.job.sources:
        try:
            steps = sources.connect(source).probe(source)
        except DatarecsError as error:  # a secret that is not set, a kind that is not installed
            row = {"step": "connection", "state": "fail", "ms": None, "seen": str(error)}
            yield {"source": source.name, **row, "fix": fix_of(error)}
            continue
        for step in steps:
            yield {"source": source.name, **_row(step)}


def _row(step: "ProbeStep") -> "Json":
    return {
        "step": step.name,
        "state": "ok" if step.ok else "fail",
        "ms": round(step.duration.total_seconds() * 1000),
        "seen": step.detail,
        "fix": None if step.ok else _fix(step.code),
    }


def _fix(code: str | None) -> str | None:
    """The fix of the error catalogue."""
    from datarecs_cli.commands.errors import catalogue

    known = (one for one in catalogue().values() if one.name == code)
    return next((one.entry.remedy for one in known), None)
