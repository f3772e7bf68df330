"""Into how many ranges a relation is cut, by how many readers at once, and why not into more."""

from dataclasses import replace
from typing import Any

import pytest

from datarecs_connectors.postgres_ranges import Relation, ranges_of
from datarecs_core.comparison.planning.scan import Ranges
from datarecs_core.jobs.definition import Limits, Partition, Source
from datarecs_core.jobs.vocabulary import SourceKind

MIB = 2**20
TABLE = Relation(kind="r", size_bytes=1024 * MIB)
SOURCE = Source(name="s", kind=SourceKind.POSTGRES, connection="c", relation="t")


def decided(
    relation: Relation | None = TABLE,
    by: str = "auto",
    readers: int | None = None,
    max_connections: int = 4,
) -> Ranges:
    limits = Limits(max_connections=max_connections)
    source = replace(SOURCE, partition=Partition(by=by, count=readers), limits=limits)
    return ranges_of(source, relation, version=150_000, cores=8)


@pytest.mark.parametrize(
    ("options", "count", "at_once"),
    [
        ({}, 8, 3),
        ({"max_connections": 32}, 8, 8),
        ({"max_connections": 3}, 6, 2),
        ({"readers": 2}, 2, 2),
        ({"readers": 256, "max_connections": 32}, 256, 31),
        ({"readers": 5, "max_connections": 1}, 5, 1),
        ({"by": "id"}, 8, 3),
        ({"relation": replace(TABLE, size_bytes=50 * MIB)}, 3, 3),
        ({"relation": replace(TABLE, size_bytes=3 * 8192), "readers": 7}, 3, 3),
        (
            {"relation": Relation(kind="p", has_heirs=True, partition_bytes=64 * MIB), "by": "id"},
            4,
            3,
        ),
    ],
)
def test_ranges_follow_size_count_and_connections(
    options: dict[str, Any], count: int, at_once: int
) -> None:
    """One of the connections holds the snapshot, and one reads beside it in any case."""
    decision = decided(**options)
    assert (decision.count, decision.at_once, decision.by) == (count, at_once, options.get("by"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "none"}, "the job declares one"),
        ({"readers": 1}, "the job declares one"),
        ({"relation": None}, "cannot read its catalog entry"),
        ({"relation": replace(TABLE, size_bytes=31 * MIB)}, "less than 32 MiB"),
        ({"relation": Relation(kind="v")}, "a view"),
        ({"relation": Relation(kind="f")}, "another server"),
        ({"relation": Relation(kind="p", partition_bytes=64 * MIB)}, "partition.by"),
        ({"relation": Relation(kind="p", holds_foreign=True), "by": "id"}, "under the snapshot"),
        ({"relation": replace(TABLE, has_heirs=True)}, "inherit"),
        ({"relation": replace(TABLE, has_heirs=True), "by": "id"}, "inherit"),
        ({"relation": replace(TABLE, access="columnar")}, "stored as columnar"),
        ({"max_connections": 2}, "max_connections 2"),
    ],
)
def test_one_reader_has_its_reason(options: dict[str, Any], words: str) -> None:
    decision = decided(**options)
    assert (decision.count, decision.at_once) == (1, 1)
    assert words in decision.reason


def test_old_servers_and_one_core_have_one_reader() -> None:
    old = ranges_of(SOURCE, TABLE, version=130_011, cores=8)
    assert (old.count, old.reason) == (1, "PostgreSQL 13 cannot read a range of blocks; 14 can")
    assert ranges_of(SOURCE, TABLE, version=150_000, cores=1).reason == "1 usable core"
    two = ranges_of(SOURCE, TABLE, version=150_000, cores=2)
    assert two == Ranges(count=8, at_once=2, reason="2 usable cores")


def test_a_query_is_not_cut() -> None:
    query = replace(SOURCE, relation=None, query="select 1", partition=Partition(by="id"))
    assert "a query" in ranges_of(query, None, version=150_000, cores=8).reason
