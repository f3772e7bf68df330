"""Reads stored differences: the mismatches of a run, largest first, with all digits.

Parts may come from another engine or release: they are read by column name, filtered and ranked by
Arrow, and only the requested rows become Python objects.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from datarecs_core.comparison.proof.reading import DocumentUnreadableError
from datarecs_core.comparison.results.results import DifferenceClass, Outcome
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError
from datarecs_reports.difference_file import text_scalar, with_text_keys
from datarecs_reports.model import DifferenceFacts
from datarecs_reports.stored_batches import stored_batches
from datarecs_reports.tables import largest_first
from datarecs_reports.unreadable import with_text

_BATCH_ROWS = 10_000
_RANKED_ROWS = 1_000_000
_MAPS = ("values", "raw_values", "deltas", "delta_percent", "locator", "raw_keys")
_PLAIN = ("break_id", "stage", "measure", "outcome", "class", "presence", "odd_one_out")
_TYPE_CLASSES = (DifferenceClass.INVALID.value, DifferenceClass.NOT_COMPARABLE.value)


class UnknownFilterError(DatarecsError):
    """`only` is not a filter of differences."""

    code = ApiCode.INVALID_INPUT
    fix = "use missing:SOURCE, outside:MEASURE, null or type"

    def __init__(self, only: str) -> None:
        super().__init__(
            f"unknown filter {only[:64]!r}; known: missing:SOURCE, outside:MEASURE, null and type"
        )
        self.only = only


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceFilter:
    """A filter of mismatches; all given conditions must hold."""

    measure: str | None = None
    only: str | None = None
    """`missing:SOURCE`: groups missing in a source; `outside:MEASURE`; `null`: NULL against a
    value; `type`: values or columns without a common type."""

    def __post_init__(self) -> None:
        word, colon, name = (self.only or "null").partition(":")
        if (word, bool(colon and name)) not in _ONLY:
            raise UnknownFilterError(self.only or "")


_ONLY = frozenset({("missing", True), ("outside", True), ("null", False), ("type", False)})


def read_differences(
    parts: Iterable[bytes], where: DifferenceFilter, *, limit: int
) -> list[dict[str, object]]:
    """The mismatches of some stages: the largest |delta| first, then by break id.

    Differences within tolerance are not mismatches and are not listed. Values are by source;
    amounts are exact text.

    Args:
        parts: complete Parquet files of differences, in any order.
        where: the filter.
        limit: most rows, 1 or more.

    Raises:
        DocumentUnreadableError: a part is not a difference file.
    """
    best: list[dict[str, object]] = []
    for part in parts:
        for table in _tables(part):
            rows = _candidates(_wanted(table, where), limit).to_pylist()
            best = sorted([*best, *map(_row, rows)], key=_rank)[:limit]
    return best


def largest_rows(parts: Iterable[bytes], *, limit: int) -> list[DifferenceFacts]:
    """The mismatches of one stage for reports: the largest |delta| first.

    Args:
        parts: complete Parquet files of its differences, in any order.
        limit: most rows, 1 or more.

    Raises:
        DocumentUnreadableError: a part is not a difference file.
    """
    best: list[DifferenceFacts] = []
    for part in parts:
        for table in _tables(part):
            records = _candidates(_wanted(table, DifferenceFilter()), limit).to_pylist()
            best = largest_first([*best, *map(_facts, records)])[:limit]
    return best


def all_differences(parts: Iterable[Path], where: DifferenceFilter) -> Iterator[dict[str, object]]:
    """All selected mismatches, in the order of their files, with one batch in memory.

    Raises:
        DocumentUnreadableError: a part is not a difference file.
    """
    for part in parts:
        try:
            with pq.ParquetFile(part) as file:
                for batch in stored_batches(file, most=_BATCH_ROWS):
                    table = with_text_keys(pa.Table.from_batches([batch]))
                    matches = _wanted(table, where)
                    yield from map(_row, matches.to_pylist())
        except (pa.ArrowException, OSError, KeyError) as cause:
            raise DocumentUnreadableError(place=part.name, wanted="a difference file") from cause


def _tables(part: bytes) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(pa.BufferReader(part)) as file:
            for batch in stored_batches(file, most=_RANKED_ROWS):
                yield with_text_keys(pa.Table.from_batches([batch]))
    except (pa.ArrowException, OSError) as cause:
        raise DocumentUnreadableError(place="a part", wanted="a difference file") from cause


def _wanted(table: pa.Table, where: DifferenceFilter) -> pa.Table:
    # Arrow would import pandas, if installed, to make a scalar from a plain text.
    mask = pc.equal(table["outcome"], text_scalar(Outcome.BREAK.value))
    if where.measure is not None:
        mask = pc.and_(mask, pc.equal(table["measure"], where.measure))
    word, _, name = (where.only or "").partition(":")
    match word:
        case "missing":
            missing = pc.equal(table["class"], DifferenceClass.MISSING.value)
            mask = pc.and_(mask, pc.and_(missing, _lacks(table, name)))
        case "outside":
            there = pc.not_equal(table["class"], DifferenceClass.MISSING.value)
            mask = pc.and_(mask, pc.and_(there, pc.equal(table["measure"], name)))
        case "null":
            kind = DifferenceClass.NULL_MISMATCH.value
            mask = pc.and_(mask, pc.equal(table["class"], kind))
        case "type":
            mask = pc.and_(mask, pc.is_in(table["class"], pa.array(_TYPE_CLASSES)))
    return table.filter(mask)


def _lacks(table: pa.Table, source: str) -> pa.ChunkedArray:
    """Whether a source has no rows of the group: its count is missing in the values."""
    held = pc.map_lookup(table["values"], pa.scalar(source), "first")
    return pc.equal(pc.fill_null(held, "0"), "0")


def _candidates(table: pa.Table, limit: int) -> pa.Table:
    """The rows that can be among the first `limit`, and possibly more.

    Rounding to a double preserves the order of amounts, so only rows with the last row's double
    are ranked by their exact text.
    """
    if table.num_rows <= limit:
        return table
    sizes = pc.fill_null(pc.abs(table["sort_delta"]), -1.0)
    ranked = pc.sort_indices(
        pa.table({"size": sizes, "break_id": table["break_id"]}),
        sort_keys=[("size", "descending"), ("break_id", "ascending")],
    )
    last = sizes[ranked[limit - 1].as_py()]
    if last.as_py() < 0:
        return table.take(ranked[:limit])
    return table.filter(pc.greater_equal(sizes, last))


def _row(record: Mapping[str, object]) -> dict[str, object]:
    row: dict[str, object] = {name: record[name] for name in _PLAIN}
    hashed = record["key_hash"]
    key = record.get("key")
    named = key.items() if isinstance(key, Mapping) else ()
    row["key"] = {name: with_text(part) for name, part in named}
    row["key_hash"] = hashed.hex() if isinstance(hashed, bytes) else None
    row |= {name: _by_source(record.get(name)) for name in _MAPS}
    return row


def _facts(record: Mapping[str, object]) -> DifferenceFacts:
    key, presence = record.get("key"), record["presence"]
    return DifferenceFacts(
        break_id=str(record["break_id"]),
        measure=str(record["measure"]),
        is_break=True,
        difference_class=DifferenceClass(str(record["class"])),
        presence=presence if isinstance(presence, int) else 0,
        odd_one_out=None,
        key=tuple(
            None if part is None else str(part)
            for part in (key.values() if isinstance(key, Mapping) else ())
        ),
        values=_pairs(record.get("values")),
        raw_values=_pairs(record.get("raw_values")),
        deltas=_pairs(record.get("deltas")),
        delta_percent=_pairs(record.get("delta_percent")),
    )


def _pairs(pairs: object) -> dict[str, str | None]:
    return {name: value for name, value in pairs} if isinstance(pairs, list) else {}  # noqa: C416  pairs of a Parquet map


def _by_source(pairs: object) -> dict[str, str | None]:
    if not isinstance(pairs, list):
        return {}
    return {name: with_text(value) for name, value in pairs}


def _rank(row: Mapping[str, object]) -> tuple[Decimal, str]:
    deltas = row["deltas"]
    sizes = (
        [Decimal(delta).copy_abs() for delta in deltas.values() if delta is not None]
        if isinstance(deltas, dict)
        else []
    )
    return (max(sizes).copy_negate() if sizes else Decimal(1), str(row["break_id"]))
