"""Schedules: every field, every refusal with its place, and one canonical form."""

from datetime import UTC, datetime, timedelta

import pytest
from jsonschema import Draft202012Validator

from datarecs_core.resources.resource import Kind
from datarecs_core.scheduling.schedule import Catchup, ConcurrencyPolicy, Schedule
from datarecs_specs.documents import Decoded, decode_json, decode_stored, decode_yaml
from datarecs_specs.json_schema import json_schema
from datarecs_specs.kinds import canonical_spec

NIGHTLY = {"job": "orders", "cron": "30 2 * * *"}
ALL_MISSED = {**NIGHTLY, "catchup": "all", "concurrency_policy": "Allow"}
FULL = """\
apiVersion: datarecs.io/v1
kind: Schedule
metadata: {name: nightly}
spec:
  job: orders
  cron: 30 2 * * MON-FRI
  timezone: Europe/Berlin
  start_at: 2027-01-01T00:00:00+01:00
  end_at: 2027-12-31T23:00:00Z
  suspend: true
  concurrency_policy: Allow
  catchup: all
  max_catchup: 3
  catchup_window: PT12H
  starting_deadline: PT10M
  jitter: PT2M
"""


def document(spec: object) -> dict[str, object]:
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "Schedule",
        "metadata": {"name": "nightly"},
        "spec": spec,
    }


def decoded(spec: object) -> Decoded:
    return decode_json(document(spec))


def faults_of(spec: object) -> list[str]:
    faults = decoded(spec).faults
    return [f"{one.code.docs_id} {one.pointer.removeprefix('/spec')}" for one in faults]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("max_catchup", 0),
        ("max_catchup", 101),
        ("catchup_window", "PT30S"),
        ("catchup_window", "P8D"),
        ("starting_deadline", "PT1S"),
        ("jitter", "PT61M"),
        ("start_at", "2027-01-01T00:00:00"),
        ("end_at", "soon"),
        ("start_at", "0001-01-01T00:00:00Z"),
        ("start_at", "9999-12-31T23:59:59Z"),
        ("start_at", "3000-01-01T00:00:00Z"),
        ("end_at", "1969-12-31T23:59:59Z"),
    ],
)
def test_the_fix_of_a_refused_value_is_accepted(name: str, wrong: object) -> None:
    spec = {**ALL_MISSED, name: wrong}
    (fault,) = decoded(spec).faults
    words = fault.hint.replace(",", " ").split()
    fixes = [
        int(word) if word.isdecimal() else word for word in words if word[-1] in "0123456789SMHDZ"
    ]
    assert fixes, fault.hint
    for fix in fixes:
        assert faults_of({**spec, name: fix}) == []


def test_every_field_is_read() -> None:
    (one,) = decode_yaml(FULL.encode())
    declared, spec = one.require()
    assert spec == Schedule(
        job="orders",
        cron="30 2 * * MON-FRI",
        timezone="Europe/Berlin",
        start_at=datetime(2026, 12, 31, 23, tzinfo=UTC),
        end_at=datetime(2027, 12, 31, 23, tzinfo=UTC),
        suspend=True,
        concurrency_policy=ConcurrencyPolicy.ALLOW,
        catchup=Catchup.ALL,
        max_catchup=3,
        catchup_window=timedelta(hours=12),
        starting_deadline=timedelta(minutes=10),
        jitter=timedelta(minutes=2),
    )
    assert decode_stored(Kind.SCHEDULE, "nightly", declared.spec) == spec


def test_defaults_are_those_of_a_nightly_check() -> None:
    _, spec = decoded(NIGHTLY).require()
    assert isinstance(spec, Schedule)
    assert canonical_spec(Kind.SCHEDULE, spec) == {
        "job": "orders",
        "cron": "30 2 * * *",
        "timezone": "UTC",
        "suspend": False,
        "concurrency_policy": "Forbid",
        "catchup": "latest",
        "max_catchup": 5,
        "catchup_window": "P1D",
        "jitter": "PT0S",
    }


@pytest.mark.case("R02")
def test_defaults_spelled_out_are_the_same_schedule() -> None:
    declared, _ = decoded(NIGHTLY).require()
    again, _ = decoded({"catchup": "latest", **NIGHTLY, "jitter": "PT0S"}).require()
    assert again == declared


