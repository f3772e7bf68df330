"""`datarecs plan`: what a comparison would read and how it would compare, before it does."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.commands.compare import Key, LeftOut, Limits, Parameters, Sources, flags_of
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current

if TYPE_CHECKING:
    from datarecs_application.ports.outside import Clock
    from datarecs_cli.local.question import Asked
    from datarecs_core.comparison.plan import ComparisonPlan
    from datarecs_core.comparison.scan import Scan
    from datarecs_reports.plan_words import PlanPart

_WIDTH = 9


def plan(
    sources: Sources,
    *,
    key: Key = None,
    measure: Limits = None,
    left_out: LeftOut = None,
    param: Parameters = None,
    check_connections: Annotated[
        bool, typer.Option("--check-connections", help="test every source step by step first")
    ] = False,
) -> ExitCode:
    """Show what would be read and how it would be compared; nothing is compared.

    Exit 0 planned, 2 invalid or columns that do not fit, 3 a source cannot be opened.
    """
    from datarecs_cli.local.question import asked
    from datarecs_cli.local.running import plan_locally
    from datarecs_runtime.clock import SystemClock

    invocation, clock = current(), SystemClock()
    if invocation.output not in (None, Output.TABLE, Output.TEXT, Output.JSON):
        raise UsageFault(f"-o {invocation.output} is not a form of this command")
    flags = flags_of(sources, key, measure, left_out, param)
    found = asked(flags, now=clock.now(), invocation=invocation)
    if found is None:
        return ExitCode.USAGE
    if check_connections and not _all_open(found, clock):
        return ExitCode.ERRORED
    made = plan_locally(found, clock)
    if invocation.is_json:
        _print_json(made)
    else:
        for line in _lines(made, found):
            print(line)
    return ExitCode.DONE


def _all_open(asked: "Asked", clock: "Clock") -> bool:
    """Test every source; the steps are messages, what fails says what to do."""
    from datarecs_cli.local.sources import LocalSources
    from datarecs_cli.output import cell

    opening, held = LocalSources(asked, clock), True
    for source in asked.question.job.sources:
        for step in opening.connect(source).probe(source):
            held = held and step.ok
            word = "ok  " if step.ok else "FAIL"
            current().say(f"{word}  {cell(source.name)} {cell(step.name)}  {cell(step.detail)}")
    return held


def _print_json(plan: "ComparisonPlan") -> None:
    from datarecs_cli.output import print_json
    from datarecs_core.comparison.planner import plan_document, plan_hash
    from datarecs_core.comparison.run_json import placeless, strategy_document, warning_document

    members: Mapping[str, object] = {
        "job": plan.job,
        "spec_hash": plan.spec_hash,
        "plan_hash": plan_hash(plan),
        "engine": _engine(plan),
        "strategies": [strategy_document(each.name, each.strategy) for each in plan.stages],
        "statements": dict(
            zip((each.source for each in plan.scans), _statements(plan), strict=True)
        ),
        "warnings": [warning_document(each) for each in plan.warnings],
        "plan": plan_document(placeless(plan)),
    }
    print_json("plan", members)


def _engine(plan: "ComparisonPlan") -> str:
    from datarecs_cli.local.engines import chosen

    return chosen(plan, rows=_expected).value


def _expected(scan: "Scan") -> int | None:
    """Counted by footers or while types were inferred, else estimated."""
    from datarecs_cli.local.engines import rows_of

    counted = rows_of(scan)
    return scan.schema.estimated_rows if counted is None else counted


def _statements(plan: "ComparisonPlan") -> list[str | None]:
    """The SQL that would be sent, by source; None where files are read."""
    from datarecs_connectors.registry import statement_of

    return [statement_of(scan) for scan in plan.scans]


def _lines(plan: "ComparisonPlan", asked: "Asked") -> Iterator[str]:
    from datarecs_cli.output import cell
    from datarecs_core.comparison.planner import plan_hash
    from datarecs_reports.figures import count
    from datarecs_reports.plan_words import (
        masked_columns,
        relaxation_lines,
        source_parts,
        stage_parts,
    )

    yield f"job {cell(plan.job)}"
    yield _line("spec", plan.spec_hash)
    yield _line("plan", plan_hash(plan))
    yield _line("engine", _engine(plan))
    for name, value in plan.parameters:
        yield _line("param", f"{cell(name)} = {cell(value)}")
    for part in (*source_parts(plan, _statements(plan)), *stage_parts(plan)):
        yield ""
        yield from _part_lines(part)
    yield ""
    yield "relaxations"
    for line in relaxation_lines(plan) or [
        "none: values are compared exactly as sources hold them"
    ]:
        yield f"  {cell(line)}"
    breaks = asked.question.job.results.breaks
    yield "written"
    yield f"  run.json, report.html, at most {count(breaks.max_rows)} differences a stage"
    if any(stage.seal_rows for stage in plan.stages):
        yield "  digests.parquet: every row is sealed (proof: rows), a second pass over every value"
    masked = masked_columns(plan)
    if masked:
        yield f"  masked: {cell(', '.join(masked))}"
    for warning in plan.warnings:
        yield f"warning    {warning.code} {cell(warning.message)}"


def _part_lines(part: "PlanPart") -> Iterator[str]:
    from datarecs_cli.output import cell

    yield cell(part.title)
    before = ""
    for label, text in part.lines:
        yield _line("" if label == before else label, cell(text))
        before = label


def _line(label: str, text: str) -> str:
    return f"  {label:{_WIDTH}}  {text}"
