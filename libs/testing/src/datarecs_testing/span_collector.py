"""A collector of traces as OTLP/HTTP exporters see it: what was sent to it can be read back.

A separate module because only the collector has the spans of several processes.
"""

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedSpan:
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    """Empty for the first of its trace."""
    attributes: Mapping[str, str | int]


@dataclass(slots=True, kw_only=True)
class SpanCollector:
    """What has arrived; safe between threads."""

    endpoint: str = ""
    paths: list[str] = field(default_factory=list)
    _spans: list[CollectedSpan] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def spans(self) -> list[CollectedSpan]:
        with self._lock:
            return list(self._spans)

    def of_trace(self, trace_id: str) -> list[CollectedSpan]:
        return [span for span in self.spans() if span.trace_id == trace_id]

    def take(self, path: str, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        spans = [
            _collected(_text(resource.resource.attributes, "service.name"), span)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        with self._lock:
            self.paths.append(path)
            self._spans += spans


def _collected(service: str, span: Span) -> CollectedSpan:
    return CollectedSpan(
        service=service,
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        attributes={one.key: _value(one.value) for one in span.attributes},
    )


def _text(attributes: object, key: str) -> str:
    texts = {one.key: one.value.string_value for one in attributes}  # type: ignore[attr-defined]  # a repeated field of protobuf
    return str(texts.get(key, ""))


def _value(value: AnyValue) -> str | int:
    return value.int_value if value.HasField("int_value") else value.string_value


@contextmanager
def span_collector() -> Iterator[SpanCollector]:
    """A collector on loopback for as long as the block lasts."""
    collector = SpanCollector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name is the base class's
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            collector.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
