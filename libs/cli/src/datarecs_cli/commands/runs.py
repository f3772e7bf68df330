"""`datarecs run`, `retry`, `watch`, `cancel`: start, follow and cancel runs."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode, Gate
from datarecs_cli.invocation import Invocation, Output, UsageFault, current
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind

if TYPE_CHECKING:
    from datarecs_cli.client import Api, Json
    from datarecs_cli.run_ending import Ending
    from datarecs_cli.watching import ProgressView

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="id, its first 8 characters, @latest:JOB")
]
GateOption = Annotated[
    Gate | None, typer.Option(help="acceptance: the job's `accept` limits decide the exit code")
]
_FILES = (".yaml", ".yml", ".json")


def run(
    target: Annotated[
        str, typer.Argument(metavar="JOB|FILE", help="a job, or a job file, which is applied first")
    ],
    *,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="a job parameter; repeat it for a list"),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="do not wait for the end")] = False,
    no_apply: Annotated[
        bool, typer.Option("--no-apply", help="run the stored job, do not apply FILE")
    ] = False,
    reason: Annotated[str | None, typer.Option(help="reason, shown with the run")] = None,
    report: Annotated[Path | None, typer.Option(help="file for the HTML report")] = None,
    junit: Annotated[Path | None, typer.Option(help="file for the verdict as JUnit XML")] = None,
    gate: GateOption = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="a second call with the same key returns the same run")
    ] = None,
    namespace: Annotated[str, typer.Option(help="namespace of the job")] = DEFAULT_NAMESPACE,
) -> ExitCode:
    """Run a job, show its progress and wait for its verdict."""
    from datarecs_cli.client import connect
    from datarecs_cli.parameters import named_values
    from datarecs_cli.run_ending import save_report
    from datarecs_cli.triggering import trigger

    invocation = current()
    body: dict[str, object] = {"parameters": named_values(param or [])}
    if reason is not None:
        body["reason"] = reason
    with connect(invocation) as api:
        job = _job(api, target, namespace, invocation, send=not no_apply)
        if job is None:
            return ExitCode.USAGE
        made = trigger(api, job, body, key=idempotency_key)
        run_id = str(made["run_id"])
        if detach:
            _print_started(made, invocation)
            return ExitCode.DONE
        ending = _to_its_end(api, "run", run_id, invocation)
        if junit is not None:
            _save_junit(ending, junit)
            invocation.say(f"junit    {junit}")
        if report is not None:
            save_report(api, run_id, report)
            invocation.say(f"report   {report}")
    return ending.exit_code(gate)


def retry(
    run: RunName,
    *,
    detach: Annotated[bool, typer.Option("--detach", help="do not wait for the end")] = False,
    reason: Annotated[str | None, typer.Option(help="why; shown with the new run")] = None,
    gate: GateOption = None,
) -> ExitCode:
    """Run an ended run's job again with the same parameters; exit codes as `run`.

    The job is taken as it is declared now, so a corrected job can be retried.
    """
    from datarecs_cli.client import connect
    from datarecs_cli.run_names import run_named
    from datarecs_cli.triggering import retry as request_retry

    invocation = current()
    with connect(invocation) as api:
        made = request_retry(api, run_named(api, run), reason=reason)
        if detach:
            _print_started(made, invocation)
            return ExitCode.DONE
        return _to_its_end(api, "run", str(made["run_id"]), invocation).exit_code(gate)


def is_file(target: str) -> bool:
    """Whether a word of the command line means a file, not the name of a stored object."""
    return target == "-" or target.endswith(_FILES) or os.path.sep in target


def _save_junit(ending: "Ending", target: Path) -> None:
    """JUnit XML of a run without a verdict, or without its document: how the run ended."""
    from datarecs_cli.saving import save
    from datarecs_reports.junit import ending_junit, run_junit

    document = ending.document
    save(target, ending_junit(ending.run) if document is None else run_junit(document))


def _job(
    api: "Api", target: str, namespace: str, invocation: Invocation, *, send: bool
) -> tuple[str, str] | None:
    """(namespace, name) of the job; None if the file has faults, which are printed."""
    if not is_file(target):
        return namespace, target
    from datarecs_cli.applying import apply_each, check_for_server

    declared = check_for_server([target], invocation)
    if not declared:
        return None
    jobs = [one for one in declared if one.kind is Kind.RECONCILIATION_JOB]
    if len(jobs) != 1:
        way = (
            "apply the file, then run one job by its name"
            if jobs
            else "name a job, or a file with one"
        )
        raise UsageFault(f"{target} declares {len(jobs)} jobs; {way}")
    if send:
        for one in apply_each(api, declared):
            if one.refusal is not None:
                raise one.refusal
            invocation.say(f"{one.name} {one.outcome}")
            if one.secret is not None:
                invocation.say(f"signing secret, shown only once: {one.secret}")
    return jobs[0].namespace, jobs[0].name


def _print_started(made: "Json", invocation: Invocation) -> None:
    from datarecs_cli.output import print_json

    if invocation.output is Output.JSON:
        print_json("run", {"run": made})
    else:
        print(made["run_id"])
    invocation.say(f"follow the run with: datarecs watch {made['run_id']}")


def _progress_view(api: "Api", run: "Json", invocation: Invocation) -> "ProgressView":
    from datarecs_cli.output import stdout_words
    from datarecs_cli.screen import Screen
    from datarecs_cli.triggering import source_names
    from datarecs_cli.watching import ProgressView
    from datarecs_runtime.environment import process_environment

    environment = process_environment()
    return ProgressView(
        screen=Screen.of(invocation, environment),
        words=stdout_words(environment),
        sources=source_names(api, run),
    )


def _to_its_end(api: "Api", command: str, run_id: str, invocation: Invocation) -> "Ending":
    """Wait, show progress, and return the end of the run."""
    from datarecs_cli.run_ending import ending_of, print_ending
    from datarecs_cli.watching import wait_for_end

    view = _progress_view(api, api.get("runs", run_id), invocation)
    ended = wait_for_end(api, run_id, view, limit_s=invocation.timeout_s)
    ending = ending_of(api, ended)
    print_ending(command, ending, view.words, _in_ci(invocation))
    return ending


def _in_ci(invocation: Invocation) -> Invocation:
    from datarecs_cli.commands.validate import in_ci

    return in_ci(invocation)


def watch(
    run: RunName,
    *,
    events: Annotated[
        bool,
        typer.Option("--events", help="print every event as JSON on stdout instead of progress"),
    ] = False,
    gate: GateOption = None,
) -> ExitCode:
    """Follow a run from its beginning to its end."""
    from datarecs_cli.client import connect
    from datarecs_cli.run_names import run_named

    invocation = current()
    with connect(invocation) as api:
        run_id = run_named(api, run)
        if events:
            return _events_to_the_end(api, run_id, invocation, gate)
        return _to_its_end(api, "watch", run_id, invocation).exit_code(gate)


def _events_to_the_end(
    api: "Api", run_id: str, invocation: Invocation, gate: Gate | None
) -> ExitCode:
    from dataclasses import replace

    from datarecs_cli.event_lines import print_cloud_event
    from datarecs_cli.run_ending import Ending
    from datarecs_cli.watching import wait_for_end

    view = replace(_progress_view(api, {}, invocation), happened=print_cloud_event)
    ended = wait_for_end(api, run_id, view, limit_s=invocation.timeout_s)
    return Ending(run=ended, document=None, largest=None).exit_code(gate)


def cancel(
    run: RunName,
    *,
    reason: Annotated[str | None, typer.Option(help="why")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="wait until the run has ended")] = False,
) -> ExitCode:
    """Request the cancellation of a run; a run that has ended does not change."""
    from datarecs_cli.client import connect
    from datarecs_cli.output import print_json
    from datarecs_cli.run_names import run_named
    from datarecs_cli.watching import cancel as request_cancel

    invocation = current()
    with connect(invocation) as api:
        run_id = run_named(api, run)
        answer = request_cancel(api, run_id, reason=reason)
        if wait:
            return _to_its_end(api, "cancel", run_id, invocation).exit_code(None)
        state = answer or api.get("runs", run_id)
    if invocation.is_json:
        print_json("cancel", {"run": state})
    else:
        print(_cancel_words(state, was_running=answer is not None))
    return ExitCode.DONE if answer is not None else ExitCode.SERVER


def _cancel_words(run: Mapping[str, object], *, was_running: bool) -> str:
    if not was_running:
        return f"{run['run_id']} had already ended: {run.get('result') or run['status']}"
    if run["status"] == "CANCELLED":
        return f"{run['run_id']} cancelled"
    return f"{run['run_id']} cancel requested"
