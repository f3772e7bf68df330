"""What delivery says in the log and in the trace: static names, ids bound once, no content."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog
from structlog.typing import EventDict

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.state import Transaction
from datarecs_core.values import EventId
from datarecs_events.codec import EncodedEvent, Received, Stamp, encode
from datarecs_testing.consuming import GROUP, INFRA, World
from datarecs_testing.spans import RecordedTracing

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


log = structlog.get_logger()


@pytest.fixture
def world() -> World:
    return World()


@contextmanager
def captured() -> Iterator[list[EventDict]]:
    """Lines with what is bound."""
    with structlog.testing.capture_logs(
        processors=[structlog.contextvars.merge_contextvars]
    ) as entries:
        yield entries


def of(entries: list[EventDict], event: str) -> EventDict:
    (line,) = (one for one in entries if one["event"] == event)
    return line


def traced(world: World) -> EncodedEvent:
    """An event of a run with a known trace, on the topic."""
    stamp = Stamp(
        event_id=EventId(world.ids.new()), time=world.clock.now(), sequence=1, traceparent=PARENT
    )
    encoded = encode(world.completed(), stamp)
    world.log.append(
        INFRA, key=encoded.key_bytes, value=encoded.data, headers=encoded.headers, partition=0
    )
    return encoded


def test_ids_are_bound_once_for_all_that_a_handler_says(world: World) -> None:
    def handler(_tx: Transaction, _received: Received) -> None:
        log.info("handler_speaks")

    encoded = traced(world)
    with captured() as entries:
        world.consume(handler)
    line = of(entries, "handler_speaks")
    assert (line["group"], line["event_id"]) == (GROUP, encoded.attributes["id"])
    assert (line["tenant_id"], line["trace_id"]) == (str(world.tenant), TRACE)


def test_a_refused_record_is_reported_by_reason_and_place_without_its_content(world: World) -> None:
    encoded = world.encoded()
    world.log.append(
        INFRA,
        key=encoded.key_bytes,
        value=b'{"amount": "4711.50"',
        headers=encoded.headers,
        partition=0,
    )
    with captured() as entries:
        world.consume()
    line = of(entries, "event_refused")
    assert (line["group"], line["reason"], line["topic"]) == (GROUP, "BAD_JSON", INFRA)
    assert (line["partition"], line["offset"], line["alarm"]) == (0, 0, False)
    assert "4711" not in str(entries)
    assert world.metrics.total("codec_refused_total", group=GROUP, reason="BAD_JSON") == 1


def test_a_partition_that_waits_is_reported_with_its_cause_and_pause(world: World) -> None:
    def away(_tx: Transaction, _received: Received) -> None:
        raise StoreUnavailableError(cause="the server is gone")

    world.publish()
    with captured() as entries:
        world.consume(away, seconds=0.1)
    line = next(one for one in entries if one["event"] == "partition_paused")
    assert (line["group"], line["topic"], line["code"]) == (GROUP, INFRA, "STORE_UNAVAILABLE")
    assert line["pause_s"] > 0
    # Without a database no partition can do better, so all three wait.
    assert world.metrics.last("consumer_paused_partitions", group=GROUP) == 3


@pytest.mark.parametrize("together", [1, 5])
def test_an_event_is_handled_in_its_trace_alone_or_with_others(
    world: World, *, together: int
) -> None:
    encoded = [traced(world), traced(world)]
    consumer = world.consumer(lambda _tx, _received: log.info("speaks"), together=together)
    spans = RecordedTracing()
    consumer._handling.tracing = spans  # noqa: SLF001  as passed at construction
    with captured() as lines:
        consumer.run(world.after(5))
    assert [span.name for span in spans.spans] == ["event.handle"] * 2
    assert {span.parent for span in spans.spans} == {PARENT}
    seen = [span.attributes["event_id"] for span in spans.spans]
    assert seen == [one.attributes["id"] for one in encoded]
    assert [line["event_id"] for line in lines if line["event"] == "speaks"] == seen
