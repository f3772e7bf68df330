"""Records that are not ours: each reaches the dead letters with its bytes, none has an effect."""

import json
from collections.abc import Callable, Sequence

import pytest

from datarecs_application.ports.messaging import Partition
from datarecs_core.errors.messaging import MessagingCode
from datarecs_kafka.dead_letter import letter_of
from datarecs_testing.consuming import GROUP, INFRA, World


@pytest.fixture
def world() -> World:
    return World()


# --- records that are not ours


def good(world: World) -> tuple[bytes, dict[str, bytes | None], bytes]:
    encoded = world.encoded()
    return encoded.key_bytes, dict(encoded.headers), encoded.data


def changed(data: bytes, **changes: object) -> bytes:
    payload = {**json.loads(data), **changes}
    return json.dumps({name: one for name, one in payload.items() if one is not None}).encode()


Headers = Sequence[tuple[str, bytes | None]]
Change = Callable[[dict[str, bytes | None], bytes], tuple[Headers, bytes | None]]


def header(name: str, value: bytes | None) -> Change:
    return lambda headers, data: (list({**headers, name: value}.items()), data)


def without(name: str) -> Change:
    return lambda headers, data: ([one for one in headers.items() if one[0] != name], data)


def body(make: Callable[[bytes], bytes | None]) -> Change:
    return lambda headers, data: (list(headers.items()), make(data))


REFUSALS: dict[str, tuple[str, Change]] = {
    "null value": ("NULL_VALUE", body(lambda _: None)),
    "too large": ("TOO_LARGE", body(lambda data: data + b" " * 262_144)),
    "null header": ("BAD_HEADER", header("ce_subject", None)),
    "header value not UTF-8": ("BAD_HEADER", header("ce_subject", b"\xff")),
    "header name not UTF-8": ("BAD_HEADER", header("ce_\udcff", b"1")),
    "header twice": (
        "BAD_HEADER",
        lambda headers, data: ([*headers.items(), ("CE_ID", b"x")], data),
    ),
    "bad time": ("BAD_HEADER", header("ce_time", b"yesterday")),
    "avro": ("BAD_CONTENT_TYPE", header("content-type", b"application/cloudevents+avro")),
    "text": ("BAD_CONTENT_TYPE", header("content-type", b"text/plain")),
    "no id": ("MISSING_ATTRIBUTE", without("ce_id")),
    "no type": ("MISSING_ATTRIBUTE", without("ce_type")),
    "no headers": (
        "MISSING_ATTRIBUTE",
        lambda _, data: ([("content-type", b"application/json")], data),
    ),
    "specversion": ("BAD_SPECVERSION", header("ce_specversion", b"0.3")),
    "no tenant": ("TENANT_MISSING", without("ce_tenantid")),
    "other tenant": (
        "TENANT_MISMATCH",
        header("ce_tenantid", b"00000000-0000-7000-8000-000000000009"),
    ),
    "foreign source": ("WRONG_ORIGIN", header("ce_source", b"/somebody/else")),
    "wrong topic": (
        "WRONG_ORIGIN",
        lambda headers, data: (
            list(
                {
                    **headers,
                    "ce_type": b"io.datarecs.reconciliation.run.finalised",
                    "ce_source": b"/datarecs/core-api",
                }.items()
            ),
            data,
        ),
    ),
    "not JSON": ("BAD_JSON", body(lambda _: b"{")),
    "NaN": ("BAD_JSON", body(lambda data: data[:-1] + b',"x":NaN}')),
    "a list": ("BAD_JSON", body(lambda _: b"[]")),
    "data twice": (
        "BAD_ENVELOPE",
        lambda _, __: (
            [("content-type", b"application/cloudevents+json")],
            b'{"specversion":"1.0","data":{},"data_base64":"e30="}',
        ),
    ),
    "result and error": (
        "SCHEMA_INVALID",
        body(lambda data: changed(data, error={"code": "CRASHED", "message": "?"})),
    ),
    "no result": ("SCHEMA_INVALID", body(lambda data: changed(data, result=None))),
    "unknown result": ("SCHEMA_INVALID", body(lambda data: changed(data, result="FINE"))),
}


