"""Which records of the control topic are messages of the sink."""

from dataclasses import replace

import pytest

from datarecs_application.ports.messaging import LogRecord
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import ControlHeaders, SourcePartition, StartCommit
from datarecs_kafka.control_codec import Event, encode_event
from datarecs_kafka.control_headers import EPOCH, EXPECTED, PARTS, RANGES, encode_headers
from datarecs_kafka.control_reader import envelope_of
from datarecs_testing.clock import NOON, FixedIds
from datarecs_testing.conformance.sink_log_house import a_vote, start_commit

GROUP = "datarecs.sink.one"
SENDER = FixedIds.nth(4)


def a_record(*, complete: bool = False, group: str = GROUP) -> LogRecord:
    outgoing = a_vote("orders")[1] if complete else start_commit()
    event = Event(id=FixedIds.nth(3), group=group, time=NOON, message=outgoing.message)
    return LogRecord(
        topic=GROUP,
        partition=0,
        offset=5,
        timestamp_ms=0,
        key=SENDER.bytes,
        value=encode_event(event),
        headers=tuple(encode_headers(outgoing.message, outgoing.headers)),
    )


def test_a_message_has_its_place_its_sender_and_its_time() -> None:
    envelope = envelope_of(a_record(), group=GROUP)
    assert envelope is not None
    assert (envelope.offset, envelope.sender, envelope.sent_at) == (5, SENDER, NOON)


def test_headers_of_a_vote_are_read() -> None:
    envelope = envelope_of(a_record(complete=True), group=GROUP)
    assert envelope is not None
    assert envelope.headers == a_vote("orders")[1].headers


def test_ranges_are_written_as_the_specification_says() -> None:
    vote = a_vote("orders")[1]
    assert dict(encode_headers(vote.message, vote.headers)) == {
        EPOCH: b"7",
        RANGES: b'[["orders", 0, 0, 3], ["orders", 1, 0, 0]]',
        PARTS: b"1",
    }
    headers = ControlHeaders(epoch=8, expected={SourcePartition("orders", 1): 17})
    start = StartCommit(commit_id=FixedIds.nth(1))
    assert dict(encode_headers(start, headers)) == {EPOCH: b"8", EXPECTED: b'[["orders", 1, 17]]'}


@pytest.mark.case("I34")
@pytest.mark.parametrize(
    "value",
    [None, b"", b"noise", a_record(group="cg-other").value, a_record().value[:40]],  # type: ignore[index]  # it has a value
)
def test_what_is_not_of_the_group_is_left_out(value: bytes | None) -> None:
    assert envelope_of(replace(a_record(), value=value, headers=()), group=GROUP) is None


@pytest.mark.case("I34")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"value": a_record().value[:-1]}, "bytes of"),  # type: ignore[index]  # it has a value
        ({"value": b"noise"}, "C2 01"),
        ({"key": None}, "16"),
        ({"key": b"short"}, "16"),
        ({"headers": ()}, "the header datarecs-epoch is missing"),
        ({"headers": ((EPOCH, b"x"),)}, "invalid literal"),
        ({"headers": ((EPOCH, b"1"), (EXPECTED, b"{}"))}, "not of the form"),
        ({"headers": ((EPOCH, b"1"), (EXPECTED, b"[[1]]"))}, "not enough values"),
        ({"headers": ((EPOCH, b"1"), (EXPECTED, b"[1"))}, "delimiter"),
        ({"headers": ((EPOCH, b"1"), (EXPECTED, b"\xff"))}, "decode"),
    ],
)
def test_what_is_damaged_stops_the_sink(change: dict[str, object], reason: str) -> None:
    record = replace(a_record(), **change)  # type: ignore[arg-type]  # a mixture of types
    with pytest.raises(SinkError, match=reason) as damage:
        envelope_of(record, group=GROUP)
    assert damage.value.code is SinkCode.CONTROL_DAMAGED
    assert "offset 5" in str(damage.value)


def test_a_vote_without_ranges_is_damaged() -> None:
    record = replace(a_record(complete=True), headers=((EPOCH, b"1"),))
    with pytest.raises(SinkError, match="the header datarecs-ranges is missing"):
        envelope_of(record, group=GROUP)
