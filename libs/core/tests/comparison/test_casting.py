from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.comparison.planning.rules import STRICT
from datarecs_core.comparison.values.canonical import NULL, Value, canonical_text, invalid
from datarecs_core.comparison.values.casting import Cast, Zones, castable, needs_zone
from datarecs_core.comparison.values.preparing import Preparation
from datarecs_core.comparison.values.translating import canonical
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType

D = Decimal
PARIS = {"Europe/Paris": ZoneInfo("Europe/Paris")}


def cast_of(
    value: object, kind: CanonicalType, target: CanonicalType, zone: str | None = None
) -> Value:
    made = Cast(target=target, zone=zone, source="one", zones=Zones(known=PARIS))
    return made.apply(canonical(value, kind, "one"))


@pytest.mark.case("P38")
@pytest.mark.case("P41")
@pytest.mark.parametrize(
    ("value", "kind", "target", "written"),
    [
        ("0.30", types.TEXT, types.decimal(10, 2), "0.3"),
        ("7", types.TEXT, types.INT, "7"),
        ("0.1", types.TEXT, types.FLOAT64, "0.1"),
        ("0.1", types.TEXT, types.FLOAT32, "0.1"),
        ("true", types.TEXT, types.BOOL, "true"),
        ('{"a": 1.0}', types.TEXT, types.JSON, '{"a":1}'),
        ("2026-01-31", types.TEXT, types.DATE, "2026-01-31"),
        (7, types.INT, types.decimal(3, 2), "7"),
        (D("7.00"), types.decimal(5, 2), types.INT, "7"),
        (0.5, types.FLOAT64, types.decimal(2, 1), "0.5"),
        (float("nan"), types.FLOAT64, types.FLOAT32, "NaN"),
        (float("nan"), types.FLOAT32, types.FLOAT64, "NaN"),
        (True, types.BOOL, types.TEXT, "true"),
        (date(2026, 1, 31), types.DATE, types.LOCAL_TIMESTAMP, "2026-01-31T00:00:00"),
        (datetime(1500, 3, 1), types.LOCAL_TIMESTAMP, types.DATE, "1500-03-01"),  # noqa: DTZ001 - naive on purpose
        (D("Infinity"), types.LOCAL_TIMESTAMP, types.DATE, "Inf"),
    ],
)
def test_a_cast_preserves_the_whole_value(
    value: object, kind: CanonicalType, target: CanonicalType, written: str
) -> None:
    assert canonical_text(cast_of(value, kind, target)) == written


@pytest.mark.case("P41")
@pytest.mark.parametrize(
    ("value", "kind", "target"),
    [
        (" 7 ", types.TEXT, types.INT),
        ("+7", types.TEXT, types.INT),
        ("7.5", types.TEXT, types.INT),
        ("1e0", types.TEXT, types.decimal(10, 2)),
        ("1.005", types.TEXT, types.decimal(10, 2)),
        ("yes", types.TEXT, types.BOOL),
        ("{", types.TEXT, types.JSON),
        ("2026-01-31T00:00:00", types.TEXT, types.INSTANT),
        (2**63, types.INT, types.INT),
        (float("inf"), types.FLOAT64, types.INT),
        (100, types.INT, types.decimal(2, 0)),
        (D("0.1234567890123456789"), types.decimal(20, 19), types.FLOAT64),
        (0.1, types.FLOAT64, types.decimal(38, 0)),
        (2**24 + 1, types.INT, types.FLOAT32),
        (datetime(2026, 1, 31, 1), types.LOCAL_TIMESTAMP, types.DATE),  # noqa: DTZ001 - naive on purpose
    ],
)
def test_a_cast_that_would_lose_something_is_invalid(
    value: object, kind: CanonicalType, target: CanonicalType
) -> None:
    assert cast_of(value, kind, target).is_invalid


def test_null_and_invalid_pass_a_cast() -> None:
    assert cast_of(None, types.TEXT, types.INT) == NULL
    broken = cast_of(b"\xff", types.TEXT, types.INT)
    assert broken == invalid("one", b"\xff")


