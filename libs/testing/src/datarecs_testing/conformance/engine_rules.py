"""The effect of declared rules, casts and maps in an engine, and of nothing else.

Separate from `engine_values` because an engine may first implement only the strict core.
"""

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from datarecs_core.comparison.planning.faults import (
    SumOverflowError,
)
from datarecs_core.comparison.results.results import Verdict
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import (
    ColumnRules,
    JsonRules,
    Normalize,
    NumberRules,
    StringRules,
    TimestampRules,
)
from datarecs_core.jobs.vocabulary import (
    ArrayRule,
    Case,
    EmptyText,
    Float32Rule,
    Function,
    NanRule,
    NullAs,
    Rounding,
    TimePrecision,
    Trim,
    UnicodeForm,
)
from datarecs_testing.comparisons import (
    EngineBench,
    a_measure,
    aggregate_by,
    compare,
    rows_by,
)
from datarecs_testing.tables import a_job, a_table, pair

D = Decimal
MATCHED, UNMATCHED = Verdict.MATCHED, Verdict.UNMATCHED
BY_VALUE = rows_by("k", a_measure("v"))
PARIS = {"timezone": "Europe/Paris"}


def strings(**rules: object) -> Normalize:
    return Normalize(strings=StringRules(**rules))  # type: ignore[arg-type]  # any rule of text


def numbers(**rules: object) -> Normalize:
    return Normalize(numbers=NumberRules(**rules))  # type: ignore[arg-type]  # any rule of numbers


