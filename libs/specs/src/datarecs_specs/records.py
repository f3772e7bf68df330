"""The forms of composed values: lists, free maps, mappings with known fields, and their variants.

Only a `Record` detects unknown, missing, misplaced and repeated fields, so every kind reports them
in the same way and describes them to editors in the same way.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import Field as DataclassField
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Final

from datarecs_core.errors.faults import (
    Fault,
    Gap,
    Path,
    Place,
    did_you_mean,
    visible,
)
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_specs.nodes import Entry, Form, ListNode, MapNode, Node, Scalar
from datarecs_specs.reading import JsonSchema, Reading, Shape
from datarecs_specs.shapes import text_of, wrong_type

ABSENT: Final = object()
"""The default of a field that has none and may be left out."""
REQUIRED: Final = object()
"""The default of a required field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list within bounds. Items with a fault stay as Gaps, so that indices stay correct."""

    item: Shape
    least: int = 0
    most: int

    def read(self, node: Node, at: Path, reading: Reading) -> tuple[object, ...] | Gap:
        if not isinstance(node, ListNode):
            return wrong_type(node, at, reading, "a list")
        if not self.least <= len(node.items) <= self.most:
            return reading.fault(_length_fault(len(node.items), self.least, self.most, at))
        for index, item in enumerate(node.items):
            reading.place((*at, index), item)
        return tuple(
            self.item.read(item, (*at, index), reading) for index, item in enumerate(node.items)
        )

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        items = value if isinstance(value, Sequence) else ()
        return [self.item.write(item, minimal=minimal) for item in items]

    def schema(self) -> JsonSchema:
        return {
            "type": "array",
            "minItems": self.least,
            "maxItems": self.most,
            "items": self.item.schema(),
        }


def _length_fault(count: int, least: int, most: int, at: Path) -> Fault:
    entries = "entry" if count == 1 else "entries"
    message = f"{count} {entries}; {least} to {most} are allowed"
    return Fault(code=SpecCode.BAD_LENGTH, path=at, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """A mapping whose keys the user chooses. Entries with a fault are left out."""

    key: Shape
    value: Shape
    most: int

    def read(self, node: Node, at: Path, reading: Reading) -> Mapping[Any, object] | Gap:
        if not isinstance(node, MapNode):
            return wrong_type(node, at, reading, "a mapping")
        if len(node.entries) > self.most:
            return reading.fault(_length_fault(len(node.entries), 0, self.most, at))
        read: dict[object, object] = {}
        for entry in node.entries:
            path = (*at, entry.key)
            reading.place(path, entry.value, key=entry.key_mark)
            key = self._key(entry, path, reading)
            value = self.value.read(entry.value, path, reading)
            if not isinstance(key, Gap) and not isinstance(value, Gap):
                read[key] = value
        return read

    def _key(self, entry: Entry, path: Path, reading: Reading) -> object:
        """Checked like a text, but reported for the key, which is at another place."""
        apart = Reading(surroundings=reading.surroundings)
        key = self.key.read(key_node(entry), path, apart)
        for fault in apart.faults:
            reading.fault(
                Fault(
                    code=fault.code,
                    path=path,
                    message=f"the key: {fault.message}",
                    hint=fault.hint,
                    place=Place.KEY,
                )
            )
        return key

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        entries = value if isinstance(value, Mapping) else {}
        return {
            str(self.key.write(key, minimal=minimal)): self.value.write(item, minimal=minimal)
            for key, item in entries.items()
        }

    def schema(self) -> JsonSchema:
        return {
            "type": "object",
            "maxProperties": self.most,
            "propertyNames": self.key.schema(),
            "additionalProperties": self.value.schema(),
        }


def key_node(entry: Entry) -> Scalar:
    """A key as the scalar it is."""
    return Scalar(text=entry.key, form=Form.TEXT, mark=entry.key_mark, bare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a record: how it is written, read and explained."""

    name: str
    shape: Shape
    doc: str
    aliases: tuple[str, ...] = ()
    alias_shapes: Mapping[str, Shape] = field(default_factory=dict)
    """Aliases with another form of the value than the field, such as `abs_tol: 0.01`."""
    short_forms: Mapping[str, Shape] = field(default_factory=dict)
    """Keys with a simpler value that mean this field; they are as good as it, so nothing warns."""
    attribute: str = ""
    """Of the built object, when Python reserves the name."""
    default: object = ABSENT
    """Only for records that build plain mappings; dataclasses have defaults."""
    stand_in: object = REQUIRED
    """What takes the place of a required field that is missing or broken, so that the rest of the
    record can still be judged; without one the record becomes a Gap."""

    get: Callable[[Any], object] | None = None
    """How to read it from the built object, when it is not an attribute."""
    has_effect: Callable[[Any], bool] | None = None
    """Of the built object: whether the field is written; one without effect would be refused."""

    @property
    def keyword(self) -> str:
        return self.attribute or self.name

    def shape_of(self, key: str) -> Shape:
        """How the value is read under this key: the field's name, an alias or a short form."""
        return self.short_forms.get(key) or self.alias_shapes.get(key, self.shape)

    @property
    def other_keys(self) -> tuple[str, ...]:
        return (*self.aliases, *self.short_forms)


