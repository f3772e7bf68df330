"""Each pattern is detected in data that has it, with its constant, and not in data without it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import time, timedelta
from decimal import Decimal
from typing import Any

import pytest

from datarecs_core.comparison.expressions.syntax import parse_expression
from datarecs_core.comparison.expressions.typing import typed_expression
from datarecs_core.comparison.insight.hint_stage import hint_stage
from datarecs_core.comparison.insight.hints import Hint, hints
from datarecs_core.comparison.insight.patterns import HintRule
from datarecs_core.comparison.proof.sealed import sealed_run
from datarecs_core.jobs.definition import Breaks, Results
from datarecs_core.jobs.types import parse_type
from datarecs_core.jobs.vocabulary import MaskRule
from datarecs_core.values import EXACT
from datarecs_testing.comparisons import Compared, a_measure, absolute, compare, rows_by
from datarecs_testing.finished_runs import MemoryBench, document_of
from datarecs_testing.tables import NOON, a_job, a_table

D = Decimal


def hints_for(
    columns: str, pairs: Sequence[tuple[Any, Any]], *, mask: MaskRule | None = None
) -> tuple[Hint, ...]:
    """The hints of values `v` side by side in ledger and lake, one group each."""
    tables = [
        a_table("ledger", f"k int, v {columns}", *((at, pair[0]) for at, pair in enumerate(pairs))),
        a_table("lake", f"k int, v {columns}", *((at, pair[1]) for at, pair in enumerate(pairs))),
    ]
    breaks = Breaks(mask={} if mask is None else {"v": mask})
    job = a_job(tables, rows_by("k", a_measure("v")), results=Results(breaks=breaks))
    comparison = compare(MemoryBench(), job, tables)
    return hints_of(comparison)


def hints_of(comparison: Compared) -> tuple[Hint, ...]:
    """The hints of a comparison's one stage."""
    run = sealed_run(document_of(comparison))
    return hints(comparison.differences(), hint_stage(run, run.stages[0]))


def rules(hint_list: Sequence[Hint]) -> list[HintRule]:
    return [hint.rule for hint in hint_list]


NUMBERS = [D(at) + D("0.37") * at for at in range(1, 11)]


