"""Responses about the catalogue, as published models."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from datarecs_core.catalog.generations import CaptureState
from datarecs_core_api.outputs import Instant, JsonObject, Out, Page
from datarecs_core_api.published_types import CursorOut, Digits, Generation, Line, Symbol, Word

Sha256 = Annotated[str, Field(json_schema_extra={"pattern": "^[0-9a-f]{64}$"})]
KeyOut = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 1025})]
"""A pointer or a blob of the catalogue."""


class CatalogueRecordOut(Out):
    """A record of the catalogue, and the version of its pointer."""

    kind: Word
    pointer_version: Generation
    blob_sha256: Sha256
    record: JsonObject
    """Ids of 64 bits are texts, bytes are base64. Without the permission `sample.read` the least
    and greatest values of columns are null."""


class CataloguePage(Page[CatalogueRecordOut]):
    """Records in the order of their names; snapshots newest first."""


class CatalogueObjectOut(Out):
    """What a name means."""

    kind: Literal["catalog", "namespace", "table", "view"]
    id: UUID


class StatisticsOut(Out):
    """Statistics of one target, as they were published."""

    generation: Word
    number: Digits
    """Of the publication; it rises with each one of the snapshot."""
    blob_sha256: Sha256
    record: JsonObject


class StatisticsPage(Out):
    """Published statistics of a snapshot; all pages are of one generation."""

    generation: Word
    number: Digits
    items: list[JsonObject]
    next: CursorOut | None
    """Cursor of the following page; null on the last page."""


class CaptureStatusOut(Out):
    """Whether the statistics of a snapshot are complete and visible."""

    state: CaptureState
    finalized_at: Instant | None
    finalizer_job_id: UUID | None
    generation: Digits | None
    """Number of the publication; it never falls."""


class TableVersionOut(Out):
    """A past state of a table that is still stored."""

    root_version: Generation
    blob_sha256: Sha256
    table_sha256: Sha256
    current_snapshot_id: Digits | None
    stored_at: Instant


class CataloguePointerOut(Out):
    """A pointer of the catalogue."""

    key: KeyOut
    pointer_version: Generation
    blob_key: KeyOut | None
    resource_id: UUID | None
    expires_at: Instant | None


class CatalogueEntryOut(Out):
    """What a key of the catalogue names."""

    pointer: CataloguePointerOut | None
    """Null for the key of a blob."""
    payload: JsonObject | None
    kind: Word | None
    record: JsonObject | None
    """Of a name: the object that has it. Null for a pointer without a record."""


class CatalogueFaultOut(Out):
    """A pointer that names something damaged or missing."""

    pointer: KeyOut
    blob_key: KeyOut | None
    code: Symbol
    message: Line


class CatalogueFaultPage(Page[CatalogueFaultOut]):
    """The faults among some pointers; an empty page with a cursor is not the last one."""

    checked: Annotated[int, Field(json_schema_extra={"minimum": 0, "maximum": 201})]
    """Pointers that were verified for this page."""