Misplaced = tuple[SpecCode, str]
_WHY_MISPLACED: Mapping[SpecCode, str] = {
    SpecCode.FIELD_OF_ANOTHER_KIND: "does not belong here",
    SpecCode.INLINE_SECRET: "holds a secret",
    SpecCode.UNKNOWN_FIELD: "is set by the server",
}
Check = Callable[[Mapping[str, object], Path, Reading], None]
Complete = Callable[[Mapping[str, object]], Mapping[str, object]]


@dataclass(frozen=True, kw_only=True)
class Record:
    """A mapping with known fields, read into a dataclass by keyword."""

    title: str
    model: Callable[..., object]
    """The dataclass with attributes and defaults; `dict` for a plain mapping."""
    build: Callable[..., object] | None = None
    """What is called with the fields by keyword, when it is not the model."""
    fields: tuple[Field, ...]
    shorthand: str | None = None
    """The field that a bare text sets, if allowed."""
    misplaced: Mapping[str, Misplaced] = field(default_factory=dict)
    """Keys that people write here by mistake, with their fault and a hint."""
    check: Check | None = None
    """Rules that need the set of present fields, run on the readable parts."""
    complete: Complete | None = None
    """Adds fields whose default depends on the other ones."""

    @cached_property
    def _by_key(self) -> Mapping[str, Field]:
        by_name = {one.name: one for one in self.fields}
        return {key: one for one in self.fields for key in one.other_keys} | by_name

    @cached_property
    def _defaults(self) -> Mapping[str, object]:
        made_by: dict[str, DataclassField[Any]] = {}
        if is_dataclass(self.model):
            made_by = {one.name: one for one in fields(self.model)}
        return {one.name: _default(one, made_by) for one in self.fields}

    @property
    def keys(self) -> Collection[str]:
        """Every key that may be written: fields, aliases and short forms."""
        return self._by_key.keys()

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        node = self._whole(node)
        if not isinstance(node, MapNode):
            return wrong_type(node, at, reading, f"a mapping ({self.title})")
        values: dict[str, object] = {}
        written: dict[str, str] = {}
        for entry in node.entries:
            self._read_entry(entry, at, reading, values=values, written=written)
        if self.check:
            self.check(values, at, reading)
        return self._built(self.complete(values) if self.complete else values, at, reading)

    def _whole(self, node: Node) -> Node:
        if self.shorthand and text_of(node) is not None:
            entry = Entry(key=self.shorthand, key_mark=node.mark, value=node)
            return MapNode(entries=(entry,), mark=node.mark)
        return node

    def _read_entry(
        self,
        entry: Entry,
        at: Path,
        reading: Reading,
        *,
        values: dict[str, object],
        written: dict[str, str],
    ) -> None:
        one = self._by_key.get(entry.key)
        if one is None:
            reading.place((*at, entry.key), entry.value, key=entry.key_mark)
            reading.fault(self._unknown(entry.key, at))
            return
        is_short = entry.key in one.short_forms
        path = (*at, entry.key if is_short else one.name)
        if one.name in written:
            if entry.key_mark:
                reading.again[*at, entry.key] = entry.key_mark
            first = written[one.name]
            reading.fault(
                Fault(
                    code=SpecCode.FIELD_GIVEN_TWICE,
                    path=(*at, entry.key),
                    others=((*at, first),),
                    message=f"'{first}' and '{entry.key}' are one field",
                    hint=f"keep '{one.name}'",
                    place=Place.KEY,
                )
            )
            return
        written[one.name] = entry.key
        reading.place(path, entry.value, key=entry.key_mark)
        if entry.key in one.aliases:
            reading.place((*at, entry.key), entry.value, key=entry.key_mark)
            reading.fault(
                Fault(
                    code=SpecCode.FIELD_ALIAS,
                    path=(*at, entry.key),
                    message=f"'{entry.key}' is another name of '{one.name}'",
                    hint=f"write '{one.name}'",
                    place=Place.KEY,
                    warning=True,
                )
            )
        values[one.name] = one.shape_of(entry.key).read(entry.value, path, reading)

    def _unknown(self, key: str, at: Path) -> Fault:
        if key in self.misplaced:
            code, hint = self.misplaced[key]
            message = f"'{visible(key)}' {_WHY_MISPLACED[code]}"
            return Fault(code=code, path=(*at, key), message=message, hint=hint, place=Place.KEY)
        return Fault(
            code=SpecCode.UNKNOWN_FIELD,
            path=(*at, key),
            message=f"unknown field '{visible(key)}'",
            hint=self._missing_blank(key) or did_you_mean(key, self.keys),
            place=Place.KEY,
        )

    def _missing_blank(self, key: str) -> str:
        """The hint for `kind:csv`, a key without a value for a reader of YAML."""
        name, colon, _ = key.partition(":")
        is_known = colon and name in self.keys
        return f"write a blank after the colon, as in `{name}: …`" if is_known else ""

    def _built(self, values: Mapping[str, object], at: Path, reading: Reading) -> object:
        usable = True
        made: dict[str, object] = {}
        for one in self.fields:
            default = self._defaults[one.name]
            value = values.get(one.name, default)
            if one.name not in values and default is REQUIRED:
                reading.fault(
                    Fault(
                        code=SpecCode.MISSING_FIELD,
                        path=(*at, one.name),
                        message=f"'{one.name}' is missing",
                        place=Place.MISSING,
                    )
                )
            if isinstance(value, Gap):
                value = default
            if value is REQUIRED:
                value = one.stand_in
            if value is REQUIRED:
                usable = False
            elif value is not ABSENT:
                made[one.keyword] = value
        if usable:
            return (self.build or self.model)(**made)
        name = values.get("name")
        return Gap(name=name if isinstance(name, str) else None)

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        written: dict[str, JsonValue] = {}
        for one in self.fields:
            part = ABSENT if one.has_effect and not one.has_effect(value) else _part(value, one)
            if part is None or part is ABSENT:
                continue
            plain = one.shape.write(part, minimal=minimal)
            if not (minimal and plain == self._plain_defaults.get(one.name, ABSENT)):
                written[one.name] = plain
        return written

    @cached_property
    def _plain_defaults(self) -> Mapping[str, JsonValue]:
        """Defaults as `write` returns them, of the fields that have one and are attributes."""
        return {
            one.name: one.shape.write(self._defaults[one.name], minimal=True)
            for one in self.fields
            if one.get is None and self._defaults[one.name] not in (ABSENT, REQUIRED, None)
        }

    def schema(self) -> JsonSchema:
        properties: dict[str, JsonValue] = {}
        for one in self.fields:
            said: dict[str, JsonValue] = dict(one.shape.schema())
            form = said.get("description")
            said["description"] = f"{one.doc} ({form})" if form else one.doc
            if self._plain_defaults.get(one.name) not in (None, {}, []):
                said["default"] = self._plain_defaults[one.name]
            properties[one.name] = said
            for alias in one.aliases:
                properties[alias] = {
                    **one.shape_of(alias).schema(),
                    "description": f"another name of `{one.name}`",
                    "deprecated": True,
                }
            for short, shape in one.short_forms.items():
                form = {**shape.schema(), "description": f"short form of `{one.name}`"}
                properties[short] = form
        schema: dict[str, JsonValue] = {
            "type": "object",
            "title": self.title,
            "additionalProperties": False,
            "properties": properties,
            **self._needed_schema(),
        }
        if self.shorthand:
            return {"anyOf": [self._by_key[self.shorthand].shape.schema(), schema]}
        return schema

    def _needed_schema(self) -> JsonSchema:
        needed = [one for one in self.fields if self._defaults[one.name] is REQUIRED]
        plain = [one.name for one in needed if not one.other_keys]
        choices = [
            {"anyOf": [{"required": [key]} for key in (one.name, *one.other_keys)]}
            for one in needed
            if one.other_keys
        ]
        return {**({"required": plain} if plain else {}), **({"allOf": choices} if choices else {})}


