"""The shape of an endpoint's filter: globs over types, expressions over attributes, values of data.

Separate from the endpoint, because an expression contains expressions and needs another shape.
"""

from collections.abc import Collection, Mapping

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.faults import Fault, Gap, Path, Place, did_you_mean, visible
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_core.runs.model import RunResult
from datarecs_core.webhooks.dialects import ATTRIBUTES, MAX_NODES, Dialect, Expression, holds
from datarecs_core.webhooks.endpoint import MAX_GLOBS, MAX_JOBS, DataFilter, Filter
from datarecs_core.webhooks.globs import FAMILY_PREFIX, glob_fault, glob_matches, nearest_glob
from datarecs_specs.envelope import LABEL_KEY, LABEL_VALUE, MAX_LABELS
from datarecs_specs.nodes import Entry, MapNode, Node
from datarecs_specs.reading import JsonSchema, Reading
from datarecs_specs.records import Field, ListOf, MapOf, Record
from datarecs_specs.shapes import FLAG, NAME_TEXT, Checked, Text, Word, wrong_type

_DIALECTS = tuple(Dialect)
_DOCS = {
    Dialect.EXACT: "every named attribute has this value",
    Dialect.PREFIX: "every named attribute begins with this text",
    Dialect.SUFFIX: "every named attribute ends with this text",
    Dialect.ALL: "every expression holds",
    Dialect.ANY: "at least one expression holds",
    Dialect.NOT: "the expression does not hold",
}


class _Glob(Checked):
    """A glob over types that matches an event, as far as the types are known."""

    __slots__ = ()

    def read(self, node: Node, at: Path, reading: Reading) -> str | Gap:
        glob = Checked.read(self, node, at, reading)
        types = reading.surroundings.event_types
        if isinstance(glob, Gap) or not types or any(glob_matches(glob, one) for one in types):
            return glob
        guess = nearest_glob(glob, types)
        return reading.fault(
            Fault(
                code=SpecCode.WITHOUT_EFFECT,
                path=at,
                message="no event has such a type",
                hint=f"did you mean {guess!r}?" if guess else "docs/events.md lists all types",
            )
        )


_GLOB = _Glob(
    text=Text(most=255),
    code=SpecCode.BAD_TEXT,
    fault_of=lambda text, _: glob_fault(text),
    examples=("reconciliation.run.finalised", "reconciliation.run.**"),
)
_GLOBS = ListOf(item=_GLOB, most=MAX_GLOBS)
_ATTRIBUTES = MapOf(
    key=Word(words=ATTRIBUTES), value=Text(most=1_024, normal=False), most=len(ATTRIBUTES)
)


class _Expression:
    """One dialect with its content: `{prefix: {subject: "run/"}}`, `{not: {…}}`, `{any: […]}`."""

    __slots__ = ()

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        if not isinstance(node, MapNode):
            return wrong_type(node, at, reading, "an expression such as {exact: {subject: …}}")
        if len(node.entries) != 1:
            message = f"{len(node.entries)} dialects in one expression; write one"
            hint = "combine several with all or any"
            return reading.fault(
                Fault(code=SpecCode.BAD_LENGTH, path=at, message=message, hint=hint)
            )
        entry = node.entries[0]
        path = (*at, entry.key)
        reading.place(path, entry.value, key=entry.key_mark)
        if entry.key not in _DIALECTS:
            return reading.fault(_unsupported(entry.key, path))
        return self._read_dialect(Dialect(entry.key), entry, path, reading)

    def _read_dialect(
        self, dialect: Dialect, entry: Entry, path: Path, reading: Reading
    ) -> Expression | Gap:
        if dialect.names_attributes:
            return _comparison(dialect, entry.value, path, reading)
        if dialect is Dialect.NOT:
            parts: object = (self.read(entry.value, path, reading),)
        else:
            parts = _parts().read(entry.value, path, reading)
        if not isinstance(parts, tuple):
            return Gap()
        usable = tuple(part for part in parts if isinstance(part, Expression))
        return Expression(dialect=dialect, parts=usable) if usable == parts else Gap()

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        if not isinstance(value, Expression):
            raise TypeError("an expression is written from an expression")
        if value.dialect.names_attributes:
            return {value.dialect.value: dict(value.attributes)}
        parts = [self.write(part, minimal=minimal) for part in value.parts]
        return {value.dialect.value: parts[0] if value.dialect is Dialect.NOT else parts}

    def schema(self) -> JsonSchema:
        """The schema of nested expressions is short, because a schema cannot limit their depth."""
        inner: JsonSchema = {"type": "object", "minProperties": 1, "maxProperties": 1}
        inner_list: JsonSchema = {"type": "array", "minItems": 1, "items": inner}
        bodies = {Dialect.NOT: inner, Dialect.ALL: inner_list, Dialect.ANY: inner_list}
        return {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
            "properties": {
                one.value: {**bodies.get(one, _ATTRIBUTES.schema()), "description": doc}
                for one, doc in _DOCS.items()
            },
        }


