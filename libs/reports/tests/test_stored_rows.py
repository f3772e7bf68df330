"""Difference files read back: every field as it was, from the oracle and from an engine's form."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_core.comparison.proof.reading import DocumentUnreadableError
from datarecs_core.comparison.proof.sealed import SealedStage, sealed_run
from datarecs_core.comparison.results.results import Difference, Outcome
from datarecs_core.documents import decimal_text
from datarecs_reports.difference_file import stored_below
from datarecs_reports.differences import DifferenceFilter, all_differences, read_differences
from datarecs_reports.judged_rows import judged_rows
from datarecs_reports.stored_rows import DifferencesUnreadableError, parts_of, read_rows
from datarecs_testing.comparisons import a_measure, absolute, compare, rows_by
from datarecs_testing.finished_runs import MemoryBench, document
from datarecs_testing.tables import a_job, a_table

D = Decimal
SOURCES = ("ledger", "lake")
TABLES = [
    a_table(
        "ledger",
        "day date, n decimal(9,2), v decimal(9,2)",
        (date(2026, 1, 1), D("1.50"), D("1.00")),
        (None, D("2.00"), D("2.00")),
        (date(1950, 2, 3), None, None),
    ),
    a_table(
        "lake",
        "day date, n decimal(9,2), v decimal(9,2)",
        (date(2026, 1, 1), D("1.50"), D("1.01")),
        (None, D("2.00"), D("7.00")),
        (date(1950, 2, 3), None, D(0)),
        (date(2000, 1, 1), D(1), D(1)),
    ),
]


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, SealedStage, Sequence[Difference]]:
    """The folder of differences, the stage as sealed, and the rows as they were."""
    job = a_job(TABLES, rows_by("day n", a_measure("v", absolute("0.01"))))
    comparison = compare(MemoryBench(), job, TABLES)
    stored_below(tmp_path)(comparison.plan.stages[0], comparison.differences())
    (stage,) = sealed_run(document(job, TABLES)).stages
    return tmp_path, stage, comparison.differences()


def typed(part: Path) -> pa.Table:
    """The file as Spark writes it: a typed key, its texts and its encoding beside it."""
    table = pq.read_table(part, partitioning=None)
    keys = table["key"].to_pylist()
    days = [None if key["day"] is None else date.fromisoformat(key["day"]) for key in keys]
    amounts = [None if key["n"] is None else D(key["n"]) for key in keys]
    members = [pa.array(days, pa.date32()), pa.array(amounts, pa.decimal128(9, 2))]
    at = table.column_names.index("key")
    table = table.set_column(at, "key", pa.StructArray.from_arrays(members, names=["day", "n"]))
    texts = pa.array([[key["day"], key["n"]] for key in keys], pa.list_(pa.string()))
    return table.append_column("key_text", texts)


def test_rows_come_back_as_they_were(
    stored: tuple[Path, SealedStage, Sequence[Difference]],
) -> None:
    folder, stage, rows = stored
    parts = parts_of(folder, "rows")
    assert list(read_rows(parts, stage, SOURCES)) == list(rows)
    (part,) = parts
    pq.write_table(typed(part), part)
    assert list(read_rows(parts, stage, SOURCES)) == list(rows)


def test_typed_keys_are_listed_as_the_texts_beside_them(
    stored: tuple[Path, SealedStage, Sequence[Difference]],
) -> None:
    folder, _, _ = stored
    (part,) = parts_of(folder, "rows")
    before = read_differences([part.read_bytes()], DifferenceFilter(), limit=9)
    pq.write_table(typed(part), part)
    assert read_differences([part.read_bytes()], DifferenceFilter(), limit=9) == before
    every = sorted(
        all_differences([part], DifferenceFilter()), key=lambda row: str(row["break_id"])
    )
    assert every == sorted(before, key=lambda row: str(row["break_id"]))


@pytest.mark.case("P63")
def test_a_typed_key_that_says_something_else_is_refused(
    stored: tuple[Path, SealedStage, Sequence[Difference]],
) -> None:
    folder, stage, _ = stored
    (part,) = parts_of(folder, "rows")
    table = typed(part)
    key = table["key"].to_pylist()
    at = next(index for index, each in enumerate(key) if each["day"] is not None)
    key[at]["day"] = date(2027, 1, 1)
    place = table.column_names.index("key")
    pq.write_table(
        table.set_column(place, "key", pa.array(key, table.schema.field(place).type)), part
    )
    with pytest.raises(DifferencesUnreadableError, match="typed key"):
        list(read_rows([part], stage, SOURCES))


def test_rows_for_judging_hold_the_same_values(
    stored: tuple[Path, SealedStage, Sequence[Difference]],
) -> None:
    folder, _, rows = stored
    result = list(judged_rows(parts_of(folder, "rows")))
    assert [row.key_hash for row in result] == [row.key_hash for row in rows]
    assert [row.within for row in result] == [row.outcome is Outcome.WITHIN for row in rows]
    assert [row.values for row in result] == [dict(row.values) for row in rows]
    assert [row.deltas for row in result] == [
        {name: decimal_text(delta) for name, delta in row.deltas} for row in rows
    ]


def test_a_stage_without_stored_parts_has_no_rows(tmp_path: Path) -> None:
    assert parts_of(tmp_path, "rows") == []


def test_other_files_are_refused(
    stored: tuple[Path, SealedStage, Sequence[Difference]], tmp_path: Path
) -> None:
    _, stage, _ = stored
    other = tmp_path / "part-1.parquet"
    pq.write_table(pa.table({"x": [1]}), other)
    with pytest.raises(DifferencesUnreadableError, match="is missing"):
        list(read_rows([other], stage, SOURCES))
    other.write_bytes(b"PAR1")
    with pytest.raises(DifferencesUnreadableError, match="Parquet"):
        list(read_rows([other], stage, SOURCES))
    with pytest.raises(DifferencesUnreadableError, match="Parquet"):
        list(judged_rows([other]))
    with pytest.raises(DocumentUnreadableError):
        list(all_differences([other], DifferenceFilter()))
