"""Ends a platform from outside: stops its supervisor, ends remaining parts, deletes its data."""

import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from datarecs_cli.stack import machine, placement
from datarecs_cli.stack.failures import NotAPlatformError, StateUnreadableError
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.process import end
from datarecs_cli.stack.state import Phase, State, is_locked, load, save

STOP_LIMIT_S = 90
"""Services 25 s, Kafka 30 s, Postgres 15 s, and a reserve."""
LEFTOVER_LIMIT_S = 15


def stop_platform(layout: Layout, say: Callable[[str], None]) -> bool:
    """Stop the platform of this data directory; False if none runs. Safe to repeat.

    Raises:
        StateUnreadableError: a platform runs, and its file does not name its process.
    """
    state = _stored(layout)
    supervisor = state.supervisor
    if supervisor is not None and supervisor.is_alive():
        say(f"stopping (pid {supervisor.pid})")
        end(supervisor, signal.SIGTERM, STOP_LIMIT_S)
        end_leftovers(_stored(layout))
        return True
    left = end_leftovers(state)
    if left:
        say(f"the supervisor had already ended; stopped its remaining parts: {', '.join(left)}")
        save(layout.state_file, replace(state, phase=Phase.STOPPED, supervisor=None, parts={}))
    return bool(left)


def _stored(layout: Layout) -> State:
    """The state; an empty one if its file is damaged and no supervisor runs.

    The kernel ends the parts of a supervisor that has ended, so none of them is missed.
    """
    try:
        state = load(layout.state_file)
    except StateUnreadableError:
        if is_locked(layout.lock_file):
            raise
        return State()
    if state.supervisor is None and is_locked(layout.lock_file):
        raise StateUnreadableError(
            path=layout.state_file, reason="it does not name the supervisor that runs"
        )
    return state


def end_leftovers(state: State) -> tuple[str, ...]:
    """End the parts of an ended supervisor, last started first; returns names of running parts.

    Usually the kernel has already ended them; Postgres may still be writing its checkpoint.
    """
    ended = []
    for name, identity in reversed(tuple(state.parts.items())):
        if not identity.is_alive():
            continue
        number = signal.SIGINT if name == "postgres" else signal.SIGTERM
        end(identity, number, LEFTOVER_LIMIT_S)
        ended.append(name)
    return tuple(ended)


def check_used(layout: Layout) -> None:
    """Raises NotAPlatformError for a folder that no platform has used."""
    if not layout.is_used:
        raise NotAPlatformError(
            what=f"{layout.root} is not deleted: no platform has used this folder"
        )


def wipe(layout: Layout, *, spare_root: Path = placement.SPARE_ROOT) -> list[str]:
    """Delete all that the platform created, also a moved database. Nothing may run.

    Returns:
        Names of other files and folders, which stay; without any, the data directory is deleted.

    Raises:
        NotAPlatformError: no platform has used the folder.
        MachineTooSmallError: something cannot be deleted.
    """
    check_used(layout)
    moved = placement.spare_directory(layout.root, spare_root).parent
    try:
        for path in (moved, *layout.made()):
            _delete(path)
        others = layout.others()
        if not others and not layout.root.is_symlink():
            layout.root.rmdir()
    except OSError as failure:
        raise machine.unwritable(layout.root, failure) from failure
    return others


def _delete(path: Path) -> None:
    """A link is deleted, and not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
