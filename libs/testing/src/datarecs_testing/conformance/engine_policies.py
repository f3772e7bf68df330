"""The effect of declared policies, bounds, bases, strategies, masks and caps in an engine.

Separate from `engine_groups` because an engine may first implement only the strict core.
"""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from datarecs_core.comparison.planning.faults import (
    DuplicateKeysError,
    EmptySourceError,
    NullKeysError,
)
from datarecs_core.comparison.results.results import Verdict
from datarecs_core.jobs.definition import (
    Accept,
    Breaks,
    Normalize,
    NullRules,
    Results,
    WarnAt,
)
from datarecs_core.jobs.vocabulary import (
    Bound,
    CompareTo,
    DuplicatePolicy,
    EmptyPolicy,
    Function,
    MaskRule,
    NullKeys,
    OnUnmatched,
    ToleranceBase,
)
from datarecs_testing.comparisons import (
    EngineBench,
    a_measure,
    absolute,
    compare,
    counting,
    lasting,
    percentage,
    rows_by,
)
from datarecs_testing.conformance.engine_groups import hundred_and_a_cent
from datarecs_testing.tables import a_job, a_table, pair

D = Decimal
MATCHED, UNMATCHED = Verdict.MATCHED, Verdict.UNMATCHED
BY_VALUE = rows_by("k", a_measure("v"))


