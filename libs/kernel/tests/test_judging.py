"""Open groups in batches: what is counted and stored is what core's rules say, without Spark."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.grouping import Cell, Group
from datarecs_core.comparison.oracle.judging import DifferenceWriter, judge_group
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.differences import difference_bytes, digest, digest_text
from datarecs_core.comparison.results.fingerprints import key_hash
from datarecs_core.comparison.results.results import Difference, Outcome
from datarecs_core.comparison.values.canonical import NULL, Tag, Value, encode_tuple, number, text
from datarecs_core.jobs.vocabulary import DuplicatePolicy, MaskRule
from datarecs_kernel.decoding import native
from datarecs_kernel.layout import Layout, PlainColumns, layout_of
from datarecs_kernel.open_groups import FIRST, OPEN, WEIGHT
from datarecs_kernel.settling import SinkPlan, settle
from datarecs_kernel.sink import SinkTask
from datarecs_kernel.stored import read_differences
from datarecs_kernel.storing import SHOWN_KEYS, Stores
from datarecs_testing.comparisons import a_measure, absolute, rows_by
from datarecs_testing.tables import a_job, a_table, plan_of

KEY = b"k" * 80
SOURCES = ("one", "two", "three")
COLUMNS = "k text, d date, amount decimal(12,2), f float64, day date, note text"
NAMES = ("k0", "k1", "m0", "m1", "m2", "m3")

NAN = float("nan")
Plain = tuple[Any, ...]
Groups = dict[Plain, Sequence[Sequence[Plain]]]
"""Rows per source, by key."""
AMOUNTS = st.sampled_from([None, "0.00", "0.05", "0.10", "-3.50", "9999999999.99"]).map(
    lambda each: None if each is None else Decimal(each)
)
FLOATS = st.sampled_from([None, 0.0, 0.1, -2.5, 1e300, NAN])
DAYS = st.sampled_from([None, 0, -1, 20_000, 5_000_000])
NOTES = st.sampled_from([None, "", "x", "é|\x00"])
KEYS = st.tuples(st.sampled_from(["", "a", "b\u2028"]), st.sampled_from([None, 0, 20_000]))
ROWS = st.tuples(AMOUNTS, FLOATS, DAYS, NOTES)
SOME = st.tuples(*(st.lists(ROWS, max_size=2) for _ in SOURCES)).filter(any)
EVERYWHERE = st.tuples(*(st.lists(ROWS, min_size=1, max_size=1) for _ in SOURCES))
GROUPS = st.dictionaries(KEYS, SOME | EVERYWHERE, max_size=6)


def a_stage(mask: MaskRule | None, policy: DuplicatePolicy, *, deltas: bool) -> StagePlan:
    tables = [a_table(name, COLUMNS) for name in SOURCES]
    measures = [a_measure("amount", absolute("0.1")), *map(a_measure, ("f", "day", "note"))]
    declared = rows_by("k d", *measures, duplicates=policy)
    stage = plan_of(a_job(tables, declared), tables).stages[0]
    first, second = stage.dimensions
    amount, *others = stage.measures
    return replace(
        stage,
        caps=replace(stage.caps, deltas=deltas),
        dimensions=(replace(first, mask=mask), second),
        measures=(replace(amount, mask=mask), *others),
    )


def value_of(name: str, plain: object) -> Value:
    match plain:
        case None:
            return NULL
        case str():
            return text(plain)
        case int() if name in {"k1", "m2"}:
            return Value(Tag.DATE, Decimal(plain))
        case float():
            return number(Decimal(repr(plain)))
        case _:
            return number(Decimal(str(plain)))


def expected_by_core(stage: StagePlan, groups: Groups) -> list[Difference]:
    writer, differences = DifferenceWriter(stage=stage, key=KEY), []
    for key, sources in groups.items():
        rows = [[tuple(map(cell, NAMES[2:], row)) for row in source] for source in sources]
        group = Group(tuple(map(value_of, NAMES, key)), rows)
        judged = judge_group(stage, group, group.mask)
        differences += writer.rows(encode_tuple(group.key), group, judged)
    return [each for each in differences if stage.caps.deltas or each.outcome is Outcome.BREAK]


def cell(name: str, plain: object) -> Cell:
    value = value_of(name, plain)
    return Cell(value, value)


def opened(layout: Layout, groups: Groups) -> pa.RecordBatch:
    """All of them as open groups, in the columns of `opening`."""
    rows = []
    for key, sources in groups.items():
        copies = [Counter(map(same, source)) for source in sources]
        tuples = dict.fromkeys(each for source in copies for each in source)
        for at, each in enumerate(tuples):
            sizes, many = map(len, sources), [source[each] for source in copies]
            rows.append((True, *sizes, at == 0, *key, *each, *many, 1))
    counts = [(f"n{at}", pa.int64()) for at in layout.sources]
    numbers = [(f"c{at}", pa.int64()) for at in layout.sources]
    values = [(field.name, native(field.form)) for field in layout.fields]
    columns = [(OPEN, pa.bool_()), *counts, (FIRST, pa.bool_()), *values, *numbers]
    schema = pa.schema([*columns, (WEIGHT, pa.int64())])
    return pa.RecordBatch.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema
    )


def same(row: Plain) -> Plain:
    """NaN are one value, as they are to every grouping."""
    return tuple(NAN if each != each else each for each in row)  # noqa: PLR0124 - a NaN alone


STAGES = st.builds(
    a_stage,
    st.sampled_from([None, *MaskRule]),
    st.sampled_from([DuplicatePolicy.MULTISET, DuplicatePolicy.ERROR]),
    deltas=st.booleans(),
)


WITHIN, OUTSIDE = (
    [[(Decimal(amount), 0.1, 0, "x")] for amount in amounts]
    for amounts in (("0.00", "0.05", "0.05"), ("0.00", "0.05", "-3.50"))
)


@pytest.mark.case("P60")
@example(
    groups={("", 0): WITHIN, ("a", 0): OUTSIDE, ("b\u2028", 0): OUTSIDE},
    stage=a_stage(None, DuplicatePolicy.MULTISET, deltas=False),
    step=9,
)
@settings(max_examples=150, deadline=None)
@given(groups=GROUPS, stage=STAGES, step=st.integers(1, 9))
def test_what_is_stored_is_what_core_says_wherever_batches_are_cut(
    groups: Groups, stage: StagePlan, step: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("stage")
    layout = layout_of(stage, [PlainColumns()] * len(SOURCES))
    rows = opened(layout, groups)
    plan = SinkPlan(layout=layout, key=KEY, directory=str(directory), scope_directory=None)
    stores = Stores(plan, "0")
    task = SinkTask(stores, rows.schema.names)
    for start in range(0, rows.num_rows, step):
        task.take(rows.slice(start, step))
    task.close()
    counted = settle(plan, stores.leave())
    stored, expected = list(read_differences(directory)), expected_by_core(stage, groups)
    assert sorted(map(everything, stored)) == sorted(map(everything, expected))
    assert (counted.stored, digest_text(counted.digest)) == (len(expected), digest(expected))
    repeated = {
        key_hash(KEY, encode_tuple(tuple(map(value_of, NAMES, key)))).hex()
        for key, sources in groups.items()
        if max(map(len, sources)) > 1
    }
    wanted = sorted(repeated)[:SHOWN_KEYS] if stage.duplicates is DuplicatePolicy.ERROR else []
    assert counted.repeated_keys == wanted


def everything(row: Difference) -> tuple[object, ...]:
    return difference_bytes(row), row.key, row.key_hash, row.delta_percent
