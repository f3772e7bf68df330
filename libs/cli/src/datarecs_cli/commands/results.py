"""`datarecs diff` and `datarecs report`: the differences and the report of a finished run."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datarecs_cli.client import Api, Json
    from datarecs_cli.run_changes import Finished

MOST_ROWS = 1000


class Sort(StrEnum):
    DELTA = "delta"
    KEY = "key"


class Form(StrEnum):
    HTML = "html"
    JSON = "json"
    MD = "md"
    JUNIT = "junit"

    @property
    def suffix(self) -> str:
        return ".xml" if self is Form.JUNIT else f".{self}"


def diff(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FOLDER",
            help="id, its first 8 characters, @latest:JOB, or a result folder of `compare`",
        ),
    ],
    *,
    only: Annotated[
        str | None,
        typer.Option(
            help="missing:SOURCE, outside:MEASURE, null (against a value) or type (unreadable, "
            "or types that do not compare)"
        ),
    ] = None,
    measure: Annotated[str | None, typer.Option(help="only this measure")] = None,
    stage: Annotated[str | None, typer.Option(help="only this stage")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="most rows to show")] = 50,
    sort: Annotated[
        Sort, typer.Option(help="order: largest first (delta), or by key")
    ] = Sort.DELTA,
    earlier: Annotated[
        str | None,
        typer.Option(
            "--with", metavar="RUN|FOLDER", help="an earlier run; show new, gone and changed breaks"
        ),
    ] = None,
) -> ExitCode:
    """Show the differences of a run or of a result folder, with all sources side by side."""
    from datarecs_cli.mismatch_view import (
        by_key,
        columns_of,
        rows_for_machines,
        rows_for_people,
    )
    from datarecs_cli.output import print_list

    invocation = current()
    filters = {"only": only, "measure": measure, "stage": stage}
    where = {name: value for name, value in filters.items() if value is not None}
    if earlier is not None:
        return _changes(earlier, run, where, limit)
    if Path(run).exists():
        rows, names = _of_folder(Path(run), where, limit)
        incomplete = _incomplete(Path(run), stage)
    else:
        run, rows, names, incomplete = _of_server(run, where, limit)
    if sort is Sort.KEY:
        rows = sorted(rows, key=by_key)
    if invocation.output in (Output.JSON, Output.JSONL, Output.YAML):
        print_list("diff", (), rows, invocation)
    elif rows:
        machine = invocation.output is Output.CSV
        shown = rows_for_machines(rows) if machine else rows_for_people(rows, names)
        print_list("diff", columns_of(rows, names), shown, invocation)
    for line in incomplete:
        invocation.say(line)
    _report_count(run, len(rows), limit=limit)
    return ExitCode.DIFFERENT if rows else ExitCode.DONE


def _changes(earlier: str, later: str, where: "Mapping[str, str]", limit: int) -> ExitCode:
    """Print the changes between two runs; exit 1 if there are any."""
    from datarecs_cli.run_changes import print_changes

    runs = [_finished(name, where) for name in (earlier, later)]
    changed = print_changes(*runs, limit=limit, invocation=current())
    return ExitCode.DIFFERENT if changed else ExitCode.DONE


def _finished(name: str, where: "Mapping[str, str]") -> "Finished":
    """A folder, or a run of the server; a server lists at most 1,000 differences."""
    from datarecs_cli.client import connect
    from datarecs_cli.run_changes import Finished, of_folder
    from datarecs_cli.run_names import run_named
    from datarecs_reports.differences import DifferenceFilter

    if Path(name).exists():
        wanted = DifferenceFilter(measure=where.get("measure"), only=where.get("only"))
        return of_folder(Path(name), wanted, where.get("stage"))
    run_id, rows, *_ = _of_server(name, where, MOST_ROWS)
    if len(rows) == MOST_ROWS:
        raise UsageFault(
            f"run {run_id} has more than the {MOST_ROWS} differences that a server lists; select "
            "some with --stage, --measure or --only"
        )
    with connect(current()) as api:
        job = str(api.get("runs", run_named(api, name))["job"])
    return Finished(name=run_id, job=job, sealed=None, rows=rows)


def _of_folder(
    place: Path, where: "Mapping[str, str]", limit: int
) -> "tuple[list[Json], tuple[str, ...]]":
    """The largest rows of a result folder of `compare`, and the names of its sources."""
    from datarecs_cli.evidence import refuse_unknown_names, stored_run
    from datarecs_reports.differences import DifferenceFilter, read_differences
    from datarecs_reports.stored_rows import parts_of

    run, folder = stored_run(place)
    refuse_unknown_names(run, where)
    stage = where.get("stage")
    parts = (
        part.read_bytes()
        for each in run.stages
        if stage in (None, each.name)
        for part in parts_of(folder, each.name)
    )
    wanted = DifferenceFilter(measure=where.get("measure"), only=where.get("only"))
    return list(read_differences(parts, wanted, limit=limit)), run.sources


def _incomplete(place: Path, stage: str | None) -> list[str]:
    """Stages of a folder that store only some of their differences."""
    from datarecs_cli.evidence import evidence_at
    from datarecs_reports.decoding import incomplete_stages

    document = evidence_at(place).document
    return incomplete_stages(document, stage) if isinstance(document, dict) else []


def _of_server(
    name: str, where: "Mapping[str, str]", limit: int
) -> "tuple[str, list[Json], tuple[str, ...], list[str]]":
    """The run's id, its largest rows, its sources, and the stages that store only some rows."""
    from datarecs_cli.client import connect
    from datarecs_cli.run_names import refuse_missing_folder, run_named
    from datarecs_cli.triggering import source_names

    refuse_missing_folder(name)
    with connect(current()) as api:
        run_id = run_named(api, name)
        state = api.get("runs", run_id)
        if state.get("result") is None:
            raise UsageFault(f"run {run_id} is {state['status']} and has no result")
        answer = api.get("runs", run_id, "mismatches", limit=str(limit), **where)
        items = answer.get("items")
        rows = items if isinstance(items, list) else []
        lines = answer.get("incomplete")
        incomplete = [str(each) for each in lines] if isinstance(lines, list) else []
        return run_id, rows, source_names(api, state) if rows else (), incomplete


