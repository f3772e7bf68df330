"""The shape of a capture: which tables of which connection, what of them, which snapshots.

Rules of core make the final check. Objects have names such as `sales.orders`; a part with a dot or
a blank is quoted: `"eu.sales".orders`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from datarecs_core.captures.declared import LEAST_INTERVAL, Capture
from datarecs_core.captures.document import CapturedColumns, CaptureDocument
from datarecs_core.captures.naming import (
    MAX_PART_CHARACTERS,
    MAX_PARTS,
    joined_name,
    split_name,
)
from datarecs_core.captures.request import (
    CaptureMode,
    CaptureScope,
    ColumnChoice,
    ExecutionClass,
    ExecutionPolicy,
    ObjectName,
    Output,
    SnapshotChoice,
    SnapshotSelection,
)
from datarecs_core.captures.rules import MOST_NAMES
from datarecs_core.captures.selecting import MOST_SNAPSHOTS
from datarecs_core.errors.faults import Fault, Gap, Path, is_gap, usable
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_specs.envelope import LABEL_VALUE
from datarecs_specs.findings import Finding, located
from datarecs_specs.json_nodes import json_node
from datarecs_specs.nodes import ListNode, MapNode, Node
from datarecs_specs.reading import JsonSchema, Reading
from datarecs_specs.records import REQUIRED, Field, ListOf, Record
from datarecs_specs.shapes import (
    FLAG,
    IDENT,
    NAME_TEXT,
    Length,
    Text,
    Whole,
    Word,
    text_of,
    wrong_type,
)

_PART = Text(most=MAX_PART_CHARACTERS, normal=False)
_PARTS = ListOf(item=_PART, least=1, most=MAX_PARTS)
_DOTTED = Text(most=MAX_PARTS * (MAX_PART_CHARACTERS + 3), normal=False)
_MOST_COLUMNS = 10_000
_LARGEST_ID = 2**63 - 1
_LATER = "FINGERPRINT"


@dataclass(frozen=True, slots=True)
class NamespaceName:
    """A namespace as `a.b` or as a list of its parts."""

    def read(self, node: Node, at: Path, reading: Reading) -> tuple[str, ...] | Gap:
        if isinstance(node, ListNode):
            parts = _PARTS.read(node, at, reading)
            if isinstance(parts, Gap) or any(is_gap(part) for part in parts):
                return Gap()
            return tuple(str(part) for part in parts)
        return _parts(node, at, reading, wanted="a namespace: a text such as sales.eu, or a list")

    def write(self, value: object, *, minimal: bool) -> JsonValue:  # noqa: ARG002  has one form
        return joined_name(value) if isinstance(value, tuple) else str(value)

    def schema(self) -> JsonSchema:
        text = {**_DOTTED.schema(), "examples": ["sales.eu", '"eu.sales"']}
        return {"anyOf": [text, _PARTS.schema()]}


NAMESPACE = NamespaceName()
_OBJECT = Record(
    title="name of a table or view",
    model=ObjectName,
    fields=(
        Field(name="namespace", shape=NAMESPACE, doc="its namespace"),
        Field(name="name", shape=_PART, doc="its name in the namespace"),
    ),
)


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """A table or view as `namespace.name`, or as a mapping of both."""

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        if isinstance(node, MapNode):
            return _OBJECT.read(node, at, reading)
        parts = _parts(node, at, reading, wanted="a name such as sales.orders")
        if isinstance(parts, Gap):
            return parts
        if len(parts) == 1:
            return reading.fault(
                Fault(
                    code=SpecCode.BAD_NAME,
                    path=at,
                    message="the namespace is missing",
                    hint="write namespace.name; the tables of a folder are in `default`, such as "
                    "default.orders",
                    fix="write namespace.name, such as `default.orders`",
                )
            )
        return ObjectName(namespace=parts[:-1], name=parts[-1])

    def write(self, value: object, *, minimal: bool) -> JsonValue:  # noqa: ARG002  has one form
        if isinstance(value, ObjectName):
            return joined_name((*value.namespace, value.name))
        return str(value)

    def schema(self) -> JsonSchema:
        text = {**_DOTTED.schema(), "examples": ["sales.orders", '"eu.sales".orders']}
        return {"anyOf": [text, _OBJECT.schema()]}


def _parts(node: Node, at: Path, reading: Reading, *, wanted: str) -> tuple[str, ...] | Gap:
    if text_of(node) is None:
        return wrong_type(node, at, reading, wanted)
    text = _DOTTED.read(node, at, reading)
    if isinstance(text, Gap):
        return text
    parts = split_name(text)
    if parts is None or len(parts) > MAX_PARTS or max(map(len, parts)) > MAX_PART_CHARACTERS:
        return reading.fault(
            Fault(
                code=SpecCode.BAD_NAME,
                path=at,
                message=f"parts joined by dots, at most {MAX_PARTS} of up to "
                f"{MAX_PART_CHARACTERS} characters",
                hint='quote a part with a dot or a blank, such as "eu.sales".orders',
                fix="write plain names with dots between them, such as `sales.orders`",
            )
        )
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputWord(Word):
    """An output; one of a later release is refused by its name."""

    def read(self, node: Node, at: Path, reading: Reading) -> str | Gap:
        if text_of(node) != _LATER:
            return Word.read(self, node, at, reading)
        return reading.fault(
            Fault(
                code=SpecCode.NOT_IN_ENUM,
                path=at,
                message=f"{_LATER} is not captured in this release",
                hint="leave it out; it comes with incremental runs",
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotNumber(Whole):
    """A 64-bit id; always written as text, which no JSON reader rounds."""

    def plain(self, value: object) -> JsonValue:
        return str(value)


QUALIFIED = QualifiedName()
_SCOPE = Record(
    title="which objects of the connection; empty: all",
    model=CaptureScope,
    fields=(
        Field(
            name="namespaces",
            shape=ListOf(item=NAMESPACE, most=MOST_NAMES),
            doc="everything in these namespaces",
        ),
        Field(
            name="tables", shape=ListOf(item=QUALIFIED, most=MOST_NAMES), doc="only these tables"
        ),
        Field(name="view", shape=QUALIFIED, doc="only this view"),
    ),
)
_COLUMNS = Record(
    title="which columns",
    model=CapturedColumns,
    fields=(
        Field(name="choice", shape=Word(words=ColumnChoice), doc="how columns are chosen"),
        Field(
            name="first",
            shape=Whole(least=1, most=_MOST_COLUMNS),
            doc="of FIRST_N: this many columns, in the order of the table",
        ),
        Field(
            name="names",
            shape=ListOf(item=IDENT, most=MOST_NAMES),
            doc="of EXPLICIT_ONLY: names of columns",
        ),
    ),
)
_SNAPSHOTS = Record(
    title="which snapshots of each table",
    model=SnapshotSelection,
    fields=(
        Field(
            name="select",
            attribute="kind",
            shape=Word(words=SnapshotChoice),
            doc="CURRENT is the newest commit",
            default=REQUIRED,
        ),
        Field(
            name="latest",
            shape=Whole(least=1, most=MOST_SNAPSHOTS),
            doc="of LATEST_N: this many of the newest",
            get=lambda selection: selection.latest or None,
        ),
        Field(
            name="ids",
            attribute="snapshot_ids",
            shape=ListOf(item=SnapshotNumber(least=0, most=_LARGEST_ID), most=MOST_NAMES),
            doc="of EXPLICIT: ids of the catalogue",
        ),
    ),
)
_EXECUTION = Record(
    title="which workers take the work",
    model=ExecutionPolicy,
    fields=(
        Field(
            name="class",
            attribute="execution_class",
            shape=Word(words=ExecutionClass),
            doc="workers may be set up for some classes",
        ),
        Field(
            name="lane",
            shape=LABEL_VALUE,
            doc="workers that are set up for lanes take only these; others take every lane",
        ),
    ),
)
CAPTURE = Record(
    title="a capture",
    model=CaptureDocument,
    fields=(
        Field(
            name="connection",
            shape=NAME_TEXT,
            doc="name of the connection, in the namespace of the request",
            stand_in=Gap(),
        ),
        Field(
            name="mode",
            shape=Word(words=CaptureMode),
            doc="metadata alone, statistics of tables that the catalogue has, or both",
            stand_in=Gap(),
        ),
        Field(
            name="full_rescan",
            shape=FLAG,
            doc="true captures everything again; false only what is not captured yet",
        ),
        Field(name="scope", shape=_SCOPE, doc="which objects of the connection; empty: all"),
        Field(
            name="outputs",
            shape=ListOf(item=OutputWord(words=Output), most=len(Output)),
            doc="what is captured of each snapshot",
        ),
        Field(name="columns", shape=_COLUMNS, doc="which columns the outputs have"),
        Field(name="snapshots", shape=_SNAPSHOTS, doc="which snapshots of each table"),
        Field(name="execution", shape=_EXECUTION, doc="which workers take the work"),
    ),
)


DECLARED_CAPTURE = Record(
    title="spec of a Capture",
    model=Capture,
    fields=(
        replace(
            CAPTURE.fields[0],
            doc="name of the connection, in the namespace default",
        ),
        *CAPTURE.fields[1:],
        Field(
            name="interval",
            shape=Length(least=LEAST_INTERVAL, most=timedelta(days=366)),
            doc="from one start to the next; without it there is one capture for each change of "
            "the spec",
        ),
    ),
)


def capture_meaning(spec: object, reading: Reading) -> None:
    """The rules of core over what could be read of a declaration."""
    if isinstance(spec, CaptureDocument):
        _judge(spec, ("spec",), reading)


def read_capture(node: Node, at: Path, reading: Reading) -> CaptureDocument | None:
    """The capture, with every fault of shape and meaning in `reading`; None if there is one."""
    reading.place(at, node)
    built = CAPTURE.read(node, at, reading)
    if isinstance(built, CaptureDocument):
        _judge(built, at, reading)
    has_faults = any(not fault.warning for fault in reading.faults)
    return built if isinstance(built, CaptureDocument) and not has_faults else None


def _judge(draft: CaptureDocument, at: Path, reading: Reading) -> None:
    broken = [fault.path for fault in reading.faults if not fault.warning]
    meant = [replace(one, path=(*at, *one.path)) for one in _without_gaps(draft).faults()]
    reading.faults.extend(one for one in meant if not _repeats(one.path, broken))


def capture_of(body: Mapping[str, object]) -> tuple[CaptureDocument | None, tuple[Finding, ...]]:
    """The capture of a JSON object, or every fault of it."""
    reading = Reading()
    capture = read_capture(json_node(body), (), reading)
    return capture, located(reading, document=0, root=None)


def written_capture(capture: CaptureDocument) -> Mapping[str, JsonValue]:
    """The document without fields at their default."""
    written = CAPTURE.write(capture, minimal=True)
    return written if isinstance(written, Mapping) else {}


def _without_gaps(draft: CaptureDocument) -> CaptureDocument:
    """The readable parts, for the rules between fields."""
    scope, columns, snapshots = draft.scope, draft.columns, draft.snapshots
    return replace(
        draft,
        scope=replace(
            scope,
            namespaces=tuple(one for _, one in usable(scope.namespaces)),
            tables=tuple(one for _, one in usable(scope.tables)),
            view=None if is_gap(scope.view) else scope.view,
        ),
        outputs=tuple(one for _, one in usable(draft.outputs)),
        columns=replace(columns, names=tuple(one for _, one in usable(columns.names))),
        snapshots=None
        if snapshots is None
        else replace(
            snapshots, snapshot_ids=tuple(one for _, one in usable(snapshots.snapshot_ids))
        ),
    )


def _repeats(path: Path, broken: list[Path]) -> bool:
    """Whether a fault of shape is there, above or below: it may be the cause."""
    return any(path[: len(one)] == one or one[: len(path)] == path for one in broken)
