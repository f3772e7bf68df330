"""The judge against the oracle: the same counts and differences, in both shapes of groups."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.grouping import Cell, Group
from datarecs_core.comparison.oracle.judging import (
    DifferenceWriter,
    GroupJudgement,
    MeasureJudgement,
    judge_group,
)
from datarecs_core.comparison.planning.plan import ROWS_MEASURE, Cut, MeasurePlan, StagePlan
from datarecs_core.comparison.planning.rules import STRICT, Rules
from datarecs_core.comparison.planning.tolerance import (
    AbsoluteTolerance,
    DurationTolerance,
    ExactTolerance,
    PercentageTolerance,
    Tolerance,
)
from datarecs_core.comparison.results.results import Difference, DifferenceClass, Outcome
from datarecs_core.comparison.values.canonical import (
    NULL,
    Tag,
    Value,
    canonical_text,
    encode,
    encode_tuple,
    invalid,
    number,
    text,
)
from datarecs_core.documents import decimal_text
from datarecs_core.jobs.vocabulary import (
    Bound,
    Combine,
    CompareTo,
    MaskRule,
    NanRule,
    NullAs,
    ToleranceBase,
    Trim,
)
from datarecs_core.values import EXACT
from datarecs_kernel.counted import Counted, GroupKind, MeasureTally
from datarecs_kernel.decoding import native, represented
from datarecs_kernel.differing import KINDS, NOBODY, By
from datarecs_kernel.judging import Judge, JudgedGroups
from datarecs_kernel.layout import Layout, PlainColumns, layout_of
from datarecs_kernel.open_groups import FIRST, Shape
from datarecs_kernel.sort_keys import size_key_of, sort_key_of
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import a_job, a_table, plan_of

KEY = b"k" * 80
Row = tuple[Cell, ...]


EXACTLY = st.just(ExactTolerance())


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A type of measures, values of it in which traps lie, and what its rules may be."""

    type: str
    values: Sequence[Value]
    raws: Sequence[tuple[Value, Value]] = ()
    """Values before and after rules that change them."""
    rules: Sequence[Rules] = (STRICT,)
    cuts: Sequence[Cut | None] = (None,)
    tolerances: st.SearchStrategy[Any] = EXACTLY
    may_be_invalid: bool = False


def numbers(*texts: str) -> list[Value]:
    return [number(Decimal(each)) for each in texts]


def doubles(*texts: str) -> list[Value]:
    return numbers(*(repr(float(each)) for each in texts))


def moments(tag: Tag, *units: int) -> list[Value]:
    return [Value(tag, Decimal(each)) for each in units]


