"""Retention policies: every field, every refusal with its place, and one canonical form."""

from datetime import timedelta

import pytest
from jsonschema import Draft202012Validator

from datarecs_core.resources.resource import Kind
from datarecs_core.retention.policy import (
    Lifetime,
    RetentionPolicy,
    RunLifetime,
    Target,
    Targets,
)
from datarecs_specs.documents import Decoded, decode_json, decode_stored, decode_yaml
from datarecs_specs.json_schema import json_schema
from datarecs_specs.kinds import canonical_spec

RUNS = {"targets": {"runs": {"ttl": "P90D"}}}
DAY = timedelta(days=1)
FULL = """\
apiVersion: datarecs.io/v1
kind: RetentionPolicy
metadata: {name: finance}
spec:
  job_labels: {team: finance}
  deleted_jobs: true
  targets:
    runs: {ttl: P90D, keep_last: 30}
    differences: {ttl: P30D, keep_last: 3}
    mails: {ttl: P60D}
    ticks: {ttl: P45D}
  sweep_interval: PT15M
  dry_run: true
"""


def document(spec: object) -> dict[str, object]:
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "RetentionPolicy",
        "metadata": {"name": "finance"},
        "spec": spec,
    }


def decoded(spec: object) -> Decoded:
    return decode_json(document(spec))


def test_every_field_is_read() -> None:
    (one,) = decode_yaml(FULL.encode())
    declared, spec = one.require()
    assert spec == RetentionPolicy(
        job_labels={"team": "finance"},
        deleted_jobs=True,
        targets=Targets(
            runs=RunLifetime(ttl=90 * DAY, keep_last=30),
            differences=RunLifetime(ttl=30 * DAY, keep_last=3),
            mails=Lifetime(ttl=60 * DAY),
            ticks=Lifetime(ttl=45 * DAY),
        ),
        sweep_interval=timedelta(minutes=15),
        dry_run=True,
    )
    assert decode_stored(Kind.RETENTION_POLICY, "finance", declared.spec) == spec


def test_without_more_all_jobs_of_the_namespace_are_selected_each_hour() -> None:
    declared, spec = decoded(RUNS).require()
    assert isinstance(spec, RetentionPolicy)
    assert canonical_spec(Kind.RETENTION_POLICY, spec) == {
        "targets": {"runs": {"ttl": "P90D", "keep_last": 0}},
        "job_labels": {},
        "deleted_jobs": False,
        "sweep_interval": "PT1H",
        "dry_run": False,
    }
    assert decode_stored(Kind.RETENTION_POLICY, "finance", declared.spec) == spec


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["DR1010 /targets"]),
        ({"targets": {}}, ["DR1010 /targets/runs"]),
        ({"targets": {"runs": {}}}, ["DR1010 /targets/runs/ttl"]),
        ({"targets": {"runs": {"ttl": "P6D"}}}, ["DR1046 /targets/runs/ttl"]),
        ({"targets": {"runs": {"ttl": "90 days"}}}, ["DR1046 /targets/runs/ttl"]),
        (
            {"targets": {"runs": {"ttl": "P90D", "keep_last": -1}}},
            ["DR1012 /targets/runs/keep_last"],
        ),
        ({"targets": {"differences": {"ttl": "PT1H"}}}, ["DR1046 /targets/differences/ttl"]),
        (
            {"targets": {"mails": {"ttl": "P90D", "keep_last": 3}}},
            ["DR1004 /targets/mails/keep_last"],
        ),
        (
            {"targets": {**RUNS["targets"], "deliveries": {"ttl": "P90D"}}},
            ["DR1004 /targets/deliveries"],
        ),
        ({**RUNS, "sweep_interval": "PT30S"}, ["DR1046 /sweep_interval"]),
        ({**RUNS, "job_labels": {"team": 5}}, ["DR1011 /job_labels/team"]),
        ({**RUNS, "dry_run": "yes"}, ["DR1011 /dry_run"]),
    ],
)
def test_a_bad_policy_is_reported(spec: dict[str, object], expected: list[str]) -> None:
    faults = decoded(spec).faults
    reported = [f"{one.code.docs_id} {one.pointer.removeprefix('/spec')}" for one in faults]
    assert reported == expected


@pytest.mark.parametrize(
    ("spec", "valid"),
    [
        (RUNS, True),
        ({**RUNS, "job_labels": {"team": "finance"}}, True),
        ({"targets": {"runs": {"ttl": "P90D", "keep_last": 1001}}}, False),
        ({"targets": {"reports": {"ttl": "P90D"}}}, False),
        ({"dry_run": True}, False),
    ],
)
def test_the_schema_and_the_shape_agree(spec: dict[str, object], *, valid: bool) -> None:
    validator = Draft202012Validator(json_schema(Kind.RETENTION_POLICY))
    assert (validator.is_valid(document(spec)), not decoded(spec).faults) == (valid, valid)


def test_targets_are_swept_in_a_fixed_order() -> None:
    policy = RetentionPolicy(targets=Targets(ticks=Lifetime(ttl=DAY), runs=RunLifetime(ttl=DAY)))
    assert policy.first_target() is Target.RUNS
    assert policy.target_after(Target.RUNS) is Target.TICKS
    assert policy.target_after(Target.TICKS) is None
