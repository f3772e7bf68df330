"""`datarecs.compare`: the command's answer, for files and for tables in memory."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import datarecs
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.main import run
from datarecs_core.errors.client import ClientCode
from datarecs_core.errors.spec import SpecCode

LEDGER = pa.table(
    {
        "id": [1, 2, 3, 4],
        "amount": [Decimal("10.00"), Decimal("20.00"), Decimal("30.00"), Decimal("40.00")],
        "status": ["paid", "paid", "open", "open"],
    }
)
EXPORTS = pa.table(
    {
        "id": [1, 2, 3, 5],
        "amount": [Decimal("10.00"), Decimal("19.50"), Decimal("30.00"), Decimal("50.00")],
        "status": ["paid", "paid", "paid", "open"],
    }
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with temporary files below it."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path


@pytest.fixture
def files(folder: Path) -> tuple[Path, Path]:
    pq.write_table(LEDGER, folder / "ledger.parquet")
    pq.write_table(EXPORTS, folder / "exports.parquet")
    return Path("ledger.parquet"), Path("exports.parquet")


def temporary_files() -> Iterator[Path]:
    return Path("tmp").iterdir()


def by_measure(comparison: datarecs.Comparison) -> dict[tuple[str, str], str]:
    rows = comparison.differences().to_pylist()
    return {(row["key.id"], row["measure"]): row["class"] for row in rows}


def test_a_file_has_the_answer_and_the_proof_of_the_command(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", *map(str, files), "--key", "id", "--measure", "amount=0.5"]
    assert run([*words, "--measure", "status", "-o", "json"]) == ExitCode.DIFFERENT
    printed = json.loads(capsys.readouterr().out)
    comparison = datarecs.compare(
        *files, key="id", measures=["amount", "status"], tolerance={"amount": 0.5}
    )
    assert comparison.proof_hash == printed["proof_hash"]
    assert comparison.run_json["proof"]["stages"] == printed["stages"]  # type: ignore[index]  # JSON


def test_counts_name_what_happened_to_every_group() -> None:
    comparison = datarecs.compare(LEDGER, EXPORTS, key=["id"])
    assert comparison.verdict == "UNMATCHED"
    assert comparison.counts == datarecs.Counts(compared=5, matched=1, outside=2, missing=2)


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(lambda table: table, id="arrow"),
        pytest.param(pa.Table.to_reader, id="reader"),
        pytest.param(pa.Table.to_pandas, id="pandas"),
        pytest.param(pl.from_arrow, id="polars"),
        pytest.param(lambda table: duckdb.connect().from_arrow(table), id="duckdb"),
    ],
)
def test_every_kind_of_table_has_the_same_differences(convert: object) -> None:
    assert callable(convert)
    comparison = datarecs.compare(convert(LEDGER), convert(EXPORTS), key="id")
    assert by_measure(comparison) == {
        ("2", "amount"): "OUTSIDE",
        ("3", "status"): "OUTSIDE",
        ("4", "$presence"): "MISSING",
        ("5", "$presence"): "MISSING",
    }


def test_a_table_matches_the_file_it_came_from(files: tuple[Path, Path]) -> None:
    assert datarecs.compare(files[0], pl.read_parquet(files[0]), key="id").is_matched


def test_a_named_index_of_pandas_is_a_column_and_an_unnamed_one_is_not() -> None:
    frame = LEDGER.to_pandas()
    unnamed = frame.set_index(pd.Index(list("abcd")))
    assert datarecs.compare(LEDGER, frame.set_index("id"), key="id").is_matched
    assert datarecs.compare(LEDGER, unnamed, key="id").is_matched


def test_categories_are_compared_as_texts() -> None:
    texts = pd.DataFrame({"id": [1, 2, 3], "kind": ["a", None, "b"]})
    pandas = texts.astype({"kind": "category"})
    polars = pl.from_pandas(texts).with_columns(pl.col("kind").cast(pl.Categorical))
    assert datarecs.compare(texts, pandas, polars, key="id").is_matched


def test_a_table_without_columns_is_refused() -> None:
    with pytest.raises(datarecs.ArgumentError, match="source-2: the table has no columns"):
        datarecs.compare(LEDGER, pd.DataFrame())


def test_types_of_tables_stay_exact() -> None:
    at = datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC)
    table = pa.table({"id": [2**53 + 1], "at": [at], "price": [0.1], "raw": [b"\x00"]})
    later = table.set_column(0, "id", pa.array([2**53]))
    assert datarecs.compare(table, table, key="id").is_matched
    assert datarecs.compare(table, later, key="id").counts.missing == 2


def test_a_repeated_key_is_a_difference_if_the_rows_differ() -> None:
    twice = pa.concat_tables([LEDGER, LEDGER.slice(0, 1)])
    assert datarecs.compare(twice, twice, key="id").is_matched
    assert not datarecs.compare(LEDGER, twice, key="id").is_matched


def test_whole_rows_are_compared_without_a_key() -> None:
    twice = pa.concat_tables([LEDGER, LEDGER.slice(0, 1)])
    assert datarecs.compare(LEDGER, LEDGER).is_matched
    assert not datarecs.compare(LEDGER, twice).is_matched


def test_columns_with_other_names_are_mapped() -> None:
    renamed = EXPORTS.rename_columns(["OrderRef", "Total", "status"])
    comparison = datarecs.compare(
        LEDGER,
        renamed,
        key="id",
        measures=["amount"],
        names=["ledger", "exports"],
        columns={"exports": {"id": "OrderRef", "amount": "Total"}},
    )
    [row] = [row for row in comparison.differences().to_pylist() if row["measure"] == "amount"]
    assert (row["key.id"], row["value.ledger"], row["value.exports"]) == ("2", "20", "19.5")


@pytest.mark.parametrize("limit", [0.5, "0.5", Decimal("0.50"), "2.5%"])
def test_a_tolerance_has_every_form_of_a_number(limit: datarecs.Limit) -> None:
    common = EXPORTS.slice(0, 3)
    comparison = datarecs.compare(
        LEDGER.slice(0, 3), common, key="id", measures="amount", tolerance=limit
    )
    assert comparison.is_matched


def test_a_length_of_time_is_a_tolerance() -> None:
    at = datetime(2026, 1, 31, tzinfo=UTC)
    tables = [pa.table({"id": [1], "at": [at + timedelta(seconds=s)]}) for s in (0, 1.5)]
    for limit, expected in ((timedelta(seconds=1.5), True), (timedelta(seconds=1), False)):
        comparison = datarecs.compare(*tables, key="id", measures="at", tolerance=limit)
        assert comparison.is_matched is expected


def test_excluded_columns_are_not_compared() -> None:
    counts = datarecs.compare(LEDGER, EXPORTS, key="id", exclude="status").counts
    assert counts.outside == 1


def test_an_unknown_column_names_the_argument_and_the_fix() -> None:
    with pytest.raises(datarecs.DatarecsError) as refused:
        datarecs.compare(LEDGER, EXPORTS, key="ordr")
    assert refused.value.code is SpecCode.UNKNOWN_COLUMN
    assert "key ordr: source source-1 has no column 'ordr'; it has amount, id, status" in str(
        refused.value
    )
    assert "map it under `columns`" in refused.value.fix
    assert any(refused.value.fix in note for note in refused.value.__notes__)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["one"]}, "names has 1 names for 2 sources"),
        ({"memory": "1KB"}, "memory 1KB: write a size from"),
        ({"tolerance": 1}, "tolerance needs measures"),
        ({"measures": "amount", "exclude": "status"}, "exclude has no effect with measures"),
        ({"measures": "amount", "tolerance": {"amout": 1}}, "measures has amount"),
        ({"measures": "amount", "tolerance": True}, "tolerance True is not a number"),
        ({"columns": {"exports": {}}}, "the sources are source-1, source-2"),
    ],
)
def test_arguments_that_contradict_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(datarecs.ArgumentError, match=message):
        datarecs.compare(LEDGER, EXPORTS, key="id", **arguments)  # type: ignore[arg-type]  # wrong on purpose


def test_one_source_is_refused() -> None:
    with pytest.raises(datarecs.ArgumentError, match="two or more sources, not 1"):
        datarecs.compare(LEDGER)


def test_a_value_that_is_no_table_is_refused() -> None:
    with pytest.raises(datarecs.ArgumentError, match="source 2 is a list"):
        datarecs.compare(LEDGER, [1, 2])  # type: ignore[arg-type]  # wrong on purpose


def test_a_missing_file_is_an_error_with_a_code() -> None:
    with pytest.raises(datarecs.ArgumentError, match=r"nothing\.csv: no such file") as refused:
        datarecs.compare("nothing.csv", LEDGER)
    assert refused.value.code is ClientCode.ARGUMENT_INVALID


def test_a_column_of_mixed_types_is_refused_by_its_name() -> None:
    mixed = pd.DataFrame({"id": [1, "two"]})
    with pytest.raises(datarecs.ArgumentError, match=r"source-2: .*column id"):
        datarecs.compare(LEDGER, mixed, key="id")


def test_a_column_that_occurs_twice_is_refused() -> None:
    twice = pa.table([[1], [2]], names=["id", "id"])
    with pytest.raises(datarecs.ArgumentError, match="source-1: id occurs twice"):
        datarecs.compare(twice, LEDGER, key="id")


def test_assert_matched_says_how_many_how_much_and_which() -> None:
    comparison = datarecs.compare(LEDGER, EXPORTS, key="id", names=["ledger", "exports"])
    with pytest.raises(datarecs.Unmatched) as unmatched:
        comparison.assert_matched()
    text = str(unmatched.value)
    first, *_ = text.splitlines()
    assert first == ("UNMATCHED: 1 of 5 groups agree, 2 outside tolerance, 2 missing in a source")
    assert "amount: +9.50 (ledger 100.00, exports 109.50)" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["id", "measure", "ledger", "exports", "delta", "difference"] in rows
    assert ["2", "amount", "20.00", "19.50", "-0.50", "outside"] in rows
    datarecs.compare(LEDGER, LEDGER, key="id").assert_matched()


def test_a_notebook_shows_a_table_with_escaped_values() -> None:
    table = pa.table({"id": [1], "text": ["<b>"]})
    other = pa.table({"id": [1], "text": ["</td>"]})
    shown = datarecs.compare(table, other, key="id")._repr_html_()
    assert "<td>&lt;b&gt;</td><td>&lt;/td&gt;</td>" in shown


def test_differences_become_a_frame_and_a_match_has_none() -> None:
    frame = datarecs.compare(LEDGER, EXPORTS, key="id").differences().to_pandas()
    assert frame["measure"].value_counts().to_dict() == {"$presence": 2, "amount": 1, "status": 1}
    assert datarecs.compare(LEDGER, LEDGER, key="id").differences().num_rows == 0


def test_the_report_is_a_page_and_can_be_written(folder: Path) -> None:
    comparison = datarecs.compare(LEDGER, EXPORTS, key="id", exclude="status")
    page = comparison.report(folder / "report.html")
    assert (folder / "report.html").read_text(encoding="utf-8") == page
    call = "datarecs.compare(<source-1>, <source-2>, key='id', exclude='status')"
    assert escape(call).replace("&#x27;", "&#39;") in page
    assert str(folder) not in page


def test_temporary_files_are_removed_with_the_result(files: tuple[Path, Path]) -> None:
    comparison = datarecs.compare(*files, key="id")
    assert len(list(temporary_files())) == 1
    del comparison
    with pytest.raises(datarecs.DatarecsError):
        datarecs.compare(LEDGER, EXPORTS, key="ordr")
    assert list(temporary_files()) == []


def test_results_stay_in_a_named_folder(files: tuple[Path, Path]) -> None:
    datarecs.compare(*files, key="id", out="results")
    assert {"run.json", "report.html", "differences"} <= {
        each.name for each in Path("results").iterdir()
    }
    assert run(["verify", "results"]) == ExitCode.DONE


def test_a_second_thread_can_compare() -> None:
    verdicts: list[str] = []
    thread = threading.Thread(
        target=lambda: verdicts.append(datarecs.compare(LEDGER, EXPORTS, key="id").verdict)
    )
    thread.start()
    thread.join()
    assert verdicts == ["UNMATCHED"]


@pytest.mark.parametrize("way", ["folder", "below a file", "number"])
def test_a_report_that_cannot_be_written_is_an_error_of_the_package(
    tmp_path: Path, way: str
) -> None:
    comparison = datarecs.compare(LEDGER, LEDGER, key="id")
    (tmp_path / "file").write_text("x")
    places: dict[str, object] = {
        "folder": tmp_path,
        "below a file": tmp_path / "file" / "report.html",
        "number": 3,
    }
    with pytest.raises(datarecs.DatarecsError) as caught:
        comparison.report(places[way])  # type: ignore[arg-type]  # a wrong argument
    assert caught.value.fix
    assert "--" not in caught.value.fix


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (f"{2**127 - 1}::HUGEINT", "column v has a number with more than 38 digits"),
        ("INTERVAL 1 MONTH", "column v has intervals of months, days and time"),
    ],
)
def test_a_type_of_a_relation_that_cannot_be_compared_is_named_with_the_way_out(
    value: str, words: str
) -> None:
    relation = duckdb.connect().sql(f"SELECT 1 AS id, {value} AS v")
    with pytest.raises(datarecs.ArgumentError, match=words) as caught:
        datarecs.compare(relation, LEDGER, key="id")
    assert "convert" in str(caught.value)
    assert str(2**127 - 1) not in str(caught.value)


def test_a_huge_integer_with_few_digits_is_compared() -> None:
    relation = duckdb.connect().sql(f"SELECT 1 AS id, {10**37}::HUGEINT AS v")
    assert datarecs.compare(relation, relation, key="id").is_matched


def test_half_precision_numbers_are_compared_by_their_values() -> None:
    half = pa.table({"id": [1, 2, 3], "v": pa.array([1.5, None, -0.1], pa.float16())})
    other = half.set_column(1, "v", pa.array([1.5, None, -0.2], pa.float16()))
    assert datarecs.compare(half, half.to_pandas().astype({"v": "float16"}), key="id").is_matched
    assert by_measure(datarecs.compare(half, other, key="id")) == {("3", "v"): "OUTSIDE"}


@pytest.mark.parametrize("arguments", [{"key": "at"}, {"key": "id"}, {"measures": "at"}])
def test_a_time_without_zone_against_an_instant_has_a_way_out_in_python(
    arguments: dict[str, Any],
) -> None:
    naive = pd.DataFrame({"id": [1], "at": [pd.Timestamp("2026-01-31 12:00")]})
    aware = naive.assign(at=naive["at"].dt.tz_localize("UTC"))
    with pytest.raises(datarecs.DatarecsError) as caught:
        datarecs.compare(aware, naive, **{"key": "id", **arguments})
    assert "dt.tz_localize('UTC') of pandas" in str(caught.value.fix)
    fixed = naive.assign(at=naive["at"].dt.tz_localize("UTC"))
    assert datarecs.compare(aware, fixed, **{"key": "id", **arguments}).is_matched


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (pd.DataFrame({"id": [1]}), "column t is absent in source-2"),
        (pd.DataFrame({"id": [1], "t": [pd.Timedelta("1s")]}), "has the type duration"),
        (pd.DataFrame({"id": [1], "t": ["x"]}), "column t has "),
    ],
)
def test_a_column_that_is_not_comparable_has_a_line_that_says_why(
    other: pd.DataFrame, why: str
) -> None:
    frame = pd.DataFrame({"id": [1], "t": [pd.Timedelta("1s")]})
    comparison = datarecs.compare(frame, other, key="id")
    for shown in (str(comparison), comparison._repr_html_()):
        assert "warning: SCHEMA_DIFFERS: column t " in shown
        assert why in shown
        assert "so every group differs in it until it is left out" in shown
    assert datarecs.compare(frame, other, key="id", exclude="t").is_matched


def test_many_warnings_are_counted() -> None:
    wide = pa.table({"id": [1], **{f"c{number}": [1] for number in range(9)}})
    shown = str(datarecs.compare(wide, wide.select(["id"]), key="id"))
    assert shown.count("warning: ") == 5
    assert shown.endswith("4 more warnings: comparison.warnings")


def test_too_little_memory_does_not_speak_of_java() -> None:
    with pytest.raises(datarecs.ArgumentError, match="1MiB: write a size from 1GiB") as caught:
        datarecs.compare(LEDGER, EXPORTS, key="id", memory="1MiB")
    assert "Java" not in str(caught.value)