@pytest.mark.parametrize(
    ("columns", "pairs", "rule", "what"),
    [
        (
            "decimal(12,4)",
            [(value, value.scaleb(2, EXACT)) for value in NUMBERS],
            HintRule.CONSTANT_FACTOR,
            "lake is exactly 100 times the reference",
        ),
        (
            "decimal(12,4)",
            [(value * 3, value) for value in NUMBERS],
            HintRule.CONSTANT_FACTOR,
            "lake is exactly 1/3 times the reference",
        ),
        (
            "decimal(12,4)",
            [(value * 2, value * 5) for value in NUMBERS],
            HintRule.CONSTANT_FACTOR,
            "lake is exactly 2.5 times the reference",
        ),
        (
            "decimal(12,4)",
            [(value, -value) for value in NUMBERS],
            HintRule.SIGN_FLIP,
            "lake has the opposite sign",
        ),
        (
            "decimal(12,4)",
            [(value, value - D("2.5")) for value in NUMBERS],
            HintRule.CONSTANT_OFFSET,
            "lake differs by exactly -2.5",
        ),
        (
            "decimal(12,4)",
            [(value + D("0.0001"), value) for value in NUMBERS]
            + [(D("1.2399"), D("1.24")), (D("7.7751"), D("7.78"))] * 10,
            HintRule.ROUNDED,
            "lake is rounded to 2 places",
        ),
        (
            "decimal(12,4)",
            [(value, value + D("0.0099")) for value in NUMBERS],
            HintRule.CUT,
            "the reference is cut to 2 places",
        ),
        (
            "decimal(12,4)",
            [(None, D(0))] * 3 + [(D(0), None)] * 3,
            HintRule.NULL_FOR_ZERO,
            "lake and the reference have NULL against 0",
        ),
        (
            "text",
            [(None, "")] * 6,
            HintRule.NULL_FOR_EMPTY,
            "lake and the reference have NULL against an empty text",
        ),
        (
            "text",
            [(f"customer number {at}", "customer n") for at in range(6)],
            HintRule.CUT_TEXT,
            "texts of lake end after 10 characters",
        ),
        (
            "instant",
            [(NOON + timedelta(days=at), NOON + timedelta(days=at, hours=-1)) for at in range(6)],
            HintRule.ZONE_SHIFT,
            "lake is shifted by -1 h in v",
        ),
        (
            "instant",
            [
                (NOON + timedelta(days=at), NOON + timedelta(days=at, hours=1 + at % 2))
                for at in range(6)
            ],
            HintRule.ZONE_SHIFT,
            "lake is shifted by 1 and 2 h in v",
        ),
        (
            "instant",
            [
                (NOON + timedelta(days=at), NOON + timedelta(days=at, hours=5 if at < 6 else 9))
                for at in range(8)
            ],
            HintRule.ZONE_SHIFT,
            "lake is shifted by 5 h in v",
        ),
        (
            "instant",
            [(NOON + timedelta(days=at), NOON + timedelta(days=at, seconds=7)) for at in range(6)],
            HintRule.CONSTANT_OFFSET,
            "lake differs by exactly 7 s",
        ),
        (
            "date",
            [(NOON.date() + timedelta(at), NOON.date() + timedelta(at + 1)) for at in range(6)],
            HintRule.CONSTANT_OFFSET,
            "lake differs by exactly 1 day",
        ),
        (
            "date",
            [(NOON.date() + timedelta(at), NOON.date() + timedelta(at - 30)) for at in range(6)],
            HintRule.CONSTANT_OFFSET,
            "lake differs by exactly -30 days",
        ),
        (
            "time",
            [(time(at), time(at + 1)) for at in range(6)],
            HintRule.CONSTANT_OFFSET,
            "lake differs by exactly 3600 s",
        ),
    ],
)
def test_a_pattern_is_named_with_its_constant(
    columns: str, pairs: Sequence[tuple[Any, Any]], rule: HintRule, what: str
) -> None:
    hint_list = hints_for(columns, pairs)
    hint = next(each for each in hint_list if each.rule is rule)
    assert hint.what == what
    for expression in re.findall(r'expr: "([^"]*)"', hint.declare):
        typed_expression(parse_expression(expression), {"v": parse_type(columns)})
    assert len(hint.examples) == 3
    assert 5 <= hint.explained <= hint.of


@pytest.mark.parametrize(
    ("base", "value", "declared"),
    [
        (1, 100, ['sources[lake].columns: {v: {expr: "v * 0.01"}}']),
        (3, 1, ['sources[lake].columns: {v: {expr: "v * 3"}}']),
        (1, 3, ['sources[ledger].columns: {v: {expr: "v * 3"}}']),
        (
            2,
            3,
            [
                'sources[lake].columns: {v: {expr: "v * 2"}}',
                'sources[ledger].columns: {v: {expr: "v * 3"}}',
            ],
        ),
    ],
)
def test_a_factor_is_declared_by_products_that_are_exact(
    base: int, value: int, declared: Sequence[str]
) -> None:
    (hint,) = [
        each
        for each in hints_for(
            "decimal(12,4)",
            [(EXACT.multiply(each, D(base)), EXACT.multiply(each, D(value))) for each in NUMBERS],
        )
        if each.rule is HintRule.CONSTANT_FACTOR
    ]
    assert hint.declare == "; ".join(declared)


def test_less_than_half_or_less_than_five_lead_to_no_hint() -> None:
    doubled = [(value, EXACT.add(value, value)) for value in NUMBERS]
    wild = [(D(at), D(at * at * 10_000 + at * 123).scaleb(-4, EXACT)) for at in range(3, 14)]
    assert HintRule.CONSTANT_FACTOR not in rules(hints_for("decimal(12,4)", doubled[:4]))
    assert HintRule.CONSTANT_FACTOR in rules(hints_for("decimal(12,4)", doubled + wild[:10]))
    assert HintRule.CONSTANT_FACTOR not in rules(hints_for("decimal(12,4)", doubled + wild))


