"""Spans as a collector gets them: ids, parents, failures, nothing that no trace may hold."""

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from datarecs_application.tracing import UNTRACED, parts_of
from datarecs_core.errors.process import SettingsError
from datarecs_runtime import tracing
from datarecs_runtime.sections import Otel
from datarecs_runtime.span_export import ExportedTracing
from datarecs_runtime.tracing import arrival, tracing_of
from datarecs_testing.span_collector import span_collector

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


class Collector:
    """A tracing whose spans can be inspected."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracing = ExportedTracing("test", SimpleSpanProcessor(self.exporter))

    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def only(self) -> ReadableSpan:
        (span,) = self.spans()
        return span


@pytest.fixture
def collector() -> Collector:
    return Collector()


def ids_of(span: ReadableSpan) -> tuple[str, str]:
    return format_trace_id(span.context.trace_id), format_span_id(span.context.span_id)


def parent_of(span: ReadableSpan) -> str | None:
    return None if span.parent is None else format_span_id(span.parent.span_id)


def test_a_span_stands_below_the_traceparent_it_receives(collector: Collector) -> None:
    with collector.tracing.span("event.handle", parent=PARENT, group="g") as here:
        pass
    span = collector.only()
    assert (span.name, parent_of(span), ids_of(span)[0]) == ("event.handle", SPAN, TRACE)
    assert dict(span.attributes or {}) == {"datarecs.group": "g"}
    parts = parts_of(here)
    assert parts is not None
    assert parts[:2] == ids_of(span)


def test_what_is_logged_within_a_span_of_its_trace_stands_below_it(collector: Collector) -> None:
    with collector.tracing.span("event.handle", parent=PARENT):
        collector.tracing.record_span("run.close", parent=PARENT, seconds=0.5)
        collector.tracing.record_span("other", parent=f"00-{'a' * 32}-{SPAN}-01", seconds=0)
    close, other, handle = collector.spans()
    assert parent_of(close) == ids_of(handle)[1]
    assert parent_of(other) == SPAN
    assert close.start_time is not None
    assert close.end_time is not None
    assert close.end_time - close.start_time == 500_000_000


def test_the_first_span_of_a_trace_is_the_one_its_traceparent_names(collector: Collector) -> None:
    collector.tracing.record_span("run.trigger", parent=PARENT, seconds=0.1, begins=True)
    assert ids_of(collector.only()) == (TRACE, SPAN)
    assert collector.only().parent is None
    collector.tracing.record_span("next", parent=PARENT, seconds=0)
    assert ids_of(collector.spans()[1])[1] != SPAN


def test_the_first_span_stands_below_the_caller_that_sent_a_traceparent(
    collector: Collector,
) -> None:
    arrived = arrival(PARENT)
    collector.tracing.record_span("run.trigger", parent=arrived, seconds=0.1, begins=True)
    parts = parts_of(arrived)
    assert parts is not None
    assert ids_of(collector.only()) == parts[:2]
    assert parent_of(collector.only()) == SPAN
    arrival(None)
    assert tracing.caller_of(arrived) is None


def test_a_caller_that_is_not_sampled_makes_no_span(collector: Collector) -> None:
    with collector.tracing.span("event.handle", parent=f"00-{TRACE}-{SPAN}-00"):
        pass
    assert collector.spans() == ()


def test_a_failure_is_named_and_its_words_stay_out(collector: Collector) -> None:
    with (
        pytest.raises(ValueError, match="secret row"),
        collector.tracing.span("run.attempt", parent=None),
    ):
        raise ValueError("secret row 4711")
    span = collector.only()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError")
    assert span.events == ()


@pytest.mark.parametrize("parent", [None, "", "nonsense"])
def test_without_a_trace_a_span_begins_one(collector: Collector, parent: str | None) -> None:
    with collector.tracing.span("event.handle", parent=parent) as here:
        pass
    assert collector.only().parent is None
    assert parts_of(here) is not None


def test_attributes_pass_the_net_of_logs(collector: Collector) -> None:
    collector.tracing.record_span(
        "x", parent=PARENT, seconds=0, api_key="k", where="https://u:p@h/x", attempt=3
    )
    attributes = dict(collector.only().attributes or {})
    assert attributes == {"datarecs.where": "https://***@h/x", "datarecs.attempt": 3}


def test_unconfigured_nothing_is_recorded_or_imported() -> None:
    assert tracing_of(Otel(), "x") is UNTRACED
    with UNTRACED.span("x", parent=PARENT, a=1) as here:
        assert here == PARENT
    UNTRACED.record_span("x", parent=PARENT, seconds=0)
    UNTRACED.close()
    program = (
        "import sys, datarecs_runtime.process, datarecs_runtime.tracing as t, datarecs_runtime."
        "sections as s; t.tracing_of(s.Otel(), 'x');"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_endpoint_without_the_extra_refuses_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datarecs_runtime.span_export", None)
    with pytest.raises(SettingsError, match="otlp"):
        tracing_of(Otel(endpoint="http://collector:4318"), "x")


@pytest.mark.integration
def test_spans_leave_over_otlp_at_the_latest_when_the_process_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # of the environment, so ignored
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    with span_collector() as collector:
        exported = tracing_of(Otel(endpoint=collector.endpoint), "core-api")
        exported.record_span("run.trigger", parent=PARENT, seconds=0, begins=True, attempt=1)
        exported.close()
    (span,) = collector.spans()
    assert collector.paths == ["/v1/traces"]
    assert (span.service, span.name, span.parent_id) == ("core-api", "run.trigger", "")
    assert (span.trace_id, span.span_id) == (TRACE, SPAN)
    assert span.attributes == {"datarecs.attempt": 1}


@pytest.mark.integration
def test_a_collector_that_is_away_costs_spans_and_little_time() -> None:
    exported = tracing_of(Otel(endpoint="http://127.0.0.1:1"), "core-api")
    exported.record_span("run.trigger", parent=PARENT, seconds=0, begins=True)
    exported.close()
