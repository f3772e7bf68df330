"""A capture as it is written down, and the request that it makes."""

from dataclasses import replace

import pytest

from datarecs_core.captures.document import CaptureDocument, document_of
from datarecs_core.captures.request import (
    CaptureMode,
    CaptureRequest,
    CaptureScope,
    ColumnChoice,
    ObjectName,
    Output,
    SnapshotChoice,
    SnapshotSelection,
)
from datarecs_core.errors.faults import Gap
from datarecs_testing.captured_files import capture_request

VIEW = ObjectName(namespace=("sales",), name="open_orders")


@pytest.mark.parametrize(
    "request_",
    [
        capture_request(),
        capture_request(is_full_rescan=True, mode=CaptureMode.CAPTURE_ONLY),
        capture_request(
            mode=CaptureMode.METADATA_ONLY, scope=CaptureScope(view=VIEW), selection=None
        ),
        replace(
            capture_request(),
            policy=replace(
                capture_request().policy,
                column_choice=ColumnChoice.EXPLICIT_ONLY,
                columns=("id", "amount"),
            ),
        ),
    ],
)
def test_a_document_makes_the_request_it_was_made_from(request_: CaptureRequest) -> None:
    document = document_of(request_, "lake")
    assert document.connection == "lake"
    assert document.request(request_.connection_uid) == request_


def test_a_draft_without_a_mode_has_the_faults_of_every_mode() -> None:
    latest = SnapshotSelection(kind=SnapshotChoice.LATEST_N)
    draft = CaptureDocument(
        connection="lake",
        mode=Gap(),  # type: ignore[arg-type]  # as a draft has it
        outputs=(Output.TABLE_STATS,),
        snapshots=latest,
    )
    assert [fault.path for fault in draft.faults()] == [("snapshots", "latest")]
    metadata = replace(draft, mode=CaptureMode.METADATA_ONLY)
    assert [fault.path for fault in metadata.faults()] == [
        ("outputs",),
        ("snapshots", "latest"),
    ]
