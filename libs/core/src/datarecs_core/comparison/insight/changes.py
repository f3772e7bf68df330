"""What differs between two runs of one job: breaks that are new, resolved, or changed.

A break is the same if stage, measure and key are equal; its id would do, but the ids of
`datarecs compare` depend on the job file. Separate from the register of breaks, with owners and
states: here two finished runs are compared and nothing is stored.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Change(StrEnum):
    """What became of a break between two runs."""

    NEW = "NEW"
    GONE = "GONE"
    CHANGED = "CHANGED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed(Generic[T]):
    """One break that is not as it was; None where the run does not have it."""

    change: Change
    before: T | None
    after: T | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes(Generic[T]):
    new: int
    gone: int
    changed: int
    same: int
    rows: tuple[Changed[T], ...]
    """New ones, then changed ones, in the order of the later run; then resolved ones."""

    @property
    def any(self) -> bool:
        return bool(self.rows)


def changes(
    before: Iterable[T],
    after: Iterable[T],
    *,
    identity: Callable[[T], Hashable],
    content: Callable[[T], Hashable],
) -> Changes[T]:
    """Lay the breaks of an earlier run beside those of a later one.

    Args:
        before: breaks of the earlier run, each once.
        after: of the later one.
        identity: what makes two breaks the same; unique within a run.
        content: what may change of a break.
    """
    earlier = {identity(each): each for each in before}
    rows = list(_of_later(earlier, after, identity, content))
    same = sum(each is None for each in rows)
    met = [each for each in rows if each is not None]
    left = [Changed(change=Change.GONE, before=each, after=None) for each in earlier.values()]
    ordered = (*sorted(met, key=lambda each: each.change is Change.CHANGED), *left)
    return Changes(
        new=sum(each.change is Change.NEW for each in met),
        gone=len(left),
        changed=sum(each.change is Change.CHANGED for each in met),
        same=same,
        rows=ordered,
    )


def _of_later(
    earlier: dict[Hashable, T],
    after: Iterable[T],
    identity: Callable[[T], Hashable],
    content: Callable[[T], Hashable],
) -> Iterator[Changed[T] | None]:
    """Removes the break from `earlier`; None for an unchanged break."""
    for each in after:
        was = earlier.pop(identity(each), None)
        if was is None:
            yield Changed(change=Change.NEW, before=None, after=each)
        elif content(was) != content(each):
            yield Changed(change=Change.CHANGED, before=was, after=each)
        else:
            yield None
