"""Texts about a plan before its run: reads, comparisons, and what is left out and why.

`words` has the texts of a finished run. A plan has types, casts and strategies that a proof does
not have, and no results. Names come from jobs and sources; the caller escapes them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from datarecs_core.comparison.planning.plan import (
    ComparisonPlan,
    DimensionPlan,
    Effort,
    InputPlan,
    MeasurePlan,
    StagePlan,
)
from datarecs_core.comparison.planning.pushdown import MAX_KEYS
from datarecs_core.comparison.planning.scan import (
    ExportedSnapshot,
    FileList,
    Pin,
    Ranges,
    Scan,
    SourceColumn,
    TableSnapshot,
    TopicOffsets,
)
from datarecs_core.jobs.definition import Limits
from datarecs_core.jobs.vocabulary import Function, OnUnmatched, StageType, Strategy
from datarecs_core.values import instant_text
from datarecs_reports.decoding import tolerance_facts
from datarecs_reports.figures import count, counted, lasting, size, visible
from datarecs_reports.model import ToleranceFacts
from datarecs_reports.words import (
    kind_words,
    policy_words,
    rule_words,
    schema_words,
    tolerance_words,
)

NEXT = {
    OnUnmatched.CONTINUE: "the next stage is always executed",
    OnUnmatched.STOP: "if this stage is UNMATCHED, later stages are skipped (STOPPED_BY)",
    OnUnmatched.ESCALATE: "the next stage reads only the groups that differ here",
}
_SHOWN_FILES, _SHOWN_PARTITIONS, _SHOWN_COLUMNS = 5, 5, 40
NO_STATEMENTS: Mapping[str, Sequence[tuple[str, str]]] = {}
Lines = tuple[tuple[str, str], ...]
"""Label and text; a label may repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart:
    """A source or a stage of a plan, line by line."""

    title: str
    lines: Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A measure in the form for `tolerance_words`."""

    name: str
    tolerances: tuple[ToleranceFacts, ...]
    combine: str
    bound: str
    compare_to: str
    comparable: bool


def source_parts(plan: ComparisonPlan, statements: Sequence[str | None]) -> list[PlanPart]:
    """Every source with its place, pin, rows, columns and SQL.

    Args:
        plan: the plan of a job.
        statements: SQL by source; None for files.
    """
    references = {stage.reference for stage in plan.stages}
    return [
        PlanPart(
            title=f"source {visible(scan.source)}"
            + (" (reference)" if scan.index in references else ""),
            lines=tuple(_source(scan, statement)),
        )
        for scan, statement in zip(plan.scans, statements, strict=True)
    ]


def _source(scan: Scan, statement: str | None) -> Iterator[tuple[str, str]]:
    yield from _place(scan)
    if scan.query is not None and statement is None:
        yield "query", visible(scan.query, most=4000)
    for line in _pin(scan.pin):
        yield "pin", line
    yield "expected", _expected(scan)
    for line in _columns(scan):
        yield "columns", line
    yield from _read_as(scan)
    if scan.filter is not None:
        yield "filter", visible(scan.filter, most=1000)
    if scan.only is not None and scan.only.where is not None:
        yield "only", f"rows where {visible(scan.only.where, most=1000)}; the others are counted"
    if scan.timezone is not None:
        yield "zone", f"times without a zone are in {scan.timezone}"
    if statement is not None:
        yield "sql", visible(statement, most=4000)
        yield "parallel", _readers(scan.schema.ranges)
    yield "limits", limit_words(scan.limits)


def _place(scan: Scan) -> Iterator[tuple[str, str]]:
    """Where the rows are, and the further tables of a query."""
    topic = scan.pin.topic if isinstance(scan.pin, TopicOffsets) else ""
    place = scan.relation or scan.path or topic or ("a query" if scan.query else "")
    connection = f" over connection {visible(scan.connection)}" if scan.connection else ""
    yield "read", f"{scan.kind} {visible(place)}{connection}"
    for name, table in scan.tables:
        yield "table", f"{visible(name)}: {table.kind or scan.kind} {visible(table.path)}"


def _read_as(scan: Scan) -> Iterator[tuple[str, str]]:
    """The format of text files, and values that decide the type of a column."""
    for line in scan.schema.read_as:
        yield "as", visible(line, most=400)
    for note in scan.schema.notes:
        yield "note", visible(f"{note.message}; {note.hint}", most=600)


def _readers(ranges: Ranges | None) -> str:
    """The readers of rows; one reader reads groups, and rows of given keys."""
    if ranges is None or ranges.count == 1:
        return f"one reader: {ranges.reason}" if ranges is not None else "one reader"
    by = "blocks (ctid)" if ranges.by is None else f"column {visible(ranges.by)}"
    readers = f"{counted(ranges.at_once, 'reader')} at once, {count(ranges.count)} ranges of {by}"
    return f"{readers}; no more at once: {visible(ranges.reason)}" if ranges.reason else readers


def _pin(pin: Pin) -> Iterator[str]:
    match pin:
        case FileList():
            total = sum(file.size_bytes for file in pin.files)
            yield f"{counted(len(pin.files), 'file')}, {size(total)}, each by size and content"
            for file in pin.files[:_SHOWN_FILES]:
                of_table = f", table {visible(file.table)}" if file.table else ""
                yield f"{visible(file.path)} ({size(file.size_bytes)}){of_table}"
            if len(pin.files) > _SHOWN_FILES:
                yield f"and {count(len(pin.files) - _SHOWN_FILES)} more"
        case ExportedSnapshot():
            yield f"an exported snapshot of database {visible(pin.database)}, shared by all readers"
        case TableSnapshot():
            number = "none: the table is empty" if pin.snapshot_id is None else pin.snapshot_id
            yield f"table snapshot {number} of {visible(pin.table)}"
        case TopicOffsets():
            yield from _offsets(pin)
    if isinstance(pin, FileList | TableSnapshot) and pin.catalogued is not None:
        committed = instant_text(pin.catalogued.committed_at)
        yield f"snapshot {pin.catalogued.snapshot_id} of the catalogue, committed {committed}"


def _offsets(pin: TopicOffsets) -> Iterator[str]:
    total = sum(each.end - each.start for each in pin.ranges)
    yield f"{counted(total, 'offset')} of topic {visible(pin.topic)}, committed records"
    if pin.table_snapshot is not None:
        yield f"up to the watermark of the sink's table snapshot {pin.table_snapshot}"
    for each in pin.ranges[:_SHOWN_PARTITIONS]:
        yield f"partition {each.partition}: [{each.start}, {each.end})"
    if len(pin.ranges) > _SHOWN_PARTITIONS:
        yield f"and {count(len(pin.ranges) - _SHOWN_PARTITIONS)} more partitions"


def _expected(scan: Scan) -> str:
    rows, stored = scan.schema.estimated_rows, scan.schema.estimated_bytes
    amount = "an unknown number of rows" if rows is None else counted(rows, "row")
    return amount if stored is None else f"{amount}, {size(stored)}"


def _columns(scan: Scan) -> Iterator[str]:
    """Only the columns that a stage needs."""
    natives = {each.name: _written(each) for each in scan.schema.columns}
    for column in scan.columns[:_SHOWN_COLUMNS]:
        native = natives.get(column.physical or "", "")
        kind = str(column.type) if native in ("", str(column.type)) else f"{native} → {column.type}"
        named = (
            "" if column.physical in (None, column.name) else f" from {visible(column.physical)}"
        )
        made = f" = {visible(column.expression, most=500)}" if column.expression else ""
        yield f"{visible(column.name)}{named}{made}: {kind}"
    if len(scan.columns) > _SHOWN_COLUMNS:
        yield f"and {count(len(scan.columns) - _SHOWN_COLUMNS)} more"


def _written(column: SourceColumn) -> str:
    """The source's name of the type, with the declared format of dates."""
    written = column.date_format
    return f"{column.native_type} {written}" if written else column.native_type


