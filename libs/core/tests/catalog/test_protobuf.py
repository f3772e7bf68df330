"""Records as canonical protobuf, compared with the official library."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.catalog.protobuf import (
    HEADER_FIELDS,
    LENGTH,
    Record,
    decode,
    encode,
    kind_of,
    schema,
)
from datarecs_core.catalog.records import RECORDS, Account, Catalog, Table, TableColumn, decode_any
from datarecs_core.errors.catalogue import UnsupportedRecordError
from datarecs_core.values import TenantId

TENANT = TenantId(UUID("019b0000-0000-7000-8000-000000000001"))
NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
every_class = pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.kind)
ACCOUNT = Account(id=TENANT, name="bank", created_at=NOON, tags={"b": "2", "a": "1"})


def is_message(item: Any) -> bool:  # noqa: ANN401  item of a FieldType
    return is_dataclass(item)


class Official:
    """The same schema for the official library, made from the classes."""

    def __init__(self, kind: type[Record]) -> None:
        self._file = descriptor_pb2.FileDescriptorProto(
            name=f"{kind.kind}.proto", package=f"p{kind.kind}", syntax="proto3"
        )
        self._names: set[str] = set()
        pair = self._file.message_type.add(name="Pair")
        for number, name in enumerate(("key", "value"), start=1):
            pair.field.add(
                name=name,
                number=number,
                type=9,
                label=1,
                proto3_optional=True,
                oneof_index=number - 1,
            )
            pair.oneof_decl.add(name=f"_{name}")
        self._add(kind, first=HEADER_FIELDS + 1)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(self._file)
        descriptor = pool.FindMessageTypeByName(f"p{kind.kind}.{kind.__name__}")
        self.message_class = message_factory.GetMessageClass(descriptor)

    def _add(self, kind: type, *, first: int) -> str:
        package = self._file.package
        if kind.__name__ in self._names:
            return f".{package}.{kind.__name__}"
        self._names.add(kind.__name__)
        message = descriptor_pb2.DescriptorProto(name=kind.__name__)
        if first > 1:
            message.field.add(name="record_version", number=1, type=3, label=1)
            message.field.add(name="record_kind", number=2, type=9, label=1)
        for number, (each, form) in enumerate(schema(kind), start=first):
            entry = message.field.add(name=each.name, number=number)
            entry.label = 3 if form.is_list or form.is_map else 1
            if form.is_map:
                entry.type, entry.type_name = 11, f".{package}.Pair"
            elif is_message(form.item):
                entry.type, entry.type_name = 11, self._add(form.item, first=1)
            else:
                entry.type = 3 if form.wire != LENGTH else 12 if form.item is bytes else 9
            if form.wire != LENGTH and form.is_list:
                entry.options.packed = False
            if entry.label == 1 and entry.type != 11:
                entry.proto3_optional = True
                entry.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{each.name}")
        self._file.message_type.append(message)
        return f".{package}.{kind.__name__}"


def records(kind: type[Record]) -> st.SearchStrategy[Record]:
    return st.builds(kind, **_strategies(kind))


def _strategies(kind: type) -> dict[str, st.SearchStrategy[Any]]:
    return {each.name: _values(form) for each, form in schema(kind)}


def _values(form: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401  FieldType
    if form.is_map:
        return st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
    scalars: Mapping[type, st.SearchStrategy[Any]] = {
        str: st.text(max_size=8),
        int: st.integers(-(2**63), 2**63 - 1),
        bool: st.booleans(),
        bytes: st.binary(max_size=8),
        UUID: st.uuids(),
        datetime: st.datetimes(timezones=st.just(UTC)),
    }
    one = scalars.get(form.item)
    if one is None and is_message(form.item):
        one = st.builds(form.item, **_strategies(form.item))
    if one is None:
        one = st.sampled_from(list(form.item))
    if form.is_list:
        return st.lists(one, max_size=3).map(tuple)
    return st.none() | one if form.is_optional else one


@pytest.mark.case("S15")
@every_class
@given(data=st.data())
def test_a_record_is_read_as_it_was_written_and_has_the_same_bytes_again(
    kind: type[Record], data: st.DataObject
) -> None:
    record = data.draw(records(kind))
    content = encode(record)
    read = decode(kind, content)
    assert read == record
    assert encode(read) == content


@pytest.mark.case("S15")
@every_class
@given(data=st.data())
def test_the_official_library_reads_the_same_fields_and_writes_the_same_bytes(
    kind: type[Record], data: st.DataObject
) -> None:
    content = encode(data.draw(records(kind)))
    message = _official(kind).message_class.FromString(content)
    assert (message.record_version, message.record_kind) == (kind.record_version, kind.kind)
    assert message.SerializeToString(deterministic=True) == content
    message.DiscardUnknownFields()
    assert message.SerializeToString(deterministic=True) == content


_OFFICIAL: dict[str, Official] = {}


def _official(kind: type[Record]) -> Official:
    if kind.kind not in _OFFICIAL:
        _OFFICIAL[kind.kind] = Official(kind)
    return _OFFICIAL[kind.kind]


@pytest.mark.case("S15")
@every_class
def test_the_fields_of_a_published_version_do_not_change(
    kind: type[Record],
) -> None:
    """A changed hash means other bytes: append a field instead, and raise the version."""
    text = f"{kind.kind} {kind.record_version}: {_described(kind)}"
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == SCHEMAS[kind.kind], text


def _described(kind: type) -> str:
    return ", ".join(
        f"{each.name} {form.item.__name__}{'[]' * form.is_list}{'?' * form.is_optional}"
        + (f" ({_described(form.item)})" if is_message(form.item) else "")
        for each, form in schema(kind)
    )


SCHEMAS = {
    "Account": "cee9c3e7ab0ead39",
    "Catalog": "316667b2c91f4fd4",
    "Namespace": "4ae41d1d8ecd158d",
    "Table": "5d757542f8d8364c",
    "View": "67d8849dbaf953b2",
    "Connector": "2b663f30bcdd6a83",
    "Snapshot": "1fbe2156667c568a",
    "SnapshotConstraints": "32207606402da194",
    "TargetStats": "c8d3395f19a9c350",
    "FileStats": "c02f87520f9b0ce1",
    "SnapshotManifest": "b7ec9554ac103e3c",
    "TableRoot": "8a57486fd5f74ef3",
    "StatsManifest": "937690e9932754fa",
    "IndexArtifact": "4aa85b67248a0590",
}
"""Hash of the fields by kind, at its current version."""


@pytest.mark.case("S15")
def test_a_golden_record_has_the_bytes_of_its_first_release() -> None:
    assert encode(ACCOUNT).hex() == (
        "080112074163636f756e741a2430313962303030302d303030302d373030302d383030302d303030"
        "303030303030303031220462616e6b2880e0ccb6bf8d9203320641435449564542060a0161120131"
        "42060a0162120132"
    )


@pytest.mark.case("S17")
def test_the_order_of_properties_does_not_change_the_bytes() -> None:
    other = replace(ACCOUNT, tags={"a": "1", "b": "2"})
    assert encode(other) == encode(ACCOUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class First(Record):
    kind: ClassVar = "Example"
    name: str
    columns: tuple[TableColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Second(Record):
    """The next version, with an appended field."""

    kind: ClassVar = "Example"
    record_version: ClassVar[int] = 2
    name: str
    columns: tuple[TableColumn, ...] = ()
    state: str = "ACTIVE"
    labels: Mapping[str, str] = field(default_factory=dict)


@pytest.mark.case("S16")
def test_an_older_record_is_read_with_the_defaults_of_later_fields() -> None:
    assert decode(Second, encode(First(name="x"))) == Second(name="x", state="ACTIVE")


@pytest.mark.case("S16")
def test_a_newer_record_is_refused_by_its_version() -> None:
    with pytest.raises(UnsupportedRecordError, match="its version is 2"):
        decode(First, encode(Second(name="x")))


CONTENT = encode(ACCOUNT)


@pytest.mark.case("S16")
@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (CONTENT.replace(b"ACTIVE", b"BROKEN"), "BROKEN"),
        (CONTENT.replace(b"019b", b"019B"), "canonical"),
        (CONTENT.replace(b"\x01a", b"\x01b"), "canonical"),
        (b"\x08\x00" + CONTENT[2:], "its version is 0"),
        (b"\x08\x81\x00" + CONTENT[2:], "number is damaged"),
        (CONTENT[2:], "no version and kind"),
        (b"", "no version and kind"),
        (CONTENT.replace(b"Account", b"Accounx"), "another kind"),
        (CONTENT + b"\x80\x02\x01", "field 32 is unknown"),
        (CONTENT + b"\x1a\x01x", "not in order"),
        (CONTENT[:-1], "too early"),
        (CONTENT + b"\x45\x01", "unknown form"),
        (b"\x08\x01\x12\x07Account", "id is missing"),
        (CONTENT.replace(b"\x1a\x24", b"\x1a\x01x\x1a\x24"), "occurs twice"),
    ],
)
def test_a_record_that_cannot_be_read_completely_is_refused(content: bytes, fault: str) -> None:
    with pytest.raises(UnsupportedRecordError, match=fault):
        decode(Account, content)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        record = decode(Catalog, content)
    except UnsupportedRecordError:
        return
    assert encode(record) == content


@given(place=st.integers(0, len(CONTENT) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_is_refused_or_another_canonical_record(place: int, byte: int) -> None:
    content = CONTENT[:place] + bytes([byte]) + CONTENT[place + 1 :]
    try:
        record = decode(Account, content)
    except UnsupportedRecordError:
        return
    assert encode(record) == content


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_is_not_written(number: int) -> None:
    column = TableColumn(field_id=number, name="a", type="int", nullable=True)
    with pytest.raises(ValueError, match="beyond 64 bits"):
        encode(First(name="x", columns=(column,)))


def test_a_time_without_a_zone_is_not_written() -> None:
    with pytest.raises(ValueError, match="zone"):
        encode(replace(ACCOUNT, created_at=NOON.replace(tzinfo=None)))


def test_a_value_without_a_written_form_is_refused() -> None:
    with pytest.raises(TypeError, match="float has no form"):
        encode(First(name=1.5))  # type: ignore[arg-type]  # the point


def test_every_class_is_listed_once() -> None:
    kinds = [kind.kind for kind in RECORDS]
    assert len(set(kinds)) == len(kinds)
    assert {each.name for each in fields(Table)} >= {"id", "columns", "properties"}


@every_class
@given(st.data())
def test_a_record_of_any_kind_is_read_by_what_it_says(
    kind: type[Record], data: st.DataObject
) -> None:
    record = data.draw(records(kind))
    assert kind_of(encode(record)) == kind.kind
    assert decode_any(encode(record)) == record


@pytest.mark.parametrize("data", [b"", b"PAR1", b"\x08\x01", b"\x08\x01\x10\x01", b"\xff" * 12])
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedRecordError):
        decode_any(data)


def test_a_record_of_an_unknown_kind_is_refused() -> None:
    data = encode(ACCOUNT).replace(b"Account", b"Accounx")
    with pytest.raises(UnsupportedRecordError, match="Accounx"):
        decode_any(data)
