"""What the catalogue says about a table over time: snapshots, statistics, indexes, past states.

Statistics are read from one published generation; a cursor stays in it. Spec catalogue-storage 9,
13.
"""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.indexes import Indexes
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.catalog import layout
from datarecs_core.catalog.generations import CaptureState
from datarecs_core.catalog.pointers import Pointer
from datarecs_core.catalog.protobuf import Record
from datarecs_core.catalog.records import (
    FileStats,
    IndexArtifact,
    IndexState,
    Snapshot,
    SnapshotConstraints,
    Table,
    TableRoot,
    TargetStats,
)
from datarecs_core.comparison.values.moments import future_fault
from datarecs_core_api.auth import Reader, needs
from datarecs_core_api.catalogue_outputs import (
    CaptureStatusOut,
    CataloguePage,
    CatalogueRecordOut,
    StatisticsOut,
    StatisticsPage,
    TableVersionOut,
)
from datarecs_core_api.catalogue_reading import (
    IfNoneMatch,
    Paged,
    Pages,
    Responses,
    SnapshotId,
    TableId,
    TargetId,
    account_of,
    active_of,
    bound_generation,
    read_record,
    snapshot_pointer,
    stored,
    uuid_of,
)
from datarecs_core_api.catalogue_records import (
    etag_of,
    note_read,
    note_values,
    record_json,
    sees_values,
    sha_of,
)
from datarecs_core_api.conditional import is_known, json_answer, not_modified, unless_known
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.inputs import Instant
from datarecs_core_api.outputs import Page
from datarecs_core_api.pagination import next_link
from datarecs_core_api.problems import input_fault, invalid, not_found

router = APIRouter(
    prefix="/api/v1/catalog/tables/{table_id}", tags=["catalogue"], route_class=GuardedRoute
)
ValueReader = Annotated[Principal, needs(Permission.SAMPLE_READ)]
ONE: Responses = {200: {"model": CatalogueRecordOut}, 304: {}}
LIST: Responses = {200: {"model": CataloguePage}}
STATISTICS: Responses = {200: {"model": StatisticsPage}}
PARQUET = "application/vnd.apache.parquet"
MAX_VERSIONS = 200


@router.get("/snapshots", operation_id="list_snapshots", responses=LIST)
def snapshots(
    table_id: TableId, caller: Reader, request: Request, use: Using, paging: Paged
) -> Response:
    """Snapshots of a table, the newest commit first; also those that are being captured."""
    account = account_of(use, caller)
    table = stored(account, Table, table_id).record
    where = {"list": "snapshots", "table": table_id}
    pages = Pages(use=use, caller=caller, where=where, paging=paging)
    prefix = layout.snapshots_by_time(account.tenant, table.id)
    return _records(pages, request, account, Snapshot, prefix)


