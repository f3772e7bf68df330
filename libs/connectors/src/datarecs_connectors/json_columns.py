"""Infer the columns of JSON lines: names of nested members, types that fit every value.

An object becomes the columns of its members (`a.b.c`), unless it is declared as one column. A
member with arrays, or with values of several kinds, is one column of type json: `1` is not `"1"`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType

from datarecs_connectors.json_values import Number, exact
from datarecs_core.comparison.planning.scan import SourceColumn
from datarecs_core.comparison.values.forms import Inference
from datarecs_core.comparison.values.translating import fits
from datarecs_core.documents import decimal_text
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType

MAX_COLUMNS = 2_000
_MAX_NODES = 50 * MAX_COLUMNS
"""Objects used as maps would otherwise fill the memory with names."""
_FEW_DIGITS = 18
"""Every integer with this number of digits is an int64."""
_OBJECT = {dict}


class TooManyColumnsError(ValueError):
    """More than `MAX_COLUMNS` names."""


_NATIVE: Mapping[type, tuple[str, CanonicalType]] = {
    bool: ("boolean", types.BOOL),
    str: ("string", types.TEXT),
    list: ("array", types.JSON),
    dict: ("object", types.JSON),
}


@dataclass(slots=True)
class _Node:
    """One name and the members of its objects. Files are numbered from 0."""

    name: str
    met: set[type] = field(default_factory=set)
    """Kinds of its values, with null."""
    members: dict[str, "_Node"] = field(default_factory=dict)
    numbers: Inference = field(default_factory=Inference)
    last: int = -1
    """File in which the name was last seen."""
    first_object: int = -1
    last_object: int = -1
    missing: int | None = None
    """A file without the name that has the object of the name."""
    present: int = -1
    """The first file with the name."""

    @property
    def is_column(self) -> bool:
        return self.met - {NoneType} != _OBJECT or not self.members

    @property
    def native(self) -> tuple[str, CanonicalType]:
        met = self.met - {NoneType}
        if met == {Number}:
            return "number", self.numbers.type or types.NUMERIC
        if len(met) > 1:
            return "mixed", types.JSON
        return _NATIVE[met.pop()] if met else ("null", types.NULL)


@dataclass(slots=True)
class Columns:
    """The columns of all lines so far; call `see` with every line of a file, then `end_file`."""

    declared: Mapping[str, CanonicalType]
    """Types by column name: these columns exist in every file, also without values."""
    _root: _Node = field(default_factory=lambda: _Node(""))
    _file: int = 0
    _nodes: int = 0
    _lines: bool = False

    def see(self, row: Mapping[str, object]) -> None:
        """Raises TooManyColumnsError."""
        self._lines = True
        self._members(self._root, row)

    def end_file(self) -> None:
        """End a file; a file without lines has no columns and so never different ones."""
        if self._lines:
            self._miss(self._root)
        self._file, self._lines = self._file + 1, False

    def list_columns(self) -> list[SourceColumn]:
        """Columns in the order of their first line; a name may repeat if keys contain dots.

        Raises TooManyColumnsError.
        """
        made = [
            SourceColumn(
                name=node.name,
                type=self.declared.get(node.name, node.native[1]),
                native_type=node.native[0],
            )
            for node in self._columns(self._root)
        ]
        seen = {column.name for column in made}
        made += [
            SourceColumn(name=name, type=kind, native_type="null")
            for name, kind in self.declared.items()
            if name not in seen
        ]
        if len(made) > MAX_COLUMNS:
            raise TooManyColumnsError
        return made

    def difference(self) -> tuple[str, int, int] | None:
        """A column that is missing in one file: its name, a file with it and a file without it."""
        for node in self._columns(self._root):
            if node.missing is not None and node.name not in self.declared:
                one, other = sorted((node.present, node.missing))
                return node.name, one, other
        return None

    def _columns(self, node: _Node) -> Iterator[_Node]:
        for member in node.members.values():
            if member.is_column or member.name in self.declared:
                yield member
            else:
                yield from self._columns(member)

    def _members(self, node: _Node, row: Mapping[str, object]) -> None:
        for key, value in row.items():
            member = node.members.get(key)
            if member is None:
                member = self._new(node, key)
            member.last = self._file
            member.met.add(type(value))
            if type(value) is Number:
                if not _is_known(member.numbers, value):
                    member.numbers = _seen(member.numbers, value)
            elif isinstance(value, dict) and member.name not in self.declared:
                self._members(member, value)
        if node.first_object < 0:
            node.first_object = self._file
        node.last_object = self._file

    def _new(self, node: _Node, key: str) -> _Node:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise TooManyColumnsError
        plain = key.encode(errors="replace").decode()
        made = _Node(plain if node is self._root else f"{node.name}.{plain}", present=self._file)
        if 0 <= node.first_object < self._file:
            made.missing = node.first_object
        node.members[key] = made
        return made

    def _miss(self, node: _Node) -> None:
        """Names that are missing in the file: members of objects that it has."""
        if node.last_object != self._file:
            return
        for member in node.members.values():
            if member.last != self._file:
                member.missing = self._file
            self._miss(member)


def _is_known(numbers: Inference, written: Number) -> bool:
    """Whether the type of a short number is known without parsing."""
    whole, _, fraction = written.lstrip("-").partition(".")
    few = len(whole) <= min(_FEW_DIGITS, numbers.whole_digits) and len(fraction) <= numbers.scale
    return few and (whole + fraction).isdigit()


def _seen(numbers: Inference, written: Number) -> Inference:
    """Exponents are expanded; a value with too many digits is INVALID and has no effect."""
    digits = written.lstrip("-")
    if len(digits) <= types.MAX_DIGITS and digits.replace(".", "", 1).isdigit():
        return numbers.see(written)
    amount = exact(written)
    if amount is None or not fits(amount):
        return numbers
    return numbers.see(decimal_text(amount))


def value_of(row: Mapping[str, object], name: str) -> object:
    """The value of a column: a key of that name, else by members; None if it is missing."""
    if name in row:
        return row[name]
    return _inside(row, name.split(".")) if "." in name else None


def _inside(row: Mapping[str, object], parts: Sequence[str]) -> object:
    for size in range(len(parts) - 1, 0, -1):
        inner = row.get(".".join(parts[:size]))
        if isinstance(inner, dict):
            member = value_of(inner, ".".join(parts[size:]))
            if member is not None:
                return member
    return None
