"""Objects of the catalogue: account, catalog, namespace, table, view and connector.

One repository for every kind, because all are changed by the same steps: a batch of the pointer by
id, the names, the parents and their markers. Spec catalogue-storage 7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from datarecs_application.catalogue.account import (
    CatalogueAccount,
    NewRecord,
    Staged,
    require_blob,
    texts,
)
from datarecs_core.catalog.placement import BY_ID, Entity, Placement, placement
from datarecs_core.catalog.pointers import (
    Applied,
    Bump,
    Check,
    Delete,
    Op,
    Pointer,
    Rejected,
    Upsert,
)
from datarecs_core.catalog.records import Account
from datarecs_core.errors.catalogue import (
    CatalogueInconsistentError,
    CatalogueNotFoundError,
    CataloguePreconditionError,
    ContentConflictError,
    NameConflictError,
    VersionConflictError,
)
from datarecs_core.hashing import canonical_json

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(Generic[E]):
    """An object with the version of its pointer."""

    record: E
    version: int
    blob_key: str


class Entities(Generic[E]):
    """The objects of one kind in one account."""

    def __init__(self, account: CatalogueAccount, kind: type[E]) -> None:
        self._account, self._kind = account, kind

    def get(self, resource_id: UUID) -> Stored[E] | None:
        pointer = self._account.pointers.get(self._by_id(resource_id))
        return None if pointer is None else self._read(pointer)

    def by_name(self, name_key: str) -> Stored[E] | None:
        """The object of a name pointer of `layout`."""
        name = self._account.pointers.get(name_key)
        if name is None or name.resource_id is None:
            return None
        return self.get(name.resource_id)

    def create(self, record: E) -> Stored[E]:
        """Store a new object; the same object again is success without effect.

        Raises:
            NameConflictError: its name belongs to another object.
            ContentConflictError: it exists with other content.
            CataloguePreconditionError: its parent does not exist.
            CatalogueInconsistentError: only a part of its pointers exists.
            CatalogueBusyError: other writers were faster in every try.
        """
        place = placement(self._account.tenant, record)

        def attempt() -> Stored[E] | None:
            staged = self._account.stage(NewRecord(record=record, key_of=place.blob_key))
            if staged is None:
                return None
            companions = self._create_companions(record, staged)
            if companions is None:
                return None
            ops = [
                Upsert(next=_by_id_pointer(place, staged.blob_keys[0]), expected=0),
                *_new_names(place, place.names),
                *place.parents,
                *map(_bump, place.markers),
                *staged.fences,
                *companions,
            ]
            outcome = self._account.pointers.batch(ops)
            if isinstance(outcome, Applied):
                return Stored(record=record, version=1, blob_key=staged.blob_keys[0])
            return self._existing(record, place, staged.blob_keys[0], outcome)

        return self._account.repeat(place.by_id, attempt)

    def update(self, record: E, *, expected_version: int) -> Stored[E]:
        """Replace an object at a version. A rename is the same batch; equal content is no change.

        Raises:
            CatalogueNotFoundError: there is no such object.
            VersionConflictError: it is at another version.
            NameConflictError: its new name belongs to another object.
            CataloguePreconditionError: its new parent does not exist, or children stand below the
                name that would change.
            CatalogueBusyError: other writers were faster in every try.
        """
        place = placement(self._account.tenant, record)

        def attempt() -> Stored[E] | None:
            current = self._account.pointers.get(place.by_id)
            if current is None:
                raise CatalogueNotFoundError(key=place.by_id)
            staged = self._account.stage(NewRecord(record=record, key_of=place.blob_key))
            if staged is None:
                return None
            (blob_key,) = staged.blob_keys
            if current.blob_key == blob_key:
                return Stored(record=record, version=current.version, blob_key=blob_key)
            if current.version != expected_version:
                raise VersionConflictError(key=place.by_id, expected=expected_version)
            companions = self._update_companions(record, staged)
            if companions is None:
                return None
            ops = [
                *_moves(place, current, blob_key),
                *self._staying_children(place, current),
                *staged.fences,
                *companions,
            ]
            outcome = self._account.pointers.batch(ops)
            if isinstance(outcome, Applied):
                return Stored(record=record, version=expected_version + 1, blob_key=blob_key)
            _explain_update(place, current, outcome)
            return None

        return self._account.repeat(place.by_id, attempt)

    def delete(self, resource_id: UUID, *, expected_version: int | None = None) -> bool:
        """Delete an object without children; False: there was none. Its blobs are not read.

        Raises:
            CatalogueNotFoundError: there is none, and a version was expected.
            CataloguePreconditionError: it has children, is at another version, or is an account.
            CatalogueBusyError: other writers were faster in every try.
        """
        key = self._by_id(resource_id)
        if self._kind is Account:
            raise CataloguePreconditionError(key=key, rule="an account goes with its tenant")

        def attempt() -> bool | None:
            current = self._account.pointers.get(key)
            if current is None and expected_version is not None:
                raise CatalogueNotFoundError(key=key)
            if current is None:
                return False
            if expected_version not in (None, current.version):
                raise CataloguePreconditionError(
                    key=key, rule=f"it is at version {current.version}, not {expected_version}"
                )
            ops = self._deletions(resource_id, current)
            return True if isinstance(self._account.pointers.batch(ops), Applied) else None

        return self._account.repeat(key, attempt)

    def _by_id(self, resource_id: UUID) -> str:
        return BY_ID[self._kind.kind](self._account.tenant, resource_id)

    def _create_companions(self, record: E, staged: Staged) -> list[Op] | None:
        """Further operations of a kind; None: try again."""
        del record, staged
        return []

    def _update_companions(self, record: E, staged: Staged) -> list[Op] | None:
        del record, staged
        return []

    def _delete_companions(self, resource_id: UUID) -> list[Op]:
        del resource_id
        return []

    def _read(self, pointer: Pointer) -> Stored[E]:
        blob_key = require_blob(pointer)
        record = self._account.read(self._kind, blob_key)
        return Stored(record=record, version=pointer.version, blob_key=blob_key)

    def _existing(
        self, record: E, place: Placement, blob_key: str, rejected: Rejected
    ) -> Stored[E] | None:
        """What a rejected creation means: success before, a conflict, or another try."""
        keys = (place.by_id, *place.names)
        rows = self._account.pointers.get_many(keys)
        ours = [key for key in keys if key in rows and _is_of(rows[key], place)]
        if ours and len(ours) < len(keys):
            raise CatalogueInconsistentError(key=place.by_id, fault=_half(keys, rows))
        if ours and rows[place.by_id].blob_key != blob_key:
            raise ContentConflictError(key=place.by_id)
        if ours:
            return Stored(record=record, version=rows[place.by_id].version, blob_key=blob_key)
        if rows and place.names[0] not in rows:
            raise CatalogueInconsistentError(key=place.by_id, fault=_half(keys, rows))
        if rows:
            raise NameConflictError(key=next(iter(rows)))
        _require_parent(place, rejected)
        return None

    def _staying_children(self, place: Placement, current: Pointer) -> list[Op]:
        """Keys of children contain the path of a namespace: they must not change with it."""
        prefixes = [one for one in texts(current, "children") if one not in place.children]
        if not prefixes:
            return []
        markers = texts(current, "children_marker")
        present = self._account.pointers.get_many(markers)
        self._refuse_children(current, prefixes)
        versions = {key: present[key].version if key in present else 0 for key in markers}
        return [Check(key=key, expected=version) for key, version in versions.items()]

    def _refuse_children(self, current: Pointer, prefixes: Sequence[str]) -> None:
        for prefix in prefixes:
            if self._account.pointers.count(prefix, cap=1):
                raise CataloguePreconditionError(
                    key=current.key, rule="it is not empty; delete its children first"
                )

    def _deletions(self, resource_id: UUID, current: Pointer) -> list[Op]:
        names = texts(current, "names")
        markers = self._account.pointers.get_many(texts(current, "children_marker"))
        self._refuse_children(current, texts(current, "children"))
        return [
            Delete(key=current.key, expected=current.version, resource_id=resource_id),
            *(Delete(key=name, expected=1, resource_id=resource_id) for name in names),
            *map(_bump, texts(current, "markers")),
            *(_gone(key, markers) for key in texts(current, "children_marker")),
            *self._delete_companions(resource_id),
        ]


def _gone(marker: str, markers: Mapping[str, Pointer]) -> Op:
    """The marker goes at the version that was read before the children were counted."""
    if marker in markers:
        return Delete(key=marker, expected=markers[marker].version)
    return Check(key=marker, expected=0)


def _bump(key: str) -> Op:
    return Bump(key=key)


def _is_of(pointer: Pointer, place: Placement) -> bool:
    return pointer.resource_id == place.resource_id


def _half(keys: tuple[str, ...], rows: Mapping[str, Pointer]) -> str:
    missing = [key for key in keys if key not in rows]
    return f"of its pointers these are missing or belong to another object: {', '.join(missing)}"


def _by_id_pointer(place: Placement, blob_key: str) -> Pointer:
    """The payload says what a deletion removes, so that it does not need the record."""
    marker = [] if place.children_marker is None else [place.children_marker]
    content = {
        "names": place.names,
        "markers": place.markers,
        "children_marker": marker,
        "children": place.children,
    }
    return Pointer(
        key=place.by_id,
        blob_key=blob_key,
        payload=canonical_json(content),
        resource_id=place.resource_id,
    )


def _new_names(place: Placement, names: tuple[str, ...]) -> list[Op]:
    return [
        Upsert(next=Pointer(key=name, resource_id=place.resource_id), expected=0) for name in names
    ]


def _moves(place: Placement, current: Pointer, blob_key: str) -> list[Op]:
    """The batch of an update; names that stay are not touched."""
    before, markers = texts(current, "names"), texts(current, "markers")
    added = tuple(name for name in place.names if name not in before)
    removed = [name for name in before if name not in place.names]
    moved = dict.fromkeys((*markers, *place.markers)) if added else {}
    return [
        Upsert(
            next=_by_id_pointer(place, blob_key),
            expected=current.version,
            resource_id=place.resource_id,
        ),
        *_new_names(place, added),
        *(Delete(key=name, expected=1, resource_id=place.resource_id) for name in removed),
        *(place.parents if added else ()),
        *map(_bump, moved),
    ]


def _explain_update(place: Placement, current: Pointer, rejected: Rejected) -> None:
    """Raise what a rejected update means; return if it is worth another try."""
    if rejected.key == place.by_id:
        raise VersionConflictError(key=place.by_id, expected=current.version)
    if rejected.key in place.names:
        raise NameConflictError(key=rejected.key)
    if rejected.key in texts(current, "names"):
        raise CatalogueInconsistentError(
            key=place.by_id, fault=f"its name {rejected.key} belongs to another object"
        )
    _require_parent(place, rejected)


def _require_parent(place: Placement, rejected: Rejected) -> None:
    if rejected.key in {parent.key for parent in place.parents}:
        raise CataloguePreconditionError(
            key=place.by_id, rule=f"its parent {rejected.key} does not exist"
        )
