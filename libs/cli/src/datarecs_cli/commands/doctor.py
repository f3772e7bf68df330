"""`datarecs doctor`: checks a job's sources, the platform, its mail or security, step by step.

Each step has a result and a fix. The steps of a source are those of its connector, as in
`plan --check-connections`. The first failed step ends the steps of its source, then the next source
is opened.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.commands.up import DEFAULT_DATA_DIR, DataDir
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
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="a job file; - for stdin; with --mail a received mail, with --security a service",
        ),
    ] = None,
    *,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="a job parameter; repeat it for a list"),
    ] = None,
    platform: Annotated[
        bool, typer.Option("--platform", help="check machine, database, broker and parts instead")
    ] = False,
    mail: Annotated[
        bool, typer.Option("--mail", help="check mail settings, relay and a received mail instead")
    ] = False,
    security: Annotated[
        bool, typer.Option("--security", help="check the rules of profile server for a service")
    ] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> ExitCode:
    """Open every source of a job step by step: address, login, privileges, table or files.

    Sources are opened from this machine with your rights. No value of a source is shown.
    With --platform, --mail or --security the installation is checked instead; nothing is changed.
    """
    invocation = current()
    if platform + mail + security > 1:
        raise UsageFault("choose one of --platform, --mail and --security")
    if platform:
        if file is not None:
            raise UsageFault(f"--platform takes no file: {file}")
        rows = _platform_rows(data_dir)
    elif mail:
        rows = _mail_rows(file)
    elif security:
        rows = _security_rows(file)
    elif file is None:
        raise UsageFault("name a job file, or --platform, --mail or --security SERVICE")
    else:
        return _check_job(file, param)
    print_list("doctor", _COLUMNS, rows, invocation)
    return _ended(rows)


def _platform_rows(data_dir: Path) -> "list[Json]":
    from datarecs_cli.check_steps import check_rows
    from datarecs_cli.parts import Extra, require
    from datarecs_cli.platform_check import platform_steps
    from datarecs_cli.stack.layout import layout_of

    require("doctor --platform", Extra.SERVER)
    return list(check_rows(platform_steps(layout_of(data_dir))))


def _security_rows(service: str | None) -> "list[Json]":
    """The environment is that of the service."""
    from datarecs_cli.parts import Extra, require

    require("doctor --security", Extra.SERVER)
    from datarecs_cli.check_steps import check_rows
    from datarecs_cli.security_check import security_steps, service_names, settings_class_of
    from datarecs_runtime.settings import load

    if service not in service_names():
        raise UsageFault(f"name the service: doctor --security {' | '.join(service_names())}")
    return list(check_rows(security_steps(service, load(settings_class_of(service)))))


def _mail_rows(file: str | None) -> "list[Json]":
    """With a received mail alone the settings may be those of another machine."""
    from datarecs_cli.check_steps import check_rows
    from datarecs_cli.mail_check import MailSettings, mail_steps
    from datarecs_core.errors.process import SettingsError
    from datarecs_runtime.settings import load

    received = None if file is None else Path(file)
    if received is not None and not received.is_file():
        raise UsageFault(f"{file}: there is no such file; save the source of a received mail")
    try:
        settings = load(MailSettings)
    except SettingsError:
        if received is None:
            current().say(
                "the mail settings of this shell are checked; `datarecs up` has its own, and "
                "without a relay writes mails to .datarecs/mail/new"
            )
            raise
        settings = None
    return list(check_rows(mail_steps(settings, received)))


def _ended(rows: "list[Json]") -> ExitCode:
    from datarecs_reports.figures import counted

    failures = [row for row in rows if row["state"] == "fail"]
    current().say(f"{counted(len(rows), 'step')}, {len(failures)} failed")
    return ExitCode.ERRORED if failures else ExitCode.DONE


def _check_job(file: str, param: list[str] | None) -> ExitCode:
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
    rows = list(_rows(question))
    print_list("doctor", _COLUMNS, rows, invocation)
    return _ended(rows)


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
