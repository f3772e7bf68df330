"""Every key of blobs and of pointers, and the form of every key.

A separate module because one process writes a key and another reads it: the form is defined only
here. Keys of blobs have no `/` at the beginning, keys of pointers have one. Sources: Source 002,
spec catalogue-storage 3 to 5 and 14.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import quote
from uuid import UUID

from datarecs_core.errors.storage import BlobKeyRefusedError
from datarecs_core.hashing import sha256_hex
from datarecs_core.values import RunId, TenantId

MAX_KEY_BYTES = 1024
MAX_SEGMENT_BYTES = 200
"""Longer encoded segments become `~` and a hash: file systems and object names have limits."""

BASE = "base"
"""The generation of statistics that needs no draft."""

MAX_NUMBER = 2**63 - 1
"""Largest snapshot id; `by-time` counts down from it, so that the newest snapshot lists first."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DOTS = {".": "%2E", "..": "%2E%2E"}
_SEGMENT = re.compile(r"(?:[A-Za-z0-9\-._~=]|%[0-9A-F]{2})+")
_CONTENT_NAME = re.compile(r"(?:.*[-/])?(?P<sha>[0-9a-f]{64})(?:\.[a-z0-9]+)?", re.DOTALL)


def account_prefix(tenant_id: TenantId) -> str:
    """What every key of an account starts with."""
    return f"accounts/{tenant_id}/"


def run_prefix(tenant_id: TenantId, run_id: RunId) -> str:
    """Everything a run stored; for listing and for deleting it."""
    return f"{account_prefix(tenant_id)}runs/{run_id}/"


def run_document(tenant_id: TenantId, run_id: RunId) -> str:
    """`run.json`, written after all evidence."""
    return f"{run_prefix(tenant_id, run_id)}run.json"


def result_file(tenant_id: TenantId, run_id: RunId, attempt: int) -> str:
    """The child's result file, written last and once per attempt."""
    return f"{run_prefix(tenant_id, run_id)}{attempt}/comparator-result.json"


def extract_prefix(tenant_id: TenantId, run_id: RunId, *, lease_epoch: int, source: str) -> str:
    """Extracted rows of one source under one lease; a later lease never sees them."""
    return f"{run_prefix(tenant_id, run_id)}attempt-{lease_epoch}/extract/{segment(source)}/"


def differences_prefix(tenant_id: TenantId, run_id: RunId, stage: str) -> str:
    return f"{all_differences(tenant_id, run_id)}stage={segment(stage)}/"


def differences_part(tenant_id: TenantId, run_id: RunId, stage: str, *, bucket: int) -> str:
    """Five digits, so that parts list in bucket order."""
    return f"{differences_prefix(tenant_id, run_id, stage)}part-{bucket:05d}.parquet"


def all_differences(tenant_id: TenantId, run_id: RunId) -> str:
    """The prefix of the differences of every stage."""
    return f"{run_prefix(tenant_id, run_id)}differences/"


def digests(tenant_id: TenantId, run_id: RunId) -> str:
    """Leaves of the proof, one per bucket."""
    return f"{run_prefix(tenant_id, run_id)}digests.parquet"


def is_written_by_child(key: str, tenant_id: TenantId, run_id: RunId) -> bool:
    """Whether the key is evidence of this run; the platform itself writes all other keys."""
    written = {run_document(tenant_id, run_id), digests(tenant_id, run_id)}
    return key in written or key.startswith(all_differences(tenant_id, run_id))


def report(tenant_id: TenantId, run_id: RunId, name: str) -> str:
    """A rendered report, such as `report.html`."""
    return f"{run_prefix(tenant_id, run_id)}report/{segment(name)}"


def account_blob(account: TenantId, sha: str) -> str:
    return f"{account_prefix(account)}account/{sha}.pb"


def catalog_blob(account: TenantId, catalog: UUID, sha: str) -> str:
    return f"{account_prefix(account)}catalogs/{catalog}/catalog/{sha}.pb"


