"""Every key below `accounts/<tenant>/runs/<run>`, and the form of every key.

A separate module because one process writes a key and another reads it: the form is defined only
here. Source: spec catalogue-storage 3 and 14.
"""

import re
from urllib.parse import quote

from datarecs_core.errors.storage import BlobKeyRefusedError
from datarecs_core.hashing import sha256_hex
from datarecs_core.values import RunId, TenantId

MAX_KEY_BYTES = 1024
MAX_SEGMENT_BYTES = 200
"""Longer encoded segments become `~` and a hash: file systems and object names have limits."""

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
