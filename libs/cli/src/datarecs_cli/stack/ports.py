"""The ports of the parts: a named port, else the stored one, the default, or the next free one.

A busy default port is replaced, because two platforms on one machine are normal. A named port is
never replaced, because other programs may rely on it.
"""

import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from datarecs_cli.stack.failures import PortBusyError

LOOPBACK = "127.0.0.1"
SPAN = 100
"""Largest distance of a free port from the busy default port."""
LISTENING = "0A"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortWish:
    """One port of a part."""

    name: str
    default: int
    named: int | None = None
    """Named by flag or setting."""


def assign(
    wishes: Sequence[PortWish],
    remembered: Mapping[str, int],
    *,
    free: Callable[[int], bool] | None = None,
) -> dict[str, int]:
    """Choose a port for each wish, all different.

    Raises:
        PortBusyError: a named port is in use, or no port is free within the span of a default.
    """
    is_usable = free or is_free
    ports: dict[str, int] = {}
    for wish in wishes:
        ports[wish.name] = _one(wish, remembered.get(wish.name), set(ports.values()), is_usable)
    return ports


def _one(
    wish: PortWish, remembered: int | None, taken: set[int], free: Callable[[int], bool]
) -> int:
    if wish.named is not None:
        if wish.named in taken or not free(wish.named):
            raise PortBusyError(port=wish.named, part=wish.name, owner=owner_of(wish.named))
        return wish.named
    if remembered is not None and remembered not in taken and free(remembered):
        return remembered
    port = next_free(wish.default, taken=frozenset(taken), free=free)
    if port is None:
        raise PortBusyError(port=wish.default, part=wish.name, owner=owner_of(wish.default))
    return port


def is_free(port: int) -> bool:
    """Whether a listener can be opened on loopback now."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


class Claims:
    """Reserved ports, which may have no listener yet; no other platform uses them.

    They are reserved with abstract sockets, which end with the process. Only Linux has these; on
    other systems two platforms that start at the same time may choose the same port.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self, port: int) -> bool:
        """Reserve the port until `release`; False if it is not free."""
        if not is_free(port):
            return False
        if sys.platform != "linux":
            return True
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0datarecs-port-{port}")
        except OSError:
            name.close()
            return False
        self._held.append(name)
        return True

    def release(self) -> None:
        """Release all ports; safe to repeat."""
        while self._held:
            self._held.pop().close()


def next_free(
    first: int, *, taken: frozenset[int] = frozenset(), free: Callable[[int], bool] = is_free
) -> int | None:
    """The first free port of `[first, first + SPAN]` that no other part has."""
    for port in range(first, min(first + SPAN, 65_535) + 1):
        if port not in taken and free(port):
            return port
    return None


def owner_of(port: int) -> str | None:
    """The listener on a port, if this user may see it: `name (pid N)`; Linux only."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for descriptor in Path("/proc").glob("[0-9]*/fd/*") if sockets else ():
        try:
            if str(descriptor.readlink()) in sockets:
                process = descriptor.parent.parent
                name = (process / "comm").read_text(encoding="utf-8").strip()
                return f"{name} (pid {process.name})"
        except OSError:  # the process has ended, or belongs to another user
            continue
    return None


def _listening_inodes(port: int) -> Iterator[str]:
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            lines = table.read_text(encoding="utf-8").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]
