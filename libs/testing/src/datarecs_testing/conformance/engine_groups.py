"""How every engine counts groups and runs stages: worked examples, facts and cases, default rules.

Separate from `engine_values`, which compares single values.
"""

from decimal import Decimal

import pytest

from datarecs_core.comparison.results.payload import comparison_payload
from datarecs_core.comparison.results.results import Verdict
from datarecs_core.comparison.results.verdict import Acceptance, SkipReason
from datarecs_core.jobs.definition import Accept, Scope
from datarecs_core.jobs.vocabulary import Function, OnUnmatched
from datarecs_testing.comparisons import (
    Compared,
    EngineBench,
    a_measure,
    absolute,
    aggregate_by,
    compare,
    counting,
    rows_by,
)
from datarecs_testing.tables import Table, a_job, a_table, pair

D = Decimal
MATCHED, UNMATCHED = Verdict.MATCHED, Verdict.UNMATCHED


class GroupConformance:
    """Presence, counts, aggregates, scope and differences for N sources."""

    @pytest.fixture
    def bench(self) -> EngineBench:
        raise LookupError("a subclass gives the fixture `bench`")

    @pytest.mark.case("P20")
    @pytest.mark.case("P21")
    def test_null_keys_form_one_group_and_are_never_dropped(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(None, 1), (1, 1)], [(None, 1), (1, 1)])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        assert (comparison.verdict, comparison.counts().rows_compared) == (MATCHED, 2)
        assert comparison.counts().null_keys_by_source == (1, 1)
        assert comparison.warnings == ["NULL_KEYS_PRESENT", "NULL_KEYS_PRESENT"]

    @pytest.mark.case("P27")
    def test_equal_counts_prove_nothing_about_keys(self, bench: EngineBench) -> None:
        tables = pair("k int", [(1,), (2,)], [(3,), (4,)])
        comparison = compare(bench, a_job(tables, counting(), rows_by("k")), tables)
        assert comparison.stage("counts").verdict is MATCHED
        assert comparison.stage("rows").verdict is UNMATCHED
        assert comparison.verdict is UNMATCHED

    @pytest.mark.case("P28")
    def test_all_empty_is_matched_with_a_warning(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [], [])
        job = a_job(tables, counting(), aggregate_by("", a_measure("v")), rows_by("k"))
        comparison = compare(bench, job, tables)
        assert comparison.verdict is MATCHED
        assert comparison.warnings == ["EMPTY_SOURCES"] * 3

    @pytest.mark.case("P28")
    def test_one_empty_source_is_unmatched_by_arithmetic(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, 1)], [])
        for stage in (counting(), aggregate_by("", a_measure("v")), rows_by("k")):
            comparison = compare(bench, a_job(tables, stage), tables)
            assert (comparison.verdict, comparison.warnings) == (UNMATCHED, ["EMPTY_SOURCES"])

    @pytest.mark.case("P46")
    def test_presence_in_three_sources_is_counted_apart(self, bench: EngineBench) -> None:
        columns = "k int, v int"
        tables = [
            a_table("s0", columns, (1, 1), (2, 7)),
            a_table("s1", columns, (1, 1), (2, 7)),
            a_table("s2", columns, (2, 8)),
        ]
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        counts = comparison.counts()
        assert counts.presence == ((0b011, 1), (0b111, 1))
        assert (counts.unmatched_by_source, counts.missing_by_source) == ((1, 1, 0), (0, 0, 1))
        assert [row.odd_one_out for row in comparison.differences()] == ["s2", "s2"]
        assert counts.odd_one_out == (0, 0, 2)

    def test_two_sources_of_source_001_yield_its_numbers(self, bench: EngineBench) -> None:
        comparison = source_001(bench)
        counts = comparison.counts()
        assert counts.source_row_counts == (1000, 1005)
        assert counts.groups_by_source == (985, 1000)
        assert (counts.rows_compared, counts.rows_matched, counts.rows_unmatched) == (
            1005,
            975,
            30,
        )
        assert comparison.verdict is UNMATCHED

    @pytest.mark.case("F18")
    def test_the_data_of_source_001_yields_its_payload(self, bench: EngineBench) -> None:
        comparison = source_001(bench)
        payload = comparison_payload(
            comparison.plan.stages[0], comparison.results(), comparison.verdict
        )
        (entry,) = payload["tolerances"]
        assert payload["source_row_counts"] == {"source_0": 1000, "source_1": 1005}
        assert payload["matched_groups"] == 980
        assert payload["unmatched_by_source"] == {"source_0": 5, "source_1": 20}
        assert entry == {
            "measure_name": "total_amount",
            "tolerance_type": "ABSOLUTE",
            "tolerance_value": D("0.01"),
            "tolerance_value_exact": "0.01",
            "within_tolerance_count": 975,
            "outside_tolerance_count": 5,
            "passed": False,
        }
        assert payload["result"] == "UNMATCHED"

    def test_three_sources_yield_the_numbers_of_the_worked_example(
        self, bench: EngineBench
    ) -> None:
        comparison = three_sources(bench)
        counts = comparison.counts()
        assert dict(counts.presence) == {7: 90, 3: 4, 5: 3, 6: 2, 1: 1, 4: 5}
        assert (counts.rows_compared, counts.matched_groups, counts.unmatched_groups) == (
            105,
            90,
            15,
        )
        assert counts.unmatched_by_source == (8, 6, 10)
        assert counts.missing_by_source == (7, 9, 5)
        assert counts.groups_by_source == (98, 96, 100)
        assert (comparison.measure("amount").within, comparison.measure("amount").outside) == (
            87,
            3,
        )
        assert (counts.rows_matched, counts.rows_unmatched) == (87, 18)

    @pytest.mark.case("P46")
    @pytest.mark.parametrize(("reference", "within"), [("s0", 0), ("s1", 1)])
    def test_one_group_against_the_first_and_against_the_middle(
        self, bench: EngineBench, reference: str, within: int
    ) -> None:
        tables = hundred_and_a_cent()
        stage = rows_by("k", a_measure("v", absolute("0.01")), reference=reference)
        comparison = compare(bench, a_job(tables, stage), tables)
        assert comparison.measure("v").within == within

    @pytest.mark.case("F14")
    @pytest.mark.case("E9")
    def test_every_row_read_is_grouped(self, bench: EngineBench) -> None:
        comparison = source_001(bench)
        assert [closure.extracted for closure in comparison.results().closure] == [1000, 1005]
        assert all(closure.closed for closure in comparison.results().closure)

    @pytest.mark.case("P56")
    def test_escalation_sees_only_the_differing_groups_rows(self, bench: EngineBench) -> None:
        """3 of 10,000 accounts differ; the unscoped run compares only the rows of these."""
        differ = {3, 7, 9_999}
        accounts = [(a, n, a * n) for a in range(10_000) for n in range(1 + 2 * (a in differ))]
        changed = [(a, n, v + (a in differ) * (n == 1)) for a, n, v in accounts]
        tables = pair("account int, n int, v int", accounts, changed)
        first = aggregate_by("account", a_measure("v"), on_unmatched=OnUnmatched.ESCALATE)
        second = rows_by("account n", a_measure("v"))
        comparison = compare(bench, a_job(tables, first, second), tables)
        assert comparison.counts("groups").rows_unmatched == len(differ)
        alone = pair(
            "account int, n int, v int",
            [row for row in accounts if row[0] in differ],
            [row for row in changed if row[0] in differ],
        )
        unscoped = compare(bench, a_job(alone, second), alone)
        assert comparison.counts("rows") == unscoped.counts()
        assert comparison.results("rows").measures == unscoped.results().measures
        assert comparison.stored["rows"] == unscoped.stored["rows"]
        assert [each.out_of_scope for each in comparison.results("rows").closure] == [9_997, 9_997]

    @pytest.mark.case("F20")
    def test_a_stage_with_nothing_in_scope_is_skipped(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, 1)], [(1, 1)])
        second = rows_by("k", a_measure("v"), scope=Scope(from_stage="groups"))
        comparison = compare(bench, a_job(tables, aggregate_by("k"), second), tables)
        assert comparison.stage("rows").skipped is SkipReason.NOTHING_IN_SCOPE
        assert (comparison.verdict, len(comparison.progress)) == (MATCHED, 1)

    @pytest.mark.case("P58")
    def test_acceptance_never_changes_the_verdict(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(k, 0) for k in range(9)], [(k, k // 6) for k in range(9)])
        stage = rows_by("k", a_measure("v"), accept=Accept(max_outside=5))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert (comparison.measure("v").outside, comparison.verdict) == (3, UNMATCHED)
        assert comparison.outcome.acceptance is Acceptance.ACCEPTED

    def test_aggregate_functions_count_and_choose(self, bench: EngineBench) -> None:
        rows = [("a", 3), ("a", None), ("a", 3), ("a", 1)]
        tables = pair("k text, v int", rows, rows)
        measures = [
            a_measure(function.value, function=function, column="v")
            for function in Function
            if function not in {Function.VALUE, Function.AVG}
        ]
        stage = aggregate_by("k", a_measure("n", function=Function.COUNT), *measures)
        comparison = compare(bench, a_job(tables, stage), tables)
        totals = {each.name: each.total_by_source[0] for each in comparison.results().measures}
        assert totals == {
            "n": 4,
            "count": 3,
            "count_distinct": 2,
            "sum": 7,
            "min": 1,
            "max": 3,
        }

    def test_a_grand_total_is_one_group_that_every_source_has(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, 1), (2, 2)], [(9, 3)])
        comparison = compare(bench, a_job(tables, aggregate_by("", a_measure("v"))), tables)
        assert (comparison.verdict, comparison.counts().groups_by_source) == (MATCHED, (1, 1))

    def test_rows_without_dimensions_are_grouped_whole(self, bench: EngineBench) -> None:
        tables = pair("a int, b text", [(1, "x"), (1, "x"), (2, "y")], [(1, "x"), (2, "z")])
        stage = rows_by("", a_measure("a"), a_measure("b"))
        comparison = compare(bench, a_job(tables, stage), tables)
        assert (comparison.counts().rows_compared, comparison.counts().matched_groups) == (3, 1)
        assert comparison.measure("$rows").outside == 1
        assert comparison.results().measures == ()

    def test_gaps_count_missing_groups_with_their_whole_value(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, 10), (2, 5)], [(1, 12), (3, 7)])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        measure = comparison.measure("v")
        assert measure.total_by_source == (D(15), D(19))
        assert measure.gap_by_source == (D(0), D(4))

    @pytest.mark.case("F15")
    def test_the_waterfall_adds_up(self, bench: EngineBench) -> None:
        tables = pair("k int, v int", [(1, 10), (2, 5)], [(1, 12), (3, 7)])
        comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
        only_two, only_one, changed = 7, 5, 2
        assert comparison.measure("v").gap_by_source[1] == only_two - only_one + changed

    @pytest.mark.case("F16")
    def test_break_ids_are_stable_whatever_the_class(self, bench: EngineBench) -> None:
        stage = rows_by("k", a_measure("v"))
        ids = set()
        for other in (2, None):
            tables = pair("k int, v int", [(1, 1)], [(1, other)])
            ids |= {
                row.break_id for row in compare(bench, a_job(tables, stage), tables).differences()
            }
        assert len(ids) == 1

    @pytest.mark.case("F12")
    def test_the_order_of_rows_changes_no_difference_and_no_digest(
        self, bench: EngineBench
    ) -> None:
        one = [(k, n) for k in range(20) for n in range(2)]
        two = [(k, n + (k % 5 == 0)) for k, n in one if k % 7]
        stage = rows_by("k", a_measure("n"))
        straight = pair("k int, n int", one, two)
        shuffled = pair("k int, n int", one[::-1], [*two[7:], *two[:7]])
        first = compare(bench, a_job(straight, stage), straight)
        second = compare(bench, a_job(shuffled, stage), shuffled)
        assert first.results().counts == second.results().counts
        assert first.results().differences.digest == second.results().differences.digest

    def test_where_limits_rows_before_they_are_grouped(self, bench: EngineBench) -> None:
        rows = [(1, "OK", 5), (2, "VOID", 6), (3, None, 7)]
        tables = pair("k int, status text, v int", rows, rows[:1])
        stage = rows_by("k", a_measure("v"), where="status <> 'VOID'")
        comparison = compare(bench, a_job(tables, stage), tables)
        assert (comparison.verdict, comparison.counts().source_row_counts) == (MATCHED, (1, 1))
        assert comparison.results().closure[0].out_of_scope == 2

    def test_progress_has_mismatches_only_in_the_last_report(self, bench: EngineBench) -> None:
        comparison = source_001(bench)
        *early, last = comparison.progress
        assert (last.row_count, last.mismatch_count) == (2005, 30)
        assert all(report.mismatch_count == 0 for report in early)


