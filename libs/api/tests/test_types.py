"""The types of the Python interface, as mypy sees them in a user's program."""

from importlib.resources import files
from typing import Literal, assert_type

import duckdb
import polars as pl
import pyarrow as pa

import datarecs


def test_results_have_types() -> None:
    frame = pl.DataFrame({"id": [1]})
    relation = duckdb.connect().sql("SELECT 1::BIGINT AS id")
    comparison = datarecs.compare(frame, relation, key="id")
    assert_type(comparison, datarecs.Comparison)
    assert_type(comparison.verdict, Literal["MATCHED", "UNMATCHED"])
    assert_type(comparison.counts.compared, int)
    assert_type(comparison.report(), str)
    assert_type(comparison.differences(), pa.Table)
    assert_type(comparison.assert_matched(), None)
    source: datarecs.TableSource = datarecs.source("postgresql://ana@db/books", table="t")
    limits: dict[str, datarecs.Limit] = {"amount": 1, "at": "1%"}
    assert_type(limits["amount"], datarecs.Limit)
    assert repr(source) == "datarecs.source('postgresql://ana@db/books?table=t')"


def test_the_package_declares_its_types() -> None:
    assert files(datarecs).joinpath("py.typed").is_file()


def test_every_public_name_exists() -> None:
    assert [name for name in datarecs.__all__ if not hasattr(datarecs, name)] == []
