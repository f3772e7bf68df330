"""How every engine compares groups that are not rows: columns of schemas, and fingerprints."""

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.fingerprints import bucket_of
from datarecs_core.comparison.results.results import Verdict
from datarecs_core.comparison.results.verdict import Acceptance, SkipReason
from datarecs_core.comparison.values.canonical import encode_tuple, number
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import (
    Accept,
    ColumnMapping,
    Normalize,
    NumberRules,
    SchemaPolicy,
    Scope,
    StringRules,
)
from datarecs_core.jobs.vocabulary import (
    Case,
    EmptyPolicy,
    Float32Rule,
    NanRule,
    OnUnmatched,
    SchemaMode,
    Trim,
)
from datarecs_testing.comparisons import (
    EngineBench,
    a_measure,
    compare,
    comparing_columns,
    counting,
    digest_by,
    rows_by,
)
from datarecs_testing.tables import Table, a_job, a_table, pair

D = Decimal
MATCHED, UNMATCHED = Verdict.MATCHED, Verdict.UNMATCHED
COMPATIBLE = SchemaPolicy(mode=SchemaMode.COMPATIBLE)


class SchemaStageConformance:
    """Columns are counted as rows; no row of a source is read."""

    @pytest.fixture
    def bench(self) -> EngineBench:
        raise LookupError("a subclass gives the fixture `bench`")

    @pytest.mark.case("P44")
    def test_a_missing_an_added_and_a_retyped_column_are_each_named(
        self, bench: EngineBench
    ) -> None:
        tables = [
            a_table("one", "k int, gone text, v decimal(9,2)", (1, "a", D(1))),
            a_table("two", "k int, v decimal(9,3), new text", (1, D(1), "a")),
        ]
        job = a_job(tables, comparing_columns(), rows_by("k", a_measure("v")))
        comparison = compare(bench, job, tables)
        counts = comparison.counts("shape")
        assert (counts.source_row_counts, counts.rows_compared) == ((3, 3), 4)
        assert (counts.unmatched_by_source, counts.rows_matched) == ((1, 1), 1)
        rows = {row.key: (row.measure, dict(row.values)) for row in comparison.stored["shape"]}
        assert rows == {
            ("gone",): ("$presence", {"one": "1"}),
            ("new",): ("$presence", {"two": "1"}),
            ("v",): ("type", {"one": "decimal(9,2)", "two": "decimal(9,3)"}),
        }
        assert comparison.stage("rows").verdict is MATCHED
        assert comparison.verdict is UNMATCHED

    @pytest.mark.case("P44")
    def test_a_thousand_columns_and_names_of_any_kind(self, bench: EngineBench) -> None:
        names = [*(f"c{at}" for at in range(1000)), "select", "a b", "\U0001f600", "`", "a.b", "$x"]
        columns = tuple((name, types.INT) for name in names)
        tables = [
            Table(name="one", columns=columns, rows=()),
            Table(name="two", columns=(*reversed(columns[1:]), ("C0", types.INT)), rows=()),
        ]
        comparison = compare(bench, a_job(tables, comparing_columns()), tables)
        assert comparison.counts().source_row_counts == (1006, 1006)
        assert comparison.counts().matched_groups == 1005
        assert sorted(row.key for row in comparison.differences()) == [("C0",), ("c0",)]

    @pytest.mark.case("P43")
    def test_names_match_exactly_and_order_counts_only_where_declared(
        self, bench: EngineBench
    ) -> None:
        tables = [
            a_table("one", "month int, month_num int, Month int, load_ts int"),
            a_table("two", "month_num int, load_ts int, Month int, month int"),
        ]
        for policy, verdict in (
            (SchemaPolicy(), MATCHED),
            (SchemaPolicy(order=True), UNMATCHED),
        ):
            job = a_job(tables, comparing_columns(), schema=policy)
            assert compare(bench, job, tables).verdict is verdict
        ignoring = SchemaPolicy(order=True, ignore=("load_ts", "month"))
        job = a_job(tables, comparing_columns(), schema=ignoring)
        comparison = compare(bench, job, tables)
        assert (comparison.verdict, comparison.counts().source_row_counts) == (MATCHED, (2, 2))
        moved = compare(
            bench, a_job(tables, comparing_columns(), schema=SchemaPolicy(order=True)), tables
        )
        assert {row.key[0]: row.deltas for row in moved.differences("position")} == {
            "month": (("two", D(3)),),
            "month_num": (("two", D(-1)),),
            "load_ts": (("two", D(-2)),),
        }

    def test_nullability_counts_only_where_declared(self, bench: EngineBench) -> None:
        columns = (("k", types.INT), ("v", types.INT))
        tables = [
            Table(name="one", columns=columns, rows=(), required=frozenset({"k"})),
            Table(name="two", columns=columns, rows=()),
        ]
        assert compare(bench, a_job(tables, comparing_columns()), tables).verdict is MATCHED
        job = a_job(tables, comparing_columns(), schema=SchemaPolicy(nullability=True))
        comparison = compare(bench, job, tables)
        (row,) = comparison.differences()
        assert (row.measure, row.key) == ("nullable", ("k",))
        assert row.values == (("one", "false"), ("two", "true"))

    @pytest.mark.case("P44")
    def test_types_are_equal_comparable_or_neither(self, bench: EngineBench) -> None:
        kinds = {
            "same": ("int", "int"),
            "digits": ("decimal(9,2)", "decimal(9,3)"),
            "float": ("int", "float64"),
            "uuid": ("text", "uuid"),
            "seconds": ("instant(3)", "instant"),
            "number": ("text", "int"),
            "day": ("date", "instant"),
            "naive": ("local_timestamp", "instant"),
        }
        first = ", ".join(f"{name} {one}" for name, (one, _) in kinds.items())
        second = ", ".join(f"{name} {other}" for name, (_, other) in kinds.items())
        tables = [a_table("one", first), a_table("two", second)]
        never = {"number", "day", "naive"}
        for policy, different in ((SchemaPolicy(), kinds.keys() - {"same"}), (COMPATIBLE, never)):
            comparison = compare(bench, a_job(tables, comparing_columns(), schema=policy), tables)
            assert {row.key[0] for row in comparison.differences("type")} == different
        names = SchemaPolicy(mode=SchemaMode.NAMES)
        comparison = compare(bench, a_job(tables, comparing_columns(), schema=names), tables)
        assert (comparison.verdict, comparison.results().all_measures) == (MATCHED, ())

    def test_equivalences_make_types_equal_and_are_shown(self, bench: EngineBench) -> None:
        tables = [
            a_table("one", "a text, b decimal(9,2), c date"),
            a_table("two", "a uuid, b decimal(9,3), c text"),
        ]
        policy = SchemaPolicy(
            equivalences=((types.UUID, types.TEXT), (types.NUMERIC, types.INT)),
        )
        comparison = compare(bench, a_job(tables, comparing_columns(), schema=policy), tables)
        (row,) = comparison.differences()
        assert (row.key, row.values) == (("c",), (("one", "date"), ("two", "uuid")))
        assert row.raw_values == (("two", "text"),)

    def test_equivalences_that_share_a_type_are_one(self, bench: EngineBench) -> None:
        tables = [a_table("one", "a uuid"), a_table("two", "a binary"), a_table("three", "a text")]
        policy = SchemaPolicy(
            equivalences=((types.UUID, types.TEXT), (types.BINARY, types.TEXT)),
        )
        assert (
            compare(bench, a_job(tables, comparing_columns(), schema=policy), tables).verdict
            is MATCHED
        )

    def test_casts_mappings_and_zones_are_declarations_of_the_type(
        self, bench: EngineBench
    ) -> None:
        tables = [
            a_table("one", "id text, at local_timestamp"),
            a_table("two", "key int, at instant"),
        ]
        sources: dict[str, dict[str, object]] = {
            "one": {"cast": {"id": types.INT}, "timezone": "Europe/Paris"},
            "two": {"columns": {"id": ColumnMapping(column="key")}},
        }
        job = a_job(tables, comparing_columns(), sources=sources, schema=COMPATIBLE)
        assert compare(bench, job, tables).verdict is MATCHED

    def test_of_three_sources_the_odd_one_is_named(self, bench: EngineBench) -> None:
        tables = [
            a_table("s0", "k int, v int"),
            a_table("s1", "k int, v int"),
            a_table("s2", "k int, v text, w int"),
        ]
        comparison = compare(bench, a_job(tables, comparing_columns()), tables)
        assert comparison.counts().odd_one_out == (0, 0, 2)
        assert comparison.counts().presence == ((0b111, 2), (0b100, 1))

    def test_a_schema_stage_can_stop_a_run_and_be_accepted(self, bench: EngineBench) -> None:
        tables = [a_table("one", "k int, v int"), a_table("two", "k int")]
        stage = comparing_columns(on_unmatched=OnUnmatched.STOP, accept=Accept(max_unmatched=1))
        comparison = compare(bench, a_job(tables, stage, counting()), tables)
        assert comparison.stage("shape").acceptance is Acceptance.ACCEPTED
        assert comparison.stage("counts").skipped is SkipReason.STOPPED_BY
        empty = a_job(tables, comparing_columns(), empty=EmptyPolicy.ERROR)
        assert compare(bench, empty, tables).counts().source_row_counts == (2, 1)