def source_001(bench: EngineBench) -> Compared:
    """The sample of Source 001: rows 1000 and 1005, 980 common accounts, 5 outside."""
    common = [(k, D(k)) for k in range(980)]
    one = [*common, *((k, D(0)) for k in range(15)), *((k, D(1)) for k in range(2000, 2005))]
    changed = [(k, v + D("0.02")) if k < 5 else (k, v) for k, v in common]
    two = [*changed, *((k, D(0)) for k in range(5)), *((k, D(1)) for k in range(3000, 3020))]
    tables = pair("account int, amount decimal(12,2)", one, two)
    measure = a_measure("total_amount", absolute("0.01"), column="amount")
    return compare(bench, a_job(tables, aggregate_by("account", measure)), tables)


def three_sources(bench: EngineBench) -> Compared:
    """Section 6, N = 3: masks s2 s1 s0 with 111: 90, 011: 4, 101: 3, 110: 2, 001: 1, 100: 5."""
    masks = [7] * 90 + [3] * 4 + [5] * 3 + [6] * 2 + [1] + [4] * 5
    tables = [
        a_table(
            f"s{index}",
            "k int, amount decimal(10,2)",
            *(
                (k, D("0.05") if index == 1 and k < 3 else D(0))
                for k, mask in enumerate(masks)
                if mask >> index & 1
            ),
        )
        for index in range(3)
    ]
    stage = rows_by("k", a_measure("amount", absolute("0.01")))
    return compare(bench, a_job(tables, stage), tables)


def hundred_and_a_cent() -> list[Table]:
    """Section 6, one group: 100.00, 100.01, 100.02."""
    return [
        a_table(f"s{index}", "k int, v decimal(10,2)", (1, D("100.00") + index * D("0.01")))
        for index in range(3)
    ]
