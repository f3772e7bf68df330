"""A plan as JSON, and the hash that says whether two plans are one question."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import assert_never

from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.scan import (
    ExportedSnapshot,
    FileList,
    Pin,
    Scan,
    SourceSchema,
    TableSnapshot,
    TopicOffsets,
)
from datarecs_core.documents import from_document, to_document
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def plan_document(plan: ComparisonPlan) -> JsonValue:
    """The plan as JSON, with its scans listed once and not again in every stage."""
    stages = tuple(replace(stage, scans=()) for stage in plan.stages)
    return to_document(replace(plan, stages=stages))


def plan_from_document(document: JsonValue) -> ComparisonPlan:
    """The plan that `plan_document` wrote.

    Raises:
        ValueError: another document.
    """
    plan = from_document(ComparisonPlan, document)
    return plan.with_scans(plan.scans)


def plan_hash(plan: ComparisonPlan) -> str:
    """`sha256:` and 64 hexadecimal characters; printed by `plan`, stored with the run.

    The moment and the place of a pin are left out, so that the same question over the same files or
    relations has the same hash; the pins of a run are in its proof.
    """
    stages = tuple(replace(stage, queries=_placed(stage.queries)) for stage in plan.stages)
    bare_plan = replace(plan, stages=stages).with_scans(_placed(plan.scans))
    return f"sha256:{sha256_hex(canonical_json(plan_document(bare_plan)))}"


def _placed(scans: tuple[Scan, ...]) -> tuple[Scan, ...]:
    return tuple(
        replace(scan, pin=_lasting(scan.pin), schema=_certain(scan.schema), extract=None)
        for scan in scans
    )


def _certain(schema: SourceSchema) -> SourceSchema:
    """Without what statistics guess, and what follows: they change while the question does not."""
    columns = tuple(replace(column, distinct=None) for column in schema.columns)
    return replace(
        schema,
        columns=columns,
        estimated_rows=None,
        estimated_bytes=None,
        ranges=None,
        read_as=(),
        notes=(),
    )


def _lasting(pin: Pin) -> Pin:
    match pin:
        case FileList():
            return replace(pin, root="", taken_at=_NEVER, catalogued=None)
        case ExportedSnapshot():
            return replace(pin, snapshot_id="", snapshot="", lsn="", taken_at=_NEVER)
        case TableSnapshot():
            return replace(pin, taken_at=_NEVER, catalogued=None, sink=None)
        case TopicOffsets():
            return replace(pin, ranges=(), taken_at=_NEVER, table_snapshot=None)
    assert_never(pin)