LIMITS = st.sampled_from(["0", "0.01", "0.1", "1", "50", "99.99", "100"]).map(Decimal)
OF_NUMBERS = (
    EXACTLY
    | st.builds(AbsoluteTolerance, limit=LIMITS)
    | st.builds(PercentageTolerance, limit=LIMITS, base=st.sampled_from(ToleranceBase))
)
OF_TIMES = EXACTLY | st.builds(
    DurationTolerance,
    microseconds=st.sampled_from([0, 1, 1_000_000, 86_400_000_000]).map(Decimal),
)
SHORT = numbers("0", "0.1", "0.2", "1", "-2.5", "100", "100.1", "123456789012.345")
DOUBLES = doubles(
    *("0.30000000000000004", "1E+300", "-1E+300", "5E-324", "1.7976931348623157E+308"),
    *("12345678901234567000", "12345678901234569000", "0.1234567890123456", "1E-20", "2E-20"),
    *("NaN", "Infinity", "-Infinity", "0.10000000149011612", "16777217", "16777218", "3E-46"),
    *("340282356779733700000000000000000000000", "0.000015", "1E+22"),
)
WIDE = numbers(
    *("99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"),
    *("0.00000000000000000000000000000000000001", "16777217.0000000000000000000001"),
    *("16777216.9999999999999999999999", "NaN", "Infinity", "-Infinity", "1E+310", "12.345"),
)
STRICT_NAN = Rules(nan=NanRule.UNEQUAL)
KINDS_OF_MEASURES = (
    Kind(
        type="int",
        values=numbers("0", "1", "-1", "100", "9223372036854775807", "-9223372036854775808"),
        tolerances=OF_NUMBERS,
        may_be_invalid=True,
    ),
    Kind(
        type="decimal(12,2)",
        values=numbers("0", "0.05", "0.10", "-3.5", "9999999999.99"),
        raws=[(NULL, number(0)), (number(0), number(0))],
        rules=(STRICT, Rules(null=NullAs.ZERO)),
        cuts=(None, Cut(scale=0), Cut(scale=1)),
        tolerances=OF_NUMBERS,
    ),
    Kind(
        type="decimal(38,2)",
        values=numbers("0.01", "999999999999999999999999999999999999.99", "-1", "1000000000000000"),
        cuts=(None, Cut(scale=1)),
        tolerances=OF_NUMBERS,
    ),
    Kind(
        type="float64",
        values=SHORT,
        rules=(STRICT, STRICT_NAN),
        tolerances=OF_NUMBERS,
        may_be_invalid=True,
    ),
    Kind(
        type="float64",
        values=[*SHORT, *DOUBLES],
        rules=(STRICT, STRICT_NAN),
        cuts=(None, Cut(float32=True), Cut(scale=1)),
        tolerances=OF_NUMBERS,
    ),
    Kind(
        type="decimal",
        values=[*SHORT, *WIDE],
        rules=(STRICT, STRICT_NAN),
        cuts=(None, Cut(float32=True), Cut(scale=2)),
        tolerances=OF_NUMBERS,
        may_be_invalid=True,
    ),
    Kind(
        type="text",
        values=[text(each) for each in ("", "a", "b\u2028", "é|\x00", "NULL")],
        raws=[(text(f" {each} "), text(each)) for each in ("", "a", "b\u2028")],
        rules=(STRICT, Rules(trim=Trim.BOTH)),
        may_be_invalid=True,
    ),
    Kind(type="bool", values=[Value(Tag.BOOL, each) for each in (True, False)]),
    Kind(type="binary", values=[Value(Tag.BINARY, each) for each in (b"", b"a", b"\xff\0")]),
    Kind(type="uuid", values=[Value(Tag.UUID, bytes([each]) * 16) for each in (0, 1, 255)]),
    Kind(type="json", values=[Value(Tag.JSON, each) for each in ('{"a":1}', "[]", "null")]),
    Kind(type="date", values=moments(Tag.DATE, 0, -1, 20_000, 5_000_000), tolerances=OF_TIMES),
    Kind(
        type="instant",
        values=moments(Tag.INSTANT, 0, 1, -1, 999_999, 1_000_000, -1_000_000, 10**16),
        cuts=(None, Cut(second_digits=0), Cut(second_digits=3)),
        tolerances=OF_TIMES,
    ),
    Kind(type="time", values=moments(Tag.TIME, 0, 1, 86_399_999_999), tolerances=OF_TIMES),
)


class Question(NamedTuple):
    stage: StagePlan
    layout: Layout
    groups: list[list[list[Row]]]
    """By group and source the rows."""


@cache
def a_stage(sources: int, *types: str) -> StagePlan:
    columns = ", ".join(f"m{at} {each}" for at, each in enumerate(types))
    tables = [a_table(f"s{at}", f"k int, {columns}") for at in range(sources)]
    measures = [a_measure(f"m{at}") for at in range(len(types))]
    return plan_of(a_job(tables, rows_by("k", *measures)), tables).stages[0]


@st.composite
def measured(draw: st.DrawFn, plan: MeasurePlan, kind: Kind) -> MeasurePlan:
    tolerances: list[Tolerance] = draw(st.lists(kind.tolerances, min_size=1, max_size=3))
    return replace(
        plan,
        name=draw(st.sampled_from("abc")) + plan.name,
        rules=draw(st.sampled_from(kind.rules)),
        tolerances=tuple(tolerances),
        combine=draw(st.sampled_from(Combine)),
        bound=draw(st.sampled_from(Bound)),
        compare_to=draw(st.sampled_from(CompareTo)),
        cut=draw(st.sampled_from(kind.cuts)),
        mask=draw(st.sampled_from([None, None, None, *MaskRule])),
    )


