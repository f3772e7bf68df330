"""Captures in documents: read, written back, and refused with line and column."""

import jsonschema
import pytest

from datarecs_core.captures.request import ObjectName
from datarecs_specs.capture_shape import CAPTURE, capture_of, read_capture, written_capture
from datarecs_specs.findings import located
from datarecs_specs.reading import Reading
from datarecs_specs.yaml_source import read_yaml

FULL = {
    "connection": "lake",
    "mode": "METADATA_AND_CAPTURE",
    "full_rescan": True,
    "scope": {"tables": ['"eu.sales".orders', "default.t"]},
    "outputs": ["COLUMN_STATS", "PARQUET_PAGE_INDEX"],
    "columns": {"choice": "FIRST_N", "first": 5},
    "snapshots": {"select": "EXPLICIT", "ids": ["9223372036854775807", "1"]},
    "execution": {"class": "BATCH", "lane": "fast"},
}


def test_a_document_is_written_as_it_was_read() -> None:
    capture, findings = capture_of(FULL)
    assert findings == ()
    assert capture is not None
    written = written_capture(capture)
    assert written == {**FULL, "columns": {"first": 5}}
    assert capture_of(written)[0] == capture


def test_a_name_is_a_text_or_a_mapping() -> None:
    scope = {"tables": [{"namespace": "a.b", "name": "t.u"}, 'a.b."t.u"']}
    capture, _ = capture_of({**FULL, "scope": scope})
    assert capture is not None
    assert capture.scope.tables == (ObjectName(namespace=("a", "b"), name="t.u"),) * 2
    namespaces, _ = capture_of({**FULL, "scope": {"namespaces": ["a.b", ["c.d"]]}})
    assert namespaces is not None
    assert namespaces.scope.namespaces == (("a", "b"), ("c.d",))


@pytest.mark.case("Q43")
def test_a_fault_of_a_file_has_its_line_and_column() -> None:
    text = b"connection: lake\nmode: METADATA_ONLY\nsnapshots: {select: ALL, latest: 3}\n"
    (document,) = read_yaml(text)
    assert document.node is not None
    reading = Reading()
    assert read_capture(document.node, ("spec",), reading) is None
    (finding,) = located(reading, document=0, root=None)
    assert (finding.pointer, finding.line, finding.column) == ("/spec/snapshots/latest", 3, 34)


@pytest.mark.parametrize(
    ("scope", "pointer"),
    [
        ({"namespaces": [[]]}, "/scope/namespaces/0"),
        ({"namespaces": [["a", ""]]}, "/scope/namespaces/0/1"),
        ({"namespaces": [5]}, "/scope/namespaces/0"),
        ({"tables": [{"name": "t"}]}, "/scope/tables/0/namespace"),
        ({"tables": [".".join(["a"] * 34)]}, "/scope/tables/0"),
        ({"tables": ["a.b\u0000"]}, "/scope/tables/0"),
        ({"view": "v"}, "/scope/view"),
    ],
)
def test_a_broken_name_has_one_fault(scope: object, pointer: str) -> None:
    capture, findings = capture_of({**FULL, "scope": scope})
    assert capture is None
    assert [one.pointer for one in findings] == [pointer]


def test_the_schema_accepts_what_is_read() -> None:
    validator = jsonschema.Draft202012Validator(CAPTURE.schema())
    validator.validate(FULL)
    assert not validator.is_valid({**FULL, "outputs": ["FINGERPRINT"]})
    assert not validator.is_valid({**FULL, "priority": 1})
