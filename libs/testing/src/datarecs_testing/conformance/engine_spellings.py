"""Every engine stores the spelling of each source with the compared key.

Separate from `engine_keys`, which tests the keys that users type.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal

import pytest

from datarecs_core.comparison.results.differences import COMPARE_KEY, masked
from datarecs_core.jobs.definition import (
    Breaks,
    ColumnRules,
    Normalize,
    NullRules,
    Results,
    Scope,
    Stage,
    StringRules,
)
from datarecs_core.jobs.types import parse_type
from datarecs_core.jobs.vocabulary import Case, EmptyText, MaskRule, NullKeys, Trim
from datarecs_testing.comparisons import (
    Compared,
    EngineBench,
    a_measure,
    aggregate_by,
    compare,
    rows_by,
)
from datarecs_testing.tables import a_job, a_table, pair

FOLDED = Normalize(strings=StringRules(case=Case.FOLD, trim=Trim.BOTH, empty=EmptyText.NULL))
STAGES = [
    pytest.param(rows_by("k", a_measure("v")), id="row"),
    pytest.param(aggregate_by("k", a_measure("v")), id="aggregate"),
]
Spellings = Mapping[tuple[str | None, ...], Mapping[str, str]]


def spellings(comparison: Compared, stage: str | None = None) -> Spellings:
    """By key of a stage, or of the only one; all differences of a key show the same."""
    shown: dict[tuple[str | None, ...], dict[str, str]] = {}
    for row in comparison.stored[stage or comparison.stage().plan.name]:
        assert shown.setdefault(row.key, dict(row.raw_keys)) == dict(row.raw_keys)
    return shown


def check_samples(comparison: Compared) -> None:
    """Samples show what the stored differences do."""
    stored = {row.break_id: row.raw_keys for row in comparison.differences()}
    samples = comparison.results().differences.samples
    assert samples
    assert all(stored[row.break_id] == row.raw_keys for row in samples)


class SpellingConformance:
    """Stored differences and samples."""

    @pytest.mark.parametrize("stage", STAGES)
    def test_of_many_spellings_of_one_key_three_are_shown_with_their_number(
        self, bench: EngineBench, stage: Stage
    ) -> None:
        first = [("acmE", 1), ("ACME", 1), ("Acme", 1), (" ACME", 1), ("ACME", 1), ("Equal", 5)]
        tables = pair("k text, v int", first, [("acme", 9), ("equal", 5), ("New", 1), ("old", 1)])
        comparison = compare(bench, a_job(tables, stage, normalize=FOLDED), tables)
        assert spellings(comparison) == {
            ("acme",): {"one": " ACME; ACME; Acme (4 spellings)"},
            ("new",): {"two": "New"},
            ("old",): {},
        }
        check_samples(comparison)

    @pytest.mark.parametrize("keys", ["k d", "d k"])
    @pytest.mark.parametrize("by", [rows_by, aggregate_by])
    def test_a_key_of_two_parts_is_shown_whole(
        self,
        bench: EngineBench,
        by: Callable[..., Stage],
        keys: str,
    ) -> None:
        first = [("A", 1, 1), ("a", 1, 1), ("a", 2, 1), (None, 2, 1)]
        tables = pair("k text, d int, v int", first, [("a", 1, 3), ("A ", 2, 7)])
        comparison = compare(
            bench, a_job(tables, by(keys, a_measure("v")), normalize=FOLDED), tables
        )
        shown: dict[str, Spellings] = {
            "k d": {
                ("a", "1"): {"one": "A, 1; a, 1"},
                ("a", "2"): {"two": "A , 2"},
                (None, "2"): {},
            },
            "d k": {
                ("1", "a"): {"one": "1, A; 1, a"},
                ("2", "a"): {"two": "2, A "},
                ("2", None): {},
            },
        }
        assert spellings(comparison) == shown[keys]

    @pytest.mark.parametrize("stage", STAGES)
    def test_texts_that_count_as_null_are_shown(self, bench: EngineBench, stage: Stage) -> None:
        tables = pair("k text, v int", [("", 1), (None, 1), (" ", 1)], [(None, 9)])
        comparison = compare(bench, a_job(tables, stage, normalize=FOLDED), tables)
        assert spellings(comparison) == {(None,): {"one": ";  ; NULL"}}

    @pytest.mark.parametrize("stage", STAGES)
    def test_keys_that_are_left_out_show_nothing(self, bench: EngineBench, stage: Stage) -> None:
        tables = pair("k text, v int", [("", 1), ("A", 1)], [("a", 9)])
        rules = replace(FOLDED, nulls=NullRules(keys=NullKeys.EXCLUDE))
        comparison = compare(bench, a_job(tables, stage, normalize=rules), tables)
        assert spellings(comparison) == {("a",): {"one": "A"}}

    @pytest.mark.parametrize("stage", STAGES)
    def test_texts_before_a_cast_are_shown_even_where_the_cast_fails(
        self, bench: EngineBench, stage: Stage
    ) -> None:
        tables = [
            a_table("one", "k text, v int", ("7.00", 1), ("7", 1), ("x", 1)),
            a_table("two", "k decimal(9,2), v int", (Decimal(7), 9)),
        ]
        cast = {"one": {"cast": {"k": parse_type("decimal(9,2)")}}}
        comparison = compare(bench, a_job(tables, stage, sources=cast), tables)
        assert spellings(comparison) == {
            ("7",): {"one": "7; 7.00"},
            ("INVALID(0x78)",): {"one": "x"},
        }

    @pytest.mark.parametrize("stage", STAGES)
    def test_a_hashed_key_shows_hashes_of_its_spellings(
        self, bench: EngineBench, stage: Stage
    ) -> None:
        tables = pair("k text, v int", [("ACME", 1), ("Acme", 1), ("", 1)], [("acme", 9)])
        rules = Results(breaks=Breaks(mask={"k": MaskRule.HASH}))
        comparison = compare(bench, a_job(tables, stage, normalize=FOLDED, results=rules), tables)
        hashes = sorted(masked(COMPARE_KEY, MaskRule.HASH, each) or "" for each in ("ACME", "Acme"))
        assert spellings(comparison) == {
            (masked(COMPARE_KEY, MaskRule.HASH, "acme"),): {"one": "; ".join(hashes)},
            (None,): {"one": masked(COMPARE_KEY, MaskRule.HASH, "")},
        }
        check_samples(comparison)

    @pytest.mark.parametrize("stage", STAGES)
    def test_a_redacted_key_shows_no_spelling(self, bench: EngineBench, stage: Stage) -> None:
        tables = pair("k text, v int", [("ACME", 1), ("Acme", 1)], [("acme", 9)])
        rules = Results(breaks=Breaks(mask={"k": MaskRule.REDACT}))
        comparison = compare(bench, a_job(tables, stage, normalize=FOLDED, results=rules), tables)
        assert spellings(comparison) == {("***",): {}}

    def test_without_a_rule_of_keys_there_are_no_spellings(self, bench: EngineBench) -> None:
        tables = pair("k text, v text", [("ACME", "1")], [("ACME", "9")])
        rules = Normalize(columns={"v": ColumnRules(case=Case.FOLD)})
        job = a_job(tables, rows_by("k", a_measure("v")), normalize=rules)
        assert spellings(compare(bench, job, tables)) == {("ACME",): {}}

    def test_stored_rows_of_too_many_differences_show_their_spellings(
        self, bench: EngineBench
    ) -> None:
        first = [(f"K{at}", at) for at in range(20)]
        second = [(f"k{at}", 3 * at) for at in range(20)]
        tables = pair("k text, v int", first, second)
        few = Results(breaks=Breaks(max_rows=3))
        job = a_job(tables, rows_by("k", a_measure("v")), normalize=FOLDED, results=few)
        comparison = compare(bench, job, tables)
        assert comparison.results().differences.truncated
        assert spellings(comparison) == {(f"k{at}",): {"one": f"K{at}"} for at in (17, 18, 19)}
        check_samples(comparison)

    def test_a_scoped_stage_shows_the_spellings_of_its_rows(self, bench: EngineBench) -> None:
        first = [("A", "X", 1), ("b", "X", 1), ("A", "x ", 2)]
        tables = pair("g text, k text, v int", first, [("a", "x", 9), ("b", "x", 1)])
        stages = (
            aggregate_by("g", a_measure("v")),
            rows_by(
                "g k", a_measure("v"), scope=Scope(from_stage="groups"), where="v < 2 OR v > 3"
            ),
        )
        comparison = compare(bench, a_job(tables, *stages, normalize=FOLDED), tables)
        assert spellings(comparison, "groups") == {("a",): {"one": "A"}}
        assert spellings(comparison, "rows") == {("a", "x"): {"one": "A, X"}}

    def test_digest_and_proof_know_nothing_of_spellings(self, bench: EngineBench) -> None:
        stage = rows_by("k", a_measure("v"))
        digests = []
        for written in ("ACME", "acme "):
            tables = pair("k text, v int", [(written, 1)], [("acme", 9)])
            comparison = compare(bench, a_job(tables, stage, normalize=FOLDED), tables)
            digests.append(comparison.results().differences.digest)
        assert digests[0] == digests[1]
