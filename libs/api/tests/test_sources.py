"""Sources of `datarecs.compare`: what a user may pass, and what is refused by which words."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import datarecs

TABLE = pa.table({"id": [1, 2, 3], "amount": [Decimal("1.10"), Decimal("2.20"), None]})
ADDRESS = "postgresql://ana:s3cr%40t@db.example.com/books"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    return tmp_path


def rows() -> Iterator[dict[str, int]]:
    yield {"id": 1}


class TestAddresses:
    def test_a_table_and_a_query_show_no_password(self) -> None:
        table = datarecs.source(ADDRESS, table="public.entries")
        query = datarecs.source(f"{ADDRESS}?sslmode=require", query="SELECT 1 AS id")
        assert repr(table) == (
            "datarecs.source('postgresql://ana@db.example.com/books?table=public.entries')"
        )
        assert repr(query) == (
            "datarecs.source('postgresql://ana@db.example.com/books?sslmode=require', "
            "query='SELECT 1 AS id')"
        )
        assert table.login == "s3cr@t"

    def test_an_address_of_sqlalchemy_is_one_of_postgresql(self) -> None:
        address = datarecs.source("postgresql+psycopg2://ana@db:6543/books", table="t")
        assert str(address) == "postgresql://ana@db:6543/books?table=t"

    def test_the_password_of_the_environment_is_the_second_choice(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PGPASSWORD", "other")
        assert datarecs.source(ADDRESS, table="t").login == "s3cr@t"
        assert datarecs.source("postgresql://ana@db/books", table="t").login == "other"

    @pytest.mark.parametrize(
        ("address", "options", "message"),
        [
            (ADDRESS, {}, "must have user, host, database and table"),
            (ADDRESS, {"table": "t", "query": "SELECT 1"}, "more than one table or query"),
            (f"{ADDRESS}?table=t", {"query": "SELECT 1"}, "more than one table or query"),
            ("postgresql://db/books", {"table": "t"}, "must have user, host"),
            ("postgresql://ana:s3cret#x@db/books", {"table": "t"}, "%23 for #"),
            (f"{ADDRESS}?password=s3cret", {"table": "t"}, "unknown in the address: password"),
            (f"{ADDRESS}?sslmode=never", {"table": "t"}, "sslmode: "),
            ("mysql://ana:s3cret@db/books", {"table": "t"}, "does not start with postgresql://"),
        ],
    )
    def test_a_wrong_address_is_refused_without_its_password(
        self, address: str, options: dict[str, str], message: str
    ) -> None:
        with pytest.raises(datarecs.ArgumentError, match=message) as refused:
            datarecs.source(address, **options)
        shown = "\n".join([str(refused.value), *refused.value.__notes__])
        assert "s3c" not in shown

    @pytest.mark.parametrize(
        ("address", "message"),
        [
            ("mysql://ana:s3cret@db/books?table=t", "mysql:// addresses cannot be compared"),
            ("s3://KEY:s3cret@lake/a.parquet", "credentials are not part of the address"),
            (ADDRESS, "must have user, host, database and table"),
        ],
    )
    def test_compare_refuses_other_addresses_without_their_password(
        self, address: str, message: str
    ) -> None:
        with pytest.raises(datarecs.ArgumentError, match=message) as refused:
            datarecs.compare(TABLE, address, key="id")
        assert "s3c" not in str(refused.value)

    def test_an_unreachable_server_is_an_error_without_the_password(self) -> None:
        address = "postgresql://ana:s3cret@127.0.0.1:1/books?table=t&sslmode=disable"
        with pytest.raises(datarecs.DatarecsError) as failed:
            datarecs.compare(TABLE, address, key="id")
        error: BaseException | None = failed.value
        while error is not None:
            assert "s3cret" not in f"{error!r} {error}"
            error = error.__cause__ or error.__context__


class TestValuesThatAreNoSource:
    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (pl.LazyFrame({"id": [1]}), r"a LazyFrame; pass \.collect\(\)"),
            (pd.Series([1], name="id"), r"a Series; pass \.to_frame\(\)"),
            (pl.Series("id", [1]), r"a Series; pass \.to_frame\(\)"),
            (rows(), r"a generator; make a table of its rows, such as pandas\.DataFrame\(rows\)"),
            ([{"id": 1}], "a list; make a table"),
            ({"id": [1]}, "a dict; make a table"),
            (np.array([[1]]), "a ndarray; make a table"),
            (pd.DataFrame({"id": [1]}).groupby("id"), "a DataFrameGroupBy; pass a path, an addr"),
            (duckdb.connect(), "a DuckDBPyConnection; pass a path, an address"),
            (b"a.csv", "a bytes; pass a path"),
            ("", "an empty text; pass a path"),
            (None, "a NoneType; pass a path"),
        ],
    )
    def test_its_class_and_the_way_out_are_named(self, value: object, message: str) -> None:
        with pytest.raises(datarecs.ArgumentError, match=f"source 2 is {message}"):
            datarecs.compare(TABLE, value, key="id")  # type: ignore[arg-type]  # wrong on purpose

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"key": 0}, "key has 0, a int; write names as texts"),
            ({"key": ["id", None]}, "key has None"),
            ({"key": "id", "measures": 5}, "measures has 5"),
            ({"key": "id", "exclude": [1]}, "exclude has 1"),
            ({"key": "id", "names": 7}, "names has 7"),
            ({"key": "id", "columns": ["id"]}, "columns has no names by source"),
            ({"key": "id", "columns": {"source-1": "x"}}, "columns has no names by source"),
            ({"key": "id", "columns": {5: {}}}, "columns names the source 5"),
            ({"key": "id", "names": ["My Ledger", "b"]}, "^My Ledger: 1 to 63 small letters"),
            ({"key": "id", "measures": "amount", "tolerance": {5: 1}}, "tolerance has 5"),
            ({"key": "id", "memory": 4}, "memory 4"),
            ({"key": "id", "out": 5}, "out is a int"),
            ({"key": "id", "measures": "amount", "tolerance": [1]}, r"tolerance \[1\] is not"),
            ({"key": "id", "measures": "amount", "tolerance": "few"}, "amount=few"),
            ({"key": "id", "measures": "amount", "tolerance": -1}, "amount=-1"),
            ({"key": "id", "measures": "amount", "tolerance": float("nan")}, "amount=NaN"),
        ],
    )
    def test_a_wrong_argument_is_named(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(datarecs.DatarecsError, match=message):
            datarecs.compare(TABLE, TABLE, **arguments)

    @pytest.mark.parametrize("limit", [np.float64(0.5), np.float32(0.5), np.int64(1)])
    def test_a_number_of_numpy_is_a_limit(self, limit: float) -> None:
        moved = TABLE.set_column(1, "amount", pa.array([Decimal("1.60"), Decimal("2.20"), None]))
        comparison = datarecs.compare(TABLE, moved, key="id", measures="amount", tolerance=limit)
        assert comparison.is_matched

    def test_names_from_a_frame_are_names(self) -> None:
        frame = TABLE.to_pandas()
        assert datarecs.compare(frame, frame, key=frame.columns[:1]).is_matched


class TestTables:
    def test_empty_tables_match_and_have_no_groups(self) -> None:
        empty = TABLE.slice(0, 0)
        comparison = datarecs.compare(empty, empty.to_pandas(), pl.from_arrow(empty), key="id")
        assert comparison.is_matched
        assert comparison.counts.compared == 0

    def test_an_empty_table_lacks_every_group(self) -> None:
        counts = datarecs.compare(TABLE, TABLE.slice(0, 0), key="id").counts
        assert counts == datarecs.Counts(compared=3, matched=0, outside=0, missing=3)

    def test_all_groups_differ(self) -> None:
        other = TABLE.set_column(1, "amount", pa.array([Decimal("9.99")] * 3))
        counts = datarecs.compare(TABLE, other, key="id").counts
        assert counts == datarecs.Counts(compared=3, matched=0, outside=3, missing=0)

    def test_the_order_of_columns_and_rows_has_no_meaning(self) -> None:
        turned = TABLE.select(["amount", "id"]).take([2, 0, 1])
        assert datarecs.compare(TABLE, turned, key="id").is_matched
        assert datarecs.compare(TABLE, turned).is_matched

    def test_absent_values_of_pandas_are_null(self) -> None:
        absent = pa.table(
            {"id": [1, 2], "x": pa.array([None, 2.0]), "at": [None, date(2026, 1, 1)]}
        )
        frame = pd.DataFrame({"id": [1, 2], "x": [np.nan, 2.0], "at": [None, date(2026, 1, 1)]})
        assert datarecs.compare(absent, frame, key="id").is_matched
        times = pd.DataFrame({"id": [1, 2], "at": pd.to_datetime([None, "2026-01-01T12:00"])})
        same = pa.table({"id": [1, 2], "at": [None, datetime(2026, 1, 1, 12)]})  # noqa: DTZ001 - without a zone
        assert datarecs.compare(same, times, key="id").is_matched

    def test_nan_of_polars_and_arrow_stays_a_value(self) -> None:
        nan = pl.DataFrame({"id": [1], "x": [float("nan")]})
        null = pl.DataFrame({"id": [1], "x": [None]}, schema={"id": pl.Int64, "x": pl.Float64})
        assert datarecs.compare(nan, nan.to_arrow(), key="id").is_matched
        assert not datarecs.compare(nan, null, key="id").is_matched

    def test_an_instant_is_equal_in_every_zone_and_unlike_a_local_time(self) -> None:
        here = datetime(2026, 7, 1, 12, tzinfo=UTC)
        there = here.astimezone(timezone(timedelta(hours=2)))
        utc = pd.DataFrame({"id": [1], "at": pd.to_datetime([here])})
        berlin = utc.assign(at=utc["at"].dt.tz_convert("Europe/Berlin"))
        offset = pd.DataFrame({"id": [1], "at": pd.to_datetime([there])})
        assert datarecs.compare(utc, berlin, offset, pl.from_pandas(berlin), key="id").is_matched
        with pytest.raises(datarecs.DatarecsError, match="at"):
            datarecs.compare(utc, utc.assign(at=utc["at"].dt.tz_localize(None)), key="id")

    def test_keys_of_whole_numbers_match_keys_of_floats(self) -> None:
        floats = pd.DataFrame({"id": [1.0, 2.0, 3.0], "x": ["a", "b", "c"]})
        whole = floats.astype({"id": "int64"})
        assert datarecs.compare(whole, floats, key="id").is_matched

    def test_decimals_of_other_scales_are_equal_by_value(self) -> None:
        scaled = TABLE.set_column(1, "amount", TABLE["amount"].cast(pa.decimal128(30, 9)))
        assert datarecs.compare(TABLE, scaled, key="id").is_matched

    def test_a_repeated_key_is_named_with_its_rows(self) -> None:
        twice = pa.concat_tables([TABLE, TABLE.slice(1, 1)])
        comparison = datarecs.compare(TABLE, twice, key="id")
        assert comparison.counts.outside + comparison.counts.missing == 1

    @pytest.mark.parametrize("named", [["day", "id"], ["id", "id2"]])
    def test_all_named_parts_of_an_index_are_columns(self, named: list[str]) -> None:
        frame = pd.DataFrame({named[0]: [1, 2], named[1]: [3, 4], "x": [0.5, 1.5]})
        assert datarecs.compare(frame, frame.set_index(named), key=named).is_matched

    def test_an_index_with_the_name_of_a_column_is_refused(self) -> None:
        frame = pd.DataFrame({"id": [1], "x": [2]})
        frame.index.name = "id"
        with pytest.raises(datarecs.ArgumentError, match="id is both a column and a part of the"):
            datarecs.compare(frame, frame, key="id")

    @pytest.mark.parametrize(
        "values",
        [
            pd.period_range("2026-01", periods=1, freq="M"),
            pd.interval_range(0, 1),
            [object()],
            [1 + 2j],
        ],
        ids=["period", "interval", "object", "complex"],
    )
    def test_a_type_without_an_equal_is_refused_with_its_column(self, values: object) -> None:
        frame = pd.DataFrame({"id": [1], "odd": values})
        with pytest.raises(datarecs.DatarecsError, match="column odd"):
            datarecs.compare(frame, frame, key="id")

    def test_a_column_that_occurs_twice_is_named(self) -> None:
        twice = pd.DataFrame([[1, 2]], columns=["id", "id"])
        with pytest.raises(datarecs.ArgumentError, match="source-1: id occurs twice as a column"):
            datarecs.compare(twice, TABLE, key="id")

    def test_one_reader_is_not_two_sources(self) -> None:
        reader = TABLE.to_reader()
        with pytest.raises(datarecs.ArgumentError, match="source 2 is a reader that another"):
            datarecs.compare(reader, reader, key="id")

    def test_a_relation_that_fails_is_an_error_with_its_reason(self) -> None:
        failing = duckdb.connect().sql("SELECT CAST(t AS INTEGER) AS id FROM (VALUES ('x')) v(t)")
        with pytest.raises(
            datarecs.ArgumentError, match="source-1: the table cannot be read: Conv"
        ):
            datarecs.compare(failing, TABLE, key="id")

    def test_the_call_in_the_report_shows_sources_by_name(self) -> None:
        comparison = datarecs.compare(TABLE, TABLE, key=["id"], names=["ledger", "exports"])
        run = comparison.run_json["run"]
        assert isinstance(run, dict)
        assert run["command"] == (
            "datarecs.compare(<ledger>, <exports>, key='id', names=['ledger', 'exports'])"
        )
