"""Every way in which a record may be wrong has one reason, and nothing bad ever raises."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.runs.events import RunCompleted, RunRowsProcessed
from datarecs_events.catalogue import Topic
from datarecs_events.codec import (
    MAX_VALUE_BYTES,
    Note,
    Received,
    Refused,
    Skipped,
    decode,
    read_data,
    to_structured,
)

TENANT = "019b0000-0000-7000-8000-000000000001"
RUN = "019b0000-0000-7000-8000-0000000000b1"
JOB = "019b0000-0000-7000-8000-0000000000a1"
TYPE = "io.datarecs.reconciliation.run.completed"
DATA: dict[str, Any] = {
    "run_id": RUN,
    "job_id": JOB,
    "tenant_id": TENANT,
    "attempt": 1,
    "workflow_name": "recon-x",
    "result": "MATCHED",
}
ATTRIBUTES: dict[str, Any] = {
    "specversion": "1.0",
    "id": "0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c01",
    "source": "/datarecs/reconciliation-worker",
    "type": TYPE,
    "subject": f"run/{RUN}",
    "time": "2026-11-20T06:14:03.120455Z",
    "tenantid": TENANT,
    "partitionkey": RUN,
    "runsequence": "00000000000000000017",
    "dataschema": "urn:datarecs:schema:reconciliation.run.completed:1.1",
}
Headers = Sequence[tuple[str, bytes | None]]


def headers_of(attributes: Mapping[str, Any], content_type: str = "application/json") -> Headers:
    named = [(f"ce_{name}", str(text).encode()) for name, text in attributes.items()]
    return [*named, ("content-type", content_type.encode())]


def read(
    *,
    data: Mapping[str, Any] = DATA,
    attributes: Mapping[str, Any] = ATTRIBUTES,
    value: bytes | None = b"",
    headers: Headers | None = None,
    topic: str | None = Topic.RUN_INFRA,
) -> Received | Skipped | Refused:
    body = json.dumps(data).encode() if value == b"" else value
    return decode(topic, RUN.encode(), body, headers_of(attributes) if headers is None else headers)


def read_structured(
    changes: Mapping[str, Any] | None = None,
    content_type: str = "application/cloudevents+json; charset=UTF-8",
    extra: Headers = (),
) -> Received | Skipped | Refused:
    body = {**ATTRIBUTES, "datacontenttype": "application/json", "data": DATA, **(changes or {})}
    value = json.dumps({name: part for name, part in body.items() if part is not ...}).encode()
    headers = [("Content-Type", content_type.encode()), *extra]
    return decode(Topic.RUN_INFRA, RUN.encode(), value, headers)


def reason(result: object) -> str:
    assert isinstance(result, Refused), result
    assert TENANT not in result.detail
    assert RUN not in result.detail
    return result.reason.value


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in ATTRIBUTES.items() if key != name}


def test_a_binary_record_is_read() -> None:
    result = read()
    assert isinstance(result, Received)
    assert isinstance(result.event, RunCompleted)
    assert str(result.event.run_id) == RUN
    assert result.envelope.runsequence == 17
    assert result.data == json.dumps(DATA).encode()
    assert result.notes == ()


def test_header_names_come_in_any_case() -> None:
    result = read(headers=[(name.upper(), value) for name, value in headers_of(ATTRIBUTES)])
    assert isinstance(result, Received)


@pytest.mark.case("L15")
@pytest.mark.parametrize("name", ["id", "source", "type", "specversion"])
def test_a_missing_or_empty_attribute_is_never_invented(name: str) -> None:
    assert reason(read(attributes=without(name))) == "MISSING_ATTRIBUTE"
    assert reason(read(attributes={**ATTRIBUTES, name: ""})) == "MISSING_ATTRIBUTE"


@pytest.mark.case("L15")
def test_another_specversion_is_refused() -> None:
    assert reason(read(attributes={**ATTRIBUTES, "specversion": "0.3"})) == "BAD_SPECVERSION"


@pytest.mark.case("L15")
@pytest.mark.parametrize(
    "extra",
    [
        ("ce_subject", None),
        ("x-trace", None),
        ("x-trace", b"\xff"),
        ("ce_more", b"\xff\xfe"),
        ("x-\udcff", b"1"),
        ("ce_id", b"0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c02"),
        ("CE_ID", b"0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c02"),
        ("content-type", b"application/json"),
        ("ce_has-hyphen", b"1"),
        ("ce_", b"1"),
        ("ce_morethantwentyletters", b"1"),
        ("ce_data", b"1"),
        ("ce_datacontenttype", b"application/json"),
        ("ce_more", b"a\x00b"),
    ],
)
def test_a_header_that_cannot_be_trusted_is_refused(extra: tuple[str, bytes | None]) -> None:
    assert reason(read(headers=[*headers_of(ATTRIBUTES), extra])) == "BAD_HEADER"


@pytest.mark.case("L15")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("time", "yesterday"),
        ("time", "2026-11-20 06:14:03Z"),
        ("time", "2026-11-20T06:14:03"),
        ("time", "2026-02-30T06:14:03Z"),
        ("id", "not-a-uuid"),
        ("id", "0198C0DE-7A10-7C3E-9B1F-2F6D5A4E1C01"),
        ("tenantid", "{019b0000-0000-7000-8000-000000000001}"),
        ("runsequence", "17"),
        ("causationid", "run.completed"),
    ],
)
def test_an_attribute_of_another_form_is_refused(name: str, text: str) -> None:
    assert reason(read(attributes={**ATTRIBUTES, name: text})) == "BAD_HEADER"


@pytest.mark.case("L15")
@pytest.mark.case("L17")
@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", None),
        ("application/json; charset=UTF-8", None),
        ('Application/JSON;charset="utf-8"', None),
        ("application/vnd.datarecs+json", None),
        ("application/json; charset=latin-1", "BAD_CONTENT_TYPE"),
        ("text/plain", "BAD_CONTENT_TYPE"),
        ("+json", "BAD_CONTENT_TYPE"),
        ("", "BAD_CONTENT_TYPE"),
    ],
)
def test_data_is_json_in_utf_8_and_says_so(content_type: str, expected: str | None) -> None:
    result = read(headers=headers_of(ATTRIBUTES, content_type))
    assert (reason(result) if expected else type(result)) == (expected or Received)


@pytest.mark.case("L15")
def test_a_record_without_content_type_is_refused() -> None:
    assert reason(read(headers=headers_of(ATTRIBUTES)[:-1])) == "BAD_CONTENT_TYPE"


@pytest.mark.case("L15")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL_VALUE"),
        (b"x" * (MAX_VALUE_BYTES + 1), "TOO_LARGE"),
        (b"{", "BAD_JSON"),
        (b"\xff", "BAD_JSON"),
        (b"\xef\xbb\xbf{}", "BAD_JSON"),
        (b"[]", "BAD_JSON"),
        (b'{"attempt":NaN}', "BAD_JSON"),
        (b'{"attempt":-Infinity}', "BAD_JSON"),
        (b'{"a":1,"a":1}', "BAD_JSON"),
        (b'{"x":{"a":1,"a":1}}', "BAD_JSON"),
        (b'{"x":' + b"[" * 40 + b"]" * 40 + b"}", "BAD_JSON"),
        (b'{"x":' + b"9" * 5000 + b"}", "BAD_JSON"),
        (b'{"x":"\\ud800"}', "BAD_JSON"),
        (b"null", "BAD_JSON"),
    ],
)
def test_bytes_that_are_no_payload_are_refused(value: bytes | None, expected: str) -> None:
    assert reason(read(value=value)) == expected


def test_brackets_inside_texts_are_no_depth() -> None:
    result = read(data=DATA | {"workflow_name": "[" * 100 + '\\"{'})
    assert isinstance(result, Received)


@pytest.mark.case("L17")
def test_an_unknown_type_is_skipped_because_producers_may_be_ahead() -> None:
    later = {**ATTRIBUTES, "type": "io.datarecs.reconciliation.run.paused"}
    assert read(attributes=later) == Skipped(type="io.datarecs.reconciliation.run.paused")
    assert reason(read(attributes={**without("tenantid"), "type": "x"})) == "TENANT_MISSING"


@pytest.mark.case("L15")
@pytest.mark.case("L18")
def test_a_known_type_from_the_wrong_place_is_an_alarm() -> None:
    for result in (
        read(topic=Topic.RUN_PLATFORM),
        read(attributes={**ATTRIBUTES, "source": "/datarecs/core-api"}),
        read(topic="datarecs.notifications", attributes={**ATTRIBUTES, "source": "elsewhere"}),
    ):
        assert reason(result) == "WRONG_ORIGIN"
        assert isinstance(result, Refused)
        assert result.alarm


def test_an_http_body_has_no_topic() -> None:
    assert isinstance(read(topic=None), Received)


@pytest.mark.case("L15")
@pytest.mark.case("L18")
def test_the_tenant_is_named_and_named_once() -> None:
    assert reason(read(attributes=without("tenantid"))) == "TENANT_MISSING"
    assert reason(read(attributes={**ATTRIBUTES, "tenantid": ""})) == "TENANT_MISSING"
    other = read(data=DATA | {"tenant_id": JOB})
    assert reason(other) == "TENANT_MISMATCH"
    assert isinstance(other, Refused)
    assert other.alarm


@pytest.mark.case("L15")
@pytest.mark.case("L16")
@pytest.mark.parametrize(
    "changes",
    [
        {"error": {"code": "UNKNOWN", "message": "both"}},
        {"result": "PARTIAL"},
        {"result": None},
        {"result": ...},
        {"attempt": 0},
        {"attempt": 1.0},
        {"attempt": True},
        {"attempt": "1"},
        {"attempt": 2**53},
        {"run_id": RUN.upper()},
        {"run_id": 7},
        {"workflow_name": "x" * 2001},
        {"workflow_name": "a\0b"},
        {"tenant_id": ...},
        {"summary": []},
        {"summary": {"stages_total": 1}},
    ],
)
def test_a_payload_that_breaks_its_schema_is_refused(changes: dict[str, Any]) -> None:
    data = {name: part for name, part in (DATA | changes).items() if part is not ...}
    assert reason(read(data=data)) == "SCHEMA_INVALID"


@pytest.mark.case("L17")
def test_unknown_fields_are_ignored_and_stay_in_the_bytes() -> None:
    result = read(data=DATA | {"later": {"deep": [1, None]}})
    assert isinstance(result, Received)
    assert b"later" in result.data


def test_where_source_001_has_no_tenant_the_envelope_names_it() -> None:
    data = {"run_id": RUN, "job_id": JOB, "stage_name": "a", "row_count": 5, "mismatch_count": 0}
    attributes = {**ATTRIBUTES, "type": "io.datarecs.reconciliation.run.rows_processed"}
    result = read(data=data, attributes=attributes, topic=Topic.RUN_PROGRESS)
    assert isinstance(result, Received)
    assert isinstance(result.event, RunRowsProcessed)
    assert str(result.event.tenant_id) == TENANT


@pytest.mark.parametrize("changes", [{}, {"result": "MATCHED", "error": {}}])
def test_a_finalised_run_has_exactly_one_of_result_and_error(changes: dict[str, Any]) -> None:
    attributes = {
        **ATTRIBUTES,
        "type": "io.datarecs.reconciliation.run.finalised",
        "source": "/datarecs/core-api",
    }
    data = {"run_id": RUN, "job_id": JOB, "tenant_id": TENANT, **changes}
    result = read(data=data, attributes=attributes, topic=Topic.RUN_PLATFORM)
    assert reason(result) == "SCHEMA_INVALID"


def test_an_event_of_a_resource_names_its_kind() -> None:
    data: dict[str, Any] = {
        "tenant_id": TENANT,
        "api_version": "datarecs.io/v1",
        "kind": "Connection",
        "namespace": "finance",
        "name": "bank",
        "uid": JOB,
        "generation": 3,
        "resource_version": "88121",
        "changed": ["status"],
    }
    attributes = {
        **ATTRIBUTES,
        "type": "io.datarecs.resource.connection.status_updated",
        "source": "/datarecs/resources/connection",
    }
    good = read(data=data, attributes=attributes, topic=Topic.RESOURCES)
    assert isinstance(good, Received)
    for changes in ({"kind": "NotificationRule"}, {"changed": "status"}, {"changed": [1]}):
        bad = read(data=data | changes, attributes=attributes, topic=Topic.RESOURCES)
        assert reason(bad) == "SCHEMA_INVALID"


def test_the_test_event_of_webhooks_belongs_on_no_topic() -> None:
    attributes = {
        **ATTRIBUTES,
        "type": "io.datarecs.webhook.test",
        "source": "/datarecs/webhook-service",
    }
    data = {"endpoint_id": RUN, "message": "größe", "probe": 0.5, "requested_by": "u"}
    for topic in Topic:
        assert reason(read(data=data, attributes=attributes, topic=topic)) == "WRONG_ORIGIN"
    assert isinstance(read(data=data, attributes=attributes, topic=None), Received)


def test_a_key_that_differs_is_counted_and_creates_no_attribute() -> None:
    value = json.dumps(DATA).encode()
    result = decode(Topic.RUN_INFRA, b"\xff", value, headers_of(ATTRIBUTES))
    assert isinstance(result, Received)
    assert result.notes == (Note.KEY_DIFFERS,)
    keyless = decode(Topic.RUN_INFRA, None, value, headers_of(without("partitionkey")))
    assert isinstance(keyless, Received)
    assert (keyless.envelope.partitionkey, keyless.notes) == (None, ())


# --- structured mode -------------------------------------------------------------------------


def test_a_structured_record_is_read_and_its_data_preserved_byte_for_byte() -> None:
    data = b'{ "run_id":"%s",\t"job_id": "%s", "tenant_id":"%s",' % (
        RUN.encode(),
        JOB.encode(),
        TENANT.encode(),
    )
    data += b'"workflow_name":"gr\xc3\xb6\\u00dfe \\" }","result":"MATCHED", "x":1.50E+2 }'
    head = {**ATTRIBUTES, "more": True, "less": -5}
    value = json.dumps(head)[:-1].encode() + b' , "data" : ' + data + b' , "z9":"after"} '
    result = decode(None, None, value, [("content-type", b"Application/CloudEvents+JSON")])
    assert isinstance(result, Received), result
    assert result.data == data
    assert result.envelope.attributes["more"] == "true"
    assert result.envelope.attributes["less"] == "-5"
    assert result.envelope.attributes["z9"] == "after"


def test_what_we_write_structured_we_read_again() -> None:
    once = read()
    assert isinstance(once, Received)
    body = to_structured(once.envelope.attributes, once.data)
    again = decode(None, None, body, [("content-type", b"application/cloudevents+json")])
    assert isinstance(again, Received)
    assert (again.event, again.data) == (once.event, once.data)
    assert again.envelope == once.envelope


@pytest.mark.case("L15")
@pytest.mark.parametrize(
    "content_type",
    [
        "application/cloudevents",
        "application/cloudevents+avro",
        "application/cloudevents-batch+json",
        "application/cloudevents+json; charset=utf-16",
    ],
)
def test_only_the_json_format_of_one_event_is_read(content_type: str) -> None:
    assert reason(read_structured(content_type=content_type)) == "BAD_CONTENT_TYPE"


@pytest.mark.case("L17")
def test_headers_of_a_structured_record_are_ignored_and_a_conflict_is_counted() -> None:
    same = read_structured(extra=[("ce_type", TYPE.encode())])
    assert isinstance(same, Received)
    assert same.notes == ()
    other = read_structured(extra=[("ce_type", b"something.else")])
    assert isinstance(other, Received)
    assert other.notes == (Note.HEADERS_IGNORED,)
    assert other.envelope.type == TYPE


@pytest.mark.case("L17")
def test_null_means_unset() -> None:
    result = read_structured({"subject": None, "time": None})
    assert isinstance(result, Received)
    assert (result.envelope.subject, result.envelope.time) == (None, None)
    assert reason(read_structured({"source": None})) == "MISSING_ATTRIBUTE"


def test_data_may_come_as_base64_but_not_twice() -> None:
    encoded = base64.b64encode(json.dumps(DATA).encode()).decode()
    result = read_structured({"data": ..., "data_base64": encoded})
    assert isinstance(result, Received)
    assert result.data == json.dumps(DATA).encode()
    assert reason(read_structured({"data_base64": encoded})) == "BAD_ENVELOPE"
    for bad in ("%%%", "ä", 7):
        assert reason(read_structured({"data": ..., "data_base64": bad})) == "BAD_ENVELOPE"


@pytest.mark.case("L15")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"data": ...}, "NULL_VALUE"),
        ({"data": None}, "NULL_VALUE"),
        ({"data": "text"}, "BAD_JSON"),
        ({"subject": ["list"]}, "BAD_ENVELOPE"),
        ({"specversion": 1.0}, "BAD_ENVELOPE"),
        ({"more": 2**31}, "BAD_ENVELOPE"),
        ({"Has_Other_Letters": "x"}, "BAD_ENVELOPE"),
        ({"datacontenttype": "text/plain"}, "BAD_CONTENT_TYPE"),
        ({"time": "now"}, "BAD_HEADER"),
        ({"datacontenttype": ...}, None),
    ],
)
def test_a_structured_record_is_judged_like_a_binary_one(
    changes: dict[str, Any], expected: str | None
) -> None:
    result = read_structured(changes)
    assert (reason(result) if expected else type(result)) == (expected or Received)


def test_a_structured_record_that_is_no_json_is_refused() -> None:
    headers = [("content-type", b"application/cloudevents+json")]
    assert reason(decode(None, None, b"{", headers)) == "BAD_JSON"


# --- never raises ----------------------------------------------------------------------------

TEXT = st.text(max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)
NAMES = st.sampled_from([f"ce_{name}" for name in ATTRIBUTES] + ["content-type"]) | TEXT
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=40)), max_size=12)


@given(st.none() | st.binary(max_size=60), HEADERS)
def test_no_record_raises(value: bytes | None, headers: Headers) -> None:
    assert decode(Topic.RUN_INFRA, None, value, headers) is not None


@given(st.dictionaries(st.sampled_from([*DATA, "error", "summary"]), JSON))
def test_no_payload_raises(changes: dict[str, Any]) -> None:
    result = read(data=DATA | changes)
    assert isinstance(result, Received | Refused)


@given(st.dictionaries(st.sampled_from([*ATTRIBUTES, "data", "data_base64"]) | TEXT, JSON))
def test_no_structured_record_raises(changes: dict[str, Any]) -> None:
    assert read_structured(changes) is not None


def test_data_for_the_record_preserves_decimals() -> None:
    assert str(read_data(b'{"x":12345678901234567.890}')["x"]) == "12345678901234567.890"