def namespace_blob(account: TenantId, namespace: UUID, sha: str) -> str:
    return f"{account_prefix(account)}namespaces/{namespace}/namespace/{sha}.pb"


def table_blobs(account: TenantId, table: UUID) -> str:
    """The prefix of everything that is stored for a table."""
    return f"{account_prefix(account)}tables/{table}/"


def table_blob(account: TenantId, table: UUID, sha: str) -> str:
    return f"{table_blobs(account, table)}table/{sha}.pb"


def snapshot_blob(account: TenantId, table: UUID, snapshot: int, sha: str) -> str:
    return f"{table_blobs(account, table)}snapshots/{number(snapshot)}/snapshot/{sha}.pb"


def target_stats_blob(account: TenantId, table: UUID, target: str, sha: str) -> str:
    return f"{table_blobs(account, table)}target-stats/{segment(target)}/{sha}.pb"


def file_stats_blob(account: TenantId, table: UUID, path: str, sha: str) -> str:
    return f"{table_blobs(account, table)}file-stats/{segment(path)}/{sha}.pb"


def constraints_blob(account: TenantId, table: UUID, snapshot: int, sha: str) -> str:
    return f"{table_blobs(account, table)}constraints/{number(snapshot)}/{sha}.pb"


def stats_manifest_blob(
    account: TenantId, table: UUID, snapshot: int, generation: str, sha: str
) -> str:
    """What a generation contained when it was published."""
    folder = f"{table_blobs(account, table)}target-stats/{number(snapshot)}/manifests/"
    return f"{folder}{segment(generation)}/{sha}.pb"


def planned_files_blob(account: TenantId, table: UUID, snapshot: int, sha: str) -> str:
    return f"{table_blobs(account, table)}planned-files/{number(snapshot)}/{sha}.json"


def index_blob(account: TenantId, table: UUID, target: str, sha: str) -> str:
    """The record of an index."""
    return f"{table_blobs(account, table)}index-artifacts/{segment(target)}/{sha}.pb"


def sidecar_blob(account: TenantId, table: UUID, snapshot: int, target: str, sha: str) -> str:
    """The Parquet file of an index."""
    folder = f"{table_blobs(account, table)}index-sidecars/{number(snapshot)}/"
    return f"{folder}{segment(target)}/{sha}.parquet"


def root_blob(account: TenantId, table: UUID, sha: str) -> str:
    """The whole state of a table that a reader pins."""
    return f"{root_blobs(account, table)}{sha}.pb"


def root_blobs(account: TenantId, table: UUID) -> str:
    """The prefix of the roots of a table and of their pages."""
    return f"{table_blobs(account, table)}root/"


def root_manifest_blob(account: TenantId, table: UUID, sha: str) -> str:
    """A page of the snapshots of a root."""
    return f"{root_blobs(account, table)}manifest/{sha}.pb"


def view_blob(account: TenantId, view: UUID, sha: str) -> str:
    return f"{account_prefix(account)}views/{view}/view/{sha}.pb"


def connector_blob(account: TenantId, connector: UUID, sha: str) -> str:
    return f"{account_prefix(account)}connectors/{connector}/connector/{sha}.pb"


def idempotency_blob(account: TenantId, key: str, suffix: str | None = None) -> str:
    """The record of a repeated request; with a suffix a result that is too long for its pointer."""
    name = "idempotency" if suffix is None else f"idempotency-{segment(suffix)}"
    return f"{account_prefix(account)}idempotency/{segment(key)}/{name}.pb"


def capture_jobs(account: TenantId) -> str:
    """The prefix of what work items of captures stored."""
    return f"{account_prefix(account)}capture/jobs/"


def account_pointer(account: TenantId) -> str:
    """In the account's partition: parent of its catalogs and connectors."""
    return f"/accounts/{account}"


def account_by_id(account: TenantId) -> str:
    """In the directory of all accounts."""
    return f"/accounts/by-id/{account}"


def account_by_name(name: str) -> str:
    """In the directory of all accounts."""
    return f"/accounts/by-name/{segment(name)}"