def cells_of(kind: Kind, plan: MeasurePlan, source: int) -> st.SearchStrategy[Cell]:
    plain = [Cell(each, each) for each in [*kind.values, NULL]]
    if plan.rules not in (STRICT, STRICT_NAN):
        plain += [Cell(*each) for each in kind.raws]
    if plan.rules.null is NullAs.ZERO:
        plain = [each for each in plain if not each.value.is_null]
    if kind.may_be_invalid:
        broken = invalid(f"s{source}", b"\xff")
        plain.append(Cell(broken, broken))
    return st.sampled_from(plain)


@st.composite
def questions(draw: st.DrawFn, shape: Shape) -> Question:
    sources = draw(st.sampled_from([2, 2, 3, 5]))
    kinds = draw(st.lists(st.sampled_from(KINDS_OF_MEASURES), min_size=1, max_size=2))
    stage = a_stage(sources, *(each.type for each in kinds))
    measures = [draw(measured(*each)) for each in zip(stage.measures, kinds, strict=True)]
    stage = replace(
        stage,
        reference=draw(st.integers(0, sources - 1)),
        measures=tuple(measures),
        caps=replace(stage.caps, deltas=draw(st.booleans())),
    )
    checked = frozenset(f"m{at}" for at, kind in enumerate(kinds) if kind.may_be_invalid)
    layout = layout_of(stage, [PlainColumns(checked=checked)] * sources)
    most = 4 if shape is Shape.TUPLES else 1
    rows = [
        st.lists(
            st.tuples(*(cells_of(*each, source) for each in zip(kinds, measures, strict=True))),
            max_size=most,
        )
        for source in range(sources)
    ]
    alike = [
        st.lists(
            st.tuples(*(cells_of(*each, source) for each in zip(kinds, measures, strict=True))),
            min_size=many,
            max_size=many,
        )
        for many in (1, most)
        for source in range(sources)
    ]
    group = st.tuples(*rows) | st.tuples(*alike[:sources]) | st.tuples(*alike[sources:])
    groups = draw(st.lists(group.filter(any).map(list), min_size=1, max_size=5))
    return Question(stage, layout, groups)


class Written(NamedTuple):
    """A difference in comparable words."""

    group: int
    measure: str
    presence: int
    kind: DifferenceClass
    within: bool
    odd: int | None
    values: dict[int, str | None]
    raw: dict[int, str | None]
    deltas: dict[int, str]
    percents: dict[int, str]
    size: float | None


def by_the_oracle(stage: StagePlan, group: int, row: Difference) -> Written:
    index = stage.sources.index
    sizes = [delta.copy_abs() for _, delta in row.deltas]
    return Written(
        group=group,
        measure=row.measure,
        presence=row.presence,
        kind=row.difference_class,
        within=row.outcome is Outcome.WITHIN,
        odd=None if row.odd_one_out is None else index(row.odd_one_out),
        values={index(name): each for name, each in row.values},
        raw={index(name): each for name, each in row.raw_values},
        deltas={index(name): decimal_text(each) for name, each in row.deltas},
        percents={index(name): decimal_text(each) for name, each in row.delta_percent},
        size=float(max(sizes)) if sizes else None,
    )


def by_the_kernel(groups: JudgedGroups) -> list[Written]:
    names = groups.keys.column("k0").to_pylist()
    written = []
    for each in groups.differences:
        # Backwards, for places are chosen in any order.
        at = np.arange(len(each))[::-1]
        texts, sizes = each.written(at), each.sizes.take(pa.array(at)).to_pylist()
        for row, place in enumerate(at.tolist()):
            odd = int(each.odd[place])
            written.append(
                Written(
                    group=names[int(each.groups[place])],
                    measure=each.measure,
                    presence=int(each.presence[place]),
                    kind=KINDS[each.kinds[place]],
                    within=bool(each.within[place]),
                    odd=None if odd == NOBODY else odd,
                    values=by_source(texts.values, row),
                    raw=by_source(texts.raw, row),
                    deltas=by_source(texts.deltas, row),
                    percents=by_source(texts.percents, row),
                    size=sizes[row],
                )
            )
    return written


def by_source(texts: By, row: int) -> dict[int, Any]:
    return {each.source: each.texts[row].as_py() for each in texts if each.where[row]}


