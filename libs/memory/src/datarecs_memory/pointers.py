"""Twin of the table `pointer`. Transactions run one after another, so batches are serial."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from datarecs_core.catalog.pointers import (
    Applied,
    Op,
    Outcome,
    Pointer,
    PointerPage,
    apply_batch,
    check_batch,
    check_pointer_key,
    check_pointer_prefix,
    position_of,
    token_after,
)
from datarecs_memory.scope import Scope


@dataclass(frozen=True, slots=True)
class MemoryPointers:
    """Port Pointers."""

    _scope: Scope

    def get(self, key: str) -> Pointer | None:
        return self.get_many([key]).get(key)

    def get_many(self, keys: Collection[str]) -> Mapping[str, Pointer]:
        for key in keys:
            check_pointer_key(key, self._scope.tenant_id)
        rows = self._scope.state.pointers
        return {key: rows[key] for key in keys if key in rows and self._is_live(rows[key])}

    def batch(self, ops: Sequence[Op]) -> Outcome:
        check_batch(ops, self._scope.tenant_id)
        outcome, changes = apply_batch(self.get_many([op.key for op in ops]), ops)
        if isinstance(outcome, Applied):
            for pointer in changes.stored:
                self._scope.state.pointers[pointer.key] = pointer
            for key in changes.deleted:
                del self._scope.state.pointers[key]
        return outcome

    def list(self, prefix: str, *, limit: int, token: str | None = None) -> PointerPage:
        check_pointer_prefix(prefix, self._scope.tenant_id)
        after = position_of(prefix, token)
        beyond = (pointer for pointer in self._below(prefix) if pointer.key > after)
        page = tuple(islice(beyond, limit + 1))
        if len(page) <= limit:
            return PointerPage(pointers=page)
        return PointerPage(pointers=page[:limit], token=token_after(prefix, page[limit - 1].key))

    def count(self, prefix: str, *, cap: int) -> int:
        check_pointer_prefix(prefix, self._scope.tenant_id)
        return sum(1 for _ in islice(self._below(prefix), cap))

    def delete_prefix(self, prefix: str, *, limit: int) -> int:
        check_pointer_prefix(prefix, self._scope.tenant_id)
        rows = self._scope.state.pointers
        return self._delete(islice((key for key in rows if key.startswith(prefix)), limit))

    def delete_expired(self, *, limit: int) -> int:
        rows = self._scope.state.pointers.values()
        return self._delete(islice((one.key for one in rows if not self._is_live(one)), limit))

    def _delete(self, keys: Iterator[str]) -> int:
        chosen = tuple(keys)
        for key in chosen:
            del self._scope.state.pointers[key]
        return len(chosen)

    def _below(self, prefix: str) -> Iterator[Pointer]:
        rows = sorted(self._scope.state.pointers.items())
        return (row for key, row in rows if key.startswith(prefix) and self._is_live(row))

    def _is_live(self, pointer: Pointer) -> bool:
        return pointer.is_live(self._scope.store.clock.now())
