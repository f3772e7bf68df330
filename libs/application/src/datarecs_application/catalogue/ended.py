"""Generations of statistics that have ended: which ones are removed, and their removal.

Separate from the collection of blobs, because pointers are removed here, and blobs follow when
nothing names them any more. Spec catalogue-storage 9.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_core.catalog.generations import Lifecycle, lifecycle_of
from datarecs_core.catalog.layout import BASE, segment
from datarecs_core.catalog.pointers import Delete, Op, Pointer, Upsert

READABLE_FOR = timedelta(hours=24)
"""How long readers may go on in a generation that has ended."""
_LIFECYCLE = re.compile(
    r"(?P<stats>.*/snapshots/(?P<snapshot>\d{19})/stats/)"
    r"target-generations/(?P<generation>[^/]+)/lifecycle"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedGeneration:
    """A generation that ended long ago and that no run has pinned."""

    pointer: Pointer
    """Of its lifecycle."""
    lifecycle: Lifecycle
    prefixes: tuple[str, str]
    """Of its records."""
    is_base: bool

    def has(self, pointer: Pointer) -> bool:
        """Whether the pointer goes with the generation."""
        return pointer.key == self.pointer.key or pointer.key.startswith(self.prefixes)

    def is_removed(self, pointers: Sequence[Pointer]) -> bool:
        """Whether nothing but the state of `base` is left."""
        if not self.is_base or self.lifecycle.publication is not None:
            return False
        return not any(one.key.startswith(self.prefixes) for one in pointers)


def ended_generations(
    table_id: UUID, pointers: Sequence[Pointer], *, now: datetime
) -> list[EndedGeneration]:
    """The generations of a table to be removed, from all pointers below the table."""
    pinned = {_pinned(one) for one in pointers if "/pins/" in one.key}
    ended = []
    for pointer in pointers:
        match = _LIFECYCLE.fullmatch(pointer.key)
        if match is None:
            continue
        name, stats = match["generation"], match["stats"]
        below = stats if name == BASE else f"{stats}target-generations/{name}/"
        lifecycle = lifecycle_of(
            table_id, int(match["snapshot"]), pointer.payload or b"{}", pointer.blob_key
        )
        generation = EndedGeneration(
            pointer=pointer,
            lifecycle=lifecycle,
            prefixes=(f"{below}files/", f"{below}targets/"),
            is_base=name == BASE,
        )
        is_pinned = (int(match["snapshot"]), name) in pinned
        is_old = lifecycle.state.has_ended and lifecycle.since + READABLE_FOR < now
        if is_old and not is_pinned and not generation.is_removed(pointers):
            ended.append(generation)
    return ended


def remove_generation(account: CatalogueAccount, ended: EndedGeneration) -> None:
    """Remove the records, then the state; an interruption leaves the state for another pass."""
    for prefix in ended.prefixes:
        account.remove_below(prefix)
    pointer = ended.pointer
    op: Op = Delete(key=pointer.key, expected=pointer.version)
    if ended.is_base:
        # Its state stays, so that nothing is written into it any more.
        state = replace(ended.lifecycle, publication=None)
        following = replace(pointer, blob_key=None, payload=state.payload())
        op = Upsert(next=following, expected=pointer.version)
    account.pointers.batch([op])


def pinned_manifest(pin: Pointer) -> str | None:
    """The manifest of the publication that a pin protects."""
    statistics = json.loads(pin.payload or b"{}").get("statistics")
    return None if statistics is None else str(statistics["manifest"])


def _pinned(pin: Pointer) -> tuple[int, str] | None:
    """The snapshot and the generation, as a segment of keys."""
    content = json.loads(pin.payload or b"{}")
    if content.get("statistics") is None:
        return None
    generation = json.loads(content["statistics"]["publication"])["generation"]
    return (int(content["snapshot_id"]), segment(generation))
