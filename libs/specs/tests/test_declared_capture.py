"""The kind Capture: faults with their places, and one canonical form that is read back."""

from datetime import timedelta

import pytest
from jsonschema import Draft202012Validator

from datarecs_core.captures.declared import Capture
from datarecs_core.captures.request import CaptureMode, Output, SnapshotChoice, SnapshotSelection
from datarecs_core.resources.resource import Kind
from datarecs_specs.documents import decode_json, decode_stored, decode_yaml
from datarecs_specs.json_schema import json_schema
from datarecs_specs.kinds import canonical_spec

FULL = """\
apiVersion: datarecs.io/v1
kind: Capture
metadata: {name: exports-stats}
spec:
  connection: exports
  mode: METADATA_AND_CAPTURE
  full_rescan: true
  scope: {tables: [default.orders, {namespace: eu.sales, name: a.b}]}
  outputs: [TABLE_STATS, COLUMN_STATS]
  columns: {choice: FIRST_N, first: 5}
  snapshots: {select: LATEST_N, latest: 3}
  execution: {class: BATCH, lane: nightly}
  interval: PT15M
"""


def places(text: str) -> list[tuple[str, int | None, int | None, str]]:
    (decoded,) = decode_yaml(text.encode())
    return [(one.code.docs_id, one.line, one.column, one.pointer) for one in decoded.faults]


def test_every_field_is_read_and_written_back() -> None:
    (decoded,) = decode_yaml(FULL.encode())
    declared, spec = decoded.require()
    assert isinstance(spec, Capture)
    assert (spec.connection, spec.mode) == ("exports", CaptureMode.METADATA_AND_CAPTURE)
    assert spec.interval == timedelta(minutes=15)
    assert spec.outputs == (Output.TABLE_STATS, Output.COLUMN_STATS)
    assert spec.snapshots == SnapshotSelection(kind=SnapshotChoice.LATEST_N, latest=3)
    assert decode_stored(Kind.CAPTURE, "", declared.spec) == spec
    assert canonical_spec(Kind.CAPTURE, spec) == declared.spec


@pytest.mark.parametrize(
    "snapshots", [{"select": "CURRENT"}, {"select": "EXPLICIT", "ids": ["9007199254740993"]}]
)
def test_a_spec_with_defaults_is_read_back(snapshots: object) -> None:
    spec = {"connection": "exports", "mode": "METADATA_ONLY", "snapshots": snapshots}
    document = {"apiVersion": "datarecs.io/v1", "kind": "Capture", "metadata": {"name": "a"}}
    declared, built = decode_json({**document, "spec": spec}).require()
    assert decode_stored(Kind.CAPTURE, "", declared.spec) == built
    assert not list(
        Draft202012Validator(json_schema(Kind.CAPTURE)).iter_errors({**document, "spec": spec})
    )


@pytest.mark.parametrize(
    ("line", "other", "fault"),
    [
        ("  interval: PT15M", "  interval: PT59S", ("DR1046", 13, 13, "/spec/interval")),
        ("  interval: PT15M", "  interval: 15m", ("DR1046", 13, 13, "/spec/interval")),
        ("  interval: PT15M", "  cron: '@daily'", ("DR1004", 13, 3, "/spec/cron")),
        ("METADATA_AND_CAPTURE", "EVERYTHING", ("DR1012", 6, 9, "/spec/mode")),
        ("COLUMN_STATS]", "FINGERPRINT]", ("DR1012", 9, 26, "/spec/outputs/1")),
        ("default.orders", "orders", ("DR1013", 8, 20, "/spec/scope/tables/0")),
        ("latest: 3", "latest: 0", ("DR1012", 11, 41, "/spec/snapshots/latest")),
        ("select: LATEST_N", "select: ALL", ("DR1009", 11, 36, "/spec/snapshots/latest")),
    ],
)
def test_a_fault_has_its_place(line: str, other: str, fault: tuple[str, int, int, str]) -> None:
    assert line in FULL
    assert fault in places(FULL.replace(line, other))


def test_all_faults_of_shape_and_meaning_are_reported_at_once() -> None:
    text = FULL.replace("  connection: exports\n", "").replace("PT15M", "PT1S")
    text = text.replace("select: LATEST_N", "select: ALL")
    assert {pointer for *_, pointer in places(text)} == {
        "/spec/connection",
        "/spec/snapshots/latest",
        "/spec/interval",
    }
