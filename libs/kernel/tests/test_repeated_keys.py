"""Keys that repeat in some source: which they are, and how many rows of each source have others."""

from collections import Counter
from collections.abc import Iterator, Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from datarecs_kernel.repeated_keys import key_hash, register_hashes, repeated_keys

Key = tuple[int | None, str]
KEYS: list[Key] = [*((at, f"key {at % 7}") for at in range(300)), (None, "key 0"), (None, "key 1")]


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def write_keys(
    connection: duckdb.DuckDBPyConnection, sources: Sequence[Sequence[Key]]
) -> list[str]:
    """A table per source."""
    for at, source in enumerate(sources):
        numbers, texts = zip(*source, strict=True)
        rows = pa.table({"k0": pa.array(numbers, pa.int64()), "k1": pa.array(texts, pa.string())})
        connection.register("written", rows)
        connection.execute(f"CREATE TABLE rows_{at} AS FROM written")
        connection.unregister("written")
    return [f"rows_{at}" for at in range(len(sources))]


@pytest.mark.parametrize(("rows", "most_hashes"), [(1, 1000), (900, 1000), (900, 300), (900, 8)])
def test_keys_that_repeat_are_counted_apart_however_many_turns_it_takes(
    connection: duckdb.DuckDBPyConnection, rows: int, most_hashes: int
) -> None:
    sources = [
        [*KEYS, *KEYS[5:9], *KEYS[5:6]],
        [*KEYS[::-1], KEYS[-1], KEYS[100]],
        [*KEYS[:50], (1000, "only here")],
    ]
    relations = write_keys(connection, sources)
    repeating = {key for each in sources for key, copies in Counter(each).items() if copies > 1}
    result = repeated_keys(connection, relations, ["k0", "k1"], rows, most_hashes)
    register_hashes(connection, "again", result.hashes)
    joined = f"SELECT k0, k1 FROM rows_0 JOIN again ON {key_hash(['k0', 'k1'])} = h"
    assert set(connection.execute(joined).fetchall()) == repeating
    assert len(result.hashes) == len(set(result.hashes.tolist())) == len(repeating)
    assert result.single_rows == tuple(
        sum(key not in repeating for key in each) for each in sources
    )


@pytest.mark.parametrize(
    ("rows", "turns"), [(100, 1), (101, 2), (200, 2), (201, 4), (400, 4), (401, 8)]
)
def test_each_turn_reads_its_share_of_the_hashes(
    connection: duckdb.DuckDBPyConnection, rows: int, turns: int
) -> None:
    sizes: list[int] = []

    class Counting:
        def sql(self, query: str) -> duckdb.DuckDBPyRelation:
            sizes.append(len(connection.sql(query).fetchall()))
            return connection.sql(query)

    (relation,) = write_keys(connection, [KEYS])
    repeated_keys(Counting(), [relation], ["k0", "k1"], rows, 100)  # type: ignore[arg-type]  # what it calls
    assert len(sizes) == turns
    assert sum(sizes) == len(KEYS)
    assert max(sizes) < 1.5 * len(KEYS) / turns


def test_no_key_repeats_where_each_is_there_once(connection: duckdb.DuckDBPyConnection) -> None:
    relations = write_keys(connection, [KEYS, KEYS[:1], KEYS[1:]])
    result = repeated_keys(connection, relations, ["k0", "k1"], 3 * len(KEYS))
    assert result.hashes.tolist() == []
    assert result.single_rows == (len(KEYS), 1, len(KEYS) - 1)


def test_registered_hashes_are_a_separate_table(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    register_hashes(connection, "again", np.array([2**64 - 1, 0], np.uint64))
    assert connection.execute("SELECT h FROM again ORDER BY h").fetchall() == [(0,), (2**64 - 1,)]
    assert connection.execute("SHOW TABLES").fetchall() == [("again",)]
