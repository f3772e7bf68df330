"""Hashes of a first reading: every value has the run's seed, in the form that DuckDB mixes well."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import duckdb
import pytest

from datarecs_core.jobs.definition import Normalize, NumberRules
from datarecs_core.jobs.vocabulary import NanRule
from datarecs_kernel.layout import Layout, PlainColumns, layout_of
from datarecs_kernel.row_hashes import RowHashes, drawn_hashes
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import a_job, a_table, plan_of

HASHES = RowHashes(salt=7, prefix="salted", weights=(3, 5))
NAN = float("nan")
Strict = Normalize(numbers=NumberRules(nan=NanRule.UNEQUAL))


def a_layout(*types: str, normalize: Normalize = Normalize(), may_be_invalid: bool) -> Layout:  # noqa: B008  a value
    columns = ", ".join(f"m{at} {each}" for at, each in enumerate(types))
    tables = [a_table(name, f"k int, {columns}") for name in ("one", "two")]
    measures = [a_measure(f"m{at}") for at in range(len(types))]
    stage = plan_of(a_job(tables, rows_by("k", *measures), normalize=normalize), tables).stages[0]
    checked = frozenset(f"m{at}" for at in range(len(types))) if may_be_invalid else frozenset()
    return layout_of(stage, [PlainColumns(checked=checked)] * 2)


def hashed(layout: Layout, source: int, values: Sequence[object], hashes: RowHashes) -> int:
    """The hash of a row with these values after its key."""
    names = ["k0", *(each.name for each in layout.fields if each.name != "k0")]
    fields = {each.name: each for each in layout.fields}
    columns = [f"CAST(? AS {fields[name].form.sql_type}) AS {name}" for name in names]
    columns += [
        f"CAST('\\xFF' AS BLOB) AS {each.payload}" for each in layout.fields if each.may_be_invalid
    ]
    _, sql = hashes.columns(layout, source)
    with duckdb.connect() as connection:
        query = f"SELECT {sql} FROM (SELECT {', '.join(columns)})"
        ((value,),) = connection.execute(query, [1, *values]).fetchall()
    return int(value)


@pytest.mark.parametrize(
    ("kind", "value", "seeded"),
    [
        ("int", 5, "m0"),
        ("decimal(18,2)", "1.25", "m0"),
        ("decimal(19,2)", "1.25", "'salted' || m0::VARCHAR"),
        ("text", "a", "'salted' || m0"),
        ("binary", b"a", "'salted'::BLOB || m0"),
        ("date", 20_484, "m0"),
    ],
)
@pytest.mark.parametrize("may_be_invalid", [False, True])
def test_texts_bytes_and_wide_decimals_begin_with_the_seed(
    kind: str, value: object, seeded: str, *, may_be_invalid: bool
) -> None:
    layout = a_layout(kind, may_be_invalid=may_be_invalid)
    (field,) = [each for each in layout.fields if each.name == "m0"]
    payload = ", 'salted'::BLOB || m0x" if field.may_be_invalid else ""
    with duckdb.connect() as connection:
        ((expected,),) = connection.execute(
            f"SELECT hash(hash(7::UBIGINT, 1::{layout.keys[0].form.sql_type}, {seeded}{payload}))"
            f" FROM (SELECT CAST(? AS {field.form.sql_type}) AS m0, CAST('\\xFF' AS BLOB) AS m0x)",
            [value],
        ).fetchall()
    assert hashed(layout, 0, [value], HASHES) == expected


def test_a_nan_that_equals_nothing_has_another_hash_in_each_source() -> None:
    layout = a_layout("float64", "float64", normalize=Strict, may_be_invalid=False)
    rows = list(product((1.5, NAN), repeat=2))
    one, two = ([hashed(layout, at, row, HASHES) for row in rows] for at in range(2))
    is_equal = [a == b for a, b in zip(one, two, strict=True)]
    assert is_equal == [True, False, False, False]


def test_seeds_are_drawn_with_every_offset_in_a_block_of_text() -> None:
    drawn = [drawn_hashes(2) for _ in range(400)]
    assert {len(each.prefix) for each in drawn} == set(range(8, 16))
    assert len({each.salt for each in drawn}) == len({each.prefix for each in drawn}) == 400
    layout = a_layout("text", may_be_invalid=False)
    assert hashed(layout, 0, ["a"], drawn[0]) != hashed(layout, 0, ["a"], drawn[1])
    salted = replace(drawn[0], salt=drawn[1].salt)
    assert hashed(layout, 0, ["a"], drawn[0]) != hashed(layout, 0, ["a"], salted)
