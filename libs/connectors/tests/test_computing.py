"""Expressions over files: what the evaluator answers, for every entry of the allow-list."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from datarecs_connectors.computing import computed_batches
from datarecs_connectors.errors import QueryFailedError
from datarecs_connectors.extracted import typed_rows
from datarecs_connectors.extracting import Batches
from datarecs_connectors.typed_text import TypedColumn, arrow_type, table_of
from datarecs_core.comparison.expressions.functions import ENTRIES
from datarecs_core.comparison.expressions.syntax import parse_expression
from datarecs_core.comparison.expressions.tree import Call, nodes_of
from datarecs_core.comparison.planning.computing import computed_column
from datarecs_core.comparison.planning.logical import expression_faults, logical_source
from datarecs_core.comparison.planning.scan import (
    FileList,
    Scan,
    ScanColumn,
    SourceColumn,
    SourceSchema,
)
from datarecs_core.comparison.values.canonical import Tag, Value
from datarecs_core.comparison.values.translating import canonical
from datarecs_core.jobs.definition import ColumnMapping
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_testing.clock import NOON
from datarecs_testing.expressions import ANSWERS, COLUMNS, FAILING, Answer

SCHEMA = SourceSchema(
    columns=tuple(SourceColumn(name=name, type=kind) for name, kind, _ in COLUMNS)
)


def held_values(kind: CanonicalType, values: Sequence[object]) -> pa.Array:
    is_uuid = kind.kind is TypeKind.UUID
    plain = [str(each) if is_uuid and each is not None else each for each in values]
    return pa.array(plain, arrow_type(kind))


def read(scan: Scan) -> Batches:
    values = {name: held_values(kind, texts) for name, kind, texts in COLUMNS}
    names = [column.name for column in scan.columns]
    yield table_of(names, [TypedColumn(values[name], None) for name in names])


def a_scan(expression: str | None, filter_: str | None = None) -> Scan:
    made = computed_column("v", expression, SCHEMA) if expression else None
    column = (
        ScanColumn(name="v", expression=expression, type=made.type)
        if made
        else ScanColumn(name="v", physical="n", type=SCHEMA.columns[0].type)
    )
    return Scan(
        source="one",
        index=0,
        kind=SourceKind.PARQUET,
        columns=(column,),
        schema=SCHEMA,
        filter=filter_,
        pin=FileList(root="", files=(), taken_at=NOON),
    )


def answered(scan: Scan) -> list[Value]:
    return [
        canonical(value, scan.columns[0].type, "one")
        for batch, _ in computed_batches(scan, read)
        for (value,) in typed_rows(batch, scan.columns)
    ]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda each: each.expression)
def test_the_evaluator_answers_as_the_table_says(answer: Answer) -> None:
    scan = a_scan(answer.expression)
    assert scan.columns[0].type == answer.type
    assert answered(scan) == [canonical(each, answer.type, "one") for each in answer.values]


def test_every_entry_of_the_allow_list_has_rows() -> None:
    used = {
        node.entry
        for answer in ANSWERS
        for node in nodes_of(parse_expression(answer.expression))
        if isinstance(node, Call)
    }
    assert sorted(ENTRIES.keys() - used) == []


@pytest.mark.parametrize("expression", FAILING)
def test_an_expression_without_a_value_on_some_row_ends_the_read(expression: str) -> None:
    with pytest.raises(QueryFailedError, match="the expression of 'v' fails for at least one row"):
        answered(a_scan(expression))


def test_a_filter_selects_the_rows_for_which_it_is_true() -> None:
    selected = answered(a_scan(None, "LENGTH(s) > 3 AND a * 2 > 1"))
    assert selected == [Value(Tag.NUMBER, 7), Value(Tag.NUMBER, 2**63 - 1)]


def test_what_is_computed_of_an_invalid_value_is_invalid() -> None:
    """A default must not hide it, and a condition over it is unknown, which leaves the row."""

    def with_invalid(scan: Scan) -> Batches:
        for batch, _ in read(scan):
            broken = pa.array([b"x", None, None, None, None], pa.binary())
            at = batch.schema.get_field_index("$invalid.n")
            yield batch.set_column(at, "$invalid.n", broken), ("n",)

    scan = a_scan("COALESCE(n, 0)", "n IS NULL OR n * 1 < 10")
    made = [row for batch, _ in computed_batches(scan, with_invalid) for row in batch.to_pylist()]
    assert made == [
        {"v": None, "$invalid.v": b"x"},
        *({"v": each, "$invalid.v": None} for each in (-7, 0, 0)),
    ]
    unfiltered = replace(scan, filter=None)
    first = next(iter(computed_batches(unfiltered, with_invalid)))[0].to_pylist()[0]
    assert first == {"v": None, "$invalid.v": b"x"}


def test_numbers_without_one_scale_are_cast_before_they_are_computed(
    open_files: Callable[..., Any], tmp_path: Path
) -> None:
    # No type of a database holds 38 digits and every scale, so nothing may guess one.
    (tmp_path / "wide.csv").write_text(f"id,v\n1,{'9' * 37}\n2,0.{'0' * 27}1\n3,2.5\n")
    expression = "CAST(v AS decimal(6,2)) * 2"
    opened = open_files(
        SourceKind.CSV,
        "wide.csv",
        columns={"w": ColumnMapping(expr=expression)},
        filter="LENGTH(v) < 5",
    )
    assert opened.types["v"] == "decimal"
    logical = logical_source(opened.source, 0, opened.schema)
    scan = logical.scan(opened.held.pin, frozenset({"id", "v", "w"}))
    assert str(scan.column("w").type) == "decimal(7,2)"
    assert list(opened.connector.rows(scan)) == [(3, "2.5", Decimal("5.00"))]
    (fault,) = expression_faults(logical, "v * 2", ())
    assert "it takes numbers, not text" in fault.message
