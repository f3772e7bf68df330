"""The shape of file sources: their paths, and the further files that their query reads.

Separate from `job_sources`, because a table has a kind and options like a source, and nothing else.
"""

from collections.abc import Collection, Mapping
from typing import Any

from datarecs_core.errors.faults import Path
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.definition import SourceTable
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import source_path_fault
from datarecs_specs.nodes import MapNode, Node
from datarecs_specs.reading import JsonSchema, Reading
from datarecs_specs.records import Field, MapOf, Record
from datarecs_specs.shapes import NAME_TEXT, Checked, Text, Word, text_of
from datarecs_specs.source_options import OPTIONS, options_of

FILE_KINDS = frozenset({SourceKind.PARQUET, SourceKind.CSV, SourceKind.JSON})
MAX_TABLES = 16


def _path_problem(path: str, _reading: Reading) -> str | None:
    return source_path_fault(path, absolute=True)


FILE_PATH = Checked(
    text=Text(most=1_024, normal=False),
    code=SpecCode.BAD_PATH,
    fault_of=_path_problem,
    examples=("exports/*.parquet", "s3://lake/exports/*.parquet"),
)


def declared_options(kind: SourceKind, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options without those at their default, so that equal jobs are equal."""
    defaults = {one.name: one.default for one in OPTIONS.get(kind, ())}
    options: Mapping[str, Any] = values.get("options", {})
    return {name: value for name, value in options.items() if value != defaults.get(name)}


def _table_of(kind: SourceKind, kinds: Collection[SourceKind]) -> Record:
    """A table of files of one kind, which `kind` may name with these words."""

    def built(path: str, **fields: Any) -> SourceTable:  # noqa: ANN401  the model's fields
        return SourceTable(path=path, **{**fields, "options": declared_options(kind, fields)})

    return Record(
        title=f"a table of kind {kind}",
        model=SourceTable,
        build=built,
        fields=(
            Field(
                name="path",
                shape=FILE_PATH,
                doc="file, folder or glob below the source's connection",
            ),
            Field(
                name="kind",
                shape=Word(words=SourceKind, only=kinds),
                doc="kind of its files; that of the source if absent",
            ),
            Field(name="options", shape=options_of(kind), doc=f"options of {kind}"),
        ),
    )


class _Table:
    """A table of a source: its kind decides about its options."""

    __slots__ = ("_any", "_default", "_records")

    def __init__(self, default: SourceKind) -> None:
        self._default = default
        self._records = {kind: _table_of(kind, (kind,)) for kind in sorted(FILE_KINDS)}
        self._any = _table_of(default, FILE_KINDS)
        """For a kind with a fault."""

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        tag = node.get("kind") if isinstance(node, MapNode) else None
        word = self._default if tag is None else text_of(tag)
        known = {str(kind): record for kind, record in self._records.items()}
        return known.get(word or "", self._any).read(node, at, reading)

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        kind = value.kind if isinstance(value, SourceTable) else None
        return self._records[kind or self._default].write(value, minimal=minimal)

    def schema(self) -> JsonSchema:
        others = [kind for kind in self._records if kind is not self._default]
        named = [
            {"allOf": [self._records[kind].schema(), {"required": ["kind"]}]} for kind in others
        ]
        return {"anyOf": [self._records[self._default].schema(), *named]}


def tables_field(kind: SourceKind) -> Field:
    return Field(
        name="tables",
        shape=MapOf(key=NAME_TEXT, value=_Table(kind), most=MAX_TABLES),
        doc="further files of the query, by the name of their table",
    )