def catalog_by_id(account: TenantId, catalog: UUID) -> str:
    return f"{catalogs(account)}by-id/{catalog}"


def catalog_names(account: TenantId) -> str:
    """The prefix of the names of catalogs."""
    return f"{catalogs(account)}by-name/"


def catalog_by_name(account: TenantId, name: str) -> str:
    return f"{catalog_names(account)}{segment(name)}"


def catalogs(account: TenantId) -> str:
    """The prefix of the pointers of catalogs."""
    return f"/{account_prefix(account)}catalogs/"


def catalog_children(account: TenantId, catalog: UUID) -> str:
    """The marker that counts changes of the namespaces of a catalog."""
    return f"{catalogs(account)}{catalog}/markers/children"


def namespace_by_id(account: TenantId, namespace: UUID) -> str:
    return f"{_namespaces(account)}by-id/{namespace}"


def namespace_by_path(account: TenantId, catalog: UUID, path: Sequence[str]) -> str:
    return f"{namespace_paths(account, catalog)}{'/'.join(map(segment, path))}"


def namespace_paths(account: TenantId, catalog: UUID) -> str:
    """The prefix of the namespaces of a catalog."""
    return f"{catalogs(account)}{catalog}/namespaces/by-path/"


def namespace_children(account: TenantId, namespace: UUID) -> str:
    """The marker that counts changes of tables, views and namespaces in a namespace."""
    return f"{_namespaces(account)}{namespace}/markers/children"


def table_by_id(account: TenantId, table: UUID) -> str:
    return f"/{account_prefix(account)}tables/by-id/{table}"


def table_names(account: TenantId, catalog: UUID, namespace: UUID) -> str:
    """The prefix of the names of the tables of a namespace."""
    return f"{_content(account, catalog, namespace)}tables/by-name/"


def table_by_name(account: TenantId, catalog: UUID, namespace: UUID, name: str) -> str:
    return f"{table_names(account, catalog, namespace)}{segment(name)}"


def view_by_id(account: TenantId, view: UUID) -> str:
    return f"/{account_prefix(account)}views/by-id/{view}"


def view_names(account: TenantId, catalog: UUID, namespace: UUID) -> str:
    """The same of views."""
    return f"{_content(account, catalog, namespace)}views/by-name/"


def view_by_name(account: TenantId, catalog: UUID, namespace: UUID, name: str) -> str:
    return f"{view_names(account, catalog, namespace)}{segment(name)}"


def relation_by_name(account: TenantId, catalog: UUID, namespace: UUID, name: str) -> str:
    """Shared by tables and views, so that they never have the same name."""
    return f"{relations(account, catalog, namespace)}{segment(name)}"


def relations(account: TenantId, catalog: UUID, namespace: UUID) -> str:
    """The prefix of the tables and views of a namespace."""
    return f"{_content(account, catalog, namespace)}relations/by-name/"


def table_pointers(account: TenantId, table: UUID) -> str:
    """The prefix of the pointers of a table, without its id and name."""
    return f"/{account_prefix(account)}tables/{table}/"


def current_root(account: TenantId, table: UUID) -> str:
    return f"{table_pointers(account, table)}root/current"


def current_snapshot(account: TenantId, table: UUID) -> str:
    return f"{snapshots(account, table)}current"


def snapshots(account: TenantId, table: UUID) -> str:
    """The prefix of the pointers of snapshots."""
    return f"{table_pointers(account, table)}snapshots/"


def snapshot_by_id(account: TenantId, table: UUID, snapshot: int) -> str:
    return f"{snapshots(account, table)}by-id/{number(snapshot)}"


def snapshots_by_time(account: TenantId, table: UUID) -> str:
    """The prefix of the list of snapshots, the newest commit first."""
    return f"{snapshots(account, table)}by-time/"