def _report_count(run_id: str, rows: int, *, limit: int) -> None:
    if not rows:
        current().say("no differences")
    elif rows == limit:
        more = f"--limit {min(limit * 10, MOST_ROWS)}"
        current().say(f"the largest {rows}; show more with: datarecs diff {run_id} {more}")


def report(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FOLDER",
            help="a run, a result folder of `compare`, or a folder of runs for an index page",
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="file to write; default report-<run>.<format>, or beside the result"),
    ] = None,
    form: Annotated[
        Form, typer.Option("--format", help="html, md, junit, or run.json as json")
    ] = Form.HTML,
    show: Annotated[bool, typer.Option("--open", help="open it in the browser")] = False,
) -> ExitCode:
    """Save the report of a run as one file, or an index page for a folder of runs."""
    from datarecs_cli.saving import is_stdout
    from datarecs_cli.stored_report import is_result, save_stored_report

    invocation = current()
    if invocation.output in (Output.CSV, Output.MD, Output.YAML):
        raise UsageFault(f"-o {invocation.output} is not a format of this command; use --format")
    if is_result(Path(run)):
        target = save_stored_report(Path(run), out, form, form.suffix)
    elif Path(run).is_dir():
        target = _save_index(Path(run), out, form)
    else:
        target = _save_report(run, out, form)
    if is_stdout(target):
        return ExitCode.DONE
    if invocation.output is Output.JSON:
        print(json.dumps({"schema": "datarecs.cli.report/1", "path": str(target)}))
    else:
        print(target)
    if show:
        import webbrowser

        if not webbrowser.open(target.absolute().as_uri()):
            invocation.say("no browser was found; open the file by hand")
    return ExitCode.DONE


def _save_index(folder: Path, out: Path | None, form: Form) -> Path:
    """Write the index page into the folder of the runs, because its links are relative."""
    from datarecs_cli.evidence import RUN_JSON
    from datarecs_cli.run_index import INDEX, run_index
    from datarecs_cli.saving import save

    for flag, is_set in ((f"--format {form}", form is not Form.HTML), ("--out", out is not None)):
        if is_set:
            raise UsageFault(
                f"{folder} has no {RUN_JSON}, so its index page {folder / INDEX} is written; "
                f"remove {flag}, or name the folder of one run in it"
            )
    page, runs = run_index(folder)
    save(folder / INDEX, page)
    current().say(f"{runs:,} run{'' if runs == 1 else 's'}")
    return folder / INDEX


def _save_report(run: str, out: Path | None, form: Form) -> Path:
    from datarecs_cli.client import connect
    from datarecs_cli.run_ending import save_report
    from datarecs_cli.run_names import refuse_missing_folder, run_named

    refuse_missing_folder(run)
    with connect(current()) as api:
        run_id = run_named(api, run)
        target = out or Path(f"report-{run_id}{form.suffix}")
        if form in (Form.HTML, Form.JSON):
            save_report(api, run_id, target, form=form)
        else:
            _save_made(api, run_id, target, form=form)
    return target


def _save_made(api: "Api", run_id: str, target: Path, *, form: Form) -> None:
    """A format that this command makes from the run.json of the server."""
    from datarecs_cli.saving import save
    from datarecs_reports.junit import ending_junit, run_junit
    from datarecs_reports.markdown import run_markdown

    run = api.get("runs", run_id)
    if run.get("result") is None:
        if form is Form.MD:
            raise UsageFault(f"run {run_id} is {run['status']} and has no result")
        save(target, ending_junit(run))
        return
    document = api.get("runs", run_id, "report", format="json")
    save(
        target, run_junit(document) if form is Form.JUNIT else run_markdown(document, samples=True)
    )
