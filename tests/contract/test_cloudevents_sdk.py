"""The public CloudEvents library as witness: it reads what we write, we read what it writes.

Where it is too lenient for us (D22), the same input is pinned as one that ours refuses.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.kafka import (
    KafkaMessage,
    from_binary_event,
    from_structured_event,
    to_binary_event,
    to_structured_event,
)
from cloudevents.core.exceptions import CloudEventValidationError
from cloudevents.core.v1.event import CloudEvent

from datarecs_core.values import EventId
from datarecs_events.catalogue import CATALOGUE, EventDef
from datarecs_events.codec import (
    EncodedEvent,
    Received,
    Refused,
    Stamp,
    decode,
    encode,
    to_structured,
)
from datarecs_events.examples import example_of, examples_of

STAMP = Stamp(
    event_id=EventId(UUID("0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c01")),
    time=datetime(2026, 11, 20, 6, 14, 3, 120455, tzinfo=UTC),
    sequence=17,
    caused_by=EventId(UUID("0198c0de-7a0c-7b11-8d02-6a1f0c9be4aa")),
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)
every_example = pytest.mark.parametrize(
    ("one", "name"),
    [(one, name) for one in CATALOGUE for name in examples_of(one)],
    ids=lambda part: part.short_name if isinstance(part, EventDef) else part,
)


def ours(one: EventDef, name: str) -> EncodedEvent:
    stamp = STAMP if one.kind.is_numbered else replace(STAMP, sequence=None)
    return encode(examples_of(one)[name], stamp)


def as_text(event: BaseCloudEvent) -> dict[str, str]:
    """The library's attributes in our form: it holds `time` as a datetime."""
    attributes = dict(event.get_attributes())
    time = attributes["time"]
    assert isinstance(time, datetime)
    attributes["time"] = time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return attributes


def theirs(record: EncodedEvent) -> CloudEvent:
    attributes: dict[str, Any] = {**record.attributes, "time": STAMP.time}
    return CloudEvent(attributes, json.loads(record.data))


@pytest.mark.case("L41")
@every_example
def test_the_library_reads_our_binary_records(one: EventDef, name: str) -> None:
    record = ours(one, name)
    message = KafkaMessage(headers=dict(record.headers), key=record.key_bytes, value=record.data)
    event = from_binary_event(message)
    assert as_text(event) == record.attributes
    assert event.get_data() == json.loads(record.data)


@pytest.mark.case("L41")
@every_example
def test_the_library_reads_our_structured_events(one: EventDef, name: str) -> None:
    record = ours(one, name)
    body = to_structured(record.attributes, record.data)
    headers = {"content-type": b"application/cloudevents+json"}
    event = from_structured_event(KafkaMessage(headers=headers, key=None, value=body))
    assert as_text(event) == record.attributes
    assert event.get_data() == json.loads(record.data)


@pytest.mark.case("L41")
@every_example
def test_we_read_what_the_library_writes_in_both_modes(one: EventDef, name: str) -> None:
    record = ours(one, name)
    for message in (to_binary_event(theirs(record)), to_structured_event(theirs(record))):
        key = message.key.encode() if isinstance(message.key, str) else message.key
        event = decode(record.topic, key, message.value, list(message.headers.items()))
        assert isinstance(event, Received), event
        assert event.event == examples_of(one)[name]
        assert event.envelope.attributes == record.attributes
        assert event.notes == ()


RECORD = encode(example_of(CATALOGUE[0].type), STAMP)


def refused(message: KafkaMessage) -> str:
    result = decode(RECORD.topic, None, message.value, list(message.headers.items()))
    assert isinstance(result, Refused), result
    return result.reason.value


@pytest.mark.case("L41")
@pytest.mark.parametrize("name", ["ce_id", "ce_specversion"])
def test_the_library_invents_what_is_missing_and_we_refuse(name: str) -> None:
    headers = {key: value for key, value in RECORD.headers if key != name}
    message = KafkaMessage(headers=headers, key=None, value=RECORD.data)
    assert from_binary_event(message).get_attributes()[name.removeprefix("ce_")]
    assert refused(message) == "MISSING_ATTRIBUTE"


@pytest.mark.case("L41")
def test_the_library_passes_broken_json_on_and_we_refuse() -> None:
    message = KafkaMessage(headers=dict(RECORD.headers), key=None, value=b'{"run_id":')
    assert from_binary_event(message).get_data() == '{"run_id":'
    assert refused(message) == "BAD_JSON"


@pytest.mark.case("L41")
def test_the_library_writes_lists_as_python_text_and_we_refuse() -> None:
    listed: Any = ["a", True]
    message = to_binary_event(CloudEvent(dict(theirs(RECORD).get_attributes()), listed))
    assert message.value == b"['a', True]"
    assert refused(message) == "BAD_JSON"


@pytest.mark.case("L41")
def test_the_library_writes_nan_and_we_refuse() -> None:
    message = to_binary_event(
        CloudEvent(dict(theirs(RECORD).get_attributes()), {"run_id": float("nan")})
    )
    assert b"NaN" in message.value
    assert refused(message) == "BAD_JSON"


@pytest.mark.case("L41")
def test_the_library_writes_true_where_we_write_the_json_word() -> None:
    flagged = CloudEvent({**theirs(RECORD).get_attributes(), "testevent": True}, {})
    assert to_binary_event(flagged).headers["ce_testevent"] == b"True"
    body = to_structured_event(flagged).value
    headers = [("content-type", b"application/cloudevents+json")]
    value = body.replace(b'"data": {}', b'"data": ' + RECORD.data)
    event = decode(RECORD.topic, None, value, headers)
    assert isinstance(event, Received), event
    assert event.envelope.attributes["testevent"] == "true"


@pytest.mark.case("L41")
def test_the_library_makes_any_key_a_partition_key_and_we_count_it() -> None:
    message = KafkaMessage(headers=dict(RECORD.headers), key=b"other", value=RECORD.data)
    assert from_binary_event(message).get_extension("partitionkey") == "other"
    event = decode(RECORD.topic, b"other", RECORD.data, RECORD.headers)
    assert isinstance(event, Received)
    assert event.envelope.partitionkey == RECORD.key


@pytest.mark.case("L41")
def test_the_library_stumbles_over_null_attributes_that_we_take_as_unset() -> None:
    body = to_structured(RECORD.attributes, RECORD.data)
    nulled = body.replace(f'"subject":"{RECORD.subject}"'.encode(), b'"subject":null')
    headers = {"content-type": b"application/cloudevents+json"}
    message = KafkaMessage(headers=headers, key=None, value=nulled)
    with pytest.raises(CloudEventValidationError):
        from_structured_event(message)
    event = decode(RECORD.topic, None, nulled, list(headers.items()))
    assert isinstance(event, Received)
    assert event.envelope.subject is None