def snapshot_by_time(account: TenantId, table: UUID, at: datetime, snapshot: int) -> str:
    # Any time has 19 digits: before 1970 the first number is above MAX_NUMBER and below 10**19.
    millis = (at - _EPOCH) // timedelta(milliseconds=1)
    newest_first = f"{MAX_NUMBER - millis:019d}-{number(MAX_NUMBER - snapshot)}"
    return f"{snapshots_by_time(account, table)}{newest_first}"


def snapshot_stats(account: TenantId, table: UUID, snapshot: int) -> str:
    """The prefix of the statistics and constraints of a snapshot."""
    return f"{snapshots(account, table)}{number(snapshot)}/stats/"


def generation(account: TenantId, table: UUID, snapshot: int, name: str) -> str:
    """The prefix of a generation of statistics."""
    return f"{snapshot_stats(account, table, snapshot)}target-generations/{segment(name)}/"


def lifecycle(account: TenantId, table: UUID, snapshot: int, name: str) -> str:
    """The state of a generation."""
    return f"{generation(account, table, snapshot, name)}lifecycle"


def generation_records(account: TenantId, table: UUID, snapshot: int, name: str) -> str:
    """The prefix of the records of a generation; `base` has the keys of Source 002."""
    if name == BASE:
        return snapshot_stats(account, table, snapshot)
    return generation(account, table, snapshot, name)


def targets_of(account: TenantId, table: UUID, snapshot: int, name: str = BASE) -> str:
    """The prefix of the statistics of targets in a generation."""
    return f"{generation_records(account, table, snapshot, name)}targets/"


def files_of(account: TenantId, table: UUID, snapshot: int, name: str = BASE) -> str:
    """The prefix of the statistics of files in a generation."""
    return f"{generation_records(account, table, snapshot, name)}files/"


def target_stats(account: TenantId, table: UUID, snapshot: int, target: str) -> str:
    return f"{targets_of(account, table, snapshot)}{segment(target)}"


def file_stats(account: TenantId, table: UUID, snapshot: int, path: str) -> str:
    return f"{files_of(account, table, snapshot)}{segment(path)}"


def active_targets(account: TenantId, table: UUID, snapshot: int) -> str:
    """Which generation readers see; without this pointer the snapshot is not finalised."""
    return f"{snapshot_stats(account, table, snapshot)}targets-active"


def planned_files(account: TenantId, table: UUID, snapshot: int) -> str:
    """The list of files of a snapshot until its statistics are published."""
    return f"{snapshot_stats(account, table, snapshot)}planned-files"


def latest_statistics(account: TenantId, table: UUID, target: str | None = None) -> str:
    """The newest snapshot with statistics, of the table or of one target."""
    below = latest_prefix(account, table)
    return f"{below}{'' if target is None else f'targets/{segment(target)}/'}latest-snapshot"


def latest_prefix(account: TenantId, table: UUID) -> str:
    """The prefix of the pointers to the newest snapshots with statistics."""
    return f"{table_pointers(account, table)}stats/"


def indexes(account: TenantId, table: UUID, snapshot: int) -> str:
    """The prefix of the indexes of a snapshot."""
    return f"{snapshots(account, table)}{number(snapshot)}/index-artifacts/"


def index(account: TenantId, table: UUID, snapshot: int, target: str) -> str:
    return f"{indexes(account, table, snapshot)}{segment(target)}"


def constraints_of_stats(account: TenantId, table: UUID, snapshot: int) -> str:
    """Constraints, reached from the statistics of their snapshot."""
    return f"{snapshot_stats(account, table, snapshot)}constraints"


def constraints_by_snapshot(account: TenantId, table: UUID, snapshot: int) -> str:
    return f"{table_pointers(account, table)}constraints/by-snapshot/{number(snapshot)}"


def capture_plan(account: TenantId, job: UUID, sha: str) -> str:
    """The frozen plan of a snapshot, below the work item that made it."""
    return f"{capture_job_blobs(account, job)}snapshot-plan/{sha}.json"


def capture_job_blobs(account: TenantId, job: UUID) -> str:
    """What a work item stored; it is collected when the item has been removed."""
    return f"{capture_jobs(account)}{job}/"


