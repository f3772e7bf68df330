"""The oracle's reading of one stage: rows into scope, keys, and groups of prepared cells.

Everything here is lists and dictionaries; `reference` counts and judges the groups.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from decimal import Decimal
from typing import NamedTuple

from datarecs_core.comparison.expressions.condition import (
    ConditionNotCoveredError,
    ParsedCondition,
    parse_condition,
)
from datarecs_core.comparison.planning.faults import ConditionNotSupportedError, TooManyRowsError
from datarecs_core.comparison.planning.plan import DimensionPlan, MeasurePlan, StagePlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.results.fingerprints import bucket_key
from datarecs_core.comparison.results.results import Closure
from datarecs_core.comparison.values.canonical import NULL, Tag, Value, canonical_text, encode_tuple
from datarecs_core.comparison.values.casting import Zones
from datarecs_core.comparison.values.normalizing import on_result
from datarecs_core.comparison.values.preparing import Preparation
from datarecs_core.comparison.values.sizes import check_key, check_value
from datarecs_core.comparison.values.translating import translation
from datarecs_core.comparison.values.unreadable import MeasureFaults, may_be_infinite
from datarecs_core.jobs.vocabulary import Function, NullKeys

MAX_ROWS = 100_000
"""Per source: the oracle is for tests and small compares."""

Rows = Sequence[tuple[object, ...]]
"""Plain values in the order of `scan.columns` (see `translating.canonical`)."""
DeliveredRow = Mapping[str, Value]
_Prepare = Callable[[Value], Value]


class Cell(NamedTuple):
    """One measure's value of one row: before its rules, and after."""

    raw: Value
    value: Value


_NOTHING = Cell(NULL, NULL)
"""Of a measure that is missing in the source, or that cannot be compared."""


Spelling = tuple[str | None, ...]
"""A key as a source delivers it: canonical text of each part, before cast and rules."""


@dataclass(slots=True)
class Group:
    """One key and the rows that each source has for it; a row is one cell per measure."""

    key: tuple[Value, ...]
    rows: list[list[tuple[Cell, ...]]]
    collapsed_from: list[int] | None = None
    """How many rows each source had, once functions have made one of them."""
    spellings: dict[int, set[Spelling]] = field(default_factory=dict)
    """By source the keys as they were delivered, where cast or rules may change them."""

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
    faults: dict[int, MeasureFaults] = field(default_factory=dict)
    """By measure; of rows that are grouped."""

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
    """Rows that a source does not send because no stage reads them, by its index."""


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
        self.delivered = deliveries(scan)
        self.keys = KeyReader(stage.dimensions, scan, zones)
        self.cells = [self._reading(measure) for measure in stage.measures]
        self.not_finite = [
            each.index for each in stage.measures if may_be_infinite(each, scan.index)
        ]

    def read(self, rows: Rows, groups: dict[bytes, Group]) -> None:
        if len(rows) > MAX_ROWS:
            raise TooManyRowsError(source=self.scan.source, limit=MAX_ROWS)
        self.tally.extracted += len(rows)
        for plain in rows:
            delivered = self.delivered(plain)
            if self.filters.passes(delivered):
                self.add(delivered, groups)
            else:
                self.tally.out_of_scope += 1

    def add(self, delivered: DeliveredRow, groups: dict[bytes, Group]) -> None:
        key = self.keys.of(delivered)
        if any(part.is_null for part in key):
            self.tally.null_keys += 1
            if self.stage.null_keys is NullKeys.EXCLUDE:
                self.tally.excluded += 1
                return
        for column in self.keys.columns:
            check_value(delivered[column], self.scan, column)
        cells = tuple([read(delivered) for read in self.cells])
        check_key(key, self.scan)
        tags = [*(part.tag for part in key), *(cell.value.tag for cell in cells)]
        if broken := tags.count(Tag.INVALID):
            self.tally.invalid_values += broken
            self._note(cells, (at for at, cell in enumerate(cells) if cell.value.is_invalid))
        self._note(cells, (at for at in self.not_finite if _is_infinite(cells[at].value)))
        encoded = encode_tuple(key)
        group = groups.get(encoded)
        if group is None:
            group = groups[encoded] = Group(key, [[] for _ in self.stage.scans])
        group.rows[self.scan.index].append(cells)
        if self.keys.changes:
            written = tuple(canonical_text(delivered[column]) for column in self.keys.columns)
            group.spellings.setdefault(self.scan.index, set()).add(written)

    def _note(self, cells: Sequence[Cell], measures: Iterable[int]) -> None:
        for at in measures:
            self.tally.faults.setdefault(at, MeasureFaults()).note(cells[at].value)

    def _reading(self, measure: MeasurePlan) -> Callable[[DeliveredRow], Cell]:
        """Values as functions take them; plain ones already have the rules of results."""
        plan = measure.inputs[self.scan.index]
        if plan is None or not measure.comparable:
            return lambda _: _NOTHING
        scan, column = self.scan, plan.column
        preparation = Preparation(
            source=scan.source, plan=plan, rules=measure.rules, zones=self.zones
        )
        prepare = _preparing(preparation, as_result=measure.function is Function.VALUE)

        def cell(delivered: DeliveredRow) -> Cell:
            raw = delivered[column]
            if not isinstance(raw.content, Decimal):  # it has no size
                check_value(raw, scan, column)
            return Cell(raw, prepare(raw))

        return cell