@router.get("/snapshots/current", operation_id="get_current_snapshot", responses=ONE)
def current_snapshot(
    table_id: TableId,
    caller: Reader,
    use: Using,
    as_of: Annotated[Instant | None, Query()] = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The newest snapshot for readers, or with `as_of` the newest commit that is not after it.

    A time that is still to come is refused: what the table holds then is not known.
    """
    account = account_of(use, caller)
    fault = None if as_of is None else future_fault(as_of, account.clock.now())
    if fault is not None:
        raise invalid("a parameter is not allowed", input_fault("/as_of", f"as_of {fault}"))
    table = stored(account, Table, table_id).record
    pointer = _pointer_of_current(account, table.id, as_of)
    if pointer is None:
        raise not_found("snapshot")
    return _record(account, Snapshot, pointer, caller, if_none_match)


@router.get("/snapshots/{snapshot_id}", operation_id="get_snapshot", responses=ONE)
def snapshot(
    table_id: TableId,
    snapshot_id: SnapshotId,
    caller: Reader,
    use: Using,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """A snapshot of a table."""
    account = account_of(use, caller)
    pointer = snapshot_pointer(account, table_id, snapshot_id)
    return _record(account, Snapshot, pointer, caller, if_none_match)


@router.get("/snapshots/{snapshot_id}/capture-status", operation_id="get_capture_status")
def capture_status(
    table_id: TableId, snapshot_id: SnapshotId, caller: Reader, use: Using
) -> CaptureStatusOut:
    """Whether the statistics of a snapshot are published; they stay so."""
    account = account_of(use, caller)
    snapshot_pointer(account, table_id, snapshot_id)
    active = Generations(account).active(UUID(table_id), int(snapshot_id))
    if active is None:
        return CaptureStatusOut(
            state=CaptureState.PENDING,
            finalized_at=None,
            finalizer_job_id=None,
            generation=None,
        )
    return CaptureStatusOut(
        state=CaptureState.FINALIZED,
        finalized_at=active.finalized_at,
        finalizer_job_id=active.finalizer_job_id,
        generation=str(active.number),
    )


@router.get("/snapshots/{snapshot_id}/stats", operation_id="list_statistics", responses=STATISTICS)
def statistics(
    table_id: TableId,
    snapshot_id: SnapshotId,
    caller: Reader,
    request: Request,
    use: Using,
    paging: Paged,
) -> Response:
    """Published statistics of the table and its columns."""
    account = account_of(use, caller)
    where = {"list": "stats", "table": table_id, "snapshot": snapshot_id}
    pages = Pages(use=use, caller=caller, where=where, paging=paging)
    active = bound_generation(account, pages, table_id, snapshot_id)
    targets = Generations(account).manifest(active).targets
    first = int(pages.place().get("token", "0"))
    last = first + paging.limit
    records = [account.read(TargetStats, one.blob_key) for one in targets[first:last]]
    note_values(use, caller, request, *records)
    token = str(last) if last < len(targets) else None
    page = StatisticsPage(
        generation=active.generation,
        number=str(active.number),
        items=[record_json(one, values=sees_values(caller)) for one in records],
        next=pages.following(token, generation=active.generation),
    )
    return json_answer(page, headers=next_link(request, page.next))


@router.get(
    "/snapshots/{snapshot_id}/stats/{target_id}",
    operation_id="get_statistics",
    responses={200: {"model": StatisticsOut}, 304: {}},
)
def statistics_of_target(
    table_id: TableId,
    snapshot_id: SnapshotId,
    target_id: TargetId,
    caller: Reader,
    request: Request,
    use: Using,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Published statistics of the table or of one column."""
    account = account_of(use, caller)
    active = active_of(account, table_id, snapshot_id)
    manifest = Generations(account).manifest(active)
    keys = [one.blob_key for one in manifest.targets if one.target_id == target_id]
    if not keys:
        raise not_found("target with statistics")
    record = account.read(TargetStats, keys[0])
    note_values(use, caller, request, record)
    values = sees_values(caller)
    return unless_known(
        StatisticsOut(
            generation=active.generation,
            number=str(active.number),
            blob_sha256=sha_of(keys[0]),
            record=record_json(record, values=values),
        ),
        etag=etag_of(keys[0], active.number, values=values),
        if_none_match=if_none_match,
    )


@router.get(
    "/snapshots/{snapshot_id}/files", operation_id="list_file_statistics", responses=STATISTICS
)
def files(
    table_id: TableId,
    snapshot_id: SnapshotId,
    caller: Reader,
    request: Request,
    use: Using,
    paging: Paged,
) -> Response:
    """Published statistics of the data files."""
    account = account_of(use, caller)
    where = {"list": "files", "table": table_id, "snapshot": snapshot_id}
    pages = Pages(use=use, caller=caller, where=where, paging=paging)
    active = bound_generation(account, pages, table_id, snapshot_id)
    page = pages.pointers(
        account,
        layout.files_of(account.tenant, active.table_id, active.snapshot_id, active.generation),
    )
    records = [account.read(FileStats, one.blob_key or "") for one in page.pointers]
    note_values(use, caller, request, *records)
    answer = StatisticsPage(
        generation=active.generation,
        number=str(active.number),
        items=[record_json(one, values=sees_values(caller)) for one in records],
        next=pages.following(page.token, generation=active.generation),
    )
    return json_answer(answer, headers=next_link(request, answer.next))


@router.get("/snapshots/{snapshot_id}/constraints", operation_id="get_constraints", responses=ONE)
def constraints(
    table_id: TableId,
    snapshot_id: SnapshotId,
    caller: Reader,
    use: Using,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Constraints of the table at a snapshot; those of columns as well."""
    account = account_of(use, caller)
    snapshot_pointer(account, table_id, snapshot_id)
    key = layout.constraints_by_snapshot(account.tenant, UUID(table_id), int(snapshot_id))
    pointer = account.pointers.get(key)
    if pointer is None:
        raise not_found("record of constraints")
    return _record(account, SnapshotConstraints, pointer, caller, if_none_match)


@router.get("/snapshots/{snapshot_id}/index-artifacts", operation_id="list_indexes", responses=LIST)
def indexes(
    table_id: TableId,
    snapshot_id: SnapshotId,
    caller: Reader,
    request: Request,
    use: Using,
    paging: Paged,
) -> Response:
    """Indexes of the data files of a snapshot."""
    account = account_of(use, caller)
    snapshot_pointer(account, table_id, snapshot_id)
    where = {"list": "indexes", "table": table_id, "snapshot": snapshot_id}
    pages = Pages(use=use, caller=caller, where=where, paging=paging)
    prefix = layout.indexes(account.tenant, UUID(table_id), int(snapshot_id))
    return _records(pages, request, account, IndexArtifact, prefix)


@router.get(
    "/snapshots/{snapshot_id}/index-artifacts/{target_id}/content",
    operation_id="get_index_content",
    responses={
        200: {"content": {PARQUET: {"schema": {"type": "string", "format": "binary"}}}},
        304: {},
    },
)
def index_content(
    table_id: TableId,
    snapshot_id: SnapshotId,
    target_id: TargetId,
    caller: ValueReader,
    request: Request,
    use: Using,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The index of a data file as a Parquet file; it contains values of the source."""
    account = account_of(use, caller)
    snapshot_pointer(account, table_id, snapshot_id)
    record = Indexes(account).get(UUID(table_id), int(snapshot_id), target_id)
    if record is None or record.state is not IndexState.READY:
        raise not_found("index")
    etag = f'"{record.sha256}"'
    if is_known(if_none_match, etag):
        return not_modified(etag)
    note_read(use, caller, request, table_id)
    headers = {
        "ETag": etag,
        "Content-Disposition": f'attachment; filename="index-{record.sha256}.parquet"',
    }
    return Response(Indexes(account).content(record), media_type=PARQUET, headers=headers)


@router.get("/root", operation_id="get_table_root", responses=ONE)
def root(
    table_id: TableId, caller: Reader, use: Using, if_none_match: IfNoneMatch = None
) -> Response:
    """The state of a table as a run pins it."""
    account = account_of(use, caller)
    pointer = account.pointers.get(layout.current_root(account.tenant, uuid_of(table_id, "table")))
    if pointer is None:
        raise not_found("table")
    return _record(account, TableRoot, pointer, caller, if_none_match)


@router.get("/history", operation_id="list_table_versions")
def history(table_id: TableId, caller: Reader, use: Using) -> Page[TableVersionOut]:
    """Past states of a table that are still stored, the newest first."""
    account = account_of(use, caller)
    table = stored(account, Table, table_id).record
    prefix = layout.root_blobs(account.tenant, table.id)
    infos = [one for one in account.blobs.list(prefix) if one.key.count("/") == prefix.count("/")]
    newest = sorted(infos, key=lambda one: one.last_modified, reverse=True)[:MAX_VERSIONS]
    roots = [(info, account.read(TableRoot, info.key)) for info in newest]
    items = [
        TableVersionOut(
            root_version=one.root_version,
            blob_sha256=sha_of(info.key),
            table_sha256=sha_of(one.table_blob),
            current_snapshot_id=None
            if one.current_snapshot_id is None
            else str(one.current_snapshot_id),
            stored_at=info.last_modified,
        )
        for info, one in roots
    ]
    return Page(items=sorted(items, key=lambda one: one.root_version, reverse=True))


def _pointer_of_current(
    account: CatalogueAccount, table_id: UUID, as_of: datetime | None
) -> Pointer | None:
    if as_of is None:
        return account.pointers.get(layout.current_snapshot(account.tenant, table_id))
    snapshot = Snapshots(account).as_of(table_id, as_of)
    if snapshot is None:
        return None
    key = layout.snapshot_by_id(account.tenant, table_id, snapshot.snapshot_id)
    return account.pointers.get(key)


def _record(
    account: CatalogueAccount,
    kind: type[Record],
    pointer: Pointer,
    caller: Principal,
    if_none_match: str | None,
) -> Response:
    etag = etag_of(pointer.blob_key or "", pointer.version, values=sees_values(caller))
    return unless_known(
        read_record(account, kind, pointer, caller), etag=etag, if_none_match=if_none_match
    )


def _records(
    pages: Pages, request: Request, account: CatalogueAccount, kind: type[Record], prefix: str
) -> Response:
    page = pages.pointers(account, prefix)
    answer = CataloguePage(
        items=[read_record(account, kind, one, pages.caller) for one in page.pointers],
        next=pages.following(page.token),
    )
    return json_answer(answer, headers=next_link(request, answer.next))
