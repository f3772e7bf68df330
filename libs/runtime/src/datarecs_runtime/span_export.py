"""Sends spans to an OpenTelemetry collector over OTLP/HTTP.

The only module that uses OpenTelemetry; it is imported only if an endpoint is configured. Spans are
sent in batches on a separate thread; an unavailable collector loses spans, but never stops a run.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from datarecs_application.tracing import parts_of
from datarecs_runtime.redaction import is_secret_key, redact
from datarecs_runtime.tracing import caller_of

Attributes = Mapping[str, str | int]

PATH = "/v1/traces"
EXPORT_TIMEOUT_S = 3.0
NANOSECONDS = 1_000_000_000


class _Ids(RandomIdGenerator):
    """Random ids, unless ids are preset for the next span."""

    def __init__(self) -> None:
        self.preset: ContextVar[SpanContext | None] = ContextVar("preset", default=None)

    def generate_trace_id(self) -> int:
        preset = self.preset.get()
        return preset.trace_id if preset else super().generate_trace_id()

    def generate_span_id(self) -> int:
        preset = self.preset.get()
        return preset.span_id if preset else super().generate_span_id()


class ExportedTracing:
    """Implements the port Tracing."""

    def __init__(self, service: str, processor: SpanProcessor) -> None:
        """Send spans to the processor, with the service's name."""
        self._ids = _Ids()
        self._provider = TracerProvider(
            resource=Resource({SERVICE_NAME: service}),
            id_generator=self._ids,
            shutdown_on_exit=False,  # the drain of the process closes it
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("datarecs")

    @classmethod
    def to(cls, endpoint: str, service: str) -> Self:
        """Create it for the collector at this address, such as `http://collector:4318`."""
        import requests  # noqa: PLC0415  importing it opens a socket

        direct = requests.Session()
        direct.trust_env = False  # proxies and logins come from settings, not from the environment
        exporter = OTLPSpanExporter(
            endpoint.rstrip("/") + PATH,
            headers={},
            timeout=EXPORT_TIMEOUT_S,
            compression=Compression.Gzip,
            session=direct,
        )
        return cls(service, BatchSpanProcessor(exporter, schedule_delay_millis=1000))

    @contextmanager
    def span(
        self, name: str, *, parent: str | None, **attributes: str | int
    ) -> Iterator[str | None]:
        with self._tracer.start_as_current_span(
            name,
            context=self._below(parent),
            attributes=_safe(attributes),
            record_exception=False,  # its text may have data that traces must not have
            set_status_on_exception=False,
        ) as span:
            try:
                yield _text(span.get_span_context())
            except BaseException as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise

    def record_span(
        self,
        name: str,
        *,
        parent: str | None,
        seconds: float,
        begins: bool = False,
        **attributes: str | int,
    ) -> None:
        ended = time.time_ns()
        preset = _context_of(parent) if begins else None
        above = self._below(caller_of(parent) if begins else parent)
        token = self._ids.preset.set(preset)
        try:
            span = self._tracer.start_span(
                name,
                context=above,
                attributes=_safe(attributes),
                start_time=ended - int(seconds * NANOSECONDS),
            )
        finally:
            self._ids.preset.reset(token)
        span.end(end_time=ended)

    def close(self) -> None:
        self._provider.force_flush(int(EXPORT_TIMEOUT_S * 1000))
        self._provider.shutdown()

    def _below(self, parent: str | None) -> Context | None:
        """None: a child of the current span, in the same trace."""
        above = _context_of(parent)
        if above is None:
            return Context()
        if trace.get_current_span().get_span_context().trace_id == above.trace_id:
            return None
        return set_span_in_context(NonRecordingSpan(above), Context())


def _context_of(traceparent: str | None) -> SpanContext | None:
    parts = parts_of(traceparent)
    if parts is None:
        return None
    ids, flags = (int(parts[0], 16), int(parts[1], 16)), TraceFlags(int(parts[2], 16))
    return SpanContext(*ids, is_remote=True, trace_flags=flags)


def _text(context: SpanContext) -> str:
    ids = f"{trace.format_trace_id(context.trace_id)}-{trace.format_span_id(context.span_id)}"
    return f"00-{ids}-{context.trace_flags:02x}"


def _safe(attributes: Attributes) -> Attributes:
    """Ids, names and numbers with the product's prefix, redacted as in logs."""
    return {
        f"datarecs.{name}": redact(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if not is_secret_key(name)
    }