class RuleConformance:
    """Every relaxation has exactly its documented effect."""

    @pytest.fixture
    def bench(self) -> EngineBench:
        raise LookupError("a subclass gives the fixture `bench`")

    @pytest.mark.case("P04")
    def test_rounding_is_declared_and_warned_of(self, bench: EngineBench) -> None:
        tables = [
            a_table("one", "k int, v decimal(10,2)", (1, D("1.10"))),
            a_table("two", "k int, v decimal(10,4)", (1, D("1.1049"))),
        ]
        assert compare(bench, a_job(tables, BY_VALUE), tables).classes() == ["PRECISION"]
        comparison = compare(bench, a_job(tables, BY_VALUE, normalize=numbers(round=2)), tables)
        assert (comparison.verdict, comparison.warnings) == (MATCHED, ["PRECISION_REDUCED"])
        assert comparison.plan.stages[0].measures[0].rules.declared() == (("round", "2"),)

    @pytest.mark.case("P11")
    def test_nan_may_be_declared_unequal(self, bench: EngineBench) -> None:
        nan = float("nan")
        tables = pair("k int, v float64", [(1, nan), (1, 1.0)], [(1, 1.0), (1, nan)])
        comparison = compare(
            bench, a_job(tables, BY_VALUE, normalize=numbers(nan=NanRule.UNEQUAL)), tables
        )
        assert comparison.classes() == ["OUTSIDE"]

    @pytest.mark.case("F12")
    def test_copies_that_a_rule_made_equal_show_the_same_raw_values_in_any_order(
        self, bench: EngineBench
    ) -> None:
        copies = [(1, D("1.1000")), (1, D("1.1049")), (1, D("1.1049"))]
        other = [(1, D("1.1000")), (1, D("2.0000")), (1, D("3.0000"))]
        shown = []
        for rows in (copies, copies[::-1]):
            tables = pair("k int, v decimal(10,4)", rows, other)
            comparison = compare(bench, a_job(tables, BY_VALUE, normalize=numbers(round=2)), tables)
            shown.append(comparison.differences())
        assert shown[0] == shown[1]
        assert shown[0][0].raw_values == (("one", "1.1049"),)

    @pytest.mark.case("P14")
    def test_single_precision_may_be_the_common_ground(self, bench: EngineBench) -> None:
        tables = [
            a_table("one", "k int, v float32", (1, 0.10000000149011612)),
            a_table("two", "k int, v float64", (1, 0.1)),
        ]
        rules = numbers(float32=Float32Rule.SHORTEST)
        comparison = compare(bench, a_job(tables, BY_VALUE, normalize=rules), tables)
        assert (comparison.verdict, comparison.warnings) == (MATCHED, ["PRECISION_REDUCED"])

    @pytest.mark.case("P14")
    def test_functions_take_numbers_in_single_precision(self, bench: EngineBench) -> None:
        """2^24 + 1 has no float32; the source that is exact is rounded before it is added up."""
        tables = [
            a_table("one", "k int, v int", (1, 2**24), (1, 2**24 + 1)),
            a_table("two", "k int, v float32", (1, 2.0**24), (1, 2.0**24)),
        ]
        measures = [
            a_measure(each.value, column="v", function=each)
            for each in Function
            if each is not Function.VALUE
        ]
        rules = numbers(float32=Float32Rule.SHORTEST)
        job = a_job(tables, aggregate_by("k", *measures), normalize=rules)
        assert compare(bench, job, tables).classes() == []

    @pytest.mark.case("P18")
    def test_null_may_be_zero_after_the_sum(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, None), (2, None)], [(1, 0), (2, 5)])
        stage = aggregate_by("k", a_measure("v"))
        comparison = compare(
            bench, a_job(tables, stage, normalize=numbers(null=NullAs.ZERO)), tables
        )
        assert (comparison.measure("v").within, comparison.classes()) == (1, ["OUTSIDE"])
        assert comparison.differences()[0].raw_values == (("one", None),)

    @pytest.mark.case("P23")
    def test_only_the_rule_makes_empty_text_null(self, bench: EngineBench) -> None:
        tables = pair("k int, v text", [(1, "")], [(1, None)])
        rules = strings(empty=EmptyText.NULL)
        assert compare(bench, a_job(tables, BY_VALUE, normalize=rules), tables).verdict is MATCHED
        other = strings(null=NullAs.EMPTY)
        assert compare(bench, a_job(tables, BY_VALUE, normalize=other), tables).verdict is MATCHED

    @pytest.mark.case("P29")
    @pytest.mark.parametrize("word", ["a ", "a\u00a0", "a\t", "\u3000a\u2028"])
    def test_trim_takes_all_unicode_white_space(self, bench: EngineBench, word: str) -> None:
        tables = pair("k text, v text", [("a", "a")], [(word, word)])
        comparison = compare(
            bench, a_job(tables, BY_VALUE, normalize=strings(trim=Trim.BOTH)), tables
        )
        assert comparison.verdict is MATCHED

    def test_trim_leaves_separators_that_are_no_white_space(self, bench: EngineBench) -> None:
        tables = pair("k int, v text", [(1, "a")], [(1, "a\x1f")])
        comparison = compare(
            bench, a_job(tables, BY_VALUE, normalize=strings(trim=Trim.BOTH)), tables
        )
        assert comparison.verdict is UNMATCHED

    @pytest.mark.parametrize(("trim", "word"), [(Trim.LEFT, " a"), (Trim.RIGHT, "a ")])
    def test_trim_has_sides(self, bench: EngineBench, trim: Trim, word: str) -> None:
        tables = pair("k int, v text", [(1, "a"), (2, "a")], [(1, word), (2, word[::-1])])
        comparison = compare(bench, a_job(tables, BY_VALUE, normalize=strings(trim=trim)), tables)
        assert (comparison.measure("v").equal, comparison.measure("v").outside) == (1, 1)

    @pytest.mark.case("P30")
    @pytest.mark.parametrize(
        ("one", "two", "same"),
        [
            ("STRASSE", "straße", True),
            ("I", "i", True),
            ("I", "\u0131", False),
            ("i", "İ", False),
            ("Σ", "ς", True),
        ],
    )
    def test_case_folding_is_unicodes_and_not_turkic(
        self, bench: EngineBench, one: str, two: str, *, same: bool
    ) -> None:
        tables = pair("k int, v text", [(1, one)], [(1, two)])
        comparison = compare(
            bench, a_job(tables, BY_VALUE, normalize=strings(case=Case.FOLD)), tables
        )
        assert (comparison.verdict is MATCHED) is same

    @pytest.mark.case("P31")
    @pytest.mark.parametrize(
        ("form", "one", "two"),
        [(UnicodeForm.NFC, "é", "e\u0301"), (UnicodeForm.NFKC, "ﬁ", "fi")],
    )
    def test_unicode_forms_are_declared(
        self, bench: EngineBench, form: UnicodeForm, one: str, two: str
    ) -> None:
        tables = pair("k text, v int", [(one, 1)], [(two, 1)])
        comparison = compare(
            bench, a_job(tables, BY_VALUE, normalize=strings(unicode=form)), tables
        )
        assert comparison.verdict is MATCHED

    @pytest.mark.case("P32")
    def test_broken_text_is_invalid_in_values_and_keys(self, bench: EngineBench) -> None:
        broken = Invalid(b"\xff")
        tables = pair("k text, v text", [("a", broken), (broken, "x")], [("a", "b")])
        comparison = compare(bench, a_job(tables, BY_VALUE), tables)
        assert comparison.classes() == ["INVALID", "MISSING"]
        assert comparison.counts().invalid_values_by_source == (2, 0)
        assert "INVALID_VALUES" in comparison.warnings

    def test_invalid_equals_no_other_sources_invalid(self, bench: EngineBench) -> None:
        broken = Invalid(b"\xff")
        tables = pair("k text, v int", [(broken, 1)], [(broken, 1)])
        comparison = compare(bench, a_job(tables, BY_VALUE), tables)
        assert (comparison.counts().rows_compared, comparison.counts().matched_groups) == (2, 0)

    @pytest.mark.case("P32")
    def test_a_sum_over_an_invalid_value_is_invalid(self, bench: EngineBench) -> None:
        tables = pair("k int, v decimal", [(1, D("1" * 60)), (1, D(1))], [(1, D(1))])
        comparison = compare(bench, a_job(tables, aggregate_by("k", a_measure("v"))), tables)
        assert comparison.classes() == ["INVALID"]

    @pytest.mark.case("P35")
    def test_digits_of_the_second_are_cut_as_declared(self, bench: EngineBench) -> None:
        moment = datetime(2026, 1, 31, 12, 0, 1, 123456, tzinfo=UTC)
        tables = [
            a_table("one", "k int, v instant(6)", (1, moment)),
            a_table("two", "k int, v instant(3)", (1, moment.replace(microsecond=123000))),
        ]
        assert compare(bench, a_job(tables, BY_VALUE), tables).classes() == ["PRECISION"]
        for precision in (TimePrecision.MILLIS, TimePrecision.DECLARED_MIN):
            rules = Normalize(timestamps=TimestampRules(precision=precision))
            comparison = compare(bench, a_job(tables, BY_VALUE, normalize=rules), tables)
            assert (comparison.verdict, comparison.warnings) == (MATCHED, ["PRECISION_REDUCED"])

    @pytest.mark.case("P35")
    @pytest.mark.parametrize(
        ("rounding", "micros", "second"),
        [
            (Rounding.TRUNCATE, 999_500, 1),
            (Rounding.HALF_EVEN, 999_500, 2),
            (Rounding.HALF_EVEN, 500_000, 2),
        ],
    )
    def test_seconds_are_truncated_or_rounded(
        self, bench: EngineBench, rounding: Rounding, micros: int, second: int
    ) -> None:
        moment = datetime(1969, 12, 31, 23, 59, 1, tzinfo=UTC)
        tables = pair(
            "k int, v instant",
            [(1, moment.replace(microsecond=micros))],
            [(1, moment.replace(second=second))],
        )
        stamps = TimestampRules(precision=TimePrecision.SECONDS, rounding=rounding)
        rules = Normalize(timestamps=stamps)
        assert compare(bench, a_job(tables, BY_VALUE, normalize=rules), tables).verdict is MATCHED

    @pytest.mark.case("P36")
    def test_naive_times_meet_aware_ones_through_the_declared_zone(
        self, bench: EngineBench
    ) -> None:
        tables = [
            a_table("one", "k int, v instant", (1, datetime(2026, 7, 1, 10, tzinfo=UTC))),
            a_table("two", "k int, v local_timestamp", (1, datetime(2026, 7, 1, 12))),  # noqa: DTZ001 - naive on purpose
        ]
        comparison = compare(bench, a_job(tables, BY_VALUE, sources={"two": PARIS}), tables)
        assert (comparison.verdict, comparison.warnings) == (MATCHED, [])

    @pytest.mark.case("P37")
    def test_gaps_and_overlaps_are_read_one_way_and_counted(self, bench: EngineBench) -> None:
        local = [(1, datetime(2026, 3, 29, 2, 30)), (2, datetime(2026, 10, 25, 2, 30))]  # noqa: DTZ001 - naive on purpose
        aware = [
            (1, datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
            (2, datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        ]
        tables = [
            a_table("one", "k int, v instant", *aware),
            a_table("two", "k int, v local_timestamp", *local),
        ]
        comparison = compare(bench, a_job(tables, BY_VALUE, sources={"two": PARIS}), tables)
        assert (comparison.verdict, comparison.warnings) == (MATCHED, ["DST_AMBIGUOUS"])
        assert comparison.outcome.warnings[0].message.startswith("2 ")

    @pytest.mark.case("P39")
    def test_maps_bring_other_spellings_of_truth_together(self, bench: EngineBench) -> None:
        tables = [
            a_table("one", "k int, v bool", (1, True), (2, False)),
            a_table("two", "k int, v int", (1, 1), (2, 0)),
            a_table("three", "k int, v text", (1, "t"), (2, "Y")),
        ]
        spelt = {"two": {"1": "true", "0": "false"}, "three": {"t": "true", "Y": "false"}}
        stage = rows_by("k", a_measure("v", map=spelt))
        assert compare(bench, a_job(tables, stage), tables).verdict is MATCHED

    @pytest.mark.case("P40")
    def test_uuids_meet_their_texts_with_a_warning(self, bench: EngineBench) -> None:
        uuid = "0189d3a5-0000-7000-8000-00000000000a"
        tables = [
            a_table("one", "k uuid, v int", (UUID(uuid), 1)),
            a_table("two", "k text, v int", (uuid.upper(), 1)),
        ]
        comparison = compare(bench, a_job(tables, BY_VALUE), tables)
        assert (comparison.verdict, comparison.warnings) == (MATCHED, ["IMPLICIT_TEXT_UUID"])

    @pytest.mark.case("P41")
    def test_texts_are_no_numbers_until_cast(self, bench: EngineBench) -> None:
        tables = [
            a_table("one", "k int, v text", (1, "0.30"), (2, " 7 "), (3, "1e0")),
            a_table("two", "k int, v decimal(10,2)", (1, D("0.3")), (2, D(7)), (3, D(1))),
        ]
        casts = {"one": {"cast": {"v": types.decimal(10, 2)}}}
        comparison = compare(bench, a_job(tables, BY_VALUE, sources=casts), tables)
        assert (comparison.measure("v").equal, comparison.measure("v").invalid) == (1, 2)

    @pytest.mark.case("P42")
    def test_json_is_compared_by_meaning(self, bench: EngineBench) -> None:
        tables = pair(
            "k int, v json",
            [(1, '{"a": 1, "b": [1, 2]}'), (2, "[1,2]")],
            [(1, '{"b":[1.0,2],"a":1.0}'), (2, "[2,1]")],
        )
        comparison = compare(bench, a_job(tables, BY_VALUE), tables)
        assert (comparison.measure("v").equal, comparison.measure("v").outside) == (1, 1)
        rules = Normalize(json=JsonRules(arrays=ArrayRule.SET))
        assert compare(bench, a_job(tables, BY_VALUE, normalize=rules), tables).verdict is MATCHED

    @pytest.mark.case("P52")
    def test_unlisted_values_pass_unless_the_map_is_strict(self, bench: EngineBench) -> None:
        tables = pair("k int, v text", [(1, "PAID"), (2, "X")], [(1, "P"), (2, "X")])
        spelt = {"two": {"P": "PAID"}}
        stage = rows_by("k", a_measure("v", map=spelt))
        assert compare(bench, a_job(tables, stage), tables).verdict is MATCHED
        strict = rows_by("k", a_measure("v", map=spelt, map_strict=True))
        comparison = compare(bench, a_job(tables, strict), tables)
        assert (comparison.measure("v").equal, comparison.measure("v").invalid) == (1, 1)

    @pytest.mark.case("P53")
    def test_a_number_of_60_digits_is_invalid_and_never_rounded(self, bench: EngineBench) -> None:
        wide = D("1" * 60)
        tables = pair("k int, v decimal", [(1, wide)], [(1, wide)])
        assert compare(bench, a_job(tables, BY_VALUE), tables).classes() == ["INVALID"]

    @pytest.mark.case("P54")
    def test_float_sums_count_what_they_round(self, bench: EngineBench) -> None:
        tables = pair("k int, v float64", [(1, 1.0), (1, 1e-19)], [(1, 1.0)])
        stage = aggregate_by("k", a_measure("v"))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert (comparison.verdict, comparison.warnings) == (MATCHED, ["FLOAT_SUM_ROUNDED"])
        assert comparison.outcome.warnings[0].message.startswith("1 ")
        huge = pair("k int, v float64", [(1, 1e20)], [(1, 1.0)])
        with pytest.raises(SumOverflowError):
            compare(bench, a_job(huge, stage), huge)

    @pytest.mark.case("P15")
    def test_float_sums_do_not_depend_on_order(self, bench: EngineBench) -> None:
        values = [0.1, 1e16, -1e16, 0.2, 0.3]
        tables = pair(
            "k int, v float64", [(1, v) for v in values], [(1, v) for v in reversed(values)]
        )
        comparison = compare(bench, a_job(tables, aggregate_by("k", a_measure("v"))), tables)
        assert (comparison.verdict, comparison.measure("v").total_by_source) == (
            MATCHED,
            (D("0.6"),) * 2,
        )

    def test_special_floats_add_up_by_rule(self, bench: EngineBench) -> None:
        inf, nan = float("inf"), float("nan")
        one = [(1, inf), (1, 1.0), (2, inf), (2, -inf), (3, nan), (3, 1.0)]
        two = [(1, inf), (2, nan), (3, nan)]
        tables = pair("k int, v float64", one, two)
        comparison = compare(bench, a_job(tables, aggregate_by("k", a_measure("v"))), tables)
        assert comparison.measure("v").equal == 3

    def test_rules_of_a_column_win_over_those_of_its_type(self, bench: EngineBench) -> None:
        tables = pair("k text, v text", [("a", "X")], [("A", "x")])
        rules = Normalize(
            strings=StringRules(case=Case.FOLD), columns={"v": ColumnRules(case=Case.EXACT)}
        )
        comparison = compare(bench, a_job(tables, BY_VALUE, normalize=rules), tables)
        assert (comparison.counts().matched_groups, comparison.measure("v").outside) == (1, 1)