def test_one_value_alone_is_no_pattern() -> None:
    assert rules(hints_for("decimal(12,4)", [(D(5), D("7.5"))] * 8)) == []


def test_numbers_written_as_text_have_no_factor() -> None:
    pairs = [(str(at), str(2 * at)) for at in range(1, 9)]
    assert rules(hints_for("text", pairs)) == []


@pytest.mark.parametrize(
    ("ledger", "lake", "declare"),
    [
        (" {}", "{}", "trim: both"),
        ("AB{}", "ab{}", "case: fold"),
        ("e\u0301{}", "\u00e9{}", "unicode: NFC"),
        ("00{}", "{}", "cast: {k: int}"),
    ],
)
def test_keys_that_would_meet_are_named_with_their_rule(
    ledger: str, lake: str, declare: str
) -> None:
    tables = [
        a_table("ledger", "k text", *((ledger.format(at),) for at in range(1, 7))),
        a_table("lake", "k text", *((lake.format(at),) for at in range(1, 7))),
    ]
    comparison = compare(MemoryBench(), a_job(tables, rows_by("k")), tables)
    (hint,) = hints_of(comparison)
    assert hint.rule is HintRule.KEYS_MEET
    assert declare in hint.declare
    assert (hint.explained, hint.of) == (12, 12)


def test_swapped_measures_are_detected_in_both() -> None:
    tables = [
        a_table("ledger", "k int, net int, tax int", *((at, at, 7 * at) for at in range(1, 8))),
        a_table("lake", "k int, net int, tax int", *((at, 7 * at, at) for at in range(1, 8))),
    ]
    job = a_job(tables, rows_by("k", a_measure("net"), a_measure("tax")))
    hint_list = hints_of(compare(MemoryBench(), job, tables))
    hint = next(each for each in hint_list if each.rule is HintRule.SWAPPED_MEASURES)
    assert hint.declare == "sources[lake].columns: {net: {column: tax}, tax: {column: net}}"


def test_a_load_that_came_twice_is_detected() -> None:
    rows = [(at, at) for at in range(6)]
    tables = [
        a_table("ledger", "k int, v int", *rows),
        a_table("lake", "k int, v int", *rows, *rows),
    ]
    hint_list = hints_of(
        compare(MemoryBench(), a_job(tables, rows_by("k", a_measure("v"))), tables)
    )
    (hint,) = hint_list
    assert hint.what == "lake has every row of these keys 2 times"


def test_differences_within_tolerance_are_no_breaks() -> None:
    tables = [
        a_table("ledger", "k int, v int", *((at, at) for at in range(9))),
        a_table("lake", "k int, v int", *((at, at + 1) for at in range(9))),
    ]
    job = a_job(tables, rows_by("k", a_measure("v", absolute("1"))))
    comparison = compare(MemoryBench(), job, tables)
    assert comparison.differences()
    assert not hints_of(comparison)


@pytest.mark.case("P64")
@pytest.mark.parametrize("mask", list(MaskRule))
def test_masked_values_lead_to_no_hint(mask: MaskRule) -> None:
    assert (
        hints_for(
            "decimal(12,4)", [(value, value.scaleb(2, EXACT)) for value in NUMBERS], mask=mask
        )
        == ()
    )
    assert hints_for("text", [(f"secret {at}", "secr") for at in range(9)], mask=mask) == ()


def test_the_same_rows_in_any_order_lead_to_the_same_hints() -> None:
    pairs = [(value, value.scaleb(2, EXACT)) for value in NUMBERS]
    tables = [
        a_table(
            "ledger", "k int, v decimal(12,4)", *((at, one) for at, (one, _) in enumerate(pairs))
        ),
        a_table(
            "lake", "k int, v decimal(12,4)", *((at, two) for at, (_, two) in enumerate(pairs))
        ),
    ]
    comparison = compare(MemoryBench(), a_job(tables, rows_by("k", a_measure("v"))), tables)
    run = sealed_run(document_of(comparison))
    stage = hint_stage(run, run.stages[0])
    assert hints(comparison.differences()[::-1], stage) == hints(comparison.differences(), stage)