@pytest.mark.case("L15")
@pytest.mark.case("L18")
@pytest.mark.case("X69")
@pytest.mark.case("X72")
@pytest.mark.parametrize("name", REFUSALS)
def test_every_refusal_reaches_the_dead_letters_intact_and_the_partition_goes_on(
    world: World, name: str
) -> None:
    reason, change = REFUSALS[name]
    key, headers, data = good(world)
    new_headers, value = change(headers, data)
    written = world.log.append(INFRA, key=key, value=value, headers=new_headers, partition=0)
    after = world.publish()
    world.consume()
    (letter,) = [letter_of(record) for record in world.letters()]
    assert (letter.reason, letter.attempts) == (reason, 1)
    assert letter.record == written
    assert world.handled == [after]
    assert world.committed() == 2
    assert world.metrics.total("codec_refused_total", group=GROUP, reason=reason) == 1
    assert world.metrics.total("dlq_total", group=GROUP, reason=reason) == 1


@pytest.mark.case("L18")
def test_a_contradicting_tenant_is_counted_as_an_alarm(world: World) -> None:
    key, headers, data = good(world)
    headers["ce_tenantid"] = str(world.ids.new()).encode()
    world.log.append(INFRA, key=key, value=data, headers=list(headers.items()), partition=0)
    world.consume()
    assert world.metrics.total("tenant_mismatch_total") == 1


@pytest.mark.case("L15")
def test_a_position_no_client_can_parse_is_passed_and_counted(
    world: World, reported_codes: Callable[[], set[str]]
) -> None:
    ids = [world.publish() for _ in range(3)]
    world.log.spoil(Partition(INFRA, 0), 1)
    world.consume()
    assert world.handled == [ids[0], ids[2]]
    assert world.committed() == 3
    assert world.metrics.total("kafka_unreadable_total", group=GROUP, topic=INFRA) == 1
    assert reported_codes() == {MessagingCode.RECORD_UNREADABLE.name}
    assert world.letters() == []


def structured(headers: dict[str, bytes | None], data: bytes, **extra: object) -> bytes:
    attributes = {
        name.removeprefix("ce_"): (one or b"").decode()
        for name, one in headers.items()
        if name.startswith("ce_")
    }
    return json.dumps({**attributes, "data": json.loads(data), **extra}).encode()


@pytest.mark.case("L17")
def test_a_structured_record_is_read_and_its_extra_headers_counted(world: World) -> None:
    key, headers, data = good(world)
    world.log.append(
        INFRA,
        key=key,
        value=structured(headers, data, subject=None),
        headers=[("content-type", b"Application/CloudEvents+JSON"), ("ce_id", b"other")],
        partition=0,
    )
    world.consume()
    assert [str(one).encode() for one in world.handled] == [headers["ce_id"]]
    assert world.metrics.total("codec_notes_total", group=GROUP, note="HEADERS_IGNORED") == 1


@pytest.mark.case("L17")
@pytest.mark.parametrize(
    "change",
    [
        header("content-type", b"application/json; charset=UTF-8"),
        body(lambda data: changed(data, added_later={"x": 1})),
    ],
    ids=["charset parameter", "unknown optional field"],
)
def test_what_a_later_producer_may_add_is_accepted(world: World, change: Change) -> None:
    key, headers, data = good(world)
    new_headers, value = change(headers, data)
    world.log.append(INFRA, key=key, value=value, headers=new_headers, partition=0)
    world.consume()
    assert len(world.handled) == 1


@pytest.mark.case("L17")
def test_an_unknown_type_is_skipped_and_counted(world: World) -> None:
    key, headers, data = good(world)
    headers["ce_type"] = b"io.datarecs.reconciliation.run.paused"
    world.log.append(INFRA, key=key, value=data, headers=list(headers.items()), partition=0)
    world.consume()
    assert (world.handled, world.letters(), world.committed()) == ([], [], 1)
    assert world.metrics.total("codec_notes_total", group=GROUP, note="SKIPPED") == 1
