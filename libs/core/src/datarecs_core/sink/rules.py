"""The rules between the fields of a declared sink. Bounds of single fields are in its shape."""

from collections.abc import Iterator, Sequence

from datarecs_core.errors.faults import Fault, Path, is_gap, usable
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.errors.spec import SpecCode
from datarecs_core.notation import duration_text
from datarecs_core.sink.definition import (
    ErrorPolicy,
    Evolution,
    MetadataColumns,
    SinkMode,
    SinkTable,
    Tolerance,
    ValueFormat,
)
from datarecs_core.sink.dynamic import named_table

ALL_PLACES = frozenset(MetadataColumns.ALL.columns)


def sink_faults(sink: SinkTable) -> Iterator[Fault]:
    """Every fault between fields; parts with a fault of their own are Gaps and left out."""
    yield from _repeated_names(("spec", "topics"), sink.topics, "the topic")
    yield from _repeated_names(("spec", "verify"), sink.verify, "the job")
    yield from _repeated_tables(sink)
    yield from _dynamic_faults(sink)
    yield from _route_faults(sink)
    yield from _creation_faults(sink)
    yield from _change_faults(sink)
    yield from _value_faults(sink)
    yield from _place_faults(sink)
    yield from _column_faults(sink)
    if sink.commit.timeout > sink.commit.interval:
        hint = f"write {duration_text(sink.commit.interval)} or less, or leave it out"
        yield Fault(
            code=SpecCode.BAD_DURATION,
            path=("spec", "commit", "timeout"),
            message=f"{duration_text(sink.commit.timeout)} is longer than the interval,"
            f" {duration_text(sink.commit.interval)}",
            hint=hint,
            fix=hint,
        )
    yield from _limit_faults(sink.errors)


def _limit_faults(errors: ErrorPolicy) -> Iterator[Fault]:
    for name in ("max_in_a_row", "max_per_thousand"):
        is_default = getattr(errors, name) == getattr(ErrorPolicy(), name)
        if errors.tolerance is Tolerance.NONE and not is_default:
            yield Fault(
                code=SpecCode.WITHOUT_EFFECT,
                path=("spec", "errors", name),
                message="the sink stops at the first bad record with tolerance none",
                hint="leave it out, or write tolerance: dead_letter",
            )


def _repeated_names(at: Path, names: Sequence[str], what: str) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for index, name in usable(names):
        if name in seen:
            yield _repeated(at, seen[name], index, what)
        seen.setdefault(name, index)


def _repeated_tables(sink: SinkTable) -> Iterator[Fault]:
    seen: dict[tuple[str, tuple[str, ...], str], int] = {}
    for index, target in usable(sink.tables):
        place = (target.catalog, target.namespace, target.name)
        if place in seen:
            yield _repeated(("spec", "tables"), seen[place], index, "the table")
        seen.setdefault(place, index)


def _dynamic_faults(sink: SinkTable) -> Iterator[Fault]:
    if sink.dynamic is None:
        return
    if sink.route is not None:
        yield Fault(
            code=SpecCode.WITHOUT_EFFECT,
            path=("spec", "route"),
            message="the records name their tables",
            hint="leave it out, or declare tables with rules instead of dynamic",
        )
    if sink.dynamic.path is not None:
        return
    for index, topic in usable(sink.topics):
        try:
            named_table(sink.dynamic, topic)
        except BadRecordError as fault:
            hint = "correct dynamic.namespace, or write from: {field: NAME}"
            yield Fault(
                code=SpecCode.BAD_NAME,
                path=("spec", "topics", index),
                message=f"the topic names no table: {fault.reason}",
                hint=hint,
                fix=hint,
            )


def _repeated(at: Path, first: int, again: int, what: str) -> Fault:
    return Fault(
        code=SpecCode.DUPLICATE_NAME,
        path=(*at, again),
        others=((*at, first),),
        message=f"{what} is named twice",
        hint="keep one of them",
        fix="keep one of them",
    )


def _place_faults(sink: SinkTable) -> Iterator[Fault]:
    """Catalogs make folders of namespaces and tables, so none of them may be a path."""
    places: list[tuple[Path, tuple[str, ...]]] = []
    for index, target in usable(sink.tables):
        at: Path = ("spec", "tables", index)
        if not is_gap(target.namespace):
            places.append(((*at, "namespace"), target.namespace))
        if not is_gap(target.name):
            places.append(((*at, "name"), (target.name,)))
    if sink.dynamic is not None:
        places.append((("spec", "dynamic", "namespace"), sink.dynamic.namespace))
    for path, parts in places:
        if not all(_is_plain(part) for part in parts):
            yield Fault(
                code=SpecCode.BAD_NAME,
                path=path,
                message="a name with / or \\, or one of dots alone, is a path",
                hint="write plain names, such as sales.eu",
                fix="write plain names, such as `sales.eu`",
            )


def _is_plain(name: str) -> bool:
    return bool(name.strip(". ")) and not any(sign in name for sign in "/\\")


