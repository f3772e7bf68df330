"""Reads difference files as the exact differences that were written, one by one.

`differences` filters and ranks rows for people; this module reads every row, for digests and new
verdicts.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from datarecs_core.catalog.layout import segment
from datarecs_core.comparison.proof.sealed import SealedStage
from datarecs_core.comparison.results.results import Difference, DifferenceClass, Outcome
from datarecs_core.comparison.values.canonical import canonical_text
from datarecs_core.comparison.values.rereading import KeyForm, key_form, masked_key
from datarecs_core.comparison.values.translating import canonical
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.storage import StorageCode
from datarecs_core.jobs.types import CanonicalType
from datarecs_reports.difference_file import difference_schema, text_scalar, with_text_keys
from datarecs_reports.stored_batches import stored_batches, with_short_texts

_BATCH_ROWS = 10_000
_TEXT_MAPS = ("values", "raw_values")
_COLUMNS = frozenset(difference_schema(()).names) - {"sort_delta"}


class DifferencesUnreadableError(DatarecsError):
    """A file of stored differences is damaged or not a difference file."""

    code = StorageCode.BLOB_CORRUPT

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: not a file of differences: {reason}")
        self.path = path


def parts_of(differences: Path, stage: str) -> list[Path]:
    """The Parquet parts of a stage, sorted by name; none if nothing was stored."""
    return sorted((differences / f"stage={segment(stage)}").glob("part-*.parquet"))


def read_rows(
    parts: Iterable[Path], stage: SealedStage, sources: tuple[str, ...], *, masked: bool = False
) -> Iterator[Difference]:
    """Every stored row of a stage, batch by batch, with the original encoding of its key.

    Args:
        parts: Parquet files of one stage.
        stage: the stage in run.json.
        sources: names of the sources, in the order of the run.
        masked: a part of the key is masked, so its encoding is that of the texts.

    Raises:
        DifferencesUnreadableError: a file is damaged or not a difference file.
    """
    names = [each.name for each in stage.dimensions]
    form = key_form([each.types[0] if each.types else "text" for each in stage.dimensions], sources)
    for path in parts:
        try:
            for record, typed in _records(path):
                row = _difference(record, names, None if masked else form)
                if not masked:
                    _check_typed(form, row, typed, record.get("key_encoded"))
                yield row
        except (pa.ArrowException, OSError) as cause:
            raise DifferencesUnreadableError(path, "the file cannot be read as Parquet") from cause
        except (ValueError, InvalidOperation, KeyError, TypeError) as cause:
            raise DifferencesUnreadableError(path, str(cause)) from cause


def smallest_breaks(
    parts: Iterable[Path], stage: SealedStage, *, most: int
) -> Iterator[Difference]:
    """The breaks with the smallest ids, at most so many per measure and file.

    Arrow selects them, so a million stored rows take a second. Long texts are cut and marked; these
    rows are only compared with each other, never stored or exported.

    Raises:
        DifferencesUnreadableError: a file is damaged or not a difference file.
    """
    names = [each.name for each in stage.dimensions]
    for path in parts:
        try:
            with pq.ParquetFile(path) as file:
                breaks = _smallest(file, most)
            for record in breaks.to_pylist():
                yield _difference(record, names, None)
        except (pa.ArrowException, OSError) as cause:
            raise DifferencesUnreadableError(path, "the file cannot be read as Parquet") from cause
        except (ValueError, InvalidOperation, KeyError, TypeError) as cause:
            raise DifferencesUnreadableError(path, str(cause)) from cause


def _smallest(file: pq.ParquetFile, most: int) -> pa.Table:
    """Select them per measure over the batches of one file, without keeping the other rows."""
    by_measure: dict[str, pa.Table] = {}
    for batch in stored_batches(file, most=10 * _BATCH_ROWS):
        table = with_short_texts(with_text_keys(pa.Table.from_batches([batch])), _TEXT_MAPS)
        breaks = table.filter(pc.equal(table["outcome"], text_scalar(Outcome.BREAK.value)))
        for named in pc.unique(breaks["measure"]):
            candidates, measure = breaks.filter(pc.equal(breaks["measure"], named)), named.as_py()
            both = (
                pa.concat_tables([by_measure[measure], candidates])
                if measure in by_measure
                else candidates
            )
            if both.num_rows > most:
                order = pc.sort_indices(both["break_id"])
                both = both.take(order[:most])
            by_measure[measure] = both
    return pa.concat_tables(by_measure.values()) if by_measure else file.schema_arrow.empty_table()


def _records(path: Path) -> Iterator[tuple[Mapping[str, object], object]]:
    """Each row with its key as text and the typed key of Spark."""
    with pq.ParquetFile(path) as file:
        absent = _COLUMNS - set(file.schema_arrow.names)
        if absent:
            raise ValueError(f"the column {min(absent)} is missing")
        for batch in stored_batches(file, most=_BATCH_ROWS):
            table = with_text_keys(pa.Table.from_batches([batch]))
            yield from zip(table.to_pylist(), _typed(batch), strict=True)


def _typed(batch: pa.RecordBatch) -> list[object]:
    """Typed keys of a batch; None for all rows if a time is outside Python's years."""
    try:
        if "key_text" in batch.schema.names and "key" in batch.schema.names:
            keys: list[object] = batch.column("key").to_pylist()
            return keys
    except (ValueError, OverflowError):
        pass
    return [None] * batch.num_rows


