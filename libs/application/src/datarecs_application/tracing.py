"""Spans: the duration of a use case or a loop step, in the trace of its run.

A separate module because every writer of the outbox passes the trace on, while
`datarecs_runtime.tracing` alone decides whether spans are recorded. Without tracing nothing is
stored or measured, and ids are passed on unchanged: they still connect log lines and events of one
run.
"""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

_TRACEPARENT = re.compile(
    r"00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
)
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


class Tracing(Protocol):
    """Names of spans are those of spec run-lifecycle 17; attributes are ids, names and numbers."""

    def span(
        self, name: str, *, parent: str | None, **attributes: str | int
    ) -> AbstractContextManager[str | None]:
        """The block as a span; returns the traceparent for child spans.

        Inside the block, spans recorded on the same thread for the same trace are children of this
        one. An exception that leaves the block marks the span as failed.
        """

    def record_span(
        self,
        name: str,
        *,
        parent: str | None,
        seconds: float,
        begins: bool = False,
        **attributes: str | int,
    ) -> None:
        """A span that has just ended.

        Args:
            name: what was done.
            parent: traceparent of the span above.
            seconds: how long it took, by the monotonic clock.
            begins: the span itself is the one that `parent` names, the first of its trace.
            attributes: ids, names and numbers.
        """

    def close(self) -> None:
        """Send what is left, for a few seconds at most. Call once, when the process ends."""


class Untraced:
    """Records nothing; a parent is passed on unchanged."""

    @contextmanager
    def span(
        self,
        name: str,  # noqa: ARG002  the port's shape
        *,
        parent: str | None,
        **attributes: str | int,  # noqa: ARG002  the port's shape
    ) -> Iterator[str | None]:
        yield parent

    def record_span(
        self,
        name: str,
        *,
        parent: str | None,
        seconds: float,
        begins: bool = False,
        **attributes: str | int,
    ) -> None:
        pass

    def close(self) -> None:
        pass


UNTRACED = Untraced()


def trace_id_of(traceparent: str | None) -> str | None:
    """The 32 hexadecimal characters that logs bind as `trace_id`; None when malformed."""
    parts = parts_of(traceparent)
    return parts[0] if parts else None


def parts_of(traceparent: str | None) -> tuple[str, str, str] | None:
    """Trace, span and flags of a W3C traceparent; None when malformed."""
    match = _TRACEPARENT.fullmatch(traceparent or "")
    if match is None or match["trace"] == _NO_TRACE or match["span"] == _NO_SPAN:
        return None
    return match["trace"], match["span"], match["flags"]