_EXPRESSION = _Expression()


def _parts() -> ListOf:
    return ListOf(item=_EXPRESSION, least=1, most=MAX_NODES)


def _unsupported(word: str, path: Path) -> Fault:
    message = f"the dialect '{visible(word)}' is not supported; write one of {', '.join(_DIALECTS)}"
    return Fault(
        code=SpecCode.NOT_IN_ENUM,
        path=path,
        message=message,
        hint=did_you_mean(word, _DIALECTS),
        place=Place.KEY,
    )


def _comparison(dialect: Dialect, node: Node, path: Path, reading: Reading) -> Expression | Gap:
    attributes = _ATTRIBUTES.read(node, path, reading)
    if isinstance(attributes, Gap) or not isinstance(node, MapNode):
        return Gap()
    if len(attributes) < len(node.entries):
        return Gap()
    if not attributes:
        message = "no attribute to compare; name an attribute and its value"
        return reading.fault(Fault(code=SpecCode.BAD_LENGTH, path=path, message=message))
    texts = {str(name): str(text) for name, text in attributes.items()}
    types = reading.surroundings.event_types
    if fault := _type_fault(dialect, texts, path) or _unknown_type(dialect, texts, path, types):
        return reading.fault(fault)
    return Expression(dialect=dialect, attributes=texts)


def _type_fault(dialect: Dialect, texts: Mapping[str, str], path: Path) -> Fault | None:
    """A fault for exact and prefix, if no full event type can pass."""
    text = texts.get("type", FAMILY_PREFIX)
    is_possible = text.startswith(FAMILY_PREFIX) or (
        dialect is Dialect.PREFIX and FAMILY_PREFIX.startswith(text)
    )
    if dialect is Dialect.SUFFIX or is_possible:
        return None
    return Fault(
        code=SpecCode.WITHOUT_EFFECT,
        path=(*path, "type"),
        message=f"no event passes, because every type begins with {FAMILY_PREFIX}",
        hint="write the type in full; only globs may omit the first two parts",
    )


def _unknown_type(
    dialect: Dialect, texts: Mapping[str, str], path: Path, types: Collection[str]
) -> Fault | None:
    """A fault, if the text is not that of a known type, or not its begin or end."""
    text = texts.get("type")
    if text is None or not types:
        return None
    of_type = Expression(dialect=dialect, attributes={"type": text})
    if any(holds(of_type, {"type": one}) for one in types):
        return None
    hint = did_you_mean(text, types) if dialect is Dialect.EXACT else ""
    return Fault(
        code=SpecCode.WITHOUT_EFFECT,
        path=(*path, "type"),
        message="no event passes, because none has such a type",
        hint=hint or "docs/events.md lists all types",
    )


_DATA = Record(
    title="a filter over data",
    model=DataFilter,
    fields=(
        Field(
            name="jobs",
            shape=ListOf(item=NAME_TEXT, most=MAX_JOBS),
            doc="names of jobs; all by default",
        ),
        Field(
            name="job_selector",
            shape=MapOf(key=LABEL_KEY, value=LABEL_VALUE, most=MAX_LABELS),
            doc="labels that a job must have",
        ),
        Field(
            name="results",
            shape=ListOf(item=Word(words=RunResult), most=len(RunResult)),
            doc="results that pass, together with error_codes",
        ),
        Field(
            name="error_codes",
            shape=ListOf(item=Word(words=RunErrorCode), most=len(RunErrorCode)),
            doc="errors that pass, together with results",
        ),
    ),
)
FILTER = Record(
    title="filter",
    model=Filter,
    fields=(
        Field(name="types", shape=_GLOBS, doc="globs over event types"),
        Field(name="exclude_types", shape=_GLOBS, doc="globs that win over types"),
        Field(
            name="dialects",
            shape=ListOf(item=_EXPRESSION, most=MAX_NODES),
            doc="CloudEvents filters over attributes; all must hold",
        ),
        Field(name="data", shape=_DATA, doc="jobs, results and errors of runs"),
        Field(name="operational", shape=FLAG, doc="also events about other deliveries"),
    ),
)