@pytest.mark.parametrize("cron", ["@daily", "0 9-17/2 * * *", "0 0 L * *", "0 8 * * MON#2"])
def test_an_expression_is_accepted_as_it_is_written(cron: str) -> None:
    _, spec = decoded({"job": "orders", "cron": cron}).require()
    assert isinstance(spec, Schedule)
    assert spec.cron == cron


@pytest.mark.case("R40")
@pytest.mark.case("X33")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"job": "orders", "cron": "* * * * * *"}, ["DR1073 /cron"]),
        ({"job": "orders", "cron": "0 0 * * ?"}, ["DR1073 /cron"]),
        ({"job": "orders", "cron": "0 0 30 2 *"}, ["DR1073 /cron"]),
        ({"job": "orders", "cron": "60 * * * *"}, ["DR1073 /cron"]),
        ({"job": "orders", "cron": "@noon"}, ["DR1073 /cron"]),
        ({**NIGHTLY, "timezone": "Mars/X"}, ["DR1071 /timezone"]),
        ({**NIGHTLY, "timezone": "localtime"}, ["DR1071 /timezone"]),
        ({"job": "orders", "interval": "PT30S"}, ["DR1046 /interval"]),
        ({"job": "orders", "interval": "15m"}, ["DR1046 /interval"]),
        ({"job": "orders"}, ["DR1010 /cron"]),
        ({**NIGHTLY, "interval": "PT1H"}, ["DR1005 /interval"]),
        ({"cron": "30 2 * * *"}, ["DR1010 /job"]),
        ({**NIGHTLY, "job": "Orders"}, ["DR1013 /job"]),
        ({**NIGHTLY, "jitter": "PT61M"}, ["DR1046 /jitter"]),
        ({**ALL_MISSED, "max_catchup": 0}, ["DR1012 /max_catchup"]),
        ({**ALL_MISSED, "max_catchup": 101}, ["DR1012 /max_catchup"]),
        ({**NIGHTLY, "catchup_window": "P8D"}, ["DR1046 /catchup_window"]),
        ({**NIGHTLY, "starting_deadline": "PT30S"}, ["DR1046 /starting_deadline"]),
        ({**NIGHTLY, "start_at": "2027-01-01T00:00:00"}, ["DR1015 /start_at"]),
        ({**NIGHTLY, "end_at": "0001-01-01T00:00:00+10:00"}, ["DR1015 /end_at"]),
        (
            {
                **NIGHTLY,
                "start_at": "2027-01-02T00:00:00Z",
                "end_at": "2027-01-01T00:00:00Z",
            },
            ["DR1012 /end_at"],
        ),
        ({**NIGHTLY, "max_catchup": 9}, ["DR1009 /max_catchup"]),
        (
            {"job": "orders", "interval": "PT1H", "timezone": "Europe/Berlin"},
            ["DR1009 /timezone"],
        ),
        ({**NIGHTLY, "concurrency_policy": "BufferOne"}, ["DR1012 /concurrency_policy"]),
        ({**NIGHTLY, "suspend": "yes"}, ["DR1011 /suspend"]),
        ({**NIGHTLY, "history_limit": 3}, ["DR1004 /history_limit"]),
    ],
)
def test_a_bad_schedule_is_reported(spec: dict[str, object], expected: list[str]) -> None:
    assert faults_of(spec) == expected


def test_every_fault_is_reported_at_once() -> None:
    spec = {"job": "orders", "cron": "61 * * * *", "timezone": "Mars/X", "jitter": "P1D"}
    assert faults_of(spec) == ["DR1073 /cron", "DR1071 /timezone", "DR1046 /jitter"]


@pytest.mark.parametrize(
    ("spec", "valid"),
    [
        (NIGHTLY, True),
        ({"job": "orders", "interval": "PT15M", "jitter": "PT1M"}, True),
        ({**NIGHTLY, "catchup": "some"}, False),
        ({**NIGHTLY, "max_catchup": 101}, False),
        ({**NIGHTLY, "history_limit": 1}, False),
        ({"cron": "30 2 * * *"}, False),
    ],
)
def test_the_schema_and_the_shape_agree(spec: dict[str, object], *, valid: bool) -> None:
    validator = Draft202012Validator(json_schema(Kind.SCHEDULE))
    assert (validator.is_valid(document(spec)), not decoded(spec).faults) == (valid, valid)