def plain(layout: Layout, at: int, value: Value) -> object:
    """What Arrow holds of a value."""
    return (
        None
        if value.is_null or value.is_invalid
        else represented(value, layout.measures[at].result)
    )


def columns_of(layout: Layout, at: int, cell: Cell, names: Sequence[str]) -> dict[str, object]:
    """Value, payload, text and order before rules, under such names."""
    value, payload, raw, order = names
    broken = encode(cell.value)[5:] if cell.value.is_invalid else None
    return {
        value: plain(layout, at, cell.value),
        payload: broken,
        raw: canonical_text(cell.raw),
        order: sort_key_of(cell.raw),
    }


def schema_of(layout: Layout, shape: Shape) -> pa.Schema:
    fields = [(f"n{at}", pa.int64()) for at in layout.sources]
    fields += [(f"c{at}", pa.int64()) for at in layout.sources] if shape is Shape.TUPLES else []
    fields += [(FIRST, pa.bool_()), ("k0", pa.int64())]
    for at, measure in enumerate(layout.measures):
        suffixes = [f"_{source}" for source in layout.sources]
        for suffix in suffixes if shape is Shape.WIDE else [""]:
            letter = ("v", "x", "r", "q") if suffix else ("m", "m", "m", "m")
            ends = (suffix,) * 4 if suffix else ("", "x", "r", "q")
            kinds = (native(measure.result), pa.binary(), pa.string(), pa.string())
            names = (f"{a}{at}{b}" for a, b in zip(letter, ends, strict=True))
            fields += zip(names, kinds, strict=True)
    held = {label for field in layout.fields for label, _ in field.columns}
    if shape is Shape.WIDE:
        return pa.schema(fields)
    return pa.schema([(name, kind) for name, kind in fields if name[0] != "m" or name in held])


def rows_of(
    layout: Layout, groups: Sequence[Sequence[Sequence[Row]]], shape: Shape
) -> pa.RecordBatch:
    rows: list[dict[str, object]] = []
    for key, sources in enumerate(groups):
        sizes = {f"n{at}": len(each) for at, each in enumerate(sources)}
        head = {**sizes, "k0": key}
        if shape is Shape.WIDE:
            wide: dict[str, object] = {**head, FIRST: True}
            for source, (*_, row) in ((at, each) for at, each in enumerate(sources) if each):
                for at, cell in enumerate(row):
                    names = [f"{letter}{at}_{source}" for letter in "vxrq"]
                    wide |= columns_of(layout, at, cell, names)
            rows.append(wide)
            continue
        copies = [Counter(map(encoded, each)) for each in sources]
        tuples = {encoded(row): row for each in sources for row in each}
        for place, (name, row) in enumerate(tuples.items()):
            values: dict[str, object] = {}
            for at, cell in enumerate(row):
                values |= columns_of(
                    layout, at, cell, [f"m{at}{end}" for end in ("", "x", "r", "q")]
                )
            many = {f"c{at}": each[name] for at, each in enumerate(copies)}
            rows.append({**head, FIRST: place == 0, **many, **values})
    return pa.RecordBatch.from_pylist(rows, schema_of(layout, shape))


def encoded(row: Row) -> bytes:
    return encode_tuple([each for cell in row for each in cell])


def counted_by_the_oracle(judged: Sequence[GroupJudgement]) -> dict[int, MeasureTally]:
    tallies: dict[int, MeasureTally] = {}
    for group in judged:
        for at, each in enumerate(group.all_measures if group.matched else ()):
            if not each.equal:
                count(tallies.setdefault(at, MeasureTally()), each)
    return tallies


def count(tally: MeasureTally, each: MeasureJudgement) -> None:
    kind = each.difference_class or DifferenceClass.OUTSIDE
    tally.see(
        [int(not holds) for holds in each.alone_within],
        outside=int(not each.within),
        kinds={kind: 1},
    )
    tally.reach(None if each.largest_delta is None else size_key_of(each.largest_delta))