def _column_faults(sink: SinkTable) -> Iterator[Fault]:
    """The partition and the key of a created table have no column that the sink leaves out."""
    missing = ALL_PLACES - frozenset(sink.metadata_columns.columns)
    for name, terms in (("partition_by", sink.partition_by), ("id_columns", sink.id_columns)):
        for index, term in usable(terms):
            column = term.rpartition("(")[2].removesuffix(")").rpartition(",")[2].strip()
            if column in missing:
                yield Fault(
                    code=SpecCode.UNKNOWN_COLUMN,
                    path=("spec", name, index),
                    message=f"metadata_columns: {sink.metadata_columns} has no column {column}",
                    hint=_more_columns(column),
                    fix=_more_columns(column),
                )


def _more_columns(column: str) -> str:
    enough = next(one for one in MetadataColumns if column in one.columns)
    return f"write metadata_columns: {enough}, or name another column"


def _route_faults(sink: SinkTable) -> Iterator[Fault]:
    """Rules of tables need the field, and the field needs a rule of every table."""
    for index, target in usable(sink.tables):
        at = ("spec", "tables", index)
        if target.route is not None and sink.route is None:
            yield Fault(
                code=SpecCode.WITHOUT_EFFECT,
                path=(*at, "route"),
                message="no field decides between the tables",
                hint="write route: {field: NAME} in the spec, or leave the rule out",
            )
        elif sink.route is not None and target.route is None:
            yield Fault(
                code=SpecCode.MISSING_FIELD,
                path=at,
                message="the sink has a routing field, and this table has no rule for it",
                hint="write route: {equals: VALUE} in the table, or leave the field out",
            )


def _creation_faults(sink: SinkTable) -> Iterator[Fault]:
    for name, columns in (("id_columns", sink.id_columns), ("partition_by", sink.partition_by)):
        is_key = name == "id_columns" and sink.mode is not SinkMode.APPEND
        if columns and not sink.auto_create and not is_key:
            yield Fault(
                code=SpecCode.WITHOUT_EFFECT,
                path=("spec", name),
                message="it is about tables that the sink creates, and auto_create is not true",
                hint="write auto_create: true, or leave it out",
            )
        repeated = len({one for _, one in usable(columns)}) < len(list(usable(columns)))
        if repeated:
            yield Fault(
                code=SpecCode.DUPLICATE_NAME,
                path=("spec", name),
                message="an entry is there twice",
                hint="keep one of them",
                fix="keep one of them",
            )


def _change_faults(sink: SinkTable) -> Iterator[Fault]:
    """What the modes need, and what has an effect in some of them alone."""
    if sink.cdc is None and sink.mode is SinkMode.CDC:
        yield Fault(
            code=SpecCode.MISSING_FIELD,
            path=("spec", "mode"),
            message="the mode cdc needs a field that says which change a record is",
            hint="write cdc: {field: NAME}, or mode: upsert",
        )
    if sink.cdc is not None and sink.mode is not SinkMode.CDC:
        yield _only_in(("spec", "cdc"), "cdc")
    if sink.mode is SinkMode.APPEND:
        if sink.tombstones is not None:
            yield _only_in(("spec", "tombstones"), "upsert")
        return
    if sink.auto_create and not sink.id_columns:
        yield Fault(
            code=SpecCode.MISSING_FIELD,
            path=("spec", "auto_create"),
            message=f"a created table has no key, and the mode {sink.mode} needs one",
            hint="write id_columns: [NAME]",
        )
    if sink.evolve is not Evolution.NONE:
        yield Fault(
            code=SpecCode.WITHOUT_EFFECT,
            path=("spec", "evolve"),
            message=f"tables are not changed in the mode {sink.mode}",
            hint="leave it out, or write mode: append",
        )
    if sink.case_insensitive:
        yield _only_in(("spec", "case_insensitive"), SinkMode.APPEND)


def _value_faults(sink: SinkTable) -> Iterator[Fault]:
    """A value without fields cannot name a table, a key or a change."""
    if is_gap(sink.value) or sink.value.has_fields:
        return
    needs_field = {
        ("spec", "mode"): sink.mode is not SinkMode.APPEND,
        ("spec", "route"): sink.route is not None,
        ("spec", "dynamic"): sink.dynamic is not None
        and not is_gap(sink.dynamic)
        and sink.dynamic.path is not None,
    }
    for path, is_needed in needs_field.items():
        if is_needed:
            yield Fault(
                code=SpecCode.WITHOUT_EFFECT,
                path=path,
                message=f"it needs a field of the value, and {sink.value} has none",
                hint=f"leave it out, or write decode: {{value: {ValueFormat.JSON}}}",
            )


def _only_in(path: Path, mode: str) -> Fault:
    return Fault(
        code=SpecCode.WITHOUT_EFFECT,
        path=path,
        message="it has no effect in this mode",
        hint=f"leave it out, or write mode: {mode}",
    )