def _part(value: object, one: Field) -> object:
    if one.get:
        return one.get(value)
    if isinstance(value, Mapping):
        return value.get(one.keyword, one.default)
    return getattr(value, one.keyword)


@dataclass(frozen=True, kw_only=True)
class Tagged:
    """Records distinguished by one of their fields; reports fields of other variants."""

    tag: str
    variants: Mapping[str, Record]
    general: Record
    """Every field of all variants, to continue reading when the tag itself has a fault."""

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        tag = node.get(self.tag) if isinstance(node, MapNode) else None
        word = text_of(tag) if tag is not None else None
        return self.variants.get(word or "", self.general).read(node, at, reading)

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        return self.variants[str(getattr(value, self.tag))].write(value, minimal=minimal)

    def schema(self) -> JsonSchema:
        return {"oneOf": [variant.schema() for variant in self.variants.values()]}


def tagged(tag: str, fields_of: Mapping[str, tuple[Field, ...]], *, record: Record) -> Tagged:
    """Variants of one record by the words of a tag; `record` has all fields and their model."""
    keys = {word: _keys(variant_fields) for word, variant_fields in fields_of.items()}
    variants: dict[str, Record] = {}
    for word, variant_fields in fields_of.items():
        foreign = {
            key: _of_another(f"{tag} {', '.join(one for one in keys if key in keys[one])}")
            for key in frozenset().union(*keys.values()) - keys[word]
        }
        variants[str(word)] = replace(
            record,
            title=f"{record.title} of {tag} {word}",
            fields=variant_fields,
            misplaced={**foreign, **record.misplaced},
        )
    return Tagged(tag=tag, variants=variants, general=record)


def _of_another(owner: str) -> Misplaced:
    return SpecCode.FIELD_OF_ANOTHER_KIND, f"it is a field of {owner}"


def _keys(some: Sequence[Field]) -> frozenset[str]:
    return frozenset(key for one in some for key in (one.name, *one.aliases))


@dataclass(frozen=True, kw_only=True)
class ListOrWord:
    """A list, or one word in its place, such as `"*"` for all columns."""

    word: str
    items: ListOf

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        return self.word if text_of(node) == self.word else self.items.read(node, at, reading)

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        return self.word if value == self.word else self.items.write(value, minimal=minimal)

    def schema(self) -> JsonSchema:
        return {"anyOf": [{"const": self.word}, self.items.schema()]}


def _default(one: Field, made_by: Mapping[str, DataclassField[Any]]) -> object:
    known = made_by.get(one.keyword)
    if known is None:
        return one.default
    if known.default is not NO_DEFAULT:
        return known.default
    if known.default_factory is not NO_DEFAULT:
        return known.default_factory()
    return REQUIRED
