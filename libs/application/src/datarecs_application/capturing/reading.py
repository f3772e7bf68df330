"""What people read of captures: the tree of a job, page by page."""

from collections.abc import Iterator
from itertools import islice, pairwise

from datarecs_application.ports.state import Transaction
from datarecs_core.captures.items import CaptureJobId, WorkItem, WorkKind

PAGE = 500
_LEAVES = frozenset({WorkKind.EXEC_FILE_GROUP, WorkKind.FINALIZE_SNAPSHOT_CAPTURE})


def tree_page(
    tx: Transaction, top: WorkItem, *, after: WorkItem | None, limit: int
) -> list[WorkItem]:
    """The job and everything below it, parents before children, siblings by age.

    Args:
        tx: of the job's tenant.
        top: the job.
        after: the last one of the previous page, of the same tree; None: from the job on.
        limit: of items.
    """
    if after is None:
        return [top, *islice(_below(tx, top.id, None), limit - 1)]
    return list(islice(_following(tx, top, after), limit))


def _following(tx: Transaction, top: WorkItem, last: WorkItem) -> Iterator[WorkItem]:
    if last.kind not in _LEAVES:
        yield from _below(tx, last.id, None)
    if last.id == top.id:
        return
    path = (*last.ancestors[last.ancestors.index(top.id) :], last.id)
    for parent, child in reversed(list(pairwise(path))):
        yield from _below(tx, parent, child)


def _below(tx: Transaction, parent: CaptureJobId, after: CaptureJobId | None) -> Iterator[WorkItem]:
    while children := tx.capture_work.children(parent, after=after, limit=PAGE):
        for child in children:
            yield child
            if child.kind not in _LEAVES:
                yield from _below(tx, child.id, None)
        if len(children) < PAGE:
            return
        after = children[-1].id
