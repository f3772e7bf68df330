"""Clock, ids, metrics, secrets and blobs: the small ports that every process needs."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from datarecs_core.access.references import SecretUse


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall clock, aware UTC. Leases and slots are judged by the database's instead."""

    def monotonic(self) -> float:
        """Seconds that never go back; for durations and self-fencing."""

    def wait(self, duration: timedelta, *, until: "Wake | None" = None) -> bool:
        """Wait, ended early by the wake-up; True when it was."""


class Wake(Protocol):
    """A latch between threads: set by a notification or by shutdown, cleared by the loop."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Ids(Protocol):
    def new(self) -> UUID:
        """A UUIDv7, growing within the process."""


class Metrics(Protocol):
    """Names and labels are checked against `datarecs_application.metrics`; ids are never labels."""

    def count(self, name: str, value: float = 1, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...

    def gauge(self, name: str, value: float, **labels: str) -> None: ...


class SecretStore(Protocol):
    def resolve(self, reference: str, *, tenant: UUID, uses: Collection[SecretUse]) -> str:
        """The value of `env:` or `file:`, when the operator lets it be sent to all of `uses`.

        Raises SecretUnavailableError, SecretRefusedError.
        """

    def seal(self, plain: bytes, *, context: Mapping[str, str]) -> bytes:
        """AES-256-GCM envelope bound to the context (tenant, resource uid, field, version)."""

    def open(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        """Raises SecretTamperedError when bytes or context differ from what was sealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobInfo:
    key: str
    size_bytes: int
    etag: str
    last_modified: datetime
    sha256: str | None = None
    version_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobCapabilities:
    versioned_deletes: bool = False
    create_only: bool = True
    signed_urls: bool = False
    max_put_bytes: int = 5 * 1024**3


class BlobStore(Protocol):
    """Immutable bytes by key, bound to one account; a key of another account is refused.

    Keys look like `accounts/<tenant>/runs/<run>/run.json`; rules in spec catalogue-storage 2 and 3.
    """

    def put(self, key: str, data: bytes) -> BlobInfo:
        """Replaces; durable when it returns."""

    def put_new(self, key: str, data: bytes) -> BlobInfo:
        """Create only: equal bytes present = success, other bytes raise BlobConflictError."""

    def put_file(self, key: str, path: str) -> BlobInfo:
        """A local file, streamed; invisible until complete."""

    def get(self, key: str) -> bytes:
        """Raises BlobNotFoundError; BlobCorruptError when the key names another hash."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Half-open [start, end)."""

    def head(self, key: str) -> BlobInfo | None: ...

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """Lexicographic by key."""

    def delete(self, key: str) -> None:
        """A missing key is success."""

    def delete_prefix(self, prefix: str) -> None: ...

    def capabilities(self) -> BlobCapabilities: ...


class BlobStores(Protocol):
    def of(self, tenant: UUID) -> BlobStore:
        """The store bound to one account."""

    def ready(self) -> str | None:
        """None if the store can be used, else the reason; answers within seconds."""

    def check_create_only(self) -> None:
        """Refuse a store in which `put_new` could replace a blob.

        Raises BlobStoreUnavailableError; a store that does not answer is not judged.
        """
