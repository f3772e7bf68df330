"""`events-schema/` in the checkout agrees with classes, codec and Source 001's payloads."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator

from datarecs_core.values import EventId
from datarecs_events.catalogue import BY_TYPE, CATALOGUE, EventDef
from datarecs_events.codec import EncodedEvent, Received, Refused, Stamp, decode, encode
from datarecs_events.examples import examples_of
from datarecs_events.publishing import published_files
from datarecs_events.schemas import differences

FOLDER = Path(__file__).parents[2] / "events-schema"
STAMP = Stamp(
    event_id=EventId(UUID("0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c01")),
    time=datetime(2026, 11, 20, 6, 14, 3, 120455, tzinfo=UTC),
    sequence=17,
    caused_by=EventId(UUID("0198c0de-7a0c-7b11-8d02-6a1f0c9be4aa")),
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)
TENANT = "019b0000-0000-7000-8000-000000000001"
every_type = pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.short_name)


def stamp_of(one: EventDef) -> Stamp:
    return STAMP if one.kind.is_numbered else replace(STAMP, sequence=None)


def payloads(one: EventDef, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    files = sorted((FOLDER / one.short_name / kind).glob("*.json"))
    assert files
    for path in files:
        yield path.stem, json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)


def judge(one: EventDef, data: bytes) -> object:
    """Our reader's answer to a payload of this type in a flawless envelope."""
    record = encode(examples_of(one)["full"], stamp_of(one))
    return decode(record.topic, record.key_bytes, data, record.headers)


def schema(one: EventDef) -> Draft202012Validator:
    text = (FOLDER / one.short_name / "1.json").read_text(encoding="utf-8")
    content = json.loads(text)
    Draft202012Validator.check_schema(content)
    assert content["$id"] == one.dataschema
    return Draft202012Validator(content)


@pytest.mark.case("STY-08")
def test_the_folder_is_what_the_classes_say() -> None:
    assert differences(FOLDER, published_files()) == [], "run `make schemas`"


@every_type
def test_every_example_is_taken_by_schema_and_codec_and_written_back_equal(one: EventDef) -> None:
    validator = schema(one)
    examples = examples_of(one)
    for name, payload in payloads(one, "examples"):
        assert list(validator.iter_errors(payload)) == []
        record = encode(examples[name], stamp_of(one))
        assert json.loads(record.data, parse_float=Decimal) == payload
        judgement = judge(one, record.data)
        assert isinstance(judgement, Received)
        assert judgement.event == examples[name]
        assert encode(judgement.event, stamp_of(one)).data == record.data


@every_type
def test_every_invalid_payload_is_refused_by_schema_and_codec(one: EventDef) -> None:
    validator = schema(one)
    for name, payload in payloads(one, "invalid"):
        assert list(validator.iter_errors(payload)), name
        judgement = judge(one, json.dumps(payload, default=float).encode())
        assert isinstance(judgement, Refused), name
        assert judgement.reason.value == "SCHEMA_INVALID"


def source_001() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The payloads of Source 001, by type, as its page prints them (uuids filled in)."""
    ids = {"run_id": "1", "job_id": "2", "tenant_id": "3"}
    text = (Path(__file__).parent / "source_001_payloads.jsonl").read_text(encoding="utf-8")
    for line in text.splitlines():
        document: dict[str, Any] = json.loads(line, parse_float=Decimal)
        name = document.pop("type")
        data = {
            key: f"019b0000-0000-7000-8000-00000000000{ids[key]}" if key in ids else value
            for key, value in document.items()
        }
        source = re.sub(r"^run\.", "reconciliation.run.", name)
        yield name, source, data


SAMPLES = list(source_001())


@pytest.mark.parametrize(("name", "short", "data"), SAMPLES, ids=[name for name, _, _ in SAMPLES])
def test_the_payloads_of_source_001_are_taken_as_they_are(
    name: str, short: str, data: dict[str, Any]
) -> None:
    (one,) = [entry for entry in CATALOGUE if entry.short_name == short]
    assert list(schema(one).iter_errors(data)) == [], name
    record = encode(examples_of(one)["full"], stamp_of(one))
    tenant = data.get("tenant_id", TENANT)
    headers = [
        (key, tenant.encode() if key == "ce_tenantid" else value) for key, value in record.headers
    ]
    judgement = decode(record.topic, None, json.dumps(data, default=float).encode(), headers)
    assert isinstance(judgement, Received), judgement
    again = json.loads(encode(judgement.event, STAMP).data, parse_float=Decimal)
    assert {**data, "tenant_id": tenant} == again


def test_every_type_of_source_001_has_a_sample() -> None:
    assert {short for _, short, _ in SAMPLES} == {
        one.short_name for one in CATALOGUE if one.kind.of_run
    }


@every_type
def test_headers_are_what_the_kafka_binding_wants(one: EventDef) -> None:
    record: EncodedEvent = encode(examples_of(one)["full"], stamp_of(one))
    names = [name for name, _ in record.headers]
    assert len(set(names)) == len(names)
    for name, value in record.headers:
        assert name == "content-type" or re.fullmatch(r"ce_[a-z0-9]{1,20}", name)
        assert value.decode().isprintable()
    assert BY_TYPE[record.type] is one
