"""Fields of a capture request that do not belong together."""

from dataclasses import replace
from typing import Any

import pytest

from datarecs_core.captures.request import (
    CaptureMode,
    CapturePolicy,
    CaptureScope,
    ColumnChoice,
    ObjectName,
    Output,
    SnapshotChoice,
    SnapshotSelection,
)
from datarecs_core.captures.rules import request_faults
from datarecs_core.errors.faults import pointer
from datarecs_testing.captured_files import capture_request

ORDERS = ObjectName(namespace=("sales",), name="orders")
METADATA = {"mode": CaptureMode.METADATA_ONLY, "policy": CapturePolicy()}
VIEW: dict[str, Any] = {**METADATA, "scope": CaptureScope(view=ORDERS), "selection": None}
STATS = (Output.TABLE_STATS,)


def faults(**changes: Any) -> list[str]:  # noqa: ANN401  fields
    return [pointer(fault.path) for fault in request_faults(replace(capture_request(), **changes))]


ACCEPTED: list[dict[str, Any]] = [
    {},
    METADATA,
    VIEW,
    {"scope": CaptureScope(namespaces=(("sales",),))},
    {"mode": CaptureMode.CAPTURE_ONLY, "scope": CaptureScope(tables=(ORDERS,))},
    {"selection": SnapshotSelection(kind=SnapshotChoice.LATEST_N, latest=1)},
    {"selection": SnapshotSelection(kind=SnapshotChoice.EXPLICIT, snapshot_ids=(0,))},
    {**METADATA, "is_full_rescan": True},
]


@pytest.mark.parametrize("changes", ACCEPTED)
def test_complete_requests_are_accepted(changes: dict[str, Any]) -> None:
    assert faults(**changes) == []


REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"policy": CapturePolicy()}, ["/outputs"]),
    ({"mode": CaptureMode.METADATA_ONLY}, ["/outputs"]),
    ({"mode": CaptureMode.CAPTURE_ONLY}, ["/scope/tables"]),
    (
        {
            "mode": CaptureMode.CAPTURE_ONLY,
            "scope": CaptureScope(namespaces=(("sales",),), tables=(ORDERS,)),
        },
        ["/scope/tables", "/scope/namespaces"],
    ),
    ({"scope": CaptureScope(view=ORDERS), "selection": None}, ["/mode"]),
    ({**VIEW, "scope": CaptureScope(view=ORDERS, namespaces=(("sales",),))}, ["/scope/view"]),
    ({**VIEW, "selection": SnapshotSelection(kind=SnapshotChoice.ALL)}, ["/snapshots"]),
    ({"selection": None}, ["/snapshots"]),
    ({"selection": SnapshotSelection(kind=SnapshotChoice.LATEST_N)}, ["/snapshots/latest"]),
    (
        {"selection": SnapshotSelection(kind=SnapshotChoice.CURRENT, latest=2, snapshot_ids=(1,))},
        ["/snapshots/latest", "/snapshots/ids"],
    ),
    ({"selection": SnapshotSelection(kind=SnapshotChoice.EXPLICIT)}, ["/snapshots/ids"]),
    (
        {
            "policy": CapturePolicy(
                outputs=(Output.COLUMN_STATS,), column_choice=ColumnChoice.EXPLICIT_ONLY
            )
        },
        ["/columns/names"],
    ),
    (
        {
            "policy": CapturePolicy(
                outputs=(Output.COLUMN_STATS,),
                column_choice=ColumnChoice.ALL,
                first_columns=3,
                columns=("id",),
            )
        },
        ["/columns/names", "/columns/first"],
    ),
    ({"policy": CapturePolicy(outputs=STATS, first_columns=3)}, ["/columns"]),
    (
        {"scope": CaptureScope(namespaces=tuple((str(n),) for n in range(1001)))},
        ["/scope/namespaces"],
    ),
]


@pytest.mark.case("Q43")
@pytest.mark.parametrize(("changes", "pointers"), REFUSED)
def test_each_rule_is_reported_at_its_field(changes: dict[str, Any], pointers: list[str]) -> None:
    assert faults(**changes) == pointers


@pytest.mark.case("Q43")
def test_two_violations_are_two_errors() -> None:
    request = replace(capture_request(), policy=CapturePolicy(), selection=None)
    assert [pointer(fault.path) for fault in request_faults(request)] == [
        "/outputs",
        "/snapshots",
    ]
