"""The audit chain: how a row is hashed together with the row before it, and how that is checked.

A separate rule because the writer of rows and a verifier years later must compute the same bytes
(spec security 14).
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from datarecs_core.hashing import JsonValue, canonical_json
from datarecs_core.values import TenantId, instant_text

FIRST_PREV_HASH = bytes(32)
"""The hash before the first row of a tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One row without its hashes. Hashes of states are 32 bytes or absent."""

    tenant_id: TenantId
    seq: int
    at: datetime
    actor: str
    actor_kind: str
    action: str
    resource_kind: str
    resource_uid: str
    before_sha256: bytes | None
    after_sha256: bytes | None
    request_id: str
    address: str
    outcome: str
    detail: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedRow:
    """A row with the hashes that are stored beside it."""

    row: AuditRow
    prev_hash: bytes
    hash: bytes


def audit_hash(row: AuditRow, prev_hash: bytes) -> bytes:
    """SHA-256 over the canonical row and the hash of the row before it; 32 bytes."""
    canonical = canonical_json(
        {
            "tenant_id": str(row.tenant_id),
            "seq": row.seq,
            "at": instant_text(row.at),
            "actor": row.actor,
            "actor_kind": row.actor_kind,
            "action": row.action,
            "resource_kind": row.resource_kind,
            "resource_uid": row.resource_uid,
            "before_sha256": row.before_sha256 and row.before_sha256.hex(),
            "after_sha256": row.after_sha256 and row.after_sha256.hex(),
            "request_id": row.request_id,
            "address": row.address,
            "outcome": row.outcome,
            "detail": row.detail,
        }
    )
    return hashlib.sha256(prev_hash + canonical).digest()


def first_broken(chain: Iterable[ChainedRow]) -> int | None:
    """Number of the first row that is altered, missing or out of place; None for a sound chain.

    Args:
        chain: one tenant's rows in the order of their numbers. Rows missing at the end are found
            by comparing the last one with the stored head, which is the caller's part.
    """
    expected, before = 1, FIRST_PREV_HASH
    for link in chain:
        sound = (
            link.row.seq == expected
            and link.prev_hash == before
            and link.hash == audit_hash(link.row, before)
        )
        if not sound:
            return expected
        expected, before = expected + 1, link.hash
    return None
