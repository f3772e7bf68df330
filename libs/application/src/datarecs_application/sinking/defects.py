"""Say where an exception happened that nobody expected, since its text may hold values.

Kept apart because the worker, the commit and the report all need the same words.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from datarecs_core.errors.base import DatarecsError


class DefectError(Exception):
    """Place and class of an exception; the exception is the cause."""

    def __init__(self, place: str, cause: Exception) -> None:
        super().__init__(f"{place}: {defect_words(cause)}")


def defect_words(cause: Exception) -> str:
    """For people, without the text of the exception."""
    name = type(cause).__name__
    return f"{name}, a defect of datarecs; the log of iceberg-sink has the details"


@contextmanager
def located(place: str) -> Iterator[None]:
    """Raises DefectError for an exception that the product does not define."""
    try:
        yield
    except (DatarecsError, DefectError):
        raise
    except Exception as cause:
        raise DefectError(place, cause) from cause
