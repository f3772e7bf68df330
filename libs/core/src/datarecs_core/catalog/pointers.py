"""Pointers and the one rule of their batches: compare versions, then change all or nothing.

Every backend runs `apply_batch` over the rows of a batch, so it decides the same for the same rows.
A backend only reads the rows, serialises writers and stores the changes. Spec catalogue-storage 2.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from datarecs_core.catalog.layout import account_prefix, check_key, check_prefix
from datarecs_core.errors.catalogue import PointerRefusedError
from datarecs_core.errors.storage import BlobKeyRefusedError
from datarecs_core.values import TenantId

MAX_BATCH = 10_000
MAX_PAYLOAD_BYTES = 8 * 1024
_CHECKSUM_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """What a key currently names. A pointer without blob and payload is a marker."""

    key: str
    blob_key: str | None = None
    """The immutable record, a key of the BlobStore."""
    payload: bytes | None = None
    """Canonical JSON, at most 8 KiB."""
    resource_id: UUID | None = None
    """The object that it belongs to; a name can change its owner at the same version."""
    expires_at: datetime | None = None
    """From this time of the database on, the pointer is absent."""
    version: int = 1
    """Rises by one with each change; set by the store."""

    def is_live(self, now: datetime) -> bool:
        return self.expires_at is None or self.expires_at > now


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Create a pointer (`expected` 0), or replace it at a version."""

    next: Pointer
    expected: int
    resource_id: UUID | None = None
    """If set, the present pointer must belong to this object."""

    @property
    def key(self) -> str:
        return self.next.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete a pointer at a version."""

    key: str
    expected: int
    resource_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Require a version; 0 requires absence."""

    key: str
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPresent:
    """Require presence at any version."""

    key: str
    resource_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bump:
    """Raise the version of a marker, or create it at 1: writers of one marker never conflict."""

    key: str


Op = Upsert | Delete | Check | CheckPresent | Bump


class Reason(StrEnum):
    ABSENT = "ABSENT"
    PRESENT = "PRESENT"
    VERSION = "VERSION"
    RESOURCE = "RESOURCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Everything was changed."""

    versions: Mapping[str, int] = field(default_factory=dict)
    """Version after the batch by key; a deleted key has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Nothing was changed; the first operation that does not hold."""

    index: int
    key: str
    reason: Reason


Outcome = Applied | Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a backend stores for an applied batch."""

    stored: tuple[Pointer, ...] = ()
    deleted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerPage:
    pointers: tuple[Pointer, ...]
    """In byte order of their keys."""
    token: str | None = None
    """Where the next page begins; None on the last page."""


def apply_batch(rows: Mapping[str, Pointer], ops: Sequence[Op]) -> tuple[Outcome, Changes]:
    """Decide a batch over the pointers of its keys.

    Args:
        rows: the stored pointers that have not expired, by key.
        ops: checked by `check_batch`.
    """
    stored, deleted = [], []
    for index, op in enumerate(ops):
        current = rows.get(op.key)
        reason = _refusal(op, current)
        if reason is not None:
            return Rejected(index=index, key=op.key, reason=reason), Changes()
        match op:
            case Upsert():
                stored.append(replace(op.next, version=op.expected + 1))
            case Bump():
                bumped = current or Pointer(key=op.key, version=0)
                stored.append(replace(bumped, version=bumped.version + 1))
            case Delete():
                deleted.append(op.key)
            case Check() | CheckPresent():
                pass
    versions = {pointer.key: pointer.version for pointer in stored}
    return Applied(versions=versions), Changes(stored=tuple(stored), deleted=tuple(deleted))


def _refusal(op: Op, current: Pointer | None) -> Reason | None:
    """Why the operation does not hold for the current pointer."""
    match op:
        case Bump():
            return None
        case CheckPresent():
            if current is None:
                return Reason.ABSENT
        case Upsert() | Delete() | Check():
            if (version := current.version if current else 0) != op.expected:
                return _version_reason(version, op.expected)
    owner = None if isinstance(op, Check) else op.resource_id
    if current is not None and owner is not None and current.resource_id != owner:
        return Reason.RESOURCE
    return None


def _version_reason(version: int, expected: int) -> Reason:
    if version == 0:
        return Reason.ABSENT
    return Reason.PRESENT if expected == 0 else Reason.VERSION


def check_batch(ops: Sequence[Op], tenant_id: TenantId) -> None:
    """Refuse a batch that no backend accepts, before the backend is called.

    Raises:
        PointerRefusedError: too many operations, a key twice, a key of another account, a version
            that cannot exist, a payload above 8 KiB.
    """
    if len(ops) > MAX_BATCH:
        raise PointerRefusedError(rule=f"{len(ops)} operations are more than {MAX_BATCH}")
    keys = set()
    for op in ops:
        check_pointer_key(op.key, tenant_id)
        if op.key in keys:
            raise PointerRefusedError(rule=f"{op.key} occurs twice in one batch")
        keys.add(op.key)
        _check_op(op)


def _check_op(op: Op) -> None:
    lowest = 1 if isinstance(op, Delete) else 0
    if isinstance(op, Upsert | Delete | Check) and op.expected < lowest:
        raise PointerRefusedError(rule=f"version {op.expected} of {op.key} cannot exist")
    if isinstance(op, Upsert) and len(op.next.payload or b"") > MAX_PAYLOAD_BYTES:
        raise PointerRefusedError(
            rule=f"the payload of {op.key} is longer than {MAX_PAYLOAD_BYTES} bytes"
        )


def check_pointer_key(key: str, tenant_id: TenantId) -> None:
    """Refuse keys that a store of this account may not use.

    Raises:
        PointerRefusedError: see `layout.check_key`; the account's pointer itself is allowed.
    """
    if key == f"/{account_prefix(tenant_id)}".removesuffix("/"):
        return
    if not key.startswith("/"):
        raise PointerRefusedError(rule="its key does not begin with `/accounts/`")
    try:
        check_key(key[1:], tenant_id)
    except BlobKeyRefusedError as cause:
        raise PointerRefusedError(rule=cause.rule) from None


def check_pointer_prefix(prefix: str, tenant_id: TenantId) -> None:
    """The same for a prefix, which ends with `/`.

    Raises:
        PointerRefusedError: see `layout.check_prefix`.
    """
    try:
        check_prefix(prefix.removeprefix("/"), tenant_id)
    except BlobKeyRefusedError as cause:
        raise PointerRefusedError(rule=cause.rule) from None
    if not prefix.startswith("/"):
        raise PointerRefusedError(rule="its prefix does not begin with `/accounts/`")


def token_after(prefix: str, key: str) -> str:
    """The token of the page of this prefix that begins after the key, whether it exists or not."""
    rest = key.removeprefix(prefix).encode()
    return base64.urlsafe_b64encode(_checksum(prefix, rest) + rest).decode()


def position_of(prefix: str, token: str | None) -> str:
    """The key after which a page begins.

    Raises:
        PointerRefusedError: a damaged token, or one of another prefix.
    """
    if token is None:
        return prefix
    try:
        data = base64.b64decode(token, altchars=b"-_", validate=True)
        position = prefix + data[_CHECKSUM_BYTES:].decode()
        if token_after(prefix, position) == token:
            return position
    except ValueError:  # not base64, not UTF-8
        pass
    raise PointerRefusedError(rule="the page token is damaged or belongs to another list")


def _checksum(prefix: str, rest: bytes) -> bytes:
    return hashlib.sha256(prefix.encode() + b"\0" + rest).digest()[:_CHECKSUM_BYTES]
