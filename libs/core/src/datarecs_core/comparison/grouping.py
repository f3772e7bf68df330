"""The oracle's reading of one stage: rows into scope, keys, and groups of prepared cells.

Everything here is lists and dictionaries; `reference` counts and judges what comes out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from datarecs_core.comparison.canonical import NULL, Value, encode_tuple
from datarecs_core.comparison.casting import Zones
from datarecs_core.comparison.condition import (
    ConditionNotCoveredError,
    ParsedCondition,
    parse_condition,
)
from datarecs_core.comparison.faults import ConditionNotSupportedError, TooManyRowsError
from datarecs_core.comparison.fingerprints import bucket_key
from datarecs_core.comparison.normalizing import on_result
from datarecs_core.comparison.plan import DimensionPlan, MeasurePlan, StagePlan
from datarecs_core.comparison.preparing import Preparation
from datarecs_core.comparison.results import Closure
from datarecs_core.comparison.scan import Scan
from datarecs_core.comparison.sizes import check_key, check_value
from datarecs_core.comparison.translating import canonical
from datarecs_core.jobs.vocabulary import Function, NullKeys

MAX_ROWS = 100_000
"""Per source: the oracle is for tests and small compares."""

Rows = Sequence[tuple[object, ...]]
"""Plain values in the order of `scan.columns` (see `translating.canonical`)."""
DeliveredRow = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Cell:
    """One measure's value of one row: before its rules, and after."""

    raw: Value
    value: Value


@dataclass(slots=True)
class Group:
    """One key and the rows that each source has for it; a row is one cell per measure."""

    key: tuple[Value, ...]
    rows: list[list[tuple[Cell, ...]]]
    collapsed_from: list[int] | None = None
    """How many rows each source had, once functions have made one of them."""

    @property
    def sizes(self) -> list[int]:
        """Rows per source."""
        return self.collapsed_from or [len(rows) for rows in self.rows]

    @property
    def mask(self) -> int:
        return sum(1 << index for index, rows in enumerate(self.rows) if rows)


