"""Splits a Kafka record or an HTTP body into attributes and data, or refuses it with a reason.

Nothing is added or repaired: it refuses records that the CloudEvents SDK would complete or accept.
The codec checks the event after this.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from datarecs_events.envelope import JSON_TYPE, NAME
from datarecs_events.json_text import JsonFaultError, member_spans, parse_object

MAX_VALUE_BYTES = 256 * 1024
STRUCTURED = "application/cloudevents"
_INT32 = 2**31

Headers = Sequence[tuple[str, bytes | None]]


class RefusalReason(StrEnum):
    """Why a record can never be handled; also the `dlq_reason` of its dead letter."""

    NULL_VALUE = "NULL_VALUE"
    TOO_LARGE = "TOO_LARGE"
    BAD_HEADER = "BAD_HEADER"
    BAD_CONTENT_TYPE = "BAD_CONTENT_TYPE"
    BAD_ENVELOPE = "BAD_ENVELOPE"
    BAD_JSON = "BAD_JSON"
    MISSING_ATTRIBUTE = "MISSING_ATTRIBUTE"
    BAD_SPECVERSION = "BAD_SPECVERSION"
    TENANT_MISSING = "TENANT_MISSING"
    WRONG_ORIGIN = "WRONG_ORIGIN"
    SCHEMA_INVALID = "SCHEMA_INVALID"
    TENANT_MISMATCH = "TENANT_MISMATCH"


class RefusedError(Exception):
    """A refusal in the reading functions; the codec turns it into a value."""

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class Incoming:
    """Attributes as text and the bytes of the data, both unchanged and not yet checked."""

    attributes: Mapping[str, str]
    data: bytes
    headers_differ: bool = False
    """A structured record also has `ce_` headers with other values."""


def read_record(value: bytes | None, headers: Headers) -> Incoming:
    """Attributes and data of a record; only the content type decides binary or structured mode.

    Raises:
        RefusedError: with the first reason.
    """
    if value is None:
        raise RefusedError(RefusalReason.NULL_VALUE, "no type has empty data")
    if len(value) > MAX_VALUE_BYTES:
        raise RefusedError(RefusalReason.TOO_LARGE, f"{len(value)} bytes")
    attributes = _headers(headers)
    content_type = attributes.pop("content-type", "")
    if content_type.lower().startswith(STRUCTURED):
        return _structured(value, content_type, attributes)
    _require_json(content_type)
    return Incoming({**attributes, "datacontenttype": content_type}, value)


def _headers(headers: Headers) -> dict[str, str]:
    """`content-type` and the attributes of the `ce_` headers, names in lower case."""
    attributes: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = _header_text(raw_name, raw_value)
        if name.startswith("ce_"):
            name = name.removeprefix("ce_")
            if NAME.fullmatch(name) is None or name in {"data", "datacontenttype"}:
                raise RefusedError(RefusalReason.BAD_HEADER, "an attribute has an illegal name")
        elif name != "content-type":
            continue
        if name in attributes:
            raise RefusedError(RefusalReason.BAD_HEADER, f"{name} is repeated")
        attributes[name] = value
    return attributes


def _header_text(name: str, value: bytes | None) -> tuple[str, str]:
    try:
        name.encode()
        if value is None:
            raise RefusedError(RefusalReason.BAD_HEADER, "a header is null")
        return name.lower(), value.decode()
    except UnicodeError as cause:
        raise RefusedError(RefusalReason.BAD_HEADER, "a header is not UTF-8") from cause


def _require_json(content_type: str) -> None:
    media, *parameters = (part.strip().lower() for part in content_type.split(";"))
    if media != JSON_TYPE and not (media.endswith("+json") and "/" in media):
        raise RefusedError(RefusalReason.BAD_CONTENT_TYPE, "the data is not declared as JSON")
    for parameter in parameters:
        name, _, text = parameter.partition("=")
        if name.strip() == "charset" and text.strip().strip('"') != "utf-8":
            raise RefusedError(RefusalReason.BAD_CONTENT_TYPE, "the charset is not UTF-8")


def _structured(value: bytes, content_type: str, headers: Mapping[str, str]) -> Incoming:
    media = content_type.split(";", maxsplit=1)[0].strip().lower()
    if media != f"{STRUCTURED}+json":
        raise RefusedError(RefusalReason.BAD_CONTENT_TYPE, "only the JSON format is supported")
    _require_json(content_type)
    members = _parsed(value)
    data = _data(members, value)
    attributes = dict(
        pair for name, member in members.items() if (pair := _attribute(name, member)) is not None
    )
    attributes.setdefault("datacontenttype", JSON_TYPE)
    _require_json(attributes["datacontenttype"])
    differ = any(attributes.get(name) != text for name, text in headers.items())
    return Incoming(attributes, data, differ)


def _parsed(value: bytes) -> dict[str, object]:
    try:
        return parse_object(value)
    except JsonFaultError as cause:
        raise RefusedError(RefusalReason.BAD_JSON, str(cause)) from cause


def _data(members: dict[str, object], value: bytes) -> bytes:
    """The exact bytes of the data member; removes it from `members`."""
    plain, encoded = members.pop("data", None), members.pop("data_base64", None)
    if plain is not None and encoded is not None:
        raise RefusedError(RefusalReason.BAD_ENVELOPE, "data and data_base64 are both present")
    if plain is not None:
        return member_spans(value)["data"].encode()
    if encoded is None:
        raise RefusedError(RefusalReason.NULL_VALUE, "no type has empty data")
    try:
        return base64.b64decode(encoded if isinstance(encoded, str) else "-", validate=True)
    except (binascii.Error, ValueError) as cause:
        raise RefusedError(RefusalReason.BAD_ENVELOPE, "data_base64 is not base64 text") from cause


def _attribute(name: str, value: object) -> tuple[str, str] | None:
    """An attribute as text; None if it is null, which means unset."""
    if NAME.fullmatch(name) is None:
        raise RefusedError(RefusalReason.BAD_ENVELOPE, "an attribute has an illegal name")
    match value:
        case None:
            return None
        case bool():
            return name, "true" if value else "false"
        case int() if -_INT32 <= value < _INT32:
            return name, str(value)
        case str():
            return name, value
        case _:
            raise RefusedError(RefusalReason.BAD_ENVELOPE, f"{name} has no attribute type")
