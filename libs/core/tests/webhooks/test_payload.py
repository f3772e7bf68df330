import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.webhooks.endpoint import Format
from datarecs_core.webhooks.payload import Message, payload, with_absolute_dataref

BASE = "https://recs.example.com"


def a_message(data: bytes, **attributes: str) -> Message:
    defaults = {
        "specversion": "1.0",
        "id": "e-1",
        "source": "/datarecs/core-api",
        "type": "io.datarecs.reconciliation.run.finalised",
        "time": "2026-01-15T09:30:00.123456Z",
    }
    return Message(attributes=defaults | attributes, data=data)


@pytest.mark.case("W02")
@pytest.mark.parametrize("form", list(Format))
def test_the_bytes_of_the_data_stay_as_they_came(form: Format) -> None:
    data = b'{"v":0.010,"n":12345678901234567890}'
    assert data in payload(a_message(data), form).body


@pytest.mark.case("W38")
def test_64_kib_of_data_are_sent_whole() -> None:
    data = b'{"text":"' + b"x" * (65_536 - 11) + b'"}'
    sent = payload(a_message(data), Format.STRUCTURED).body
    assert len(data) == 65_536
    assert data in sent
    assert len(sent) < 96 * 1024


@pytest.mark.case("W38")
def test_a_relative_dataref_becomes_absolute_in_the_envelope_alone() -> None:
    data = b'{"a":"/api/v1/x"}'
    message = a_message(data, dataref="/api/v1/x")
    stored = replace(message, attributes=with_absolute_dataref(message.attributes, BASE))
    sent = payload(stored, Format.STRUCTURED)
    assert json.loads(sent.body)["dataref"] == f"{BASE}/api/v1/x"
    assert data in sent.body


def test_an_absolute_or_absent_dataref_stays() -> None:
    for attributes in ({}, {"dataref": "https://elsewhere.example.com/x"}):
        assert with_absolute_dataref(attributes, BASE) == attributes


def test_attributes_come_in_the_published_order_and_extensions_by_name() -> None:
    message = a_message(b"{}", tenantid="t", partitionkey="p", subject="run/1", causationid="c")
    names = list(json.loads(payload(message, Format.STRUCTURED).body))
    assert names == [
        *("specversion", "id", "source", "type", "subject", "time"),
        *("causationid", "partitionkey", "tenantid", "data"),
    ]


def test_binary_carries_the_attributes_as_percent_encoded_headers() -> None:
    message = a_message(b"{}", subject='a "b" 100% ü', datacontenttype="application/json")
    sent = payload(message, Format.BINARY)
    assert sent.content_type == "application/json"
    assert dict(sent.headers)["ce-subject"] == "a%20%22b%22%20100%25%20%C3%BC"
    assert "ce-datacontenttype" not in dict(sent.headers)


def test_standard_has_type_timestamp_and_data() -> None:
    sent = payload(a_message(b'{"a":1}'), Format.STANDARD)
    assert sent.body == (
        b'{"type":"io.datarecs.reconciliation.run.finalised",'
        b'"timestamp":"2026-01-15T09:30:00.123456Z","data":{"a":1}}'
    )


@pytest.mark.parametrize("form", list(Format))
def test_an_event_without_data_is_sent_structured(form: Format) -> None:
    sent = payload(a_message(b""), form)
    assert sent.content_type == "application/cloudevents+json; charset=utf-8"
    assert "data" not in json.loads(sent.body)


@given(st.text(max_size=50), st.sampled_from(list(Format)))
def test_any_attribute_text_becomes_headers_and_bodies_that_can_be_sent(
    text: str, form: Format
) -> None:
    sent = payload(a_message(b"{}", subject=text.encode(errors="ignore").decode()), form)
    json.loads(sent.body)
    for _, value in sent.headers:
        assert all("!" <= letter <= "~" for letter in value)