def _check_typed(form: KeyForm, row: Difference, typed: object, encoded: object) -> None:
    """Check that the typed key, which queries of the file read, equals the texts."""
    if isinstance(encoded, bytes) and encoded != row.key_encoded:
        raise ValueError(f"the key of {row.break_id} differs from its text")
    if not isinstance(typed, Mapping):
        return
    for kind, part, value in zip(form.kinds, row.key, typed.values(), strict=True):
        if value is not None and _written(kind, value) != part:
            raise ValueError(f"the typed key of {row.break_id} differs from its text")


def _written(kind: CanonicalType, value: object) -> str | None:
    return value if isinstance(value, str) else canonical_text(canonical(value, kind, ""))


def _difference(
    record: Mapping[str, object], dimensions: list[str], form: KeyForm | None
) -> Difference:
    key = _key(record.get("key"), dimensions)
    presence = record["presence"]
    if not isinstance(presence, int):
        raise TypeError("a row has no presence")
    encoded = masked_key(key) if form is None else form.encoded(key, presence)
    return Difference(
        break_id=str(record["break_id"]),
        stage=str(record["stage"]),
        measure=str(record["measure"]),
        outcome=Outcome(str(record["outcome"])),
        difference_class=DifferenceClass(str(record["class"])),
        presence=presence,
        odd_one_out=_text(record["odd_one_out"]),
        key=key,
        key_encoded=encoded,
        key_hash=_bytes(record["key_hash"]),
        values=_pairs(record["values"]),
        raw_values=_pairs(record["raw_values"]),
        raw_keys=tuple((name, text or "") for name, text in _pairs(record.get("raw_keys"))),
        deltas=_amounts(record["deltas"]),
        delta_percent=_amounts(record["delta_percent"]),
    )


def _key(record: object, dimensions: list[str]) -> tuple[str | None, ...]:
    if not dimensions:
        return ()
    if not isinstance(record, Mapping):
        raise TypeError("a row has no key")
    return tuple(_text(record[name]) for name in dimensions)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a row has no key_hash")
    return value


def _pairs(value: object) -> tuple[tuple[str, str | None], ...]:
    listed = value if isinstance(value, list) else []
    return tuple((str(name), _text(each)) for name, each in listed)


def _amounts(value: object) -> tuple[tuple[str, Decimal], ...]:
    return tuple((name, Decimal(each)) for name, each in _pairs(value) if each is not None)
