"""Hypothesis strategies: jobs and rows drawn from pools of traps (spec comparison 14).

One set of cases serves the laws of the oracle and every engine's differential test. `strict` cases
stay inside what `EngineConformance` covers; the others use every field of a stage.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Literal, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from datarecs_core.jobs.definition import (
    Dimension,
    Measure,
    Normalize,
    NullRules,
    NumberRules,
    ReconciliationJob,
    SchemaPolicy,
    Stage,
    StringRules,
    TimestampRules,
    Tolerance,
)
from datarecs_core.jobs.types import INT, CanonicalType, parse_type
from datarecs_core.jobs.vocabulary import (
    Bound,
    Case,
    Combine,
    CompareTo,
    EmptyText,
    Float32Rule,
    Function,
    NanRule,
    NullAs,
    NullKeys,
    Rounding,
    SchemaMode,
    StageType,
    TimePrecision,
    ToleranceBase,
    ToleranceType,
    Trim,
    UnicodeForm,
)
from datarecs_testing.tables import Table, a_job

T = TypeVar("T")
D = Decimal
CASE_ID = "case_id"

POOLS: dict[str, tuple[object, ...]] = {
    "int": (0, 1, -1, 11, 2**53 - 1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1),
    "decimal(10,2)": (D("0.00"), D("-0.00"), D("1.10"), D("1.11"), D("100.00"), D("-99.99")),
    "decimal(20,4)": (D("1.1000"), D("1.1049"), D("1.1050"), D("100.0001"), D("-99.9900")),
    "decimal(38,2)": (D("1.10"), D("9" * 36 + ".99"), D("9" * 36 + ".98"), D("-" + "9" * 36)),
    "float64": (
        *(0.0, -0.0, 0.1, 0.2, 0.30000000000000004, 1.1, 1.01, 100.0, 1e-20, 2e-20, 5e-324),
        *(1e16, 9007199254740993.0, float("nan"), float("inf"), float("-inf")),
    ),
    "float32": (0.0, -0.0, 0.10000000149011612, 1.5, 16777216.0, float("nan"), float("inf")),
    "text": (
        *("", " ", "a", "A", "a ", " a", "a\u00a0", "NULL", "None", "<null>", "a|b", "\x1f"),
        *(
            "é",
            "e\u0301",
            "straße",
            "STRASSE",
            "I",
            "i",
            "\u0131",
            "İ",
            "ab",
            "b",
            "0",
            "00",
            "1e0",
        ),
    ),
    "bool": (True, False),
    "date": (date(1, 1, 1), date(1969, 12, 31), date(2026, 2, 28), date(9999, 12, 31)),
    "instant": (
        datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=UTC),
        datetime(2026, 10, 25, 0, 30, 1, tzinfo=UTC),
    ),
    "instant(9)": (D("-500.001"), D("1774747800000000"), D("1774747800000000.5"), D("0.001")),
    "local_timestamp": (
        datetime(2026, 3, 29, 2, 30),  # noqa: DTZ001 - naive on purpose
        datetime(2026, 10, 25, 2, 30),  # noqa: DTZ001 - naive on purpose
        datetime(2026, 10, 25, 2, 30, 0, 500_000),  # noqa: DTZ001 - naive on purpose
    ),
}
"""Values by type; NULL is drawn beside them."""

ADDABLE: dict[str, tuple[object, ...]] = {
    "int": (0, 1, -1, 7, 2**53 + 1, 2**62),
    "decimal(10,2)": POOLS["decimal(10,2)"],
    "float64": (0.0, 0.1, 0.2, 1e16, -1e16, 1e-19, float("nan"), float("inf"), float("-inf")),
}
"""Values with sums within 38 digits."""

_COMPARABLE = {
    "decimal(10,2)": ("decimal(20,4)", "float64", "int"),
    "float64": ("float32", "decimal(10,2)"),
    "int": ("decimal(10,2)",),
    "instant": ("instant(9)",),
}
_ROUNDS: tuple[int | Literal["none"], ...] = ("none", 0, 2)
GROUPING = (StageType.ROW, StageType.AGGREGATE)
_FUNCTIONS = (Function.COUNT, Function.COUNT_DISTINCT, Function.MIN, Function.MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One logical column: its type and values in every source."""

    name: str
    types: tuple[str, ...]
    """Per source."""
    addable: bool = False

    def values(self, index: int) -> tuple[object, ...]:
        return (ADDABLE if self.addable else POOLS)[self.types[index]]

    def kind(self, index: int) -> CanonicalType:
        return parse_type(self.types[index])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A job without rows: several row sets may use the same job."""

    sources: int
    columns: tuple[Column, ...]
    stage: Stage
    normalize: Normalize

    def job(self, tables: Sequence[Table]) -> ReconciliationJob:
        return a_job(tables, self.stage, normalize=self.normalize)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonCase:
    """A job and its rows."""

    shape: Shape
    tables: tuple[Table, ...] = field(repr=False)

    @property
    def job(self) -> ReconciliationJob:
        return self.shape.job(self.tables)


def tagged(shape: Shape, row_sets: Sequence[Sequence[Table]]) -> ComparisonCase:
    """Many row sets of one shape as one comparison: `case_id` becomes the first dimension.

    Groups of different sets never meet, so one engine action answers them all.
    """
    tables = tuple(
        Table(
            name=f"s{index}",
            columns=((CASE_ID, INT), *row_sets[0][index].columns),
            rows=tuple(
                (case, *row) for case, tables in enumerate(row_sets) for row in tables[index].rows
            ),
        )
        for index in range(shape.sources)
    )
    dimensions = (Dimension(name=CASE_ID), *shape.stage.dimensions)
    wider = replace(shape, stage=replace(shape.stage, dimensions=dimensions))
    return ComparisonCase(shape=wider, tables=tables)


class Choices:
    """A stream of bytes read as decisions; past its end every decision is the first, simplest one.

    One draw instead of hundreds makes cases cheap, and bytes shrink to simpler cases.
    """

    def __init__(self, stream: bytes) -> None:
        self._stream, self._at = stream, 0

    def number(self, low: int, high: int) -> int:
        """Between two bounds, both possible; at most 256 apart."""
        byte = self._stream[self._at] if self._at < len(self._stream) else 0
        self._at += 1
        return low + byte % (high - low + 1)

    def pick(self, choices: Iterable[T]) -> T:
        """One of them, the first being the simplest."""
        listed = list(choices)
        return listed[self.number(0, len(listed) - 1)]

    def chance(self, of_ten: int) -> bool:
        """True so many times of ten; the simplest decision is False."""
        return self.number(0, 9) >= 10 - of_ten


def shape_from(
    choices: Choices,
    *,
    strict: bool = False,
    max_sources: int = 5,
    kinds: Sequence[StageType] = GROUPING,
) -> Shape:
    """A stage over 2 to 5 sources with up to 3 dimensions and measures."""
    sources = choices.number(2, max_sources)
    kind = choices.pick(kinds)
    keys = choices.number(1 if kind is StageType.ROW else 0, 3)
    adding = kind is StageType.AGGREGATE
    columns = [
        *(_column(choices, f"k{at}", sources) for at in range(keys)),
        *(
            _column(choices, f"v{at}", sources, addable=adding and not choices.chance(4))
            for at in range(choices.number(0, 3))
        ),
    ]
    stage = Stage(
        name="stage",
        type=kind,
        dimensions=tuple(Dimension(name=each.name) for each in columns[:keys]),
        measures=tuple(_measure(choices, each, kind, strict=strict) for each in columns[keys:]),
        compare_to=CompareTo.REFERENCE if strict else choices.pick(CompareTo),
        reference=f"s{choices.number(0, sources - 1)}",
    )
    normalize = Normalize() if strict else rules_from(choices)
    return Shape(sources=sources, columns=tuple(columns), stage=stage, normalize=normalize)


def _column(choices: Choices, name: str, sources: int, *, addable: bool = False) -> Column:
    first = choices.pick(ADDABLE if addable else POOLS)
    others = () if addable else _COMPARABLE.get(first, ())
    types = (first, *(choices.pick([first] * 3 + [*others]) for _ in range(sources - 1)))
    return Column(name=name, types=types, addable=addable)


def _measure(choices: Choices, column: Column, kind: StageType, *, strict: bool) -> Measure:
    function = Function.VALUE
    if kind is StageType.AGGREGATE:
        adding = (Function.SUM, Function.AVG) if column.addable else ()
        function = choices.pick([*adding, *_FUNCTIONS])
    kinds = _kinds(column, function, strict=strict)
    if kind is StageType.DIGEST:
        kinds = [ToleranceType.EXACT]
    first, second = choices.pick(kinds), choices.pick(kinds)
    declared = (first,) if first is second else (first, second)
    return Measure(
        name=column.name,
        column=column.name,
        function=function,
        tolerances=tuple(_tolerance(choices, each, strict=strict) for each in declared),
        combine=choices.pick(Combine),
        bound=Bound.INCLUSIVE if strict else choices.pick(Bound),
    )


def _kinds(column: Column, function: Function, *, strict: bool) -> list[ToleranceType]:
    number = column.kind(0).is_number or function in {Function.COUNT, Function.COUNT_DISTINCT}
    if number:
        return [ToleranceType.EXACT, ToleranceType.ABSOLUTE, ToleranceType.PERCENTAGE]
    if column.kind(0).is_time and not strict:
        return [ToleranceType.EXACT, ToleranceType.DURATION]
    return [ToleranceType.EXACT]


def _tolerance(choices: Choices, kind: ToleranceType, *, strict: bool) -> Tolerance:
    match kind:
        case ToleranceType.EXACT:
            return Tolerance(type=kind)
        case ToleranceType.DURATION:
            micros = choices.pick([0, 1, 500_000, 86_400_000_000])
            return Tolerance(type=kind, value=timedelta(microseconds=micros))
        case ToleranceType.ABSOLUTE:
            limit = choices.pick(["0", "0.01", "0.0049", "1", "100"])
            return Tolerance(type=kind, value=D(limit))
        case ToleranceType.PERCENTAGE:
            base = ToleranceBase.REFERENCE if strict else choices.pick(ToleranceBase)
            limit = choices.pick(["0", "0.5", "9.5", "10", "100"])
            return Tolerance(type=kind, value=D(limit), base=base)


def rules_from(choices: Choices) -> Normalize:
    """Any combination of declared rules; NULL keys are never rejected."""
    return Normalize(
        strings=StringRules(
            trim=choices.pick(Trim),
            case=choices.pick(Case),
            unicode=choices.pick(UnicodeForm),
            empty=choices.pick(EmptyText),
            null=choices.pick([NullAs.KEEP, NullAs.EMPTY]),
        ),
        numbers=NumberRules(
            nan=choices.pick(NanRule),
            float32=choices.pick(Float32Rule),
            round=choices.pick(_ROUNDS),
            null=choices.pick([NullAs.KEEP, NullAs.ZERO]),
        ),
        timestamps=TimestampRules(
            precision=choices.pick(TimePrecision), rounding=choices.pick(Rounding)
        ),
        nulls=NullRules(keys=choices.pick([NullKeys.GROUP, NullKeys.EXCLUDE])),
    )


def tables_from(choices: Choices, shape: Shape, *, max_rows: int = 12) -> tuple[Table, ...]:
    """Rows that mostly match: every source has most of the same rows and a few other ones."""
    common = [_places(choices, shape) for _ in range(choices.number(0, max_rows))]
    return tuple(_table(choices, shape, index, common) for index in range(shape.sources))


def _places(choices: Choices, shape: Shape) -> list[int | None]:
    """Per column a place in its pool, the same in every source; None is NULL."""
    return [
        None if choices.chance(1) else choices.number(0, 3 if choices.chance(6) else 30)
        for _ in shape.columns
    ]


def _table(choices: Choices, shape: Shape, index: int, common: Sequence[list[int | None]]) -> Table:
    places = [row for row in common if not choices.chance(1)]
    places += [_places(choices, shape) for _ in range(choices.pick([0, 0, 0, 1, 2]))]
    return Table(
        name=f"s{index}",
        columns=tuple((column.name, column.kind(index)) for column in shape.columns),
        rows=tuple(
            tuple(_value(column, index, at) for column, at in zip(shape.columns, row, strict=True))
            for row in places
        ),
    )


def _value(column: Column, index: int, at: int | None) -> object:
    pool = column.values(index)
    return None if at is None else pool[at % len(pool)]


def _streams(size: int) -> SearchStrategy[Choices]:
    return st.binary(min_size=size, max_size=size).map(Choices)


def comparison_cases(
    *, strict: bool = False, max_sources: int = 5, max_rows: int = 12
) -> SearchStrategy[ComparisonCase]:
    """A job with its rows."""

    def made(choices: Choices) -> ComparisonCase:
        shape = shape_from(choices, strict=strict, max_sources=max_sources)
        return ComparisonCase(shape=shape, tables=tables_from(choices, shape, max_rows=max_rows))

    return _streams(80 + 20 * max_rows).map(made)


def tagged_cases(
    *,
    strict: bool = False,
    sets: int = 20,
    max_rows: int = 12,
    kinds: Sequence[StageType] = GROUPING,
) -> SearchStrategy[ComparisonCase]:
    """Several row sets of one shape in one comparison."""

    def made(choices: Choices) -> ComparisonCase:
        shape = shape_from(choices, strict=strict, kinds=kinds)
        return tagged(shape, [tables_from(choices, shape, max_rows=max_rows) for _ in range(sets)])

    return _streams(80 + 20 * max_rows * sets).map(made)


_TYPES = ("int", "decimal(10,2)", "decimal(20,4)", "float64", "text", "uuid", "date", "instant(3)")
_NAMES = ("a", "A", "b", "c c", "\u00e9", "e\u0301")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaCase:
    """A schema job, and tables with its columns."""

    job: ReconciliationJob
    tables: tuple[Table, ...] = field(repr=False)


def schema_cases() -> SearchStrategy[SchemaCase]:
    """Jobs of one schema stage, over 2 to 5 sources with mostly equal columns."""
    return _streams(120).map(_schema_job)


def _schema_job(choices: Choices) -> SchemaCase:
    sources = choices.number(2, 5)
    common = [(name, choices.pick(_TYPES)) for name in _NAMES]
    tables = [_columns(choices, f"s{index}", common) for index in range(sources)]
    groups = [tuple(parse_type(choices.pick(_TYPES)) for _ in range(2)) for _ in range(2)]
    policy = SchemaPolicy(
        mode=choices.pick(SchemaMode),
        order=choices.chance(5),
        nullability=choices.chance(5),
        ignore=tuple(name for name in _NAMES if choices.chance(1)),
        equivalences=tuple(groups[: choices.number(0, 2)]),
    )
    stage = Stage(name="shape", type=StageType.SCHEMA, reference=f"s{choices.number(0, 1)}")
    return SchemaCase(tables=tuple(tables), job=a_job(tables, stage, schema=policy))


def _columns(choices: Choices, name: str, common: Sequence[tuple[str, str]]) -> Table:
    columns = [
        (label, parse_type(choices.pick(_TYPES) if choices.chance(1) else kind))
        for label, kind in common
        if not choices.chance(1)
    ]
    if choices.chance(2):
        columns.reverse()
    required = frozenset(label for label, _ in columns if choices.chance(2))
    return Table(name=name, columns=tuple(columns), rows=(), required=required)
