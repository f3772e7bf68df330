"""`datarecs export`: writes the differences of a run to a file for other programs."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current

if TYPE_CHECKING:
    from datarecs_cli.exporting import Layout
    from datarecs_reports.differences import DifferenceFilter

FORMS = "csv, parquet, xlsx or jsonl"
Rows = Iterable[Mapping[str, object]]


def export(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN|FOLDER", help="a run, or a folder of results from `compare`"),
    ],
    *,
    form: Annotated[str, typer.Option("--format", help=FORMS)] = "csv",
    out: Annotated[
        Path | None, typer.Option(help="file to write; default differences.<format>")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="missing:SOURCE, outside:MEASURE, null (against a value) or type (unreadable, "
            "or types that do not compare)"
        ),
    ] = None,
    measure: Annotated[str | None, typer.Option(help="only this measure")] = None,
    stage: Annotated[str | None, typer.Option(help="only this stage")] = None,
) -> ExitCode:
    """Write all stored differences of a folder, or the largest 1,000 of a run of the server."""
    from datarecs_cli.exporting import ExportForm, TooManyForXlsxError
    from datarecs_cli.exporting import export as write
    from datarecs_cli.saving import is_stdout, refuse_stdout
    from datarecs_reports.differences import DifferenceFilter

    invocation = current()
    if invocation.output not in (None, Output.TABLE, Output.TEXT, Output.JSON):
        raise UsageFault(f"-o {invocation.output} is not a format of this command; use --format")
    if form not in tuple(ExportForm):
        raise UsageFault(f"--format {form}: unknown format; known: {FORMS}")
    refuse_stdout("--out", out)
    target = out or Path(f"differences.{form}")
    where = DifferenceFilter(measure=measure, only=only)
    place = Path(run)
    if place.exists():
        layout, rows = _of_folder(place, where, stage, invocation)
    else:
        layout, rows = _of_server(run, where, stage, invocation)
    try:
        count = write(rows, layout, ExportForm(form), target)
    except TooManyForXlsxError as refused:
        raise UsageFault(f"--format xlsx: {refused}") from refused
    if is_stdout(target):
        invocation.say(f"{count:,} differences")
    elif invocation.is_json:
        members = {"schema": "datarecs.cli.export/1", "path": str(target), "rows": count}
        print(json.dumps(members))
    else:
        print(target)
        invocation.say(f"{count:,} differences")
    return ExitCode.DONE


def _of_folder(
    place: Path, where: "DifferenceFilter", stage: str | None, invocation: Invocation
) -> "tuple[Layout, Rows]":
    from datarecs_cli.evidence import refuse_unknown_names, stored_run
    from datarecs_cli.exporting import stored
    from datarecs_core.comparison.results.verdict import BREAKS_TRUNCATED

    run, folder = stored_run(place)
    refuse_unknown_names(run, {"measure": where.measure, "only": where.only})
    stages = [each for each in run.stages if each.results and stage in (None, each.name)]
    if stage is not None and not stages:
        raise UsageFault(f"--stage {stage}: the run did not execute this stage")
    names = {each.name for each in stages}
    for warning in run.warnings:
        if warning.code == BREAKS_TRUNCATED and warning.stage in names:
            invocation.say(f"stage {warning.stage}: {warning.message}")
    return stored(run, stages, folder, where)


def _of_server(
    run: str, where: "DifferenceFilter", stage: str | None, invocation: Invocation
) -> "tuple[Layout, Rows]":
    from datarecs_cli.client import connect
    from datarecs_cli.run_names import refuse_missing_folder, run_named
    from datarecs_cli.server_differences import MOST_OF_A_SERVER, listed_differences

    filters = {"only": where.only, "measure": where.measure, "stage": stage}
    wanted = {name: value for name, value in filters.items() if value is not None}
    refuse_missing_folder(run)
    with connect(invocation) as api:
        layout, rows = listed_differences(api, run_named(api, run), wanted)
    if len(rows) == MOST_OF_A_SERVER:
        invocation.say(f"the largest {MOST_OF_A_SERVER:,}; a server lists no more")
    return layout, rows
