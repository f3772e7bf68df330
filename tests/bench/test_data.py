"""Generated data differ in exactly the rows that the generator declares, for every counter."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.bench.compare import Limits, duckdb_join, polars_join, read_parquet
from tests.bench.data import FILES, Case, Counts, Data, generate

ROWS = 10_000
EQUAL = Data(rows=ROWS, share=0)
FEW = Data(rows=ROWS, share=0.0004)
SOME = Data(rows=ROWS, share=0.05)
EVERY = Data(rows=ROWS, share=1)
PLAIN = Data(rows=ROWS, share=0.05, is_plain=True)
THREE = Data(rows=ROWS, share=0.05, sources=3)
TEN = Data(rows=ROWS, share=0.01, sources=10)
COPIES = Data(rows=ROWS, share=0.05, duplicates=0.1)
EVERY_WITH_COPIES = Data(rows=ROWS, share=1, duplicates=0.1)


def make_case(folder: Path, data: Data) -> Case:
    case = generate(folder, data)
    case.clear()
    return case


def query(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("data", "truth"),
    [
        (EQUAL, Counts(only_first=0, only_others=0, changed=0)),
        (FEW, Counts(only_first=2, only_others=1, changed=2)),
        (SOME, Counts(only_first=250, only_others=125, changed=250)),
        (EVERY, Counts(only_first=0, only_others=0, changed=2 * ROWS)),
        (PLAIN, Counts(only_first=250, only_others=125, changed=250)),
        (THREE, Counts(only_first=500, only_others=750, changed=500)),
        (TEN, Counts(only_first=450, only_others=3825, changed=450)),
        (COPIES, Counts(only_first=238, only_others=120, changed=237)),
        (EVERY_WITH_COPIES, Counts(only_first=0, only_others=0, changed=2 * 9_500)),
    ],
)
def test_a_full_join_counts_what_the_generator_says(
    tmp_path: Path, data: Data, truth: Counts
) -> None:
    counts = duckdb_join(make_case(tmp_path, data), Limits())
    assert (counts, data.truth) == (truth, truth)


@pytest.mark.parametrize("data", [EQUAL, SOME, EVERY, PLAIN])
def test_polars_counts_what_the_generator_says(tmp_path: Path, data: Data) -> None:
    assert polars_join(make_case(tmp_path, data)) == data.truth


def test_data_have_twelve_columns_of_the_types_that_people_have(tmp_path: Path) -> None:
    case = generate(tmp_path, SOME)
    described = query(f"DESCRIBE FROM {read_parquet(case.files[0])}")
    types = sorted(str(row[1]) for row in described)
    assert types == sorted(
        ["BIGINT", "BIGINT", "DECIMAL(14,2)", "DECIMAL(12,4)", "DOUBLE", "DATE", "TIMESTAMP"]
        + ["VARCHAR"] * 5
    )
    ((nulls,),) = query(f"FROM {read_parquet(case.files[0])} SELECT count(*) - count(price)")
    assert nulls == pytest.approx(ROWS / 10, rel=0.1)


def test_the_first_source_lies_in_key_order_in_eight_files_and_the_second_in_another_order_in_one(
    tmp_path: Path,
) -> None:
    first, second = generate(tmp_path, SOME).files
    assert (len(first), len(second)) == (FILES, 1)
    keys = [query(f"FROM {read_parquet([path])} SELECT account, line") for path in first]
    in_order = [key for part in keys for key in part]
    assert in_order == sorted(in_order)
    other = query(f"FROM {read_parquet(second)} SELECT account, line")
    assert other != sorted(other)


def test_sources_are_compressed_in_different_ways(tmp_path: Path) -> None:
    case = generate(tmp_path, SOME)
    compressions = [
        query(f"FROM parquet_metadata({[str(path) for path in paths]}) SELECT DISTINCT compression")
        for paths in case.files
    ]
    assert compressions == [[("SNAPPY",)], [("ZSTD",)]]


def test_plain_sources_of_equal_rows_are_the_same_file_twice(tmp_path: Path) -> None:
    one, two = generate(tmp_path, Data(rows=ROWS, share=0, is_plain=True)).all_files
    assert one.read_bytes() == two.read_bytes()


def test_a_share_of_the_rows_has_the_key_of_another_row(tmp_path: Path) -> None:
    case = generate(tmp_path, COPIES)
    for paths in case.files:
        ((rows, types),) = query(
            "SELECT sum(n), any_value(types) FROM (SELECT count(*) AS n,"  # noqa: S608 - constants of this test
            f" any_value(typeof(account) || typeof(line)) AS types FROM {read_parquet(paths)}"
            " GROUP BY account, line HAVING count(*) = 2)"
        )
        assert (rows, types) == (ROWS * 0.1, "VARCHARVARCHAR")


def test_no_more_differences_are_stored_than_the_limit_while_counts_are_complete(
    tmp_path: Path,
) -> None:
    case = make_case(tmp_path, EVERY)
    assert duckdb_join(case, Limits(stored=100)) == EVERY.truth
    ((stored,),) = query(f"FROM '{case.out}/differences.parquet' SELECT count(*)")
    assert stored == 100


@pytest.mark.parametrize(
    ("sources", "share", "duplicates", "is_plain"),
    [(1, 0.1, 0, False), (2, 1.1, 0, False), (12, 0.1, 0, False), (2, 0.1, 0.1, True)],
)
def test_data_whose_differences_would_depend_on_chance_are_refused(
    sources: int, share: float, duplicates: float, *, is_plain: bool
) -> None:
    with pytest.raises(ValueError, match=r"sources|keys|plain"):
        Data(rows=ROWS, sources=sources, share=share, duplicates=duplicates, is_plain=is_plain)