@dataclass(slots=True)
class SourceTally:
    """What happened to the rows of one source."""

    extracted: int = 0
    out_of_scope: int = 0
    excluded: int = 0
    null_keys: int = 0
    invalid_values: int = 0

    @property
    def seen(self) -> int:
        return self.extracted - self.out_of_scope

    @property
    def closure(self) -> Closure:
        return Closure(
            extracted=self.extracted,
            grouped=self.seen - self.excluded,
            excluded=self.excluded,
            out_of_scope=self.out_of_scope,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What the oracle needs from outside a stage."""

    key: bytes
    """The tenant's key for break ids, hashes and masks."""
    zones: Mapping[str, tzinfo] = field(default_factory=dict)
    scopes: Mapping[str, frozenset[bytes]] = field(default_factory=dict)
    """Differing groups by the name of an earlier stage, as encoded keys."""
    beside: Mapping[int, int] = field(default_factory=dict)
    """Rows that a source kept because no stage looks at them, by its index."""


@dataclass(slots=True)
class Grouped:
    """The groups of a stage by encoded key, and what became of each source's rows."""

    groups: dict[bytes, Group]
    tallies: list[SourceTally]
    ambiguous_times: dict[str, int]


def group_rows(stage: StagePlan, rows: Sequence[Rows], outside: Outside) -> Grouped:
    """Read every source once and sort its rows into groups.

    Raises:
        TooManyRowsError: a source has more than 100,000 rows.
        ValueTooLargeError: a value that is grouped by or compared is above its limit.
        KeyTooLargeError: the same of a key.
        ConditionNotSupportedError: `where` needs an SQL engine.
    """
    zones = Zones(known=outside.zones)
    groups: dict[bytes, Group] = {}
    tallies = []
    for scan, source_rows in zip(stage.scans, rows, strict=True):
        reader = _SourceReader(stage=stage, scan=scan, outside=outside, zones=zones)
        reader.read(source_rows, groups)
        tallies.append(reader.tally)
    return Grouped(groups=groups, tallies=tallies, ambiguous_times=zones.ambiguous)


class _SourceReader:
    """One source of one stage."""

    def __init__(self, *, stage: StagePlan, scan: Scan, outside: Outside, zones: Zones) -> None:
        self.stage, self.scan, self.zones = stage, scan, zones
        beside = outside.beside.get(scan.index, 0)
        self.tally = SourceTally(extracted=beside, out_of_scope=beside)
        self.filters = _Filters(stage=stage, scan=scan, outside=outside)

    def read(self, rows: Rows, groups: dict[bytes, Group]) -> None:
        if len(rows) > MAX_ROWS:
            raise TooManyRowsError(source=self.scan.source, limit=MAX_ROWS)
        self.tally.extracted += len(rows)
        for plain in rows:
            delivered = {
                column.name: canonical(value, column.type, self.scan.source)
                for column, value in zip(self.scan.columns, plain, strict=True)
            }
            if self.filters.passes(delivered):
                self.add(delivered, groups)
            else:
                self.tally.out_of_scope += 1

    def add(self, delivered: DeliveredRow, groups: dict[bytes, Group]) -> None:
        key = key_of(self.stage.dimensions, delivered, self.scan, self.zones)
        if any(part.is_null for part in key):
            self.tally.null_keys += 1
            if self.stage.null_keys is NullKeys.EXCLUDE:
                self.tally.excluded += 1
                return
        for dimension in self.stage.dimensions:
            column = dimension.inputs[self.scan.index].column
            check_value(delivered[column], self.scan, column)
        cells = tuple(self.cell(measure, delivered) for measure in self.stage.measures)
        check_key(key, self.scan)
        invalid = [part.is_invalid for part in (*key, *(cell.value for cell in cells))]
        self.tally.invalid_values += sum(invalid)
        sources = len(self.stage.scans)
        group = groups.setdefault(encode_tuple(key), Group(key, [[] for _ in range(sources)]))
        group.rows[self.scan.index].append(cells)

    def cell(self, measure: MeasurePlan, delivered: DeliveredRow) -> Cell:
        """As functions take it; a plain value already has the rules of results."""
        plan = measure.inputs[self.scan.index]
        if plan is None or not measure.comparable:
            return Cell(NULL, NULL)
        raw = delivered[plan.column]
        check_value(raw, self.scan, plan.column)
        prepared = Preparation(
            source=self.scan.source, plan=plan, rules=measure.rules, zones=self.zones
        ).apply(raw)
        if measure.function is Function.VALUE:
            prepared = on_result(prepared, measure.rules)
        return Cell(raw, prepared)


class _Filters:
    """`where` and scope of a stage, for one source."""

    def __init__(self, *, stage: StagePlan, scan: Scan, outside: Outside) -> None:
        self.stage, self.scan, self.scope, self.key = stage, scan, stage.scope, outside.key
        self.zones = Zones(known=outside.zones)
        wheres = (stage.where, stage.scope.where if stage.scope else None)
        self.conditions = [self._parsed(where) for where in wheres if where is not None]
        self.differing = outside.scopes[stage.scope.from_stage] if stage.scope else frozenset()

    def _parsed(self, where: str) -> ParsedCondition:
        try:
            return parse_condition(where)
        except ConditionNotCoveredError as cause:
            raise ConditionNotSupportedError(stage=self.stage.name, reason=str(cause)) from cause

    def passes(self, delivered: DeliveredRow) -> bool:
        try:
            if not all(each.holds(delivered) is True for each in self.conditions):
                return False
        except ConditionNotCoveredError as cause:
            raise ConditionNotSupportedError(stage=self.stage.name, reason=str(cause)) from cause
        if self.scope is None:
            return True
        key = encode_tuple(key_of(self.scope.dimensions, delivered, self.scan, self.zones))
        return (bucket_key(self.key, key) if self.scope.buckets else key) in self.differing


def key_of(
    dimensions: Sequence[DimensionPlan], delivered: DeliveredRow, scan: Scan, zones: Zones
) -> tuple[Value, ...]:
    """The group of a row: its dimension values after map, cast and rules."""
    return tuple(_key_part(dimension, delivered, scan, zones) for dimension in dimensions)


def _key_part(dimension: DimensionPlan, delivered: DeliveredRow, scan: Scan, zones: Zones) -> Value:
    plan = dimension.inputs[scan.index]
    preparation = Preparation(source=scan.source, plan=plan, rules=dimension.rules, zones=zones)
    return on_result(preparation.apply(delivered[plan.column]), dimension.rules)
