"""`datarecs diff` and `datarecs report`: what a finished run found."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from datarecs_cli.commands.runs import RunName
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current

MOST_ROWS = 1000


class Sort(StrEnum):
    DELTA = "delta"
    KEY = "key"


class Form(StrEnum):
    HTML = "html"
    JSON = "json"


def diff(
    run: RunName,
    *,
    only: Annotated[
        str | None, typer.Option(help="missing:SOURCE, outside:MEASURE, null or type")
    ] = None,
    measure: Annotated[str | None, typer.Option(help="of this measure alone")] = None,
    stage: Annotated[str | None, typer.Option(help="of this stage alone")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="at most so many rows")] = 50,
    sort: Annotated[Sort, typer.Option(help="largest first, or by key")] = Sort.DELTA,
) -> ExitCode:
    """Show what differs, every source side by side; exit 1 when there is anything."""
    from datarecs_cli.client import connect
    from datarecs_cli.mismatch_view import (
        by_key,
        columns_of,
        rows_for_machines,
        rows_for_people,
    )
    from datarecs_cli.output import print_list
    from datarecs_cli.run_names import run_named
    from datarecs_cli.triggering import source_names

    invocation = current()
    given = {"only": only, "measure": measure, "stage": stage}
    where = {name: value for name, value in given.items() if value is not None}
    with connect(invocation) as api:
        run_id = run_named(api, run)
        found = api.get("runs", run_id)
        if found.get("result") is None:
            raise UsageFault(f"run {run_id} is {found['status']}: it has compared nothing")
        answer = api.get("runs", run_id, "mismatches", limit=str(limit), **where)
        items = answer.get("items")
        rows = items if isinstance(items, list) else []
        names = source_names(api, found) if rows else ()
    if sort is Sort.KEY:
        rows = sorted(rows, key=by_key)
    if invocation.output in (Output.JSON, Output.JSONL, Output.YAML):
        print_list("diff", (), rows, invocation)
    elif rows:
        machine = invocation.output is Output.CSV
        shown = rows_for_machines(rows) if machine else rows_for_people(rows, names)
        print_list("diff", columns_of(rows, names), shown, invocation)
    _tell_more(run_id, len(rows), limit=limit)
    return ExitCode.DIFFERENT if rows else ExitCode.DONE


def _tell_more(run_id: str, rows: int, *, limit: int) -> None:
    if not rows:
        current().say("no differences")
    elif rows == limit:
        more = f"--limit {min(limit * 10, MOST_ROWS)}"
        current().say(f"the largest {rows}; see more with: datarecs diff {run_id} {more}")


def report(
    run: RunName,
    *,
    out: Annotated[
        Path | None, typer.Option(help="file to write; default report-<run>.html")
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="html, or run.json as json")] = Form.HTML,
    show: Annotated[bool, typer.Option("--open", help="open it in the browser")] = False,
) -> ExitCode:
    """Save the self-contained report of a run."""
    from datarecs_cli.client import connect
    from datarecs_cli.run_ending import save_report
    from datarecs_cli.run_names import run_named

    invocation = current()
    if invocation.output in (Output.CSV, Output.MD, Output.YAML):
        raise UsageFault(f"-o {invocation.output} is not a form of this command; see --format")
    with connect(invocation) as api:
        run_id = run_named(api, run)
        target = out or Path(f"report-{run_id}.{form}")
        save_report(api, run_id, target, form=form)
    if invocation.output is Output.JSON:
        print(json.dumps({"schema": "datarecs.cli.report/1", "path": str(target)}))
    else:
        print(target)
    if show:
        import webbrowser

        if not webbrowser.open(target.absolute().as_uri()):
            invocation.say("no browser was found; open the file yourself")
    return ExitCode.DONE
