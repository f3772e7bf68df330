"""The rows of captures of one tenant, with the indexes that PostgreSQL has."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from datarecs_core.captures.items import CaptureJobId, Gate, WorkItem, WorkKind, WorkState

_FAILURES: Mapping[WorkKind, str] = {
    WorkKind.PLAN_TABLE: "tables_failed",
    WorkKind.PLAN_VIEW: "views_failed",
}
"""Counters of failed items."""


@dataclass(slots=True, kw_only=True)
class CaptureRows:
    items: dict[CaptureJobId, WorkItem] = field(default_factory=dict)
    below: dict[CaptureJobId, tuple[CaptureJobId, ...]] = field(default_factory=dict)
    """Children by parent."""
    by_dedupe: dict[tuple[bool, str], CaptureJobId] = field(default_factory=dict)
    """The newest item of each key; of roots and children."""
    claims: dict[str, CaptureJobId] = field(default_factory=dict)
    """The item that has each claim key."""
    cancels: set[CaptureJobId] = field(default_factory=set)
    sequences: dict[CaptureJobId, int] = field(default_factory=dict)
    """The number of the newest event, by root."""

    def copy(self) -> "CaptureRows":
        return CaptureRows(
            items=dict(self.items),
            below=dict(self.below),
            by_dedupe=dict(self.by_dedupe),
            claims=dict(self.claims),
            cancels=set(self.cancels),
            sequences=dict(self.sequences),
        )

    def put(self, item: WorkItem) -> None:
        if item.id not in self.items:
            self.by_dedupe[item.parent_id is None, item.dedupe] = item.id
            if item.parent_id is not None:
                self.below[item.parent_id] = (*self.below.get(item.parent_id, ()), item.id)
        self.items[item.id] = item

    def children_of(self, parent_id: CaptureJobId) -> Iterator[WorkItem]:
        return (self.items[one] for one in self.below.get(parent_id, ()))

    def parked(self, claim_key: str) -> Iterator[WorkItem]:
        return (
            one
            for one in self.items.values()
            if one.claim_key == claim_key
            and one.state is WorkState.QUEUED
            and one.gate is Gate.LANE
        )

    def next_sequence(self, root: CaptureJobId) -> int:
        self.sequences[root] = self.sequences.get(root, 0) + 1
        return self.sequences[root]

    def remove_tree(self, root: CaptureJobId) -> None:
        self.sequences.pop(root, None)
        for item in [one for one in self.items.values() if one.root_id == root]:
            del self.items[item.id]
            self.below.pop(item.id, None)
            self.cancels.discard(item.id)
            if self.by_dedupe.get((item.parent_id is None, item.dedupe)) == item.id:
                del self.by_dedupe[item.parent_id is None, item.dedupe]


def counters_of(items: Iterable[WorkItem]) -> Mapping[str, int]:
    """The sums of a tree."""
    sums = Counter[str]()
    for item in items:
        sums.update(item.counters)
        if item.kind is WorkKind.EXEC_FILE_GROUP and item.has_ended:
            is_done = item.state is WorkState.SUCCEEDED
            sums["file_groups_completed" if is_done else "file_groups_failed"] += 1
        if item.kind in _FAILURES and item.state is WorkState.FAILED:
            sums[_FAILURES[item.kind]] += 1
    return dict(sums)
