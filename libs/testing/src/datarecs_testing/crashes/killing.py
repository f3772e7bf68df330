"""The hook that kills a process, and its orders: which place, at which hit.

An order is a file that the running process checks at every crash point, so that one platform serves
many cases and only the killed process is started again. Every passed name also creates a file, with
or without an order: a name that no code passes is found by its missing file.
"""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from datarecs_core.crashing import CrashPoint

FOLDER = "crashes"
"""Below the working directory of every process."""
EXIT = 137
"""Exit code of kill -9 in a shell."""


@dataclass(slots=True)
class Killer:
    """`datarecs_core.crashing.hook` of one process."""

    folder: Path
    process: str
    _passed: set[CrashPoint] = field(default_factory=set)
    _token: str = ""
    _hits: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, point: CrashPoint) -> None:
        with self._lock:
            if point not in self._passed:
                self._passed.add(point)
                (self.folder / f"{self.process}.{point}.passed").touch()
            try:
                order = (self.folder / f"{self.process}.order").read_text(encoding="utf-8")
            except FileNotFoundError:
                return
            token, wanted, hit = order.split()
            if wanted == point and self._counted(token) == int(hit):
                (self.folder / f"{self.process}.order").rename(self.folder / f"{token}.obeyed")
                os._exit(EXIT)

    def _counted(self, token: str) -> int:
        """Hits since this order; another order starts again."""
        if token != self._token:
            self._token, self._hits = token, 0
        self._hits += 1
        return self._hits


@dataclass(slots=True)
class Orders:
    """The test's side."""

    folder: Path
    _count: int = 0

    def place(self, process: str, point: CrashPoint, *, hit: int) -> str:
        """Kill the process at its n-th pass of this place from now on; return the order's name."""
        self._count += 1
        token = f"order-{self._count}"
        draft = self.folder / "draft"
        draft.write_text(f"{token} {point} {hit}", encoding="utf-8")
        draft.rename(self.folder / f"{process}.order")
        return token

    def obeyed(self, token: str) -> bool:
        return (self.folder / f"{token}.obeyed").exists()

    def withdraw(self, process: str) -> None:
        """Safe to repeat."""
        (self.folder / f"{process}.order").unlink(missing_ok=True)

    def passed(self) -> set[tuple[str, CrashPoint]]:
        """(process, place) of all passes so far, over all starts of the process."""
        names = (path.name.removesuffix(".passed") for path in self.folder.glob("*.passed"))
        return {(one.split(".", 1)[0], CrashPoint(one.split(".", 1)[1])) for one in names}
