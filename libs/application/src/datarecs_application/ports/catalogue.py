"""The pointers of the catalogue: what each name, id and list currently names.

Blobs are the other port, `ports.outside.BlobStore`. Spec catalogue-storage 2.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from datarecs_core.catalog.pointers import Op, Outcome, Pointer, PointerPage


class Pointers(Protocol):
    """Pointers of one account; keys of `catalog.layout`. An expired pointer is absent.

    Every method raises PointerRefusedError for a key or prefix of another account, before the
    backend is called.
    """

    def get(self, key: str) -> Pointer | None: ...

    def get_many(self, keys: Collection[str]) -> Mapping[str, Pointer]:
        """The present ones by key, all of one moment."""

    def batch(self, ops: Sequence[Op]) -> Outcome:
        """Change all or nothing, by the rule of `catalog.pointers.apply_batch`.

        Raises:
            PointerRefusedError: see `check_batch`.
        """

    def list(self, prefix: str, *, limit: int, token: str | None = None) -> PointerPage:
        """A page in byte order; its token is a position and stays valid when keys go.

        Raises:
            PointerRefusedError: a damaged token, or one of another prefix.
        """

    def count(self, prefix: str, *, cap: int) -> int:
        """Pointers below the prefix, counted up to the cap."""

    def delete_prefix(self, prefix: str, *, limit: int) -> int:
        """Delete at most `limit` pointers, whatever their versions; for removed tables only."""

    def delete_expired(self, *, limit: int) -> int:
        """Delete at most `limit` expired pointers, which nobody sees any more."""
