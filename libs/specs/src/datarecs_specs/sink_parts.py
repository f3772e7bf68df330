"""Shapes of single fields of a sink: short forms, and where reading begins."""

from dataclasses import dataclass
from datetime import datetime

from datarecs_core.errors.faults import Path
from datarecs_core.hashing import JsonValue
from datarecs_core.sink.definition import StartAt
from datarecs_specs.nodes import MapNode, Node
from datarecs_specs.reading import JsonSchema, Reading, Shape
from datarecs_specs.records import REQUIRED, Field, Record
from datarecs_specs.shapes import Word
from datarecs_specs.time_shapes import MOMENT


def single(name: str, shape: Shape, *, title: str, doc: str, default: object = REQUIRED) -> Record:
    """A mapping with one field, read into the field's value."""

    def value(**written: object) -> object:
        return written[name]

    field = Field(name=name, shape=shape, doc=doc, default=default, get=lambda value: value)
    return Record(title=title, model=dict, build=value, fields=(field,))


@dataclass(frozen=True, slots=True)
class One:
    """The short form of a list with one entry."""

    item: Shape

    def read(self, node: Node, at: Path, reading: Reading) -> tuple[object, ...]:
        return (self.item.read(node, at, reading),)

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        (item,) = value if isinstance(value, tuple) else (value,)
        return self.item.write(item, minimal=minimal)

    def schema(self) -> JsonSchema:
        return self.item.schema()


_FROM = single("timestamp", MOMENT, title="a time of records", doc="time of the first record")
_START_WORD = Word(words=StartAt)


@dataclass(frozen=True, slots=True)
class Start:
    """A word, or a mapping with a time."""

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        if isinstance(node, MapNode):
            return _FROM.read(node, at, reading)
        return _START_WORD.read(node, at, reading)

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        if isinstance(value, datetime):
            return _FROM.write(value, minimal=minimal)
        return _START_WORD.write(value, minimal=minimal)

    def schema(self) -> JsonSchema:
        return {"anyOf": [_START_WORD.schema(), _FROM.schema()]}
