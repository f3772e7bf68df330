"""Frames of a child about a failure, and about rows that it reads again."""

from errno import EACCES, ENOSPC

import pytest

from datarecs_application.child_frames import event_frame, failure_words, outdates, read_event
from datarecs_core.errors.security import SecretUnavailableError
from datarecs_core.errors.storage import BlobStoreUnavailableError
from datarecs_core.runs.events import RunExtractionCompleted
from datarecs_testing.builders import a_run


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (MemoryError(), "OUT_OF_MEMORY"),
        (OSError(ENOSPC, "No space left on device"), "SPILL_EXHAUSTED"),
        (OSError(EACCES, "Permission denied", "/secret/place"), "COMPARISON_FAILED"),
        (
            BlobStoreUnavailableError(where="/blobs", cause="No space left on device"),
            "RESULT_STORE_FAILED",
        ),
        (
            SecretUnavailableError(reference="env:LEDGER", cause="it is not set"),
            "CONNECTION_FAILED",
        ),
        (ValueError("row 4711 holds 12.50"), "COMPARISON_FAILED"),
    ],
)
def test_every_failure_has_a_detail_code(error: Exception, detail: str) -> None:
    words = failure_words(error)
    assert words["detail_code"] == detail


def test_a_defects_words_are_not_repeated() -> None:
    """They may hold values of rows or paths of the machine."""
    words = failure_words(ValueError("row 4711 holds 12.50"))
    assert words["message"] == "unexpected ValueError"


@pytest.mark.case("P57")
def test_rows_that_are_read_again_are_reported_with_their_stage() -> None:
    frame = event_frame("extraction_completed", extraction_index=1, rows_extracted=7)
    plain, again = read_event(a_run(), frame), read_event(a_run(), {**frame, "stage_name": "rows"})
    assert isinstance(plain, RunExtractionCompleted)
    assert isinstance(again, RunExtractionCompleted)
    assert (plain.stage_name, again.stage_name) == (None, "rows")


def test_a_later_count_of_the_same_stage_replaces_an_earlier_one() -> None:
    def count(stage: str, rows: int) -> dict[str, object]:
        return event_frame("rows_processed", stage_name=stage, row_count=rows, mismatch_count=0)

    started = event_frame("stage_started", stage_name="bank")
    assert outdates(count("bank", 9), count("bank", 3))
    assert not outdates(count("cash", 9), count("bank", 3))
    assert not outdates(started, count("bank", 3))
    assert not outdates(started, started)