class DigestStageConformance:
    """Multisets of rows, compared by keyed sums over buckets of the key space."""

    @pytest.fixture
    def bench(self) -> EngineBench:
        raise LookupError("a subclass gives the fixture `bench`")

    @pytest.mark.case("P48")
    def test_two_rows_shifted_by_the_same_hours_differ(self, bench: EngineBench) -> None:
        columns, shift = "k int, at local_timestamp", timedelta(hours=7)
        first, second = datetime(2026, 1, 1, 1), datetime(2026, 1, 2, 2)  # noqa: DTZ001 - naive
        tables = pair(columns, [(1, first), (2, second)], [(1, first + shift), (2, second + shift)])
        comparison = compare(bench, a_job(tables, digest_by("k")), tables)
        assert comparison.verdict is UNMATCHED
        assert comparison.counts().matched_groups == 2
        assert comparison.measure("fingerprint").outside == 2
        swapped = pair("k int, v int", [(1, 1), (1, 2), (1, 1)], [(1, 2), (1, 2), (1, 2)])
        assert compare(bench, a_job(swapped, digest_by("k")), swapped).verdict is UNMATCHED

    def test_equal_multisets_in_any_order_match_and_buckets_are_named(
        self, bench: EngineBench
    ) -> None:
        rows = [(k, D(k) / 100, f"n{k % 7}") for k in range(300)]
        tables = pair("k int, v decimal(9,2), t text", rows, rows[::-1])
        comparison = compare(bench, a_job(tables, digest_by("k")), tables)
        assert (comparison.verdict, comparison.differences()) == (MATCHED, [])
        buckets = {bucket_of(COMPARE_KEY, encode_tuple((number(k),))) for k in range(300)}
        counts = comparison.counts()
        assert (counts.source_row_counts, counts.rows_compared) == ((300, 300), len(buckets))
        assert counts.duplicate_keys_by_source == (0, 0)
        changed = [*rows[:-1], (rows[-1][0], D("0.01"), "n0")]
        tables = pair("k int, v decimal(9,2), t text", rows, changed)
        (row,) = compare(bench, a_job(tables, digest_by("k")), tables).differences()
        name = str(bucket_of(COMPARE_KEY, encode_tuple((number(299),))))
        assert (row.measure, row.key) == ("fingerprint", (name,))
        assert [len(value or "") for _, value in row.values] == [48, 48]

    def test_a_row_that_one_source_has_once_more_is_seen(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, 1), (1, 1), (2, 2)], [(1, 1), (2, 2)])
        comparison = compare(bench, a_job(tables, digest_by("k")), tables)
        assert comparison.verdict is UNMATCHED
        (row,) = comparison.differences()
        counted = [int((value or "")[:16], 16) for _, value in row.values]
        assert counted == [2, 1]
        tables = pair("k int, v int", [(1, 1), (2, 2)], [(1, 1)])
        comparison = compare(bench, a_job(tables, digest_by("k")), tables)
        (row,) = comparison.differences()
        assert (row.measure, dict(row.values)) == ("$presence", {"one": "1"})

    @pytest.mark.case("P03")
    @pytest.mark.case("P13")
    def test_fingerprints_are_of_canonical_values(self, bench: EngineBench) -> None:
        tables = [
            a_table("one", "k float64, v decimal(9,2), u uuid", (-0.0, D("1.10"), None)),
            a_table("two", "k decimal(9,1), v float64, u text", (D("0.0"), 1.1, None)),
            a_table("three", "k int, v decimal(9,4), u uuid", (0, D("1.1000"), None)),
        ]
        assert compare(bench, a_job(tables, digest_by("k")), tables).verdict is MATCHED

    @pytest.mark.case("P23")
    @pytest.mark.case("P24")
    def test_texts_never_collide(self, bench: EngineBench) -> None:
        for first, second in (
            (("ab", "c"), ("a", "bc")),
            (("NULL", "x"), (None, "x")),
            (("", "x"), (None, "x")),
            (("a\x00b", "x"), ("a", "x")),
            (("a|b", "x"), ("a", "b|x")),
        ):
            tables = pair("k int, v text, w text", [(1, *first)], [(1, *second)])
            assert compare(bench, a_job(tables, digest_by("k")), tables).verdict is UNMATCHED

    @pytest.mark.case("P11")
    def test_nan_equals_nan_unless_declared_otherwise(self, bench: EngineBench) -> None:
        nan = float("nan")
        tables = pair("k float64, v float64", [(nan, nan)], [(nan, nan)])
        assert compare(bench, a_job(tables, digest_by("k")), tables).verdict is MATCHED
        strict = Normalize(numbers=NumberRules(nan=NanRule.UNEQUAL))
        comparison = compare(bench, a_job(tables, digest_by("k"), normalize=strict), tables)
        assert (comparison.verdict, comparison.counts().matched_groups) == (UNMATCHED, 1)

    @pytest.mark.case("P14")
    def test_rules_act_before_hashing(self, bench: EngineBench) -> None:
        relaxed = Normalize(
            strings=StringRules(trim=Trim.BOTH, case=Case.FOLD),
            numbers=NumberRules(round=1, float32=Float32Rule.SHORTEST),
        )
        columns = "k text, v {}, d decimal(9,2)"
        tables = [
            a_table("one", columns.format("float32"), (" STRASSE", 0.10000000149011612, D("1.12"))),
            a_table("two", columns.format("float64"), ("straße ", 0.1, D("1.08"))),
        ]
        assert compare(bench, a_job(tables, digest_by("k")), tables).verdict is UNMATCHED
        job = a_job(tables, digest_by("k"), normalize=relaxed)
        assert compare(bench, job, tables).verdict is MATCHED

    @pytest.mark.case("P40")
    @pytest.mark.case("P49")
    def test_what_cannot_be_compared_is_outside_in_every_bucket(self, bench: EngineBench) -> None:
        tables = [
            a_table("one", "k int, v int, extra int", (1, 1, 1), (2, 2, 2)),
            a_table("two", "k int, v int", (1, 1), (2, 2)),
        ]
        comparison = compare(bench, a_job(tables, digest_by("k")), tables)
        assert comparison.verdict is UNMATCHED
        assert comparison.measure("fingerprint").outside == 0
        assert comparison.measure("extra").not_comparable == 2
        without = digest_by("k", except_=("extra",))
        assert compare(bench, a_job(tables, without), tables).verdict is MATCHED

    def test_without_dimensions_whole_rows_are_the_key(self, bench: EngineBench) -> None:
        rows = [(k, k) for k in range(40)]
        tables = pair("a int, b int", rows, [*rows, (1, 2)])
        comparison = compare(bench, a_job(tables, digest_by("")), tables)
        assert comparison.counts().rows_compared > 30
        assert comparison.counts().rows_unmatched == 1

    @pytest.mark.case("P20")
    def test_null_keys_are_hashed_like_any_other(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(None, 1), (1, 1)], [(None, 1), (1, 1)])
        comparison = compare(bench, a_job(tables, digest_by("k")), tables)
        assert (comparison.verdict, comparison.counts().null_keys_by_source) == (MATCHED, (1, 1))

    @pytest.mark.case("P56")
    def test_a_row_stage_scoped_to_a_digest_sees_the_rows_of_its_buckets(
        self, bench: EngineBench
    ) -> None:
        rows = [(k, k) for k in range(200)]
        changed = [(k, v + (k in {7, 90})) for k, v in rows]
        tables = pair("k int, v int", rows, changed)
        stages = (
            digest_by("k", where="k >= 5"),
            rows_by("k", a_measure("v"), scope=Scope(from_stage="digests")),
        )
        comparison = compare(bench, a_job(tables, *stages), tables)
        wanted = {bucket_of(COMPARE_KEY, encode_tuple((number(k),))) for k in (7, 90)}
        inside = [
            k for k in range(5, 200) if bucket_of(COMPARE_KEY, encode_tuple((number(k),))) in wanted
        ]
        assert comparison.counts("digests").source_row_counts == (195, 195)
        assert comparison.counts("rows").source_row_counts == (len(inside), len(inside))
        assert sorted(row.key for row in comparison.stored["rows"]) == [("7",), ("90",)]

    @pytest.mark.case("P28")
    def test_empty_sources_match_with_a_warning(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [], [])
        comparison = compare(bench, a_job(tables, digest_by("k")), tables)
        assert (comparison.verdict, comparison.warnings) == (MATCHED, ["EMPTY_SOURCES"])
