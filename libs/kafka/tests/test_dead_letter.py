"""Whatever was read can be written as a dead letter, and comes back byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_application.ports.messaging import LogRecord, NotSent
from datarecs_kafka.dead_letter import DeadLetter, DeadLetters, headers_of, letter_of
from datarecs_memory.message_log import MessageLog
from datarecs_testing.clock import ManualClock

GROUP = "email-notifier"
NAMES = st.one_of(
    st.text(max_size=20),
    st.binary(max_size=8).map(lambda raw: raw.decode(errors="surrogateescape")),
    st.sampled_from(["dlq_reason", "dlq_headers", "ce_id"]),
)


def a_record(
    *,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: tuple[tuple[str, bytes | None], ...] = (("ce_id", b"1"),),
) -> LogRecord:
    return LogRecord(
        topic="datarecs.run.platform",
        partition=2,
        offset=17,
        timestamp_ms=1_768_000_000_000,
        key=key,
        value=value,
        headers=headers,
    )


def a_letter(record: LogRecord, *, error: str = "why") -> DeadLetter:
    return DeadLetter(record=record, reason="BAD_JSON", error=error, attempts=3)


def parked(letter: DeadLetter) -> LogRecord:
    log = MessageLog(ManualClock(), {f"{GROUP}.dlq": 3})
    assert DeadLetters(client=log, group=GROUP, clock=log.clock).park(letter) is None
    (record,) = log.records(f"{GROUP}.dlq")
    return record


@pytest.mark.case("L15")
@given(
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=50),
    headers=st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=20)), max_size=5),
)
def test_a_record_comes_back_intact(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    """Null keys, values and headers, names that are no UTF-8, names that resemble ours."""
    record = a_record(key=key, value=value, headers=tuple(headers))
    back = letter_of(parked(a_letter(record)))
    assert (back.record, back.reason, back.error, back.attempts) == (record, "BAD_JSON", "why", 3)


@pytest.mark.case("L15")
def test_headers_that_can_be_sent_stay_headers() -> None:
    record = parked(a_letter(a_record()))
    assert record.headers[0] == ("ce_id", b"1")
    assert "dlq_headers" not in dict(record.headers)


@pytest.mark.case("L15")
def test_a_null_header_moves_the_whole_list_into_one() -> None:
    record = parked(a_letter(a_record(headers=(("ce_id", b"1"), ("ce_type", None)))))
    names = [name for name, _ in record.headers]
    assert "dlq_headers" in names
    assert not [name for name in names if name.startswith("ce_")]


def test_the_letter_names_where_when_and_why() -> None:
    names = dict(parked(a_letter(a_record())).headers)
    assert {name: names[name] for name in names if name.startswith("dlq_")} == {
        "dlq_group": b"email-notifier",
        "dlq_topic": b"datarecs.run.platform",
        "dlq_partition": b"2",
        "dlq_offset": b"17",
        "dlq_timestamp": b"1768000000000",
        "dlq_reason": b"BAD_JSON",
        "dlq_error": b"why",
        "dlq_attempts": b"3",
        "dlq_failed_at": b"2026-01-15T12:00:00.000000Z",
        "dlq_version": b"1",
    }


def test_the_error_is_cut_at_512_bytes_between_two_characters() -> None:
    headers = dict(headers_of(a_letter(a_record(), error="€" * 300), group=GROUP))
    assert headers["dlq_error"].decode() == "€" * 170


def test_a_refusing_broker_is_reported_and_nothing_is_lost() -> None:
    log = MessageLog(ManualClock(), {f"{GROUP}.dlq": 3})
    letters = DeadLetters(client=log, group=GROUP, clock=log.clock)
    log.refuse(f"{GROUP}.dlq", NotSent("disk full", permanent=False))
    assert letters.park(a_letter(a_record())) == "disk full"
    log.outage(down=True)
    assert letters.park(a_letter(a_record())) == "a test simulates an outage"


def test_a_foreign_record_is_no_letter() -> None:
    with pytest.raises(ValueError, match="no dead letter"):
        letter_of(a_record())
