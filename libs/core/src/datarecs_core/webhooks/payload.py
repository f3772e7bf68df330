"""How an event becomes a request body: three formats, data byte for byte.

Separate from signing and sending, because the same body serves every endpoint and every attempt,
while a signature belongs to one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from datarecs_core.webhooks.endpoint import Format

MAX_DATA_BYTES = 64 * 1024
"""From the event contract; a larger record becomes a dead letter."""

_ORDER = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema")
_STRUCTURED_TYPE = "application/cloudevents+json; charset=utf-8"
_JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An event as it waits for its deliveries: attributes and the original bytes of its data."""

    attributes: Mapping[str, str]
    """Every CloudEvents attribute and extension as text, `time` as it stood on the wire."""
    data: bytes
    """The JSON object as it was received; never parsed and written again. Empty when absent."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Values of the data that filters read (`matching`); stored for recover and replay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What is sent: signed body, its media type, and headers that carry attributes."""

    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def payload(message: Message, form: Format) -> Payload:
    """The request body of an event in a format: a function only of the stored event.

    So every attempt sends the same bytes, even if settings have changed in between. An event
    without data is sent structured, because a webhook body may not be empty.
    """
    attributes = message.attributes
    if form is Format.STRUCTURED or not message.data:
        return Payload(content_type=_STRUCTURED_TYPE, body=_structured(attributes, message.data))
    if form is Format.BINARY:
        headers = tuple((f"ce-{name}", _percent(value)) for name, value in _ordered(attributes))
        other_headers = tuple(item for item in headers if item[0] != "ce-datacontenttype")
        return Payload(content_type=_JSON_TYPE, body=message.data, headers=other_headers)
    head = _members({"type": attributes["type"], "timestamp": attributes["time"]})
    return Payload(content_type=_JSON_TYPE, body=_spliced(head, message.data))


def with_absolute_dataref(attributes: Mapping[str, str], base_url: str) -> Mapping[str, str]:
    """The attributes with a relative `dataref` made absolute, as they are stored at ingest.

    Args:
        attributes: as they stood on the wire.
        base_url: without trailing slash.
    """
    reference = attributes.get("dataref", "")
    if not reference.startswith("/"):
        return attributes
    return {**attributes, "dataref": base_url + reference}


def _ordered(attributes: Mapping[str, str]) -> list[tuple[str, str]]:
    known = [(name, attributes[name]) for name in _ORDER if name in attributes]
    return known + sorted((name, value) for name, value in attributes.items() if name not in _ORDER)


def _members(values: Mapping[str, str]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _structured(attributes: Mapping[str, str], data: bytes) -> bytes:
    return _spliced(_members(dict(_ordered(attributes))), data)


def _spliced(head: str, data: bytes) -> bytes:
    """The JSON object `head` with one more member `data`, with unchanged bytes."""
    if not data:
        return head.encode()
    return head[:-1].encode() + b',"data":' + data + b"}"


def _percent(value: str) -> str:
    """Percent-encode space, double quote, percent and all outside U+0021 to U+007E."""
    return "".join(
        letter
        if "!" <= letter <= "~" and letter not in '"%'
        else "".join(f"%{byte:02X}" for byte in letter.encode())
        for letter in value
    )
