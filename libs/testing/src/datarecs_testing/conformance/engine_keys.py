"""A key in the spelling of a source finds the same as the stored key, for every rule and type.

Separate from `engine_rules` because it tests the stored keys of engines and the keys that users
type.
"""

from collections.abc import Mapping
from datetime import date, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from datarecs_core.comparison.insight.key_lookup import KeyReading, zones_of
from datarecs_core.comparison.proof.sealed import sealed_run
from datarecs_core.jobs.definition import (
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
    Rounding,
    TimePrecision,
    Trim,
    UnicodeForm,
)
from datarecs_testing.comparisons import EngineBench, a_measure, compare, rows_by
from datarecs_testing.finished_runs import MemoryBench, document_of
from datarecs_testing.tables import NOON, a_job, pair

D = Decimal
LOCAL = NOON.replace(tzinfo=None)
SUMMER = LOCAL.replace(month=7)
UUID_TEXT = "00112233-4455-6677-8899-aabbccddeeff"


def strings(**rules: object) -> Normalize:
    return Normalize(strings=StringRules(**rules))  # type: ignore[arg-type]  # any rule of text


CASES: Mapping[str, tuple[str, Any, str, Any, str, Normalize, dict[str, Any]]] = {
    "nothing": ("text", "a", "a", "a", "a", Normalize(), {}),
    "case": ("text", "ACME", "ACME", "Acme", "Acme", strings(case=Case.FOLD), {}),
    "trim": ("text", " a ", " a ", "a", "a", strings(trim=Trim.BOTH), {}),
    "left": ("text", " a ", " a ", "a ", "a ", strings(trim=Trim.LEFT), {}),
    "unicode": (
        "text",
        "e\u0301",
        "e\u0301",
        "\u00e9",
        "\u00e9",
        strings(unicode=UnicodeForm.NFC),
        {},
    ),
    "nfkc": ("text", "\ufb01", "\ufb01", "fi", "fi", strings(unicode=UnicodeForm.NFKC), {}),
    "empty": ("text", "", "", "", "", strings(empty=EmptyText.NULL), {}),
    "all": (
        "text",
        " \ufb01RM ",
        " \ufb01RM ",
        "firm",
        "firm",
        strings(case=Case.FOLD, trim=Trim.BOTH, unicode=UnicodeForm.NFKC),
        {},
    ),
    "round": (
        "decimal(9,3)",
        D("1.234"),
        "1.234",
        D("1.230"),
        "1.230",
        Normalize(numbers=NumberRules(round=2)),
        {},
    ),
    "written": ("decimal(9,3)", D("5.100"), "5.100", D("5.1"), "5.1", Normalize(), {}),
    "float32": (
        "float32",
        0.10000000149011612,
        "0.10000000149011612",
        0.10000000149011612,
        "0.1",
        Normalize(numbers=NumberRules(float32=Float32Rule.SHORTEST)),
        {},
    ),
    "precision": (
        "local_timestamp",
        LOCAL + timedelta(microseconds=7),
        "2026-01-31 12:00:00.000007",
        LOCAL,
        "2026-01-31T12:00:00",
        Normalize(timestamps=TimestampRules(precision=TimePrecision.SECONDS)),
        {},
    ),
    "half even": (
        "time",
        time(10, 0, 0, 600_000),
        "10:00:00.6",
        time(10, 0, 1),
        "10:00:01",
        Normalize(
            timestamps=TimestampRules(precision=TimePrecision.SECONDS, rounding=Rounding.HALF_EVEN)
        ),
        {},
    ),
    "offset": (
        "instant",
        NOON,
        "2026-01-31T13:00:00+01:00",
        NOON.astimezone(timezone(timedelta(hours=5))),
        "2026-01-31 12:00:00Z",
        Normalize(),
        {},
    ),
    "json": (
        "json",
        '{"a": [2, 1]}',
        '{"a": [2, 1]}',
        '{"a":[1,2]}',
        '{"a":[1,2]}',
        Normalize(json=JsonRules(arrays=ArrayRule.SET)),
        {},
    ),
    "uuid": (
        "uuid",
        UUID(UUID_TEXT),
        UUID_TEXT.upper(),
        UUID(UUID_TEXT),
        UUID_TEXT,
        Normalize(),
        {},
    ),
    "date": (
        "date",
        date(2026, 1, 2),
        "2026-01-02",
        date(2026, 1, 2),
        "2026-01-02",
        Normalize(),
        {},
    ),
    "bool": ("bool", True, "true", True, "true", Normalize(), {}),
    "int": ("int", 7, "7", 7, "7", Normalize(), {}),
    "zone": (
        "local_timestamp",
        SUMMER,
        "2026-07-31 12:00:00",
        SUMMER,
        "2026-07-31T12:00:00",
        Normalize(),
        {"one": {"timezone": "Europe/Paris"}, "two": {"timezone": "Europe/Paris"}},
    ),
}
"""By name: the type; value and text of the key in one source, then in the other; rules; sources."""


class KeyLookupConformance:
    """Stored keys and typed ones."""

    @pytest.mark.parametrize("name", list(CASES))
    def test_the_key_of_each_source_finds_what_the_stored_key_finds(
        self, bench: EngineBench, name: str
    ) -> None:
        kind, first, first_text, second, second_text, normalize, sources = CASES[name]
        tables = pair(f"k {kind}, v int", [(first, 1)], [(second, 2)])
        job = a_job(tables, rows_by("k", a_measure("v")), normalize=normalize, sources=sources)
        comparison = compare(bench, job, tables)
        (row,) = comparison.differences("v")
        assert row.raw_keys == compare(MemoryBench(), job, tables).differences("v")[0].raw_keys
        run = sealed_run(document_of(comparison))
        zones = {zone: ZoneInfo(zone) for zone in zones_of(run)}
        reading = KeyReading(run=run, stage=run.stages[0], zones=zones)
        for typed in {first_text, second_text, row.key[0] or ""}:
            assert row.key in reading.meant([typed]), typed
        assert row.key not in reading.meant(["no such key"])