def alone_by_the_oracle(question: Question) -> dict[tuple[int, int, int], Decimal]:
    stage, _, groups = question
    alone: dict[tuple[int, int, int], Decimal] = {}
    for sources in groups:
        mask = sum(1 << at for at, each in enumerate(sources) if each)
        if mask == stage.everywhere:
            continue
        for source, rows in enumerate(sources):
            for plan in (*(each for each in stage.measures if each.has_total), ROWS_MEASURE):
                is_rows = plan is ROWS_MEASURE
                if rows:
                    place = (len(stage.measures) if is_rows else plan.index, source, mask)
                    amounts = (None if is_rows else row[plan.index].value.amount for row in rows)
                    row_amounts = [Decimal(1) if is_rows else each for each in amounts]
                    for amount in row_amounts:
                        before = alone.get(place, Decimal(0))
                        alone[place] = EXACT.add(before, amount or Decimal(0))
    return alone


def check(
    question: Question, shape: Shape, change: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> None:
    stage, layout, groups = question
    rows = change(rows_of(layout, groups, shape))
    counted = Counted(len(stage.scans))
    judge = Judge(layout, KEY, rows.schema.names, counted, shape)
    batches = [judge.add(rows), judge.finish()]
    kernel = [each for batch in batches if batch is not None for each in by_the_kernel(batch)]
    writer, judged, oracle = DifferenceWriter(stage=stage, key=KEY), [], []
    kinds: Counter[GroupKind] = Counter()
    for key, sources in enumerate(groups):
        group = Group((number(key),), [list(each) for each in sources])
        judged.append(judge_group(stage, group, group.mask))
        repeated = sum(1 << at for at, each in enumerate(sources) if len(each) > 1)
        written = [
            by_the_oracle(stage, key, each)
            for each in writer.rows(encode_tuple(group.key), group, judged[-1])
        ]
        odds = {each.odd for each in written if not each.within}
        odd = odds.pop() if len(odds) == 1 else None
        kinds[group.mask, repeated, judged[-1].differs, odd] += 1
        oracle += [each for each in written if stage.caps.deltas or not each.within]
    assert sorted(kernel, key=lambda each: each[:2]) == sorted(oracle, key=lambda each: each[:2])
    assert counted.measures == counted_by_the_oracle(judged) | {
        at: each for at, each in counted.measures.items() if each == MeasureTally()
    }
    assert counted.alone == alone_by_the_oracle(question)
    assert counted.groups == kinds
    rows_by_source = [sum(len(group[at]) for group in groups) for at in layout.sources]
    assert (counted.opened, counted.grouped) == (len(groups), rows_by_source)
    flags = {key: pair for batch in batches if batch for key, pair in flags_of(batch)}
    assert flags == {
        key: (each.differs, any(len(rows) > 1 for rows in groups[key]))
        for key, each in enumerate(judged)
    }


def flags_of(batch: JudgedGroups) -> Iterator[tuple[int, tuple[bool, bool]]]:
    """By group whether it differs, and whether a source has several rows for it."""
    assert batch.differs.dtype == batch.repeated.dtype == np.dtype(np.bool_)
    pairs = zip(batch.differs.tolist(), batch.repeated.tolist(), strict=True)
    yield from zip(batch.keys.column("k0").to_pylist(), pairs, strict=True)


@pytest.mark.case("P26")
@settings(max_examples=300, deadline=None)
@given(question=questions(Shape.TUPLES))
def test_tuples_are_judged_as_the_oracle_judges_rows(question: Question) -> None:
    check(question, Shape.TUPLES, lambda rows: rows)


@pytest.mark.case("P46")
@settings(max_examples=300, deadline=None)
@given(question=questions(Shape.WIDE), flagged=st.booleans())
def test_wide_groups_are_judged_as_the_oracle_judges_rows(
    question: Question, *, flagged: bool
) -> None:
    def with_flags(rows: pa.RecordBatch) -> pa.RecordBatch:
        """`d<measure>`, as SQL says what is distinct."""
        for at in range(len(question.stage.measures)) if flagged else ():
            distinct = []
            for sources in question.groups:
                first, *others = (encode(row[at].value) for each in sources for row in each[-1:])
                distinct.append(any(each != first for each in others))
            rows = rows.append_column(f"d{at}", pa.array(distinct))
        return rows

    check(question, Shape.WIDE, with_flags)