def _is_infinite(value: Value) -> bool:
    return value.tag is Tag.NUMBER and value.amount is None


def _preparing(preparation: Preparation, *, as_result: bool) -> _Prepare:
    """Map, cast and rules of one column, resolved once for all its values."""
    if preparation.changes_nothing:
        return lambda value: value
    if as_result:
        return lambda value: on_result(preparation.apply(value), preparation.rules)
    return preparation.apply


def deliveries(scan: Scan) -> Callable[[tuple[object, ...]], DeliveredRow]:
    """Canonical rows of the plain ones that a scan delivers."""
    columns = [(column.name, translation(column.type, scan.source)) for column in scan.columns]

    def delivered(plain: tuple[object, ...]) -> DeliveredRow:
        named = zip(columns, plain, strict=True)
        return {name: translate(value) for (name, translate), value in named}

    return delivered


class KeyReader:
    """The group of each row of one source: its dimension values after map, cast and rules."""

    def __init__(self, dimensions: Sequence[DimensionPlan], scan: Scan, zones: Zones) -> None:
        plans = [(each.inputs[scan.index], each.rules) for each in dimensions]
        self.columns = [plan.column for plan, _ in plans]
        preparations = [
            Preparation(source=scan.source, plan=plan, rules=rules, zones=zones)
            for plan, rules in plans
        ]
        self.changes = not all(each.changes_nothing for each in preparations)
        self._prepare = [_preparing(each, as_result=True) for each in preparations]

    def of(self, delivered: DeliveredRow) -> tuple[Value, ...]:
        pairs = zip(self.columns, self._prepare, strict=True)
        return tuple([prepare(delivered[column]) for column, prepare in pairs])


class _Filters:
    """`where` and scope of a stage, for one source."""

    def __init__(self, *, stage: StagePlan, scan: Scan, outside: Outside) -> None:
        self.stage, self.scan, self.scope, self.key = stage, scan, stage.scope, outside.key
        scoped_by = stage.scope.dimensions if stage.scope else ()
        self.scope_keys = KeyReader(scoped_by, scan, Zones(known=outside.zones))
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
            if not all(each.admits(delivered) for each in self.conditions):
                return False
        except ConditionNotCoveredError as cause:
            raise ConditionNotSupportedError(stage=self.stage.name, reason=str(cause)) from cause
        if self.scope is None:
            return True
        key = encode_tuple(self.scope_keys.of(delivered))
        return (bucket_key(self.key, key) if self.scope.buckets else key) in self.differing