def pins(account: TenantId, table: UUID) -> str:
    """The prefix of the pins of a table."""
    return f"{table_pointers(account, table)}pins/"


def pin(account: TenantId, table: UUID, run: RunId) -> str:
    return f"{pins(account, table)}{run}"


def connector_by_id(account: TenantId, connector: UUID) -> str:
    return f"/{account_prefix(account)}connectors/by-id/{connector}"


def connector_names(account: TenantId) -> str:
    """The prefix of the names of connectors."""
    return f"/{account_prefix(account)}connectors/by-name/"


def connector_by_name(account: TenantId, name: str) -> str:
    return f"{connector_names(account)}{segment(name)}"


def idempotency(account: TenantId, operation: str, key: str) -> str:
    return f"/{account_prefix(account)}idempotency/{segment(operation)}/{segment(key)}"


def blob_deletion(account: TenantId, blob_key: str) -> str:
    """The fence of a blob that is removed as unreachable."""
    return f"{blob_deletions(account)}{segment(blob_key)}"


def blob_deletions(account: TenantId) -> str:
    """The prefix of all fences."""
    return f"/{account_prefix(account)}deletions/blobs/"


def _namespaces(account: TenantId) -> str:
    return f"/{account_prefix(account)}namespaces/"


def _content(account: TenantId, catalog: UUID, namespace: UUID) -> str:
    return f"{catalogs(account)}{catalog}/namespaces/{namespace}/"


def number(value: int) -> str:
    """A number in a key: 19 digits, so that byte order is the order of numbers.

    Raises:
        ValueError: not a 64-bit number, or negative.
    """
    if not 0 <= value <= MAX_NUMBER:
        raise ValueError(f"{value} is not between 0 and {MAX_NUMBER}")
    return f"{value:019d}"


def segment(text: str) -> str:
    """One variable part of a key: percent-encoded UTF-8, upper-case hexadecimal.

    Raises:
        ValueError: empty text.
    """
    if not text:
        raise ValueError("a key has no empty segment")
    encoded = _DOTS.get(text) or quote(text, safe="")
    if encoded.startswith("~"):
        encoded = f"%7E{encoded[1:]}"
    return encoded if len(encoded) <= MAX_SEGMENT_BYTES else f"~{sha256_hex(text.encode())}"


def content_hash(key: str) -> str | None:
    """The SHA-256 that a content-addressed key names (`…/{sha}.pb`, `…/{n}-{sha}`), else None."""
    match = _CONTENT_NAME.fullmatch(key.rpartition("/")[2])
    return match["sha"] if match else None


def check_key(key: str, tenant_id: TenantId) -> None:
    """Refuse keys that a store of this account may not use, before the backend is called.

    Raises:
        BlobKeyRefusedError: another account's key, a dot segment however it is spelled, a spelling
            that is not canonical, or more than 1,024 bytes.
    """
    if not key.startswith(account_prefix(tenant_id)):
        raise BlobKeyRefusedError(rule="it does not belong to this account")
    if len(key) > MAX_KEY_BYTES:
        raise BlobKeyRefusedError(rule=f"it is longer than {MAX_KEY_BYTES} bytes")
    for part in key.split("/"):
        if part in {".", ".."} or part in _DOTS.values():
            raise BlobKeyRefusedError(rule="a segment may not be `.` or `..`")
        if not _SEGMENT.fullmatch(part):
            raise BlobKeyRefusedError(rule="a segment is empty or not canonically encoded")


def check_prefix(prefix: str, tenant_id: TenantId) -> None:
    """The same for a prefix to list or delete; it ends with `/`, so it never includes siblings.

    Raises:
        BlobKeyRefusedError: see `check_key`, or the slash is missing.
    """
    if not prefix.endswith("/"):
        raise BlobKeyRefusedError(rule="a prefix ends with `/`")
    if prefix != account_prefix(tenant_id):
        check_key(prefix.removesuffix("/"), tenant_id)
