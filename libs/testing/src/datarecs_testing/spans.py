"""Spans that a test can read back: the Tracing port in memory, with ids that show their number."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from datarecs_application.tracing import parts_of, trace_id_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSpan:
    name: str
    traceparent: str | None
    parent: str | None
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    failed: bool = False

    @property
    def trace_id(self) -> str | None:
        return trace_id_of(self.traceparent)


class RecordedTracing:
    """Port Tracing."""

    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []
        self._lock = threading.Lock()

    @contextmanager
    def span(
        self, name: str, *, parent: str | None, **attributes: str | int
    ) -> Iterator[str | None]:
        traceparent = self._below(parent)
        failed = True
        try:
            yield traceparent
            failed = False
        finally:
            self._record(
                RecordedSpan(
                    name=name,
                    traceparent=traceparent,
                    parent=parent,
                    attributes=attributes,
                    failed=failed,
                )
            )

    def record_span(
        self,
        name: str,
        *,
        parent: str | None,
        seconds: float,
        begins: bool = False,
        **attributes: str | int,
    ) -> None:
        assert seconds >= 0
        traceparent, above = (parent, None) if begins else (self._below(parent), parent)
        self._record(
            RecordedSpan(name=name, traceparent=traceparent, parent=above, attributes=attributes)
        )

    def close(self) -> None:
        pass

    def names(self) -> list[str]:
        return [one.name for one in self.spans]

    def _below(self, parent: str | None) -> str | None:
        parts = parts_of(parent)
        number = len(self.spans) + 1
        return None if parts is None else f"00-{parts[0]}-{number:016x}-{parts[2]}"

    def _record(self, span: RecordedSpan) -> None:
        with self._lock:
            self.spans.append(span)
