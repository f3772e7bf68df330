"""The canonical encoding c1 as data: the required bytes of every writer of canonical values.

`canonical_c1.json` in this folder has values with their text and encoding, tuples, and the equal
values; docs/canonical-values.md describes its format. Every implementation of c1 runs it.
"""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import NamedTuple, Protocol, cast
from uuid import UUID

import pytest

from datarecs_core.comparison.values.canonical import Interval
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.types import CanonicalType, TypeKind, array_of, parse_type

_INFINITE = {"infinity": Decimal("Infinity"), "-infinity": Decimal("-Infinity")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One value of a type, and how c1 writes it."""

    name: str
    type: CanonicalType
    plain: object
    """The value from readers: see `translating.canonical`."""
    text: str | None
    """The text for people."""
    encoding: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleVector:
    name: str
    members: tuple[Vector, ...]
    encoding: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Names in one class are equal, names of different classes are not."""

    case: str
    classes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The whole file."""

    source: str
    """Name of the source that INVALID values belong to."""
    vectors: tuple[Vector, ...]
    tuples: tuple[TupleVector, ...]
    relations: tuple[Relation, ...]

    @property
    def encodings(self) -> Mapping[str, bytes]:
        """By name, tuples included."""
        values = {one.name: one.encoding for one in self.vectors}
        return values | {one.name: one.encoding for one in self.tuples}


@cache
def published() -> Published:
    """The vectors of c1."""
    file = files("datarecs_testing.conformance").joinpath("canonical_c1.json")
    document = json.loads(file.read_text(encoding="utf-8"))
    vectors = tuple(_vector(one) for one in document["vectors"])
    known = {one.name: one for one in vectors}
    return Published(
        source=document["source"],
        vectors=vectors,
        tuples=tuple(
            TupleVector(
                name=one["name"],
                members=tuple(known[name] for name in one["values"]),
                encoding=bytes.fromhex(one["encoding"]),
            )
            for one in document["tuples"]
        ),
        relations=tuple(
            Relation(case=one["case"], classes=tuple(map(tuple, one["classes"])))
            for one in document["relations"]
        ),
    )


def _vector(one: Mapping[str, object]) -> Vector:
    kind = _type(str(one["type"]))
    return Vector(
        name=str(one["name"]),
        type=kind,
        plain=_plain(one["written"], kind),
        text=cast("str | None", one["text"]),
        encoding=bytes.fromhex(str(one["encoding"])),
    )


def _type(written: str) -> CanonicalType:
    """Also structs and maps, which no job declares."""
    head, _, inside = written.removesuffix(">").partition("<")
    parts = inside.split(", ")
    match head:
        case "array":
            return array_of(_type(inside))
        case "map":
            members = zip(("key", "value"), map(parse_type, parts), strict=True)
            return CanonicalType(kind=TypeKind.MAP, members=tuple(members))
        case "struct":
            named = (part.split(": ") for part in parts)
            fields = tuple((name, parse_type(kind)) for name, kind in named)
            return CanonicalType(kind=TypeKind.STRUCT, members=fields)
        case _:
            return parse_type(written)


def _plain(written: object, kind: CanonicalType) -> object:
    match written:
        case None | bool():
            return written
        case str() if kind.is_time and written in _INFINITE:
            return _INFINITE[written]
        case str():
            return _from_text(written, kind)
        case list() if kind.kind is TypeKind.MAP:
            key, value = (member for _, member in kind.members)
            return {_plain(one, key): _plain(other, value) for one, other in written}
        case list():
            return [_plain(one, kind.members[0][1]) for one in written]
        case _:
            return _from_object(cast("dict[str, object]", written), kind)


def _from_object(written: Mapping[str, object], kind: CanonicalType) -> object:
    match dict(written):
        case {"invalid": raw}:
            return Invalid(bytes.fromhex(str(raw)))
        case {"bytes": raw}:
            return bytes.fromhex(str(raw))
        case {"months": int() as months, "days": int() as days, "microseconds": int() as rest}:
            return Interval(months, days, rest)
        case {"days": amount} | {"microseconds": amount}:
            return Decimal(str(amount))
        case fields:
            return {name: _plain(fields[name], member) for name, member in kind.members}


def _from_text(written: str, kind: CanonicalType) -> object:
    read = _READERS.get(kind.kind)
    return written if read is None else read(written)


_READERS: Mapping[TypeKind, Callable[[str], object]] = {
    TypeKind.INT: int,
    TypeKind.DECIMAL: Decimal,
    TypeKind.FLOAT64: lambda bits: struct.unpack(">d", bytes.fromhex(bits))[0],
    TypeKind.FLOAT32: lambda bits: struct.unpack(">f", bytes.fromhex(bits))[0],
    TypeKind.BINARY: bytes.fromhex,
    TypeKind.UUID: UUID,
    TypeKind.DATE: date.fromisoformat,
    TypeKind.TIME: time.fromisoformat,
    TypeKind.INSTANT: datetime.fromisoformat,
    TypeKind.LOCAL_TIMESTAMP: datetime.fromisoformat,
}
"""Text, JSON and others are unchanged; floats are the bits of IEEE 754."""


class Written(NamedTuple):
    text: str | None
    encoding: bytes


class CanonicalWriter(Protocol):
    """An implementation of c1, or the part that an engine supports."""

    def covers(self, vector: Vector) -> bool:
        """Whether it writes this value itself."""

    def write(self, vectors: Sequence[Vector]) -> Sequence[Written]:
        """Text and encoding of covered vectors of one type, in order."""

    def write_tuple(self, members: Sequence[Vector]) -> bytes:
        """The tuple of covered vectors."""


class CanonicalConformance:
    """Subclass with a fixture `writer`, a CanonicalWriter."""

    @pytest.mark.case("P01")
    @pytest.mark.case("P02")
    @pytest.mark.case("P03")
    @pytest.mark.case("P29")
    @pytest.mark.case("P31")
    @pytest.mark.case("P33")
    @pytest.mark.case("P41")
    @pytest.mark.case("F22")
    def test_every_value_is_written_as_published(self, writer: CanonicalWriter) -> None:
        covered = sorted(filter(writer.covers, published().vectors), key=lambda one: str(one.type))
        wrong = {}
        for _, same in groupby(covered, key=lambda one: str(one.type)):
            vectors = list(same)
            for vector, actual in zip(vectors, writer.write(vectors), strict=True):
                if actual != (vector.text, vector.encoding):
                    wrong[vector.name] = (actual.text, actual.encoding.hex(" "))
        assert covered
        assert not wrong, wrong

    @pytest.mark.case("P22")
    @pytest.mark.case("P24")
    @pytest.mark.case("P51")
    @pytest.mark.case("F13")
    def test_every_tuple_is_written_as_published(self, writer: CanonicalWriter) -> None:
        covered = [one for one in published().tuples if all(map(writer.covers, one.members))]
        encodings = {one.name: writer.write_tuple(one.members) for one in covered}
        assert covered
        assert encodings == {one.name: one.encoding for one in covered}
