"""What a child says of a failure."""

from errno import EACCES, ENOSPC

import pytest

from datarecs_application.child_frames import failure_words
from datarecs_core.errors.security import SecretUnavailableError
from datarecs_core.errors.storage import BlobStoreUnavailableError


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
