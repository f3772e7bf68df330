"""Lists, structs and maps, as values, as keys and under conditions."""

from collections.abc import Iterable
from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa

from datarecs_core.comparison.results.results import Verdict
from datarecs_testing.odd_types.case import PLAIN, OddCase, by, missing, parquet, unequal

LISTS = pa.list_(pa.int64())
PLACE = pa.struct([("town", pa.string()), ("zip", pa.int32())])
RATES = pa.map_(pa.string(), pa.decimal128(6, 2))


def nested() -> Iterable[OddCase]:
    tags = [[1, None], [], None]
    yield OddCase(
        name="lists-equal-whatever-their-numbers",
        files=(
            parquet({**PLAIN, "v": pa.array(tags, LISTS)}),
            parquet({**PLAIN, "v": pa.array(tags, pa.large_list(pa.decimal128(4, 2)))}),
        ),
    )
    yield OddCase(
        name="lists-differ-by-order-null-and-nothing",
        files=(
            parquet({**PLAIN, "v": pa.array([[1, 2], [], [1]], LISTS)}),
            parquet({**PLAIN, "v": pa.array([[2, 1], None, [1, None]], LISTS)}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=frozenset(
            {
                ("v", "OUTSIDE", ("1",), ("[1, 2]", "[2, 1]")),
                ("v", "NULL_MISMATCH", ("2",), ("[]", None)),
                ("v", "OUTSIDE", ("3",), ("[1]", "[1, NULL]")),
            }
        ),
    )
    places = [{"town": "Ulm", "zip": 1}, {"town": None, "zip": 2}, None]
    turned = pa.struct([("zip", pa.int64()), ("town", pa.string())])
    yield OddCase(
        name="structs-equal-by-name",
        files=(
            parquet({**PLAIN, "v": pa.array(places, PLACE)}),
            parquet({**PLAIN, "v": pa.array(places, turned)}),
        ),
    )
    yield OddCase(
        name="structs-differ",
        files=(
            parquet({**PLAIN, "v": pa.array(places, PLACE)}),
            parquet({**PLAIN, "v": pa.array([{"town": "Bonn", "zip": 1}, *places[1:]], PLACE)}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "1", "[Ulm, 1]", "[Bonn, 1]"),
    )
    yield OddCase(
        name="structs-with-other-members-do-not-compare",
        files=(
            parquet({**PLAIN, "v": pa.array(places, PLACE)}),
            parquet({**PLAIN, "v": pa.array([None] * 3, pa.struct([("town", pa.string())]))}),
        ),
        job=by("id", measures=[{"name": "v"}]),
        refused="these types cannot be compared",
    )
    rates = [[("a", 1), ("b", 2)], [], None]
    yield OddCase(
        name="maps-equal-in-any-order",
        files=(
            parquet({**PLAIN, "v": pa.array(rates, RATES)}),
            parquet({**PLAIN, "v": pa.array([[("b", 2), ("a", 1)], [], None], RATES)}),
        ),
    )
    yield OddCase(
        name="maps-differ",
        files=(
            parquet({**PLAIN, "v": pa.array(rates, RATES)}),
            parquet({**PLAIN, "v": pa.array([[("a", 1), ("b", 3)], [], None], RATES)}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "1", "[[a, 1], [b, 2]]", "[[a, 1], [b, 3]]"),
    )
    deep = pa.list_(pa.struct([("at", pa.timestamp("us", tz="UTC")), ("ids", pa.list_(pa.uuid()))]))
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    later = noon.replace(microsecond=1)
    yield OddCase(
        name="deeply-nested-values-differ-by-a-microsecond",
        files=(
            parquet({**PLAIN, "v": _deep(deep, noon)}),
            parquet({**PLAIN, "v": _deep(deep, later)}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal(
            "v",
            "1",
            "[[2026-01-31T12:00:00Z, [00000000-0000-0000-0000-000000000002, NULL]]]",
            "[[2026-01-31T12:00:00.000001Z, [00000000-0000-0000-0000-000000000002, NULL]]]",
        ),
    )
    yield OddCase(
        name="lists-in-a-key",
        files=(
            parquet({"id": pa.array([[1], [], None], LISTS), "v": [1, 2, 3]}),
            parquet({"id": pa.array([[1], [], [None]], LISTS), "v": [9, 2, 3]}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=frozenset(
            {
                ("v", "OUTSIDE", ("[1]",), ("1", "9")),
                ("$presence", "MISSING", (None,), ()),
                ("$presence", "MISSING", ("[NULL]",), ()),
            }
        ),
    )
    yield OddCase(
        name="lists-of-a-key-that-repeats",
        files=(
            parquet({"id": [1, 1, 2], "v": pa.array([[1], [2, 2], [3]], LISTS)}),
            parquet({"id": [1, 1, 2], "v": pa.array([[2, 2], [4], [3]], LISTS)}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "1", "[1]", "[4]"),
    )
    yield OddCase(
        name="lists-as-whole-rows",
        files=(
            parquet({"v": pa.array([[1], [1], []], LISTS)}),
            parquet({"v": pa.array([[], [1], [1]], LISTS)}),
        ),
        job=by(),
    )
    counted = [
        {"name": "n", "column": "v", "function": "count"},
        {"name": "kinds", "column": "v", "function": "count_distinct"},
    ]
    groups = {"name": "groups", "type": "aggregate", "dimensions": ["id"], "measures": counted}
    yield OddCase(
        name="lists-counted",
        files=(
            parquet({"id": [1, 1, 1], "v": pa.array([[1], [2], None], LISTS)}),
            parquet({"id": [1, 1, 1], "v": pa.array([[2], [2], None], LISTS)}),
        ),
        job={"stages": [groups]},
        verdict=Verdict.UNMATCHED,
        differences=unequal("kinds", "1", "2", "1"),
    )
    largest = {"name": "v", "column": "v", "function": "max"}
    yield OddCase(
        name="the-largest-list-is-refused",
        files=(parquet({**PLAIN, "v": pa.array(tags, LISTS)}),) * 2,
        job={"stages": [{**groups, "measures": [largest]}]},
        refused="max does not accept array<int>",
    )
    yield OddCase(
        name="lists-under-conditions",
        files=(
            parquet({**PLAIN, "v": pa.array([[1], None, [3]], LISTS)}),
            parquet({**PLAIN, "v": pa.array([[1], [2], [4]], LISTS)}),
        ),
        sources={name: {"filter": "v IS NOT NULL AND id < 3"} for name in ("one", "two")},
        job=by("id", where="v IS NOT NULL"),
        verdict=Verdict.UNMATCHED,
        differences=frozenset({missing(("2",))}),
    )
    yield OddCase(
        name="lists-beside-a-computed-column",
        files=(
            parquet({**PLAIN, "v": pa.array(tags, LISTS)}),
            parquet({**PLAIN, "v": pa.array(tags, LISTS)}),
        ),
        sources={name: {"columns": {"twice": {"expr": "id * 2"}}} for name in ("one", "two")},
    )
    broken = pa.array([b"a", b"\xff", b"b"], pa.binary()).view(pa.string())
    offsets = pa.array([0, 2, 3], pa.int32())
    yield OddCase(
        name="lists-with-a-part-that-is-no-text",
        files=(
            parquet({"id": [1, 2], "v": pa.ListArray.from_arrays(offsets, broken)}),
            parquet({"id": [1, 2], "v": pa.ListArray.from_arrays(offsets, pa.array(list("acb")))}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "1", "INVALID(0xff)", "[a, c]", kind="INVALID"),
    )
    digest = {"name": "bytes", "type": "digest", "dimensions": ["id"], "measures": "*"}
    yield OddCase(
        name="lists-hashed",
        files=(
            parquet({**PLAIN, "v": pa.array(tags, LISTS)}),
            parquet({**PLAIN, "v": pa.array(tags, pa.large_list(pa.float64()))}),
        ),
        job={"stages": [digest]},
    )


def _deep(kind: pa.DataType, moment: datetime) -> pa.Array:
    """One value of the type in the first of three rows."""
    ids = pa.array([[UUID(int=2).bytes, None]], pa.list_(pa.binary(16)))
    uuids = pa.ListArray.from_arrays(
        ids.offsets, pa.ExtensionArray.from_storage(pa.uuid(), ids.values)
    )
    moments = pa.array([moment], pa.timestamp("us", tz="UTC"))
    items = pa.StructArray.from_arrays([moments, uuids], ["at", "ids"])
    offsets = pa.array([0, 1, 1, 1], pa.int32())
    return pa.ListArray.from_arrays(offsets, items).cast(kind)
