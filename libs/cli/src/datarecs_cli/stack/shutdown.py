"""Ending a platform from outside: ask its supervisor, end what a dead one left, wipe its data."""

import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from datarecs_cli.stack import placement
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.process import end
from datarecs_cli.stack.state import Phase, State, load, save

STOP_LIMIT_S = 90
"""Services 25 s, Kafka 30 s, Postgres 15 s, and some room."""
LEFTOVER_LIMIT_S = 15


def stop_platform(layout: Layout, say: Callable[[str], None]) -> bool:
    """Stop what runs on this data directory; False when nothing did. Safe to repeat."""
    state = load(layout.state_file)
    supervisor = state.supervisor
    if supervisor is not None and supervisor.is_alive():
        say(f"stopping (pid {supervisor.pid})")
        end(supervisor, signal.SIGTERM, STOP_LIMIT_S)
        state = load(layout.state_file)
        end_leftovers(state)
        return True
    left = end_leftovers(state)
    if left:
        say(f"the supervisor was gone; ended what it left: {', '.join(left)}")
        save(layout.state_file, replace(state, phase=Phase.STOPPED, supervisor=None, parts={}))
    return bool(left)


def end_leftovers(state: State) -> tuple[str, ...]:
    """End the parts of a supervisor that is gone, last started first; the names of those alive.

    Usually the kernel has ended them already; Postgres may still be writing its checkpoint.
    """
    ended = []
    for name, identity in reversed(tuple(state.parts.items())):
        if not identity.is_alive():
            continue
        number = signal.SIGINT if name == "postgres" else signal.SIGTERM
        end(identity, number, LEFTOVER_LIMIT_S)
        ended.append(name)
    return tuple(ended)


def wipe(layout: Layout, *, spare_root: Path = placement.SPARE_ROOT) -> None:
    """Delete the data directory, and the database where it had to move. Nothing may run."""
    shutil.rmtree(layout.root)
    moved = placement.spare_directory(layout.root, spare_root).parent
    if moved.exists():
        shutil.rmtree(moved)