class PolicyConformance:
    """Fields of stages and results beyond their defaults."""

    @pytest.fixture
    def bench(self) -> EngineBench:
        raise LookupError("a subclass gives the fixture `bench`")

    @pytest.mark.case("P06")
    def test_an_exclusive_bound_leaves_the_edge_outside_and_equal_values_within(
        self, bench: EngineBench
    ) -> None:
        tables = pair("k int, v decimal(10,2)", [(1, D(1)), (2, D(1))], [(1, D("1.01")), (2, D(1))])
        stage = rows_by("k", a_measure("v", absolute("0.01"), bound=Bound.EXCLUSIVE))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert (comparison.measure("v").outside, comparison.measure("v").equal) == (1, 1)

    @pytest.mark.case("P07")
    @pytest.mark.parametrize(
        ("base", "within"),
        [(ToleranceBase.REFERENCE, 1), (ToleranceBase.MAX_ABS, 2), (ToleranceBase.MIN_ABS, 0)],
    )
    def test_a_percentage_has_a_base(
        self, bench: EngineBench, base: ToleranceBase, within: int
    ) -> None:
        tables = pair("k int, v int", [(1, 100), (2, 110)], [(1, 110), (2, 100)])
        stage = rows_by("k", a_measure("v", percentage("9.5", base)))
        assert compare(bench, a_job(tables, stage), tables).measure("v").within == within

    @pytest.mark.case("P20")
    def test_null_keys_may_be_rejected(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(None, 1)], [(1, 1)])
        rules = Normalize(nulls=NullRules(keys=NullKeys.REJECT))
        with pytest.raises(NullKeysError, match="1 rows of source one"):
            compare(bench, a_job(tables, BY_VALUE, normalize=rules), tables)

    @pytest.mark.case("P20")
    def test_null_keys_may_be_excluded_and_are_counted(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(None, 1), (1, 1)], [(1, 1)])
        rules = Normalize(nulls=NullRules(keys=NullKeys.EXCLUDE))
        comparison = compare(bench, a_job(tables, BY_VALUE, normalize=rules), tables)
        counts = comparison.counts()
        assert (comparison.verdict, counts.source_row_counts) == (MATCHED, (2, 1))
        assert counts.excluded_rows_by_source == counts.null_keys_by_source == (1, 0)
        assert comparison.results().closure[0].excluded == 1

    @pytest.mark.case("P28")
    def test_an_empty_source_may_be_an_error(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, 1)], [])
        with pytest.raises(EmptySourceError, match="no rows in two"):
            compare(bench, a_job(tables, counting(), empty=EmptyPolicy.ERROR), tables)

    def test_empty_sources_may_be_fine(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [], [])
        comparison = compare(bench, a_job(tables, BY_VALUE, empty=EmptyPolicy.OK), tables)
        assert (comparison.verdict, comparison.warnings) == (MATCHED, [])

    def test_a_duration_is_a_distance_in_time(self, bench: EngineBench) -> None:
        moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
        tables = pair(
            "k int, v instant",
            [(1, moment), (2, moment)],
            [(1, moment + timedelta(seconds=1)), (2, moment - timedelta(seconds=1.000001))],
        )
        stage = rows_by("k", a_measure("v", lasting(timedelta(seconds=1))))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert (comparison.measure("v").within, comparison.measure("v").outside) == (1, 1)
        assert comparison.measure("v").max_abs_delta == 1_000_001

    def test_a_duration_between_dates_counts_days(self, bench: EngineBench) -> None:
        tables = pair("k int, v date", [(1, date(2026, 2, 28))], [(1, date(2026, 3, 1))])
        stage = rows_by("k", a_measure("v", lasting(timedelta(days=1))))
        assert compare(bench, a_job(tables, stage), tables).verdict is MATCHED

    @pytest.mark.case("P46")
    @pytest.mark.parametrize(
        ("way", "within"),
        [(CompareTo.REFERENCE, 0), (CompareTo.ALL_PAIRS, 0), (CompareTo.SPREAD, 0)],
    )
    def test_one_group_by_every_way_of_comparing(
        self, bench: EngineBench, way: CompareTo, within: int
    ) -> None:
        tables = hundred_and_a_cent()
        stage = rows_by("k", a_measure("v", absolute("0.01")), compare_to=way)
        assert compare(bench, a_job(tables, stage), tables).measure("v").within == within
        wider = rows_by("k", a_measure("v", absolute("0.02")), compare_to=way)
        assert compare(bench, a_job(tables, wider), tables).measure("v").within == 1

    def test_pairs_apart_from_the_reference_are_compared_too(self, bench: EngineBench) -> None:
        tables = [
            a_table(f"s{index}", "k int, v int", (1, v)) for index, v in enumerate((0, 1, -1))
        ]
        stage = rows_by("k", a_measure("v", absolute("1")))
        assert compare(bench, a_job(tables, stage), tables).verdict is MATCHED
        every = rows_by("k", a_measure("v", absolute("1")), compare_to=CompareTo.ALL_PAIRS)
        assert compare(bench, a_job(tables, every), tables).verdict is UNMATCHED

    def test_exact_under_spread_needs_all_equal(self, bench: EngineBench) -> None:
        tables = [a_table(f"s{index}", "k int, v text", (1, v)) for index, v in enumerate("aab")]
        stage = rows_by("k", a_measure("v"), compare_to=CompareTo.SPREAD)
        comparison = compare(bench, a_job(tables, stage), tables)
        assert comparison.differences()[0].odd_one_out == "s2"

    @pytest.mark.case("P64")
    def test_repeated_keys_may_be_an_error_that_shows_no_key(self, bench: EngineBench) -> None:
        one = [("secret", 1), ("secret", 2), ("b", 1)]
        tables = pair("k text, v int", one, [("secret", 1), ("b", 1)])
        with pytest.raises(
            DuplicateKeysError, match="source one has keys with more than one row: 1,"
        ) as caught:
            compare(bench, a_job(tables, BY_VALUE, duplicates=DuplicatePolicy.ERROR), tables)
        assert "secret" not in str(caught.value)

    def test_repeated_keys_may_be_aggregated(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, 1), (1, 2)], [(1, 3)])
        stage = rows_by(
            "k", a_measure("v", function=Function.SUM), duplicates=DuplicatePolicy.AGGREGATE
        )
        comparison = compare(bench, a_job(tables, stage), tables)
        assert (comparison.verdict, comparison.counts().duplicate_keys_by_source) == (
            MATCHED,
            (1, 0),
        )
        assert comparison.results().rows is None

    def test_a_stage_may_stop_the_run(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, 1)], [(2, 1)])
        first = rows_by("k", name="keys", on_unmatched=OnUnmatched.STOP)
        comparison = compare(bench, a_job(tables, first, BY_VALUE), tables)
        assert comparison.stage("rows").stopped_by == "keys"

    def test_limits_that_do_not_hold_are_rejected_and_warned_of(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, 1), (2, 1)], [(1, 5)])
        stage = rows_by(
            "k",
            a_measure("v"),
            accept=Accept(max_unmatched_percent=D(50), max_gap={"v": D(2)}),
            warn_at=WarnAt(outside_percent=D(0), unmatched_percent=D(50), gap={"v": D(2)}),
        )
        comparison = compare(bench, a_job(tables, stage), tables)
        assert comparison.outcome.acceptance == "REJECTED"
        assert [each.message.split(" is")[0] for each in comparison.outcome.warnings] == [
            "outside_percent",
            "gap of v",
        ]

    @pytest.mark.case("P64")
    def test_masked_columns_leave_no_clear_value_and_the_same_ids(self, bench: EngineBench) -> None:
        tables = pair("k text, v int", [("secret", 41)], [("secret", 42)])
        clear = compare(bench, a_job(tables, BY_VALUE), tables).differences()[0]
        mask = {"k": MaskRule.HASH, "v": MaskRule.REDACT}
        results = Results(breaks=Breaks(mask=mask))
        row = compare(bench, a_job(tables, BY_VALUE, results=results), tables).differences()[0]
        assert (row.break_id, row.key_hash) == (clear.break_id, clear.key_hash)
        assert row.values == (("one", "***"), ("two", "***"))
        assert str(row.key[0]).startswith("h:")
        assert row.deltas == row.delta_percent == ()
        assert b"secret" not in row.key_encoded

    @pytest.mark.case("P61")
    def test_too_many_differences_are_cut_the_same_way_and_counted_in_full(
        self, bench: EngineBench
    ) -> None:
        tables = pair("k int, v int", [(k, 0) for k in range(30)], [(k, k + 1) for k in range(30)])
        job = a_job(tables, BY_VALUE, results=Results(breaks=Breaks(max_rows=10)))
        first, second = compare(bench, job, tables), compare(bench, job, tables)
        assert (len(first.differences()), first.measure("v").outside) == (10, 30)
        assert first.differences() == second.differences()
        assert {str(row.key[0]) for row in first.differences()} == {str(k) for k in range(20, 30)}
        assert "BREAKS_TRUNCATED" in first.warnings

    def test_within_rows_may_be_left_out(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, 1), (2, 1)], [(1, 2), (2, 9)])
        stage = rows_by("k", a_measure("v", absolute("1")))
        results = Results(breaks=Breaks(deltas=False))
        comparison = compare(bench, a_job(tables, stage, results=results), tables)
        assert comparison.classes() == ["OUTSIDE"]
