"""`datarecs judge`: the verdict of a finished run under other tolerances."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode, Gate, exit_code_of_run
from datarecs_cli.invocation import Invocation, Output, UsageFault, current

if TYPE_CHECKING:
    from datarecs_core.comparison.insight.rejudging import RunAgain, StageAgain
    from datarecs_core.comparison.results.results import MeasureResult

Place = Annotated[
    Path,
    typer.Argument(metavar="FOLDER|RUN.JSON", help="a result folder of `compare`, or its run.json"),
]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="another value, such as stages.S.measures.M.tolerances=0.05, 1%, PT1S or a list; "
        "also .combine, .bound, stages.S.compare_to, stages.S.accept.max_outside",
    ),
]


def judge(
    run: Place,
    *,
    settings: Settings,
    gate: Annotated[
        Gate | None, typer.Option(help="acceptance: the `accept` limits decide the exit code")
    ] = None,
) -> ExitCode:
    """Show the verdict of a result folder under other tolerances; the result does not change."""
    from datarecs_cli.evidence import DIFFERENCES, NoJsonError, evidence_at
    from datarecs_cli.what_if import JudgeRefusedError, changes
    from datarecs_core.comparison.insight.rejudging import NotRejudgeableError, rejudge
    from datarecs_core.comparison.proof.verification import verify_document
    from datarecs_reports.judged_rows import judged_rows
    from datarecs_reports.stored_rows import parts_of

    invocation = current()
    if invocation.output not in (None, Output.TABLE, Output.TEXT, Output.JSON):
        raise UsageFault(f"-o {invocation.output} is not a format of this command")
    try:
        evidence = evidence_at(run)
    except NoJsonError as broken:
        raise UsageFault(f"{run}: {broken}") from broken
    verified = verify_document(evidence.document)
    if verified.run is None or verified.findings:
        first = verified.findings[0].message
        raise UsageFault(f"{run}: {first}; list all findings with: datarecs verify {run}")
    folder = evidence.differences
    if folder is None:
        raise UsageFault(f"{run}: the folder {DIFFERENCES} beside it is missing")
    try:
        again = rejudge(
            verified.run,
            changes(verified.run, settings),
            lambda stage: judged_rows(parts_of(folder, stage.name)),
        )
    except NotRejudgeableError as refused:
        raise JudgeRefusedError(str(refused)) from refused
    _print(again, invocation)
    return exit_code_of_run("COMPLETED", again.verdict, acceptance=again.acceptance, gate=gate)


def _print(again: "RunAgain", invocation: Invocation) -> None:
    from datarecs_cli.output import print_json

    was = again.was
    if invocation.is_json:
        print_json(
            "judge",
            {
                "proof_hash": was.proof_hash,
                "result": {"was": was.verdict, "now": again.verdict},
                "acceptance": {"was": was.acceptance, "now": again.acceptance},
                "stages": [_stage_members(stage) for stage in again.stages],
            },
        )
        return
    print(f"{_moved(was.verdict, again.verdict)}  judged again; the stored run does not change")
    if was.acceptance is not again.acceptance:
        print(f"  acceptance   {_moved(was.acceptance, again.acceptance)}")
    for stage in again.stages:
        for line in _stage_lines(stage):
            print(line)


def _pairs(stage: "StageAgain") -> "list[tuple[MeasureResult, MeasureResult]]":
    """Each measure with its old and its new result."""
    was = stage.was.results
    return list(zip(was.all_measures if was else (), stage.results.all_measures, strict=True))


def _stage_members(stage: "StageAgain") -> dict[str, object]:
    was = stage.was.results
    return {
        "name": stage.was.name,
        "result": {"was": stage.was.verdict, "now": stage.verdict},
        "acceptance": {"was": stage.was.acceptance, "now": stage.acceptance},
        "rows_compared": stage.results.counts.rows_compared,
        "rows_matched": {
            "was": was.counts.rows_matched if was else None,
            "now": stage.results.counts.rows_matched,
        },
        "measures": [
            {
                "name": now.name,
                "tolerances": {"was": _tolerances(before), "now": _tolerances(now)},
                "within": {"was": before.within, "now": now.within},
                "outside": {"was": before.outside, "now": now.outside},
                "equal": now.equal,
            }
            for before, now in _pairs(stage)
        ],
    }


def _tolerances(measure: "MeasureResult") -> list[str]:
    """`ABSOLUTE 0.01`, `PERCENTAGE 1 %`, `DURATION 1 s`, `EXACT`."""
    from datarecs_core.comparison.planning.tolerance import tolerance_type, tolerance_value
    from datarecs_core.documents import decimal_text

    units = {"ABSOLUTE": "", "PERCENTAGE": " %", "DURATION": " s"}
    named = [(tolerance_type(each.tolerance), each.tolerance) for each in measure.tolerances]
    return [
        f"{kind} {decimal_text(tolerance_value(each))}{units[kind]}" if kind in units else f"{kind}"
        for kind, each in named
    ]


def _stage_lines(stage: "StageAgain") -> list[str]:
    from datarecs_cli.output import cell
    from datarecs_reports.figures import count

    was = stage.was.results
    before = stage.was.verdict
    lines = [f"  stage {cell(stage.was.name)}  {_moved(before, stage.verdict)}"]
    if was is not None and was.counts.rows_matched != stage.results.counts.rows_matched:
        rows = _moved(count(was.counts.rows_matched), count(stage.results.counts.rows_matched))
        lines.append(f"    rows matched  {rows} of {count(was.counts.rows_compared)}")
    for old, new in _pairs(stage):
        tolerances = _moved(", ".join(_tolerances(old)), ", ".join(_tolerances(new)))
        within = _moved(count(old.within), count(new.within))
        outside = _moved(count(old.outside), count(new.outside))
        lines.append(f"    {cell(old.name)}  {tolerances}  {within} within, {outside} outside")
    return lines


def _moved(was: object, now: object) -> str:
    """The value if nothing changed, else both values."""
    return f"{now}" if was == now else f"{was} -> {now}"
