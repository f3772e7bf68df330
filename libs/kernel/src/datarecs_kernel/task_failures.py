"""Report the error of a source from a task to the engine that started it.

A task returns a document if no step follows, and raises one if other tasks wait for its rows. No
message quotes a value.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from datarecs_core.errors.run import RunDetail
from datarecs_kernel.database import Connection
from datarecs_kernel.delivered import Delivered
from datarecs_kernel.layout import Layout
from datarecs_kernel.reading_failures import DatabaseError, has_invalid_text, reading_failure
from datarecs_kernel.refusals import SourceFailedError
from datarecs_kernel.size_limits import too_large


class InvalidTextsError(Exception):
    """A text is not UTF-8: the stage must be read with `check_texts`."""


class TaskFailureError(Exception):
    """A source cannot be read; the text contains the reason, for engines that send only text."""

    def __init__(self, document: Mapping[str, str]) -> None:
        super().__init__(f"datarecs:task-failure:{json.dumps(dict(document)).encode().hex()}")
        self.document = document


@contextmanager
def report_failures(
    connection: Connection, layout: Layout, sources: Sequence[Delivered], *, check_texts: bool
) -> Iterator[None]:
    """Raise failures of reading the sources as TaskFailureError.

    Args:
        connection: of their relations.
        layout: of these.
        sources: the list may grow inside the block.
        check_texts: text that is not UTF-8 is not a failure.
    """
    try:
        yield
    except SourceFailedError as failure:
        raise TaskFailureError(_failed(failure)) from failure
    except DatabaseError as failure:
        if not check_texts and has_invalid_text(failure):
            raise TaskFailureError({"outcome": "texts"}) from failure
        meaning = reading_failure(connection, failure, layout, sources)
        if isinstance(meaning, SourceFailedError):
            raise TaskFailureError(_failed(meaning)) from failure
        if meaning is not None:
            raise TaskFailureError({"outcome": "large", "limit": str(failure)}) from failure
        raise


def _failed(failure: SourceFailedError) -> dict[str, str]:
    reason = str(failure).removeprefix(f"source {failure.source}: ")
    code = failure.code.name
    return {"outcome": "failed", "code": code, "source": failure.source, "reason": reason}


def raise_failure(document: Mapping[str, str], layout: Layout) -> None:
    """Raise the failure that a task has reported.

    Raises:
        InvalidTextsError: the stage must be read with `check_texts`.
        DatarecsError: a source cannot be read, or a value is above its limit.
    """
    match document["outcome"]:
        case "texts":
            raise InvalidTextsError
        case "large":
            raise too_large(ValueError(document["limit"]), layout) or ValueError(document["limit"])
        case _:
            code = RunDetail[document["code"]]
            raise SourceFailedError(code, document["source"], document["reason"])
