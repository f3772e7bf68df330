"""One thread beside a stage: once a second it looks at the work, and once more when that is done.

Apart from what is looked at, because one thread is enough for all of it.
"""

from collections.abc import Sequence
from threading import Event, Thread
from typing import Protocol, Self

LOOK_EVERY_S = 1.0


class Look(Protocol):
    """Something to look at, on the thread that does; whatever it tells, it tells from there."""

    def __call__(self, *, last: bool) -> bool:
        """Whether it shall be looked at again; the last time comes when the work is done."""


class Watch:
    """Looks until it is left."""

    def __init__(self, looks: Sequence[Look]) -> None:
        self._looks = tuple(looks)
        self._left = Event()
        self._thread = Thread(target=self._look_on, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def _look_on(self) -> None:
        looks, last = self._looks, False
        while looks and not last:
            last = self._left.wait(LOOK_EVERY_S)
            looks = tuple(look for look in looks if look(last=last))