def limit_words(limits: Limits) -> str:
    """The limits of a source."""
    statement = f"{_minutes(limits.statement_timeout)} per statement"
    return ", ".join((f"{count(limits.max_rows)} rows", size(limits.max_bytes), statement))


def _minutes(length: timedelta) -> str:
    return lasting(str(length // timedelta(microseconds=1)))


def stage_parts(
    plan: ComparisonPlan, statements: Mapping[str, Sequence[tuple[str, str]]] = NO_STATEMENTS
) -> list[PlanPart]:
    """Every stage in order: comparison, tolerances, policies, strategy and the next step.

    Args:
        plan: of a job.
        statements: by stage, the SQL of sources that deliver groups.
    """
    return [
        PlanPart(
            title=f"stage {visible(stage.name)}",
            lines=tuple(_stage(stage, statements.get(stage.name, ()))),
        )
        for stage in plan.stages
    ]


def _stage(stage: StagePlan, statements: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    reference = stage.sources[stage.reference]
    yield "compares", kind_words(stage.type.value, [each.name for each in stage.dimensions])
    for measure in stage.measures:
        yield "measure", f"{_measured(measure)}: {tolerance_words(_question(measure), reference)}"
    yield "against", visible(reference)
    for scan in stage.queries:
        yield "query", f"{visible(scan.source)}: {visible(scan.query or '', most=4000)}"
    if stage.written_where is not None:
        yield "where", visible(stage.written_where, most=1000)
    if stage.scope is not None:
        only = f"only groups that differ in {visible(stage.scope.from_stage)}"
        yield "scope", f"{only}; skipped when none does (NOTHING_IN_SCOPE)"
    for line in policy_words(
        duplicates=stage.duplicates.value if stage.type is StageType.ROW else None,
        null_keys=stage.null_keys.value if stage.row_dimensions else None,
        empty=stage.empty.value,
    ):
        yield "policy", line
    yield from _strategy(stage, statements)
    yield "work", _effort(stage.effort)
    if stage.confirm is not None:
        limits = stage.confirm
        times = "once" if limits.attempts == 1 else f"up to {counted(limits.attempts, 'time')}"
        unless = f"unless more than {counted(limits.max_keys, 'group')} differ"
        rule = f"differing groups are read again {times}, after {_minutes(limits.after)}, {unless}"
        yield "confirm", rule
    yield "then", NEXT[stage.on_unmatched]


def _effort(effort: Effort) -> str:
    many = effort.partitions
    cut = "partitions by rows and cores" if many is None else counted(many, "partition")
    return f"{cut}, at most {size(effort.spill)} of disk for intermediate data"


def _strategy(stage: StagePlan, statements: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The strategy, the reasons against others, and the queries of databases for groups."""
    yield (
        "strategy",
        f"{stage.strategy.chosen} (`execution.strategy` is {stage.strategy.requested})",
    )
    for strategy, reason in stage.strategy.rejected:
        if strategy is Strategy.FINGERPRINT:
            continue  # no release has it yet, so its reason explains nothing
        yield "not", f"{strategy}: {reason}"
    for source, statement in statements:
        yield "groups", f"{visible(source)}: {visible(statement, most=4000)}"
    for index in stage.by_keys:
        rows = f"only rows of groups that differ, up to {count(MAX_KEYS)} of them; else all rows"
        yield "keys", f"{visible(stage.sources[index])}: {rows}"


def _question(measure: MeasurePlan) -> Question:
    return Question(
        name=measure.name,
        tolerances=tuple(map(tolerance_facts, measure.tolerances)),
        combine=measure.combine.value,
        bound=measure.bound.value,
        compare_to=measure.compare_to.value,
        comparable=measure.comparable,
    )


def _measured(measure: MeasurePlan) -> str:
    """`total_amount, sum of amount`; the name alone for plain values."""
    columns = sorted({each.column for each in measure.inputs if each is not None})
    name = visible(measure.name)
    if measure.function is Function.VALUE:
        return name if columns in ([measure.name], []) else f"{name}, {', '.join(columns)}"
    of = f" of {', '.join(map(visible, columns))}" if columns else " of rows"
    return f"{name}, {measure.function}{of}"


def relaxation_lines(plan: ComparisonPlan) -> list[str]:
    """Every declared exception from strict equality, and every conversion of types."""
    lines: dict[str, None] = {}
    for stage in plan.stages:
        parts: list[DimensionPlan | MeasurePlan] = [*stage.row_dimensions, *stage.row_measures]
        for part in parts:
            lines |= dict.fromkeys(rule_words(part.name, dict(part.rules.declared())))
            lines |= dict.fromkeys(_coercions(stage, part))
        if stage.catalogue is not None:
            lines |= dict.fromkeys(schema_words(stage.name, stage.catalogue.policy))
    return list(lines)


def masked_columns(plan: ComparisonPlan) -> list[str]:
    """Columns with masked values."""
    parts: list[DimensionPlan | MeasurePlan] = []
    for stage in plan.stages:
        parts += [*stage.row_dimensions, *stage.row_measures]
    return list(dict.fromkeys(f"{visible(each.name)} ({each.mask})" for each in parts if each.mask))


def _coercions(stage: StagePlan, part: DimensionPlan | MeasurePlan) -> Iterator[str]:
    """Columns that are compared in another type than that of their source."""
    inputs = [
        (source, each)
        for source, each in zip(stage.sources, part.inputs, strict=True)
        if each is not None
    ]
    if isinstance(part, MeasurePlan) and part.function is Function.COUNT:
        return
    for source, each in inputs:
        yield from _changed(visible(part.name), visible(source), each)
    kinds = {str(each.result) for _, each in inputs}
    if len(kinds) > 1:
        met = ", ".join(f"{each.result} in {visible(source)}" for source, each in inputs)
        yield f"⚠ {visible(part.name)} is {met}; equal numbers are equal in all these types"


def _changed(name: str, source: str, each: InputPlan) -> Iterator[str]:
    if each.mapped:
        strict = "; other values are INVALID" if each.map_strict else ""
        entries = counted(len(each.map), "entry", "entries")
        yield f"⚠ {name} of {source} is mapped by {entries}{strict}"
    if each.cast is not None:
        zone = f" in {each.zone}" if each.zone else ""
        yield f"⚠ {name} of {source} is read as {each.cast}{zone}, not as {each.type}"