def test_measures_that_are_not_swapped_and_copies_without_a_factor_lead_to_no_hint() -> None:
    rows = [(at, at, 7 * at) for at in range(1, 8)]
    copies = [row for row in rows for _ in range(2)]
    tables = [
        a_table("ledger", "k int, net int, tax int", *copies),
        a_table("lake", "k int, net int, tax int", *copies, *rows),
        a_table(
            "edge", "k int, net int, tax int", *((k, a * k + 1, b * k * k) for k, a, b in rows)
        ),
    ]
    job = a_job(tables, rows_by("k", a_measure("net"), a_measure("tax")))
    names = ["ledger", "lake", "edge"]
    hint_list = hints_of(compare(MemoryBench(), job, tables))
    assert HintRule.SWAPPED_MEASURES not in rules(hint_list)
    assert HintRule.DUPLICATED_LOAD not in rules(hint_list)
    pair = [replace(table, name=name) for table, name in zip(tables[::2], names, strict=False)]
    one_each = [replace(each, rows=each.rows[:: 2 if each is pair[0] else 1]) for each in pair]
    job = a_job(one_each, rows_by("k", a_measure("net"), a_measure("tax")))
    hint_list = hints_of(compare(MemoryBench(), job, one_each))
    assert HintRule.SWAPPED_MEASURES not in rules(hint_list)


def test_of_very_many_breaks_the_smallest_ids_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("datarecs_core.comparison.insight.hints.MAX_BREAKS", 6)
    hint_list = hints_for(
        "decimal(12,4)", [(value, value.scaleb(2, EXACT)) for value in NUMBERS] * 3
    )
    hint = next(each for each in hint_list if each.rule is HintRule.CONSTANT_FACTOR)
    assert (hint.explained, hint.of) == (6, 6)


def windowed(columns: str, keys: Sequence[Any], *, lacked: int) -> tuple[Hint, ...]:
    """The hints where the last keys are missing in lake, and two old ones in ledger."""
    tables = [
        a_table("ledger", f"k {columns}", *((key,) for key in keys[2:])),
        a_table("lake", f"k {columns}", *((key,) for key in keys[: len(keys) - lacked])),
    ]
    comparison = compare(MemoryBench(), a_job(tables, rows_by("k")), tables)
    return hints_of(comparison)


def test_what_is_lacking_at_the_newest_day_or_hour_may_be_late() -> None:
    moments = [NOON + timedelta(minutes=at) for at in (-9000, -8000, *range(-40, 0))]
    (hint,) = windowed("instant", moments, lacked=10)
    assert (hint.rule, hint.source, hint.measure) == (HintRule.LATE_WINDOW, "lake", "$presence")
    assert (hint.explained, hint.of, len(hint.examples)) == (10, 12, 3)
    newest = "the newest hour of k, 2026-01-31T11, and may still arrive"
    assert hint.what == f"10 of 10 groups missing in lake are of {newest}"
    assert hint.declare == "stages[rows].confirm: {after: PT5M}"
    (hint,) = windowed("instant", [NOON + timedelta(hours=at) for at in range(-60, 12)], lacked=12)
    assert "12 of 12 groups missing in lake are of the newest day of k, 2026-01-31" in hint.what


@pytest.mark.parametrize(
    ("columns", "keys", "lacked"),
    [
        ("instant", [NOON - timedelta(hours=20 * at) for at in range(40, 0, -1)], 20),
        ("instant", [NOON + timedelta(minutes=at) for at in range(40)], 4),
        ("int", list(range(40)), 20),
        ("text", [f"{at:04}" for at in range(40)], 20),
    ],
)
def test_what_is_lacking_everywhere_is_not_late(
    columns: str, keys: Sequence[Any], lacked: int
) -> None:
    """Spread over many days, too few, or no times at all."""
    assert HintRule.LATE_WINDOW not in rules(windowed(columns, keys, lacked=lacked))
