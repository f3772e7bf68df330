"""When the kernel may scan: files and columns as their footers tell them, checked one by one.

Core has read the plan before (`strategies`); here stand the holes that only files show. What is
not known to mean the same to DuckDB and to Spark is refused, and the stage runs `full`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from datarecs_core.comparison.planning.plan import InputPlan, StagePlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_kernel.forms import Form, FormKind, form_of
from datarecs_spark.kernel_conditions import Conditions
from datarecs_spark.kernel_work import KernelColumn, KernelSource, quoted
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.read import files_of

Range = tuple[int, int] | None
_GLOB = re.compile(r"[*?\[\]{}\\]")
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_WRITER = b"org.apache.spark.version"
_WIDTH = 16
"""Bytes of a decoded value, beside the text behind it."""
_NARROW_DECIMAL = 18
"""Digits of a decimal whose value hash is one to one."""
_PHYSICAL: Mapping[TypeKind, frozenset[str]] = {
    TypeKind.BOOL: frozenset({"BOOLEAN"}),
    TypeKind.INT: frozenset({"INT32", "INT64"}),
    TypeKind.DECIMAL: frozenset({"INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"}),
    TypeKind.FLOAT64: frozenset({"DOUBLE"}),
    TypeKind.FLOAT32: frozenset({"FLOAT"}),
    TypeKind.TEXT: frozenset({"BYTE_ARRAY"}),
    TypeKind.UUID: frozenset({"BYTE_ARRAY"}),
    TypeKind.BINARY: frozenset({"BYTE_ARRAY"}),
    TypeKind.DATE: frozenset({"INT32"}),
    TypeKind.INSTANT: frozenset({"INT64"}),
    TypeKind.LOCAL_TIMESTAMP: frozenset({"INT64"}),
}
_LOGICAL: Mapping[TypeKind, frozenset[str]] = {
    TypeKind.BOOL: frozenset({"NONE"}),
    TypeKind.INT: frozenset({"NONE", "INT"}),
    TypeKind.DECIMAL: frozenset({"DECIMAL"}),
    TypeKind.FLOAT64: frozenset({"NONE"}),
    TypeKind.FLOAT32: frozenset({"NONE"}),
    TypeKind.TEXT: frozenset({"STRING"}),
    TypeKind.UUID: frozenset({"STRING"}),
    TypeKind.BINARY: frozenset({"NONE"}),
    TypeKind.DATE: frozenset({"DATE"}),
    TypeKind.INSTANT: frozenset({"TIMESTAMP"}),
    TypeKind.LOCAL_TIMESTAMP: frozenset({"TIMESTAMP"}),
}


def native_sources(stage: StagePlan, *, salt: str) -> tuple[KernelSource, ...]:
    """What the kernel reads of each source of a row stage.

    Args:
        stage: one for which core chose `narrow`.
        salt: drawn per run, stands before texts in the second hash; letters and digits alone.

    Raises:
        NotNativeError: something in the files is not known to be safe.
    """
    parts = [*(each.inputs for each in stage.dimensions), *(each.inputs for each in stage.measures)]
    columns = [_meeting(stage, inputs, salt) for inputs in parts]
    return tuple(_source(stage, scan, parts, columns) for scan in stage.scans)


def grouped_sources(stage: StagePlan) -> tuple[KernelSource, ...]:
    """What the kernel reads of each source of an aggregate stage: columns as the files have them.

    Keys are the dimensions, values what functions take, without the counts of rows.

    Raises:
        NotNativeError: something in the files is not known to be safe.
    """
    taken = [each.inputs for each in stage.measures if any(each.inputs)]
    parts = [*(each.inputs for each in stage.dimensions), *taken]
    columns = [[_as_stored(each) for each in _meeting(stage, inputs, "")] for inputs in parts]
    return tuple(_source(stage, scan, parts, columns) for scan in stage.scans)


def _as_stored(column: KernelColumn) -> KernelColumn:
    stored = quoted(column.physical)
    return replace(column, meeting=stored, salted=stored)


def _source(
    stage: StagePlan,
    scan: Scan,
    parts: Sequence[Sequence[InputPlan | None]],
    columns: Sequence[Sequence[KernelColumn]],
) -> KernelSource:
    """One source, of the columns that each part of the stage has in all of them; keys first."""
    own, first = [column[scan.index] for column in columns], len(stage.dimensions)
    keys = tuple(own[:first])
    conditions = Conditions.of(stage, scan)
    inputs = [each[scan.index] for each in parts]
    files, rows, sizes, ranges = _checked(scan, inputs, conditions, _whole_number(keys))
    return KernelSource(
        files=files,
        rows=rows,
        keys=keys,
        values=tuple(own[first:]),
        filter=conditions.filter,
        where=conditions.where,
        group_bytes=max(sizes, default=0),
        decoded_bytes=sum(sizes),
        has_numbers=None not in ranges,
        ascends=_ascend(ranges),
        max_value_bytes=scan.limits.max_value_bytes,
        max_key_bytes=scan.limits.max_key_bytes,
    )


def _whole_number(keys: Sequence[KernelColumn]) -> str | None:
    """The column of a key that is one such number."""
    forms = [each.form.kind if each.form else None for each in keys]
    return keys[0].physical if forms == [FormKind.INTEGER] else None


def _meeting(stage: StagePlan, inputs: Sequence[InputPlan | None], salt: str) -> list[KernelColumn]:
    """One column in all sources."""
    given = [plan for plan in inputs if plan is not None]
    form = form_of([plan.type for plan in given])
    if len(given) < len(inputs) or form is None or form.kind in {FormKind.NUMBER, FormKind.JSON}:
        raise NotNativeError("a column has no form within 38 digits in all sources")
    found = []
    for plan, scan in zip(given, stage.scans, strict=True):
        physical = plan.column if scan.extract else scan.column(plan.column).physical
        if physical is None:
            raise NotNativeError(f"{plan.column} of {scan.source} is an expression")
        meeting = _in_form(form, quoted(physical))
        found.append(
            KernelColumn(
                name=plan.column,
                physical=physical,
                meeting=meeting,
                salted=_salted(form, meeting, salt),
                size=_size(form, meeting),
                form=form,
            )
        )
    return found


def _in_form(form: Form, column: str) -> str:
    match form.kind:
        case FormKind.INTEGER:
            return f"CAST({column} AS BIGINT)"
        case FormKind.DECIMAL:
            return f"CAST({column} AS DECIMAL({form.precision},{form.scale}))"
        case FormKind.DOUBLE:
            return f"CAST({column} AS DOUBLE)"
        case FormKind.UUID:
            return f"lower(replace({column}, '-', ''))"
        case _:
            return column


def _salted(form: Form, meeting: str, salt: str) -> str:
    """Values that are wider than their hash are hashed twice in two different ways."""
    match form.kind:
        case FormKind.TEXT | FormKind.UUID:
            return f"('{salt}' || {meeting})"
        case FormKind.BINARY:
            return f"('{salt}'::BLOB || {meeting})"
        case FormKind.DECIMAL if form.precision > _NARROW_DECIMAL:
            return f"('{salt}' || CAST({meeting} AS VARCHAR))"
        case _:
            return meeting


def _size(form: Form, column: str) -> str | None:
    match form.kind:
        case FormKind.TEXT:
            return f"strlen({column})"
        case FormKind.BINARY:
            return f"octet_length({column})"
        case _:
            return None


def _checked(
    scan: Scan, inputs: Sequence[InputPlan | None], conditions: Conditions, key: str | None
) -> tuple[tuple[str, ...], int, list[int], list[Range]]:
    """Paths, rows, `_group_bytes` and `_ranges` of the files, once every footer was looked at."""
    if scan.extract is not None and scan.extract.invalid_columns:
        raise NotNativeError(f"{scan.source} holds values without a canonical form")
    paths = files_of(scan)
    if not paths:
        raise NotNativeError(f"{scan.source} has no files")
    wanted = {
        (plan.column if scan.extract else str(scan.column(plan.column).physical)): plan.type
        for plan in inputs
        if plan is not None
    } | dict(conditions.types)
    first, rows, sizes, ranges = None, 0, list[int](), list[Range]()
    for path in paths:
        if _GLOB.search(str(path)):
            raise NotNativeError(f"a path of {scan.source} would be a pattern")
        footer = _footer(path)
        reason = next(_faults(footer, wanted), None)
        if reason is not None:
            raise NotNativeError(f"{scan.source}: {reason}")
        if first is not None and not footer.schema.equals(first):
            raise NotNativeError(f"the files of {scan.source} have different schemas")
        first, rows = footer.schema, rows + footer.metadata.num_rows
        sizes.extend(_group_bytes(footer.metadata, len(wanted)))
        ranges.extend(_ranges(footer.metadata, key))
    _check_distinct(scan, [plan.column for plan in inputs if plan is not None])
    return tuple(map(str, paths)), rows, sizes, ranges


def _group_bytes(footer: pq.FileMetaData, columns: int) -> Iterator[int]:
    """Of each row group once so many columns of it are decoded, about."""
    for group in map(footer.row_group, range(footer.num_row_groups)):
        yield group.num_rows * columns * _WIDTH + group.total_byte_size


def _ranges(footer: pq.FileMetaData, key: str | None) -> Iterator[Range]:
    """Least and largest key of each row group, None where it does not tell or has a NULL."""
    at = footer.schema.names.index(key) if key in footer.schema.names else None
    for group in map(footer.row_group, range(footer.num_row_groups)):
        told = None if at is None else group.column(at).statistics
        if told is None or not (told.has_min_max and told.has_null_count) or told.null_count:
            yield None
        else:
            yield told.min, told.max


def _ascend(ranges: Sequence[Range]) -> bool:
    """Each begins above the one before it."""
    known = [each for each in ranges if each is not None]
    return len(known) == len(ranges) and all(one[1] < two[0] for one, two in pairwise(known))


def _check_distinct(scan: Scan, names: Sequence[str]) -> None:
    """Kept rows are written under logical names."""
    if len({each.lower() for each in names}) < len(set(names)):
        raise NotNativeError(f"columns of {scan.source} differ in case alone")


def _footer(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as cause:
        raise NotNativeError("a footer cannot be read") from cause


def _faults(footer: pq.ParquetFile, wanted: Mapping[str, CanonicalType]) -> Iterator[str]:
    stored = footer.metadata.metadata or {}
    if any(each in stored for each in _LEGACY) or stored.get(_WRITER, b"3")[:2] in {b"1.", b"2."}:
        yield "dates of a legacy calendar"
    schema = footer.schema.to_arrow_schema()
    if len({each.lower() for each in schema.names}) < len(schema.names):
        yield "column names differ in case alone"
    leaves = {footer.schema.column(at).path: at for at in range(len(footer.schema.names))}
    for label, kind in wanted.items():
        at = leaves.get(label)
        if at is None:
            yield f"{label} is no plain column of the files"
            continue
        leaf = footer.schema.column(at)
        arrow = schema.field(label).type
        if (
            leaf.max_repetition_level
            or leaf.physical_type not in _PHYSICAL.get(kind.kind, ())
            or leaf.logical_type.type not in _LOGICAL.get(kind.kind, ())
            or not _fits(arrow, kind)
        ):
            yield f"{label} is stored as {leaf.physical_type} {leaf.logical_type.type}"


def _fits(arrow: pa.DataType, kind: CanonicalType) -> bool:
    """Unsigned numbers of 64 bits, milliseconds and nanoseconds are Spark's to read."""
    match kind.kind:
        case TypeKind.INT:
            return pat.is_integer(arrow) and not pat.is_uint64(arrow)
        case TypeKind.DECIMAL:
            digits = (kind.precision, kind.scale)
            return pat.is_decimal128(arrow) and (arrow.precision, arrow.scale) == digits
        case TypeKind.INSTANT:
            return pat.is_timestamp(arrow) and arrow.unit == "us" and arrow.tz is not None
        case TypeKind.LOCAL_TIMESTAMP:
            return pat.is_timestamp(arrow) and arrow.unit == "us" and arrow.tz is None
        case _:
            return not pat.is_dictionary(arrow)
