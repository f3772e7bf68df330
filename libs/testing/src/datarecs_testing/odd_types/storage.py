"""One value stored in several ways: dictionaries, large texts, UUIDs and INT96."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import pyarrow as pa

from datarecs_core.comparison.results.results import Verdict
from datarecs_testing.odd_types.case import PLAIN, OddCase, by, parquet, unequal

IDS = [UUID("6f9619ff-8b86-d011-b42d-00c04fc964f0"), UUID(int=2), None]


def _uuid_column(values: Sequence[UUID | None]) -> pa.Array:
    raw = [None if value is None else value.bytes for value in values]
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(raw, pa.binary(16)))


def dictionaries() -> Iterable[OddCase]:
    words = ["a", "b", None]
    plain, packed = pa.array(words), pa.array(words).dictionary_encode()
    other = pa.array(["a", "c", None]).dictionary_encode()
    yield OddCase(
        name="dictionary-equals-text",
        files=(parquet({**PLAIN, "v": plain}), parquet({**PLAIN, "v": packed})),
    )
    yield OddCase(
        name="dictionary-differs-from-text",
        files=(parquet({**PLAIN, "v": plain}), parquet({**PLAIN, "v": other})),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "2", "b", "c"),
    )
    yield OddCase(
        name="dictionary-in-a-key",
        files=(parquet({"id": packed, "v": [1, 2, 3]}), parquet({"id": plain, "v": [1, 2, 4]})),
        verdict=Verdict.UNMATCHED,
        differences=frozenset({("v", "OUTSIDE", (None,), ("3", "4"))}),
    )
    raw = pa.array([b"\xff", b"b", None], pa.binary())
    yield OddCase(
        name="dictionary-of-bytes",
        files=(
            parquet({**PLAIN, "v": raw}),
            parquet({**PLAIN, "v": raw.dictionary_encode()}),
        ),
    )
    yield OddCase(
        name="dictionary-in-a-later-file-alone",
        files=(
            parquet({**PLAIN, "v": plain}, {"id": [4, 5, 6], "v": packed}),
            parquet({"id": [1, 2, 3, 4, 5, 6], "v": pa.array(words * 2)}),
        ),
    )
    yield OddCase(
        name="dictionary-and-lists-in-another-order-under-merge-schema",
        files=(
            parquet(
                {**PLAIN, "v": plain, "w": [{"a": 1, "b": 2}] * 3, "x": pa.nulls(3)},
                {"id": [4, 5, 6], "v": packed, "w": [{"b": 2, "a": 1}] * 3, "x": [1, 2, 3]},
            ),
            parquet({"id": [1, 2, 3, 4, 5, 6], "v": pa.array(words * 2)}),
        ),
        sources={"one": {"options": {"merge_schema": True}}},
        job=by("id", **{"except": ["w", "x"]}),
    )
    large = pa.array(words, pa.large_string())
    yield OddCase(
        name="large-text-in-a-later-file-alone",
        files=(
            parquet({**PLAIN, "v": plain}, {"id": [4, 5, 6], "v": large}),
            parquet({"id": [1, 2, 3, 4, 5, 6], "v": pa.array(words * 2)}),
        ),
    )


def documents() -> Iterable[OddCase]:
    """JSON, as DuckDB writes it: a text that Parquet calls JSON."""
    one = pa.array([b'{"a":1,"b":[1.0]}', b"[1]", None], pa.binary()).view(pa.string())
    two = pa.array([b'{"b": [1], "a": 1}', b"[2]", None], pa.binary()).view(pa.string())
    yield OddCase(
        name="json-of-parquet-is-compared-by-value",
        files=(
            parquet({**PLAIN, "v": pa.ExtensionArray.from_storage(pa.json_(), one)}),
            parquet({**PLAIN, "v": pa.ExtensionArray.from_storage(pa.json_(), two)}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "2", "[1]", "[2]"),
    )


def uuids() -> Iterable[OddCase]:
    texts = [None if value is None else str(value).upper() for value in IDS]
    two = "00000000-0000-0000-0000-000000000002"
    three = "00000000-0000-0000-0000-000000000003"
    yield OddCase(
        name="uuid-equals-upper-case-text",
        files=(
            parquet({**PLAIN, "v": _uuid_column(IDS)}),
            parquet({**PLAIN, "v": pa.array(texts)}),
        ),
    )
    yield OddCase(
        name="uuid-differs",
        files=(
            parquet({**PLAIN, "v": _uuid_column(IDS)}),
            parquet({**PLAIN, "v": _uuid_column([IDS[0], UUID(int=3), None])}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "2", two, three),
    )
    yield OddCase(
        name="uuid-in-a-key",
        files=(
            parquet({"id": _uuid_column(IDS), "v": [1, 2, 3]}),
            parquet({"id": _uuid_column(IDS), "v": [1, 5, 3]}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", two, "2", "5"),
    )
    yield OddCase(
        name="uuid-under-a-filter",
        files=(
            parquet({"id": _uuid_column(IDS), "v": [1, 2, 3]}),
            parquet({"id": _uuid_column(IDS), "v": [1, 2, 4]}),
        ),
        sources={name: {"filter": "id IS NOT NULL"} for name in ("one", "two")},
    )


def old_times() -> Iterable[OddCase]:
    """INT96, as Spark and Impala once wrote times."""
    ticks = [1_000_000_001, -1_500, None]
    old = {**PLAIN, "v": pa.array(ticks, pa.timestamp("us"))}
    new = {**PLAIN, "v": pa.array(ticks, pa.timestamp("us", tz="UTC"))}
    files = (parquet(old, use_deprecated_int96_timestamps=True), parquet(new))
    for precision, verdict in (("us", Verdict.MATCHED), ("ms", Verdict.MATCHED)):
        yield OddCase(
            name=f"int96-at-{precision}",
            files=files,
            job={**by("id"), "normalize": {"timestamps": {"precision": precision}}},
            verdict=verdict,
        )
    yield OddCase(
        name="int96-without-a-precision-is-refused",
        files=files,
        job=by("id", measures=[{"name": "v"}]),
        refused="INT96.*precision",
    )
    yield OddCase(
        name="int96-that-differs-within-the-precision",
        files=(
            files[0],
            parquet({**PLAIN, "v": pa.array([1_000_999, -1_500, None], pa.timestamp("us", "UTC"))}),
        ),
        job={
            **by("id"),
            "normalize": {"columns": {"v": {"precision": "s"}}},
        },
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "1", "1970-01-01T00:16:40Z", "1970-01-01T00:00:01Z"),
    )
    yield OddCase(
        name="int96-in-a-key-before-1900",
        files=(
            parquet(
                {"id": pa.array([-3_000_000_000_000_000], pa.timestamp("us")), "v": [1]},
                use_deprecated_int96_timestamps=True,
            ),
            parquet(
                {"id": pa.array([-3_000_000_000_000_000], pa.timestamp("us", "UTC")), "v": [2]}
            ),
        ),
        job={**by("id"), "normalize": {"timestamps": {"precision": "us"}}},
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "1874-12-07T18:40:00Z", "1", "2"),
    )