@pytest.mark.case("P37")
@pytest.mark.parametrize(
    ("local", "instant", "ambiguous"),
    [
        (datetime(2026, 7, 1, 12), datetime(2026, 7, 1, 10, tzinfo=UTC), 0),  # noqa: DTZ001 - naive on purpose
        (datetime(2026, 3, 29, 2, 30), datetime(2026, 3, 29, 1, 30, tzinfo=UTC), 1),  # noqa: DTZ001 - naive on purpose
        (datetime(2026, 10, 25, 2, 30), datetime(2026, 10, 25, 0, 30, tzinfo=UTC), 1),  # noqa: DTZ001 - naive on purpose
    ],
)
def test_a_local_time_takes_the_offset_before_the_change(
    local: datetime, instant: datetime, ambiguous: int
) -> None:
    zones = Zones(known=PARIS)
    cast = Cast(target=types.INSTANT, zone="Europe/Paris", source="one", zones=zones)
    made = cast.apply(canonical(local, types.LOCAL_TIMESTAMP, "one"))
    assert made == canonical(instant, types.INSTANT, "one")
    assert sum(zones.ambiguous.values()) == ambiguous


@pytest.mark.case("P38")
@pytest.mark.parametrize("micros", [D("Infinity"), D(10**18), D(-(10**18))])
def test_zones_hold_beyond_pythons_years(micros: Decimal) -> None:
    there = Cast(
        target=types.INSTANT, zone="Europe/Paris", source="one", zones=Zones(known=PARIS)
    ).apply(canonical(micros, types.LOCAL_TIMESTAMP, "one"))
    back = Cast(
        target=types.LOCAL_TIMESTAMP, zone="Europe/Paris", source="one", zones=Zones(known=PARIS)
    ).apply(there)
    assert back.content == micros


def test_instants_become_dates_in_the_sources_zone() -> None:
    evening = datetime(2026, 6, 30, 22, tzinfo=UTC)
    made = cast_of(evening, types.INSTANT, types.DATE, zone="Europe/Paris")
    assert canonical_text(made) == "2026-07-01"


def test_naive_texts_become_instants_through_the_zone() -> None:
    made = cast_of("2026-07-01 12:00:00", types.TEXT, types.INSTANT, zone="Europe/Paris")
    assert canonical_text(made) == "2026-07-01T10:00:00Z"


@pytest.mark.parametrize(
    ("one", "other", "possible"),
    [
        (types.INT, types.FLOAT32, True),
        (types.TEXT, types.INSTANT, True),
        (types.TEXT, types.BINARY, False),
        (types.INTERVAL, types.TEXT, True),
        (types.BINARY, types.TEXT, False),
        (types.DATE, types.LOCAL_TIMESTAMP, True),
        (types.BOOL, types.INT, False),
    ],
)
def test_some_casts_exist_and_others_do_not(
    one: CanonicalType, other: CanonicalType, *, possible: bool
) -> None:
    assert castable(one, other) is possible


def test_only_casts_between_naive_and_aware_need_a_zone() -> None:
    assert needs_zone(types.LOCAL_TIMESTAMP, types.INSTANT)
    assert needs_zone(types.INSTANT, types.DATE)
    assert not needs_zone(types.DATE, types.LOCAL_TIMESTAMP)
    assert not needs_zone(types.TEXT, types.INSTANT)


def test_a_listed_value_is_read_as_the_columns_type() -> None:
    plan = InputPlan(column="v", type=types.INT, mapped=True, map=(("1", "10"), ("2", "x")))
    prepare = Preparation(source="one", plan=plan, rules=STRICT, zones=Zones(known={}))
    made = [prepare.apply(canonical(value, types.INT, "one")) for value in (1, 2, 3, None)]
    assert [canonical_text(value) for value in made] == ["10", "INVALID(0x78)", "3", None]


def test_unlisted_values_still_take_the_declared_cast() -> None:
    plan = InputPlan(
        column="v", type=types.decimal(4, 1), mapped=True, map=(("1", "2"),), cast=types.INT
    )
    prepare = Preparation(source="one", plan=plan, rules=STRICT, zones=Zones(known={}))
    made = prepare.apply(canonical(D("1.5"), types.decimal(4, 1), "one"))
    assert made.is_invalid
