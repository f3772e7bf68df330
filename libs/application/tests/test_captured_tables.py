"""Which captured table the path of a source names, and at which time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from datarecs_application.captured_tables import (
    SnapshotNotCapturedError,
    is_entry,
    moment_of,
    table_names,
)
from datarecs_core.jobs.definition import Snapshot, Source
from datarecs_core.jobs.vocabulary import SourceKind

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
TABLES = {
    "multi": "s3://lake/ex/multi/",
    "orders": "s3://lake/ex/orders.csv.GZ",
    "a[1]": "s3://lake/ex/a[1]/",
    "v1.2": "s3://lake/ex/v1.2/",
}
"""Addresses by names: tables of a connection with the root s3://lake/ex."""


def source(path: str, as_of: str | None = None) -> Source:
    return Source(
        name="s",
        kind=SourceKind.CSV,
        connection="lake",
        path=path,
        snapshot=Snapshot(as_of=as_of),
    )


def named(path: str) -> list[str]:
    """What a run or a command finds in the catalogue."""
    return [
        name
        for _, name, entry in table_names(source(path))
        if name in TABLES and entry is not None and is_entry(TABLES[name], entry)
    ]


@pytest.mark.parametrize(
    ("path", "table"),
    [
        *((form, "multi") for form in ("multi", "multi/", "./multi", "./multi//", "multi/./")),
        *((f"multi/{below}", "multi") for below in ("a.csv", "*", "day=*/x.csv", "v1.2/")),
        *((form, "orders") for form in ("orders.csv.GZ", "./orders.csv.GZ", "orders.csv.GZ/")),
        *((form, "a[1]") for form in ("a[[]1]", "./a[[]1]/", "a[[]1]/x.csv")),
        *(("v1.2", "v1.2"), ("v1.2/a.csv", "v1.2")),
        *((f"s3://lake/ex/{form}", "multi") for form in ("multi", "multi/", "multi/a/b.csv")),
        *((f"s3://lake/ex/multi/{below}", "multi") for below in ("*", "day=*/orders.csv.GZ")),
        *(("s3://lake/ex/orders.csv.GZ", "orders"), ("s3://lake/ex/a[[]1]/", "a[1]")),
    ],
)
def test_every_form_of_a_path_names_its_table(path: str, table: str) -> None:
    assert named(path) == [table]


@pytest.mark.parametrize(
    "path",
    [
        *("", ".", "/", "*", "m*", "mult?", "[m]ulti/", "other/multi", "../multi", "orders.csv"),
        *("s3://lake/ex", "s3://lake/", "s3://lake/ex/m*", "s3://lake/multi", "s3://rake/ex/multi"),
        *("gs://lake/ex/multi", "s3://lake/ex/ex/multi", "s3://lake/ex/../ex/multi", "s3://"),
        *("s3://lake/*/multi/", "https://lake/ex/multi"),
    ],
)
def test_a_path_of_no_table_or_of_another_place_names_none(path: str) -> None:
    assert named(path) == []


def test_a_time_is_read_to_the_microsecond() -> None:
    assert moment_of(source("t", "2026-01-31T12:00:00.000001999+01:00"), NOW) == datetime(
        2026, 1, 31, 11, 0, 0, 1, tzinfo=UTC
    )
    assert moment_of(source("t", "0001-01-01T00:00:00+14:00"), NOW).year == 1970


@pytest.mark.parametrize(
    ("as_of", "why"),
    [
        ("2036-01-01T00:00:00Z", "still to come: it is 2026-01-31T12:00:00.000000Z now"),
        ("9999-12-31T23:59:59-14:00", "write a time of the past"),
        ("2026-01-31T12:00:00", "such as 2026-01-31T12:00:00Z"),
    ],
)
def test_a_wrong_time_is_refused_with_the_fix(as_of: str, why: str) -> None:
    with pytest.raises(SnapshotNotCapturedError, match=why):
        moment_of(source("t", as_of), NOW)


def test_a_clock_may_be_a_minute_ahead() -> None:
    ahead = (NOW + timedelta(minutes=1)).isoformat()
    assert moment_of(source("t", ahead), NOW) == NOW + timedelta(minutes=1)
    late = replace(source("t"), snapshot=Snapshot(as_of="2026-01-31T12:01:01Z"))
    with pytest.raises(SnapshotNotCapturedError, match=r"source s: snapshot\.as_of is still"):
        moment_of(late, NOW)
