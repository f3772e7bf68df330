"""How every engine compares single values and keys: cases of spec comparison 15, default rules.

Separate from `engine_groups`, which counts and judges whole stages.
"""

from decimal import Decimal
from fractions import Fraction

import pytest

from datarecs_core.comparison.planning.faults import SumOverflowError
from datarecs_core.comparison.results.payload import comparison_payload
from datarecs_core.comparison.results.results import Verdict
from datarecs_core.jobs.definition import ALL_COLUMNS, Dimension, Stage
from datarecs_core.jobs.vocabulary import Combine, Function, StageType
from datarecs_testing.comparisons import (
    EngineBench,
    a_measure,
    absolute,
    aggregate_by,
    compare,
    percentage,
    rows_by,
)
from datarecs_testing.tables import a_job, a_table, pair

D = Decimal
MATCHED, UNMATCHED = Verdict.MATCHED, Verdict.UNMATCHED
INT64 = 2**63


class ValueConformance:
    """Numbers, floats, NULL, text and keys, compared without any declared rule."""

    @pytest.fixture
    def bench(self) -> EngineBench:
        raise LookupError("a subclass gives the fixture `bench`")

    @pytest.mark.case("P01")
    @pytest.mark.parametrize(
        ("one", "two", "delta"),
        [(2**53, 2**53 + 1, "1"), (-INT64, INT64 - 1, "18446744073709551615")],
    )
    def test_whole_numbers_beyond_doubles_differ_by_exactly_what_they_differ(
        self, bench: EngineBench, one: int, two: int, delta: str
    ) -> None:
        tables = pair("k int, v int", [(1, one)], [(1, two)])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert comparison.verdict is UNMATCHED
        assert comparison.differences()[0].deltas == (("two", D(delta)),)
        assert comparison.measure("v").max_abs_delta == D(delta)

    @pytest.mark.case("P02")
    def test_the_last_digit_of_38_counts(self, bench: EngineBench) -> None:
        long = D("123456789012345678901234567890123456.78")
        tables = pair("k int, v decimal(38,2)", [(1, long)], [(1, D(f"{long}"[:-1] + "9"))])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert comparison.measure("v").outside == 1
        assert comparison.differences()[0].deltas == (("two", D("0.01")),)

    @pytest.mark.case("P03")
    def test_a_scale_is_not_a_value(self, bench: EngineBench) -> None:
        tables = [
            a_table("one", "k int, v decimal(10,1)", (1, D("1.1"))),
            a_table("two", "k int, v decimal(10,2)", (1, D("1.10"))),
            a_table("three", "k int, v decimal(20,3)", (1, D("1.100"))),
        ]
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert comparison.verdict is MATCHED
        assert comparison.measure("v").equal == 1

    @pytest.mark.case("P05")
    def test_doubles_are_judged_by_their_shortest_decimals(self, bench: EngineBench) -> None:
        tables = pair("k int, v float64", [(1, 1.01)], [(1, 1.00)])
        comparison = compare(
            bench, a_job(tables, rows_by("k", a_measure("v", absolute("0.01")))), tables
        )
        assert comparison.verdict is MATCHED
        assert comparison.measure("v").within_not_equal == 1

    @pytest.mark.case("P06")
    def test_the_edge_of_an_absolute_tolerance_is_within(self, bench: EngineBench) -> None:
        tables = pair(
            "k int, v decimal(10,3)",
            [(1, D("1.000")), (2, D("1.000"))],
            [(1, D("1.010")), (2, D("1.011"))],
        )
        comparison = compare(
            bench, a_job(tables, rows_by("k", a_measure("v", absolute("0.01")))), tables
        )
        assert (comparison.measure("v").within, comparison.measure("v").outside) == (1, 1)

    @pytest.mark.case("P07")
    def test_a_percentage_is_of_the_reference(self, bench: EngineBench) -> None:
        tables = pair(
            "k int, v decimal(10,2)",
            [(1, D(100)), (2, D(110))],
            [(1, D(110)), (2, D(100))],
        )
        stage = rows_by("k", a_measure("v", percentage("9.5")))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert [row.key for row in comparison.differences() if row.outcome == "BREAK"] == [("1",)]
        whole = rows_by("k", a_measure("v", percentage("10")))
        assert compare(bench, a_job(tables, whole), tables).verdict is MATCHED

    @pytest.mark.case("P08")
    def test_nothing_is_divided_by_a_base_of_zero(self, bench: EngineBench) -> None:
        tables = pair(
            "k int, v decimal(10,3)", [(1, D(0)), (2, D(0))], [(1, D("0.001")), (2, D(0))]
        )
        stage = rows_by("k", a_measure("v", percentage("100")))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert (comparison.measure("v").within, comparison.measure("v").outside) == (1, 1)
        assert comparison.differences()[0].delta_percent == ()

    @pytest.mark.case("P09")
    def test_a_percentage_of_a_negative_base_is_one_of_its_size(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, -100)], [(1, -105)])
        stage = rows_by("k", a_measure("v", percentage("5")))
        assert compare(bench, a_job(tables, stage), tables).verdict is MATCHED

    @pytest.mark.case("P10")
    @pytest.mark.parametrize(("combine", "within"), [(Combine.ANY, 1), (Combine.ALL, 0)])
    def test_two_tolerances_combine_as_declared(
        self, bench: EngineBench, combine: Combine, within: int
    ) -> None:
        tables = pair("k int, v decimal(10,2)", [(1, D(100))], [(1, D("100.50"))])
        measure = a_measure("v", absolute("0.01"), percentage("1"), combine=combine)
        comparison = compare(bench, a_job(tables, rows_by("k", measure)), tables)
        entries = comparison_payload(
            comparison.plan.stages[0], comparison.results(), comparison.verdict
        )["tolerances"]
        assert [entry["within_tolerance_count"] for entry in entries] == [within, within]
        assert [entry.get("own_within_count") for entry in entries] == [0, 1]

    @pytest.mark.case("P11")
    def test_nan_equals_nan_and_nothing_else(self, bench: EngineBench) -> None:
        nan = float("nan")
        tables = pair(
            "k int, v float64", [(1, nan), (2, nan), (3, nan)], [(1, nan), (2, 1.0), (3, None)]
        )
        stage = rows_by("k", a_measure("v", absolute("1000")))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert (comparison.measure("v").equal, comparison.measure("v").outside) == (1, 2)
        assert comparison.classes() == ["NULL_MISMATCH", "OUTSIDE"]

    @pytest.mark.case("P12")
    def test_infinities_are_within_only_when_equal(self, bench: EngineBench) -> None:
        inf = float("inf")
        tables = pair(
            "k int, v float64", [(1, inf), (2, inf), (3, inf)], [(1, inf), (2, -inf), (3, 1.0)]
        )
        stage = rows_by("k", a_measure("v", percentage("100")))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert (comparison.measure("v").equal, comparison.measure("v").outside) == (1, 2)

    @pytest.mark.case("P13")
    def test_minus_zero_is_zero_as_value_and_as_key(self, bench: EngineBench) -> None:
        tables = pair("k float64, v float64", [(0.0, -0.0)], [(-0.0, 0.0)])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert (comparison.verdict, comparison.counts().rows_compared) == (MATCHED, 1)

    @pytest.mark.case("P14")
    def test_single_precision_is_not_double_precision(self, bench: EngineBench) -> None:
        single = 0.10000000149011612
        tables = [
            a_table("one", "k int, v float32", (1, single)),
            a_table("two", "k int, v float64", (1, 0.1)),
        ]
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert comparison.classes() == ["PRECISION"]

    @pytest.mark.case("P16")
    def test_sums_are_widened_and_never_wrap(self, bench: EngineBench) -> None:
        tables = pair(
            "k int, v int", [(1, INT64 - 1), (1, INT64 - 1)], [(1, INT64 - 1), (1, INT64 - 2)]
        )
        comparison = compare(bench, a_job(tables, aggregate_by("k", a_measure("v"))), tables)
        assert comparison.measure("v").total_by_source == (D(2 * INT64 - 2), D(2 * INT64 - 3))

    @pytest.mark.case("P16")
    @pytest.mark.case("E4")
    def test_a_sum_beyond_38_digits_is_an_error(self, bench: EngineBench) -> None:
        huge = D("9" * 38)
        tables = pair("k int, v decimal(38,0)", [(1, huge), (1, huge)], [(1, huge)])
        with pytest.raises(SumOverflowError, match="v of source one"):
            compare(bench, a_job(tables, aggregate_by("k", a_measure("v"))), tables)

    @pytest.mark.case("P17")
    def test_averages_are_rounded_half_even_once(self, bench: EngineBench) -> None:
        tables = [
            a_table("one", "k int, v int", (1, 1), (1, 1), (1, 2), (2, 1), (2, 2)),
            a_table(
                "two",
                "k int, v decimal(4,1)",
                *((1, D("1.0")), (1, D("1.0")), (1, D("2.0")), (2, D("1.5"))),
            ),
        ]
        stage = aggregate_by("k", a_measure("v", function=Function.AVG))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert comparison.measure("v").equal == 2
        third = D(round(Fraction(4, 3) * 10**7)).scaleb(-7)
        assert comparison.measure("v").total_by_source == (third + D("1.5"),) * 2

    @pytest.mark.case("P18")
    def test_a_sum_of_nulls_is_null_and_not_zero(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, None), (2, None)], [(1, 0), (2, 5)])
        comparison = compare(bench, a_job(tables, aggregate_by("k", a_measure("v"))), tables)
        assert comparison.classes() == ["NULL_MISMATCH", "NULL_MISMATCH"]
        assert comparison.measure("v").null_mismatch == 2

    @pytest.mark.case("P19")
    def test_null_in_every_source_agrees(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, None)], [(1, None)])
        comparison = compare(
            bench, a_job(tables, rows_by("k", a_measure("v", absolute("1")))), tables
        )
        assert (comparison.verdict, comparison.measure("v").equal) == (MATCHED, 1)

    @pytest.mark.case("P21")
    def test_a_null_key_of_one_source_is_unmatched_there(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(None, 1), (1, 1)], [(1, 1)])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert comparison.counts().unmatched_by_source == (1, 0)
        assert comparison.differences()[0].key == (None,)

    @pytest.mark.case("P22")
    def test_a_null_part_of_a_key_is_not_an_empty_text(self, bench: EngineBench) -> None:
        tables = pair("a int, b text", [(1, None)], [(1, None), (1, "")])
        comparison = compare(bench, a_job(tables, rows_by("a b")), tables)
        assert comparison.counts().matched_groups == 1
        assert comparison.counts().unmatched_by_source == (0, 1)

    @pytest.mark.case("P23")
    @pytest.mark.parametrize("word", ["NULL", "<null>", "", "\x10", "None", " "])
    def test_no_text_is_null(self, bench: EngineBench, word: str) -> None:
        tables = pair("k int, v text", [(1, word)], [(1, None)])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert comparison.classes() == ["NULL_MISMATCH"]

    @pytest.mark.case("P24")
    def test_keys_never_run_into_each_other(self, bench: EngineBench) -> None:
        tables = pair(
            "a text, b text",
            [("ab", "c"), ("x|", "y"), ("n\n", "m"), ("p", ",q")],
            [("a", "bc"), ("x", "|y"), ("n", "\nm"), ("p,", "q")],
        )
        comparison = compare(bench, a_job(tables, rows_by("a b")), tables)
        assert (comparison.counts().rows_compared, comparison.counts().matched_groups) == (8, 0)

    @pytest.mark.case("P24")
    def test_values_never_run_into_each_other(self, bench: EngineBench) -> None:
        tables = pair("k int, a text, b text", [(1, "ab", "c")], [(1, "a", "bc")])
        comparison = compare(
            bench, a_job(tables, rows_by("k", a_measure("a"), a_measure("b"))), tables
        )
        assert (comparison.measure("a").outside, comparison.measure("b").outside) == (1, 1)

    @pytest.mark.case("P25")
    @pytest.mark.parametrize(
        ("one", "two", "classes"),
        [
            ("aa", "a", ["MULTIPLICITY", "MULTIPLICITY"]),
            ("aaa", "aa", ["MULTIPLICITY", "MULTIPLICITY"]),
            ("ab", "ba", []),
        ],
    )
    def test_copies_are_counted_and_their_order_is_not(
        self, bench: EngineBench, one: str, two: str, classes: list[str]
    ) -> None:
        tables = pair("k int, v text", [(1, v) for v in one], [(1, v) for v in two])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert comparison.classes() == classes
        assert comparison.counts().duplicate_keys_by_source == (1, int(len(two) > 1))
        assert comparison.measure("$rows").outside == int(bool(classes))

    def test_copies_that_cancel_leave_the_rest_to_be_paired_by_rank(
        self, bench: EngineBench
    ) -> None:
        tables = pair(
            "k int, v decimal(10,2)",
            [(1, D("1.00")), (1, D("5.00")), (1, D("9.00"))],
            [(1, D("9.01")), (1, D("5.00")), (1, D("1.01"))],
        )
        stage = rows_by("k", a_measure("v", absolute("0.01")))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert (comparison.verdict, comparison.measure("v").within_not_equal) == (MATCHED, 1)
        (row,) = comparison.differences()
        assert row.values == (("one", "1"), ("two", "1.01"))

    @pytest.mark.case("P29")
    @pytest.mark.parametrize("word", ["a ", "a\u00a0", "a\t", " a"])
    def test_white_space_counts(self, bench: EngineBench, word: str) -> None:
        tables = pair("k int, v text", [(1, "a")], [(1, word)])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert comparison.verdict is UNMATCHED

    @pytest.mark.case("P30")
    @pytest.mark.case("P31")
    @pytest.mark.parametrize(
        ("one", "two"),
        [("STRASSE", "straße"), ("I", "i"), ("I", "İ"), ("i", "\u0131"), ("é", "e\u0301")],
    )
    def test_letters_differ_by_code_point(self, bench: EngineBench, one: str, two: str) -> None:
        tables = pair("k int, v text", [(1, one)], [(1, two)])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert comparison.verdict is UNMATCHED

    @pytest.mark.case("P33")
    @pytest.mark.case("P34")
    def test_keys_group_by_code_point_whatever_a_server_collates(self, bench: EngineBench) -> None:
        keys = [("a-b",), ("a_b",), ("A",), ("a",)]
        tables = pair("k text", keys, keys)
        comparison = compare(bench, a_job(tables, rows_by("k")), tables)
        assert comparison.counts().matched_groups == 4

    @pytest.mark.case("P47")
    def test_large_sums_differ_by_exactly_one(self, bench: EngineBench) -> None:
        tables = pair("k int, v decimal(20,2)", [(1, D("100000000.00"))], [(1, D("100000001.00"))])
        comparison = compare(
            bench, a_job(tables, aggregate_by("k", a_measure("v", absolute("0.99")))), tables
        )
        assert comparison.differences()[0].deltas == (("two", D("1.00")),)
        assert comparison.measure("v").gap_by_source == (D(0), D(1))

    @pytest.mark.case("P49")
    def test_an_extra_column_under_star_is_not_comparable(self, bench: EngineBench) -> None:
        tables = [
            a_table("one", "k int, v int", (1, 1)),
            a_table("two", "k int, v int, extra text", (1, 1, "x")),
        ]
        stage = rows_by("k")
        job = a_job(tables, stage_with_star(stage.name))
        comparison = compare(bench, job, tables)
        assert comparison.classes() == ["NOT_COMPARABLE"]
        assert (comparison.measure("v").within, comparison.measure("extra").not_comparable) == (
            1,
            1,
        )
        assert "SCHEMA_DIFFERS" in comparison.warnings

    @pytest.mark.case("P50")
    def test_tiny_doubles_differ_exactly(self, bench: EngineBench) -> None:
        tables = pair("k int, v float64", [(1, 1e-20)], [(1, 2e-20)])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert comparison.differences()[0].deltas == (("two", D("1e-20")),)

    @pytest.mark.case("P51")
    def test_the_parts_of_a_key_are_never_swapped(self, bench: EngineBench) -> None:
        rows = [(1, 11), (11, 1)]
        tables = pair("a int, b int", rows, rows)
        comparison = compare(bench, a_job(tables, rows_by("a b")), tables)
        assert comparison.counts().matched_groups == 2
        assert comparison.counts().duplicate_keys_by_source == (0, 0)


def stage_with_star(name: str) -> Stage:
    """A row stage by `k` over every other column."""
    return Stage(
        name=name,
        type=StageType.ROW,
        dimensions=(Dimension(name="k"),),
        measures=ALL_COLUMNS,
    )
