"""How each source writes the keys of stored differences, where cast or rules change them.

A pass of its own after a stage's differences are stored, because few keys differ and only their
spellings are of interest. It reads the rows again, meets them with the stored keys by the hash of
the key, and writes the parts once more with the column `raw_keys`. Texts are those of the oracle
(`comparison.judging`); digest and proof do not know them.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.rules import STRICT
from datarecs_core.comparison.results.differences import SHOWN_SPELLINGS
from datarecs_core.comparison.results.results import Difference
from datarecs_core.documents import from_document, to_document
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.types import NESTED, TIMES
from datarecs_core.jobs.vocabulary import MaskRule
from datarecs_kernel.counted import Counted
from datarecs_kernel.layout import Columns, Field, Role, keys_of
from datarecs_kernel.settling import SinkPlan
from datarecs_kernel.stored import Part, schema_of, with_raw_key_column
from datarecs_spark.canonical import binary_literal, text_literal
from datarecs_spark.fingerprints import key_hash
from datarecs_spark.prepare import SOURCE
from datarecs_spark.read import Delivered
from datarecs_spark.sinking import attempt_name

_BLOCK = 64
"""Of SHA-256."""
_PADS = (0x36, 0x5C)
_MASK_DIGITS = 16
_KEY_HASH = "key_hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRows:
    """Prepared rows, with their keys as they are delivered in the companions `raw`."""

    fields: tuple[Field, ...]
    rows: DataFrame


def spelled_sources(stage: StagePlan) -> frozenset[int]:
    """Sources in which map, cast or rules may change a part of the key."""
    if stage.catalogue is not None:
        return frozenset()
    return frozenset(
        index
        for dimension in stage.dimensions
        for index, plan in enumerate(dimension.inputs)
        if plan.mapped or plan.cast is not None or dimension.rules != STRICT
    )


def only_spelled(stage: StagePlan, sources: Sequence[Delivered]) -> list[Delivered]:
    """The sources, of which those whose keys nothing changes have no rows."""
    spelled = spelled_sources(stage)
    return [
        each if each.scan.index in spelled else replace(each, rows=each.rows.filter("FALSE"))
        for each in sources
    ]


def spelled_keys(stage: StagePlan, sources: Sequence[Columns]) -> tuple[Field, ...]:
    """The stage's keys in forms that SQL encodes, each with its text as delivered.

    Times come from the step in Python, since SQL cannot write those beyond the year 9999, and so do
    nested values.
    """
    fields = keys_of(stage.dimensions, sources, "k", role=Role.HASHED)
    return tuple(
        replace(
            field,
            changes=True,
            python=tuple(
                is_python or (plan is not None and plan.type.kind in TIMES | NESTED)
                for is_python, plan in zip(field.python, field.inputs, strict=True)
            ),
        )
        for field in fields
    )


def with_raw_keys(
    session: SparkSession, sink: SinkPlan, counted: Counted, keys: KeyRows
) -> Counted:
    """The same numbers; parts and samples now say how each source writes the key."""
    directory, sources = Path(sink.directory), sink.layout.stage.sources
    stored = session.read.parquet(*(str(directory / part) for part in counted.parts))
    wanted = stored.select(_KEY_HASH).distinct()
    spellings = _spellings(sink, keys).join(wanted, _KEY_HASH, "left_semi").distinct()
    rows = stored.join(_by_key(spellings), _KEY_HASH, "left").selectExpr(
        *stored.columns, f"{_raw_keys(sources)} AS raw_keys"
    )
    samples = {row.break_id: row for row in _differences(counted.samples)}
    answers = rows.mapInArrow(_step(sink, frozenset(samples)), "body STRING").collect()
    parts: list[str] = []
    for answer in (json.loads(row["body"]) for row in answers):
        parts += answer["parts"]
        for break_id, pairs in answer["raw_keys"].items():
            written = tuple((source, text) for source, text in pairs)
            samples[break_id] = replace(samples[break_id], raw_keys=written)
    for part in counted.parts:
        (directory / part).unlink()
    return replace(counted, parts=parts, samples=[to_document(each) for each in samples.values()])


def _differences(documents: Sequence[JsonValue]) -> list[Difference]:
    return [from_document(Difference, each) for each in documents]


def _spellings(sink: SinkPlan, keys: KeyRows) -> DataFrame:
    """One row per row of a source: its index, hash and parts of the key, masked where declared."""
    masked = (
        _masked(sink.key, dimension.mask, field.raw)
        for dimension, field in zip(sink.layout.stage.dimensions, keys.fields, strict=True)
    )
    hashed = key_hash(keys.fields, sink.key)
    columns = (SOURCE, f"{hashed} AS {_KEY_HASH}", f"array({', '.join(masked)}) AS parts")
    return keys.rows.selectExpr(*columns)


def _masked(key: bytes, rule: MaskRule | None, written: str) -> str:
    """`comparison.differences.masked` in SQL."""
    if rule is None:
        return written
    if rule is MaskRule.REDACT:
        return f"IF({written} IS NULL, NULL, '***')"
    block = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    inner, outer = (binary_literal(bytes(each ^ pad for each in block)) for pad in _PADS)
    message = f"concat({inner}, {binary_literal(b'mask')}, CAST({written} AS BINARY))"
    digest = f"sha2(concat({outer}, unhex(sha2({message}, 256))), 256)"
    return f"concat('h:', substr({digest}, 1, {_MASK_DIGITS}))"


def _by_key(spellings: DataFrame) -> DataFrame:
    """One row per key: per source the first spellings as a text, their number, the parts of one.

    Windows, because a key may have more spellings than memory holds.
    """
    told = "array_join(transform(parts, part -> coalesce(part, 'NULL')), ', ')"
    group = f"PARTITION BY {_KEY_HASH}, {SOURCE}"
    first = (
        spellings.selectExpr("*", f"{told} AS told")
        .selectExpr(
            "*",
            f"row_number() OVER ({group} ORDER BY told) AS place",
            f"count(*) OVER ({group}) AS total",
        )
        .filter(f"place <= {SHOWN_SPELLINGS}")
    )
    more = f"IF(total > {SHOWN_SPELLINGS}, concat(' (', total, ' spellings)'), '')"
    shown = "array_join(array_sort(told), '; ')"
    by_source = (
        first.groupBy(_KEY_HASH, SOURCE)
        .agg(
            F.expr("collect_list(told) AS told"),
            F.expr("max(total) AS total"),
            F.expr("any_value(parts) AS parts"),
        )
        .selectExpr(_KEY_HASH, SOURCE, "total", "parts", f"concat({shown}, {more}) AS shown")
    )
    each = f"struct({SOURCE}, total, parts, shown)"
    return by_source.groupBy(_KEY_HASH).agg(F.expr(f"array_sort(collect_list({each})) AS spelled"))


def _raw_keys(sources: Sequence[str]) -> str:
    """By source, where it does not write the key just as it is stored."""
    names = f"array({', '.join(map(text_literal, sources))})"
    others = "filter(spelled, each -> NOT (each.total = 1 AND each.parts <=> key_text))"
    pairs = (
        f"transform({others}, each -> struct(element_at({names}, each.{SOURCE} + 1), each.shown))"
    )
    return f"map_from_entries({pairs})"


def _step(
    sink: SinkPlan, samples: frozenset[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Write the rows, and say which parts there are and what the samples have in them."""
    schema, names = with_raw_key_column(schema_of(sink.layout)), pa.array(sorted(samples))

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = Part(Path(sink.directory), attempt_name(), schema)
        raw_keys: dict[str, list[tuple[str, str]]] = {}
        for batch in batches:
            table = pa.Table.from_batches([batch]).cast(schema)
            part.write(table)
            chosen = table.filter(pc.is_in(table.column("break_id"), names))
            for row in chosen.select(["break_id", "raw_keys"]).to_pylist():
                raw_keys[row["break_id"]] = row["raw_keys"] or []
        body = json.dumps({"parts": part.close(), "raw_keys": raw_keys})
        yield pa.RecordBatch.from_pydict({"body": [body]})

    return step
