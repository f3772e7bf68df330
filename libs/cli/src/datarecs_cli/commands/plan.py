"""`datarecs plan`: the reads, the strategies and the limits of a comparison, without running it."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.commands.compare import (
    AsOf,
    Key,
    LeftOut,
    Limits,
    Parameters,
    Sources,
    flags_of,
    show_refusal,
)
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current

if TYPE_CHECKING:
    from datarecs_application.ports.outside import Clock
    from datarecs_cli.local.question import PreparedQuestion
    from datarecs_core.comparison.planning.engine_cost import EngineDecision
    from datarecs_core.comparison.planning.plan import ComparisonPlan
    from datarecs_core.comparison.planning.scan import Scan
    from datarecs_reports.plan_words import PlanPart

_WIDTH = 9


def plan(
    sources: Sources,
    *,
    key: Key = None,
    measure: Limits = None,
    left_out: LeftOut = None,
    param: Parameters = None,
    as_of: AsOf = None,
    check_connections: Annotated[
        bool, typer.Option("--check-connections", help="first test every source step by step")
    ] = False,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="show only the declarations of the file; open no source"),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="also show the query plan of each database (EXPLAIN)")
    ] = False,
) -> ExitCode:
    """Show the reads and the strategy of a comparison, and compare nothing."""
    from datarecs_cli.local.faults import JobRefusedError
    from datarecs_cli.local.question import prepare_question
    from datarecs_cli.local.running import plan_locally
    from datarecs_runtime.clock import SystemClock

    clock = SystemClock()
    _refuse(offline=offline, opens=check_connections or explain)
    flags = flags_of(sources, key, measure, left_out, param, as_of=as_of)
    prepared = prepare_question(flags, now=clock.now(), invocation=current())
    if prepared is None:
        return ExitCode.USAGE
    if offline:
        _print_offline(prepared)
        return ExitCode.DONE
    if check_connections and not _all_open(prepared, clock):
        return ExitCode.ERRORED
    try:
        made = plan_locally(prepared, clock)
    except JobRefusedError as refused:
        return show_refusal(refused)
    _print(made, prepared, _explained(made, prepared, clock) if explain else {})
    return ExitCode.DONE


def _refuse(*, offline: bool, opens: bool) -> None:
    """Refuse formats and combinations of flags that are not supported."""
    form = current().output
    if form not in (None, Output.TABLE, Output.TEXT, Output.JSON):
        raise UsageFault(f"-o {form} is not a format of this command")
    if offline and opens:
        raise UsageFault(
            "--offline opens no source; remove it, or --check-connections and --explain"
        )


def _print(
    plan: "ComparisonPlan", prepared: "PreparedQuestion", explained: Mapping[str, list[str]]
) -> None:
    if current().is_json:
        _print_json(plan, prepared, explained)
        return
    for line in _lines(plan, prepared):
        print(line)
    for title, lines in explained.items():
        print(f"\n{title}")
        for line in lines:
            print(f"  {line}")


def _print_offline(prepared: "PreparedQuestion") -> None:
    """Print the declarations of the job; types, rows and strategies need its sources."""
    from datarecs_cli.output import cell, print_json
    from datarecs_core.documents import to_document
    from datarecs_reports.job_words import source_parts, stage_parts

    question = prepared.question
    if current().is_json:
        members = {"spec_hash": question.spec_hash, "declared": to_document(question.job)}
        print_json("plan.offline", {"job": question.job.name, **members})
        return
    print(f"job {cell(question.job.name)}")
    print(_line("spec", question.spec_hash))
    for name, value in question.parameters:
        print(_line("param", f"{cell(name)} = {cell(value)}"))
    for part in (*source_parts(question.job), *stage_parts(question.job)):
        print()
        for line in _part_lines(part):
            print(line)
    print("\noffline: types, rows and strategies are known only after the sources are opened")


def _explained(
    plan: "ComparisonPlan", prepared: "PreparedQuestion", clock: "Clock"
) -> dict[str, list[str]]:
    """The query plan of each database, by title."""
    from dataclasses import replace

    from datarecs_cli.local.sources import LocalSources
    from datarecs_cli.output import cell
    from datarecs_connectors.registry import explained_by

    opening, explanations = LocalSources(prepared, clock), {}
    connectors = [opening.connect(each) for each in prepared.question.job.sources]
    reads = [(f"explain {cell(scan.source)}", scan) for scan in plan.scans]
    for stage in plan.stages:
        for scan, groups in zip(stage.scans, stage.groups, strict=False):
            if groups is not None:
                title = f"explain {cell(scan.source)} for stage {cell(stage.name)}"
                reads.append((title, replace(scan, groups=groups, only=None)))
    for title, scan in reads:
        lines = explained_by(connectors[scan.index], scan)
        if lines:
            explanations[title] = [cell(line) for line in lines]
    return explanations


def _all_open(prepared: "PreparedQuestion", clock: "Clock") -> bool:
    """Test every source; each step is a message, a failed step names a fix."""
    from datarecs_cli.local.sources import LocalSources
    from datarecs_cli.output import cell

    opening, held = LocalSources(prepared, clock), True
    for source in prepared.question.job.sources:
        for step in opening.connect(source).probe(source):
            held = held and step.ok
            word = "ok  " if step.ok else "FAIL"
            current().say(f"{word}  {cell(source.name)} {cell(step.name)}  {cell(step.detail)}")
    return held


def _print_json(
    plan: "ComparisonPlan", prepared: "PreparedQuestion", explained: Mapping[str, list[str]]
) -> None:
    from datarecs_cli.output import print_json
    from datarecs_core.comparison.planning.documents import plan_document, plan_hash
    from datarecs_core.comparison.proof.run_json import (
        placeless,
        strategy_document,
        warning_document,
    )

    decision = _engine(plan, prepared)
    members: Mapping[str, object] = {
        "job": plan.job,
        "spec_hash": plan.spec_hash,
        "plan_hash": plan_hash(plan),
        "engine": decision.engine.value,
        "engine_reason": decision.reason,
        "oracle_seconds": None if decision.oracle_s is None else f"{decision.oracle_s:.3f}",
        "strategies": [strategy_document(each.name, each.strategy) for each in plan.stages],
        "statements": dict(
            zip((each.source for each in plan.scans), _statements(plan), strict=True)
        ),
        "groups": {name: dict(pairs) for name, pairs in _group_statements(plan).items() if pairs},
        "warnings": [warning_document(each) for each in plan.warnings],
        "plan": plan_document(placeless(plan)),
    }
    print_json("plan", {**members, "explained": explained} if explained else members)


def _engine(plan: "ComparisonPlan", prepared: "PreparedQuestion") -> "EngineDecision":
    from datarecs_cli.local.engines import decide

    return decide(plan, prepared.question.job.execution.memory, rows=_expected)


def _expected(scan: "Scan") -> int | None:
    """Rows from file footers or type inference, else an estimate."""
    from datarecs_cli.local.engines import rows_of

    counted = rows_of(scan)
    return scan.schema.estimated_rows if counted is None else counted


def _statements(plan: "ComparisonPlan") -> list[str | None]:
    """The SQL statements, by source; None for files."""
    from datarecs_connectors.registry import statement_of

    return [statement_of(scan) for scan in plan.scans]


def _group_statements(plan: "ComparisonPlan") -> dict[str, list[tuple[str, str]]]:
    """The SQL that reads groups from sources, by stage."""
    from dataclasses import replace

    from datarecs_connectors.registry import statement_of

    return {
        stage.name: [
            (scan.source, statement_of(replace(scan, groups=groups, only=None)) or "")
            for scan, groups in zip(stage.scans, stage.groups, strict=False)
            if groups is not None
        ]
        for stage in plan.stages
    }


def _lines(plan: "ComparisonPlan", prepared: "PreparedQuestion") -> Iterator[str]:
    from datarecs_cli.local.reports import NAMES, further
    from datarecs_cli.output import cell
    from datarecs_core.comparison.planning.documents import plan_hash
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
    decision = _engine(plan, prepared)
    yield _line("engine", f"{decision.engine}: {decision.reason}")
    for name, value in plan.parameters:
        yield _line("param", f"{cell(name)} = {cell(value)}")
    for part in (
        *source_parts(plan, _statements(plan)),
        *stage_parts(plan, _group_statements(plan)),
    ):
        yield ""
        yield from _part_lines(part)
    yield ""
    yield "relaxations"
    for line in relaxation_lines(plan) or ["none: values are compared exactly as they are stored"]:
        yield f"  {cell(line)}"
    results = prepared.question.job.results
    names = ["run.json", "report.html", *(NAMES[each] for each in further(results.reports))]
    yield "written"
    yield f"  {', '.join(names)}, at most {count(results.breaks.max_rows)} differences a stage"
    if any(stage.seal_rows for stage in plan.stages):
        yield "  digests.parquet: all rows are sealed (proof: rows), a second pass over all values"
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
