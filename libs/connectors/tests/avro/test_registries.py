"""Schemas of a registry: read once, by a login to a checked address, and never a guess."""

from collections.abc import Iterator

import pytest

from datarecs_connectors.avro.decoding import AvroValueError
from datarecs_connectors.avro.registries import FAULT_STANDS, MOST_BYTES, SchemaRegistry
from datarecs_connectors.errors import (
    ConnectionFailedError,
    CredentialsRefusedError,
    SourceLimitError,
)
from datarecs_connectors.http_json import JsonServer
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.connection import RegistryConfig
from datarecs_testing.avro_values import confluent, record_of
from datarecs_testing.clock import ManualClock
from datarecs_testing.schema_registry import Registry, running_registry

pytestmark = pytest.mark.integration
ROW = record_of({"id": "long"})


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


def client(
    registry: Registry,
    *,
    password: str | None = None,
    profile: Profile = Profile.LOCAL,
    clock: ManualClock | None = None,
) -> SchemaRegistry:
    return SchemaRegistry(
        server=JsonServer(
            source="events",
            policy=Policy(purpose=Purpose.CONNECTION, profile=profile),
            max_bytes=MOST_BYTES,
        ),
        config=RegistryConfig(url=f"{registry.url}/", username=registry.login[0]),
        now=(clock or ManualClock()).now,
        password=password or registry.login[1],
    )


def test_a_schema_is_requested_once(registry: Registry) -> None:
    number = registry.register(ROW)
    schemas = client(registry)
    for value in (5, 6):
        members, _ = schemas.decoded(confluent(number, ROW, {"id": value}))
        assert members == {"id": value}
    assert registry.requests == [f"/schemas/ids/{number}"]


def test_a_schema_with_references_is_put_together(registry: Registry) -> None:
    country = record_of({"code": "string"}, "geo.Country")
    address = record_of({"city": "string", "country": "geo.Country"}, "geo.Address")
    order = record_of({"to": "geo.Address", "from": "geo.Country"})
    registry.register(country, subject="geo.Country")
    registry.register(address, subject="geo.Address", uses=[("geo.Country", 1)])
    number = registry.register(order, uses=[("geo.Address", 1), ("geo.Country", 1)])
    whole = record_of(
        {
            "to": {
                **address,
                "fields": [
                    {"name": "city", "type": "string"},
                    {"name": "country", "type": country},
                ],
            },
            "from": country,
        }
    )
    value = {"to": {"city": "Wien", "country": {"code": "at"}}, "from": {"code": "de"}}
    assert client(registry).decoded(confluent(number, whole, value))[0] == value
    assert len(registry.requests) == 3


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"schemaType": "PROTOBUF"}, "not one of Avro"),
        ({"schema": '"string"'}, "not that of a record"),
        ({"schema": "{"}, "no schema of Avro"),
        ({"references": [{"subject": "gone", "version": 1}]}, "does not have it"),
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_used_is_named(
    registry: Registry, facts: dict[str, object], word: str
) -> None:
    number = registry.register(ROW, facts=facts)
    schemas = client(registry)
    for _ in range(2):
        with pytest.raises(AvroValueError, match=word) as refused:
            schemas.decoded(confluent(number, ROW, {"id": 5}))
        assert f"schema {number}" in str(refused.value)
    assert registry.requests.count(f"/schemas/ids/{number}") == 1


@pytest.mark.parametrize("facts", [{"schema": 5}, {"references": 5}, {"references": [5]}], ids=str)
def test_an_answer_without_a_schema_says_nothing_about_the_record(
    registry: Registry, facts: dict[str, object]
) -> None:
    number = registry.register(ROW, facts=facts)
    with pytest.raises(ConnectionFailedError, match="its answer"):
        client(registry).decoded(confluent(number, ROW, {"id": 5}))


def test_an_unknown_schema_is_the_fault_of_the_value(registry: Registry) -> None:
    schemas = client(registry)
    for _ in range(2):
        with pytest.raises(AvroValueError, match=r"schema 77 .* does not have it"):
            schemas.decoded(confluent(77, ROW, {"id": 5}))
    assert registry.requests == ["/schemas/ids/77"]


def test_a_schema_that_arrives_late_in_the_registry_is_used(registry: Registry) -> None:
    clock = ManualClock()
    schemas = client(registry, clock=clock)
    number = registry.register(ROW)
    late = registry.answers.pop(f"/schemas/ids/{number}")
    value = confluent(number, ROW, {"id": 5})
    with pytest.raises(AvroValueError, match="does not have it"):
        schemas.decoded(value)
    registry.answers[f"/schemas/ids/{number}"] = late
    with pytest.raises(AvroValueError, match="does not have it"):
        schemas.decoded(value)
    clock.advance(FAULT_STANDS)
    assert schemas.decoded(value)[0] == {"id": 5}


def test_references_without_end_are_refused(registry: Registry) -> None:
    registry.register(ROW, subject="a", uses=[("b", 1)])
    registry.register(ROW, subject="b", uses=[("a", 1)])
    number = registry.register(ROW, uses=[("a", 1)])
    with pytest.raises(AvroValueError, match="more than 100 schemas"):
        client(registry).decoded(confluent(number, ROW, {"id": 5}))


def test_a_registry_that_is_down_says_nothing_about_the_value(registry: Registry) -> None:
    number = registry.register(ROW)
    schemas = client(registry)
    value = confluent(number, ROW, {"id": 5})
    registry.is_down = True
    with pytest.raises(ConnectionFailedError, match="status 503"):
        schemas.decoded(value)
    registry.is_down = False
    assert schemas.decoded(value)[0] == {"id": 5}


def test_a_server_that_is_no_registry_says_nothing_about_the_value(registry: Registry) -> None:
    schemas = client(registry)
    registry.answers["/schemas/ids/5"] = b"<html>"
    for path in ("schemas/ids/5", "other/9"):
        with pytest.raises(ConnectionFailedError, match="no document"):
            schemas._answer(path)  # noqa: SLF001  a path that no schema has
    registry.answers["/schemas/types"] = {}
    with pytest.raises(ConnectionFailedError, match="no schema registry"):
        schemas.check()


def test_a_wrong_registry_password_is_a_refused_login(registry: Registry) -> None:
    with pytest.raises(CredentialsRefusedError) as refused:
        client(registry, password="wr0ng").check()
    assert "wr0ng" not in str(refused.value)
    assert "wr0ng" not in repr(client(registry, password="wr0ng"))
    assert client(registry).check() == f"{registry.url}/ is a schema registry"


def test_an_answer_of_more_than_a_mebibyte_is_refused(registry: Registry) -> None:
    number = registry.register(" " * MOST_BYTES)
    with pytest.raises(SourceLimitError, match="more than 1048576 bytes"):
        client(registry).decoded(confluent(number, ROW, {"id": 5}))


@pytest.mark.case("I68")
def test_an_address_that_is_not_allowed_is_not_dialled(registry: Registry) -> None:
    with pytest.raises(ConnectionFailedError):
        client(registry, profile=Profile.SERVER).check()
    assert registry.requests == []
