"""Ends a platform from outside: stops its supervisor, ends remaining parts, deletes its data."""

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
"""Services 25 s, Kafka 30 s, Postgres 15 s, and a reserve."""
LEFTOVER_LIMIT_S = 15


def stop_platform(layout: Layout, say: Callable[[str], None]) -> bool:
    """Stop the platform of this data directory; False if none runs. Safe to repeat."""
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
        say(f"the supervisor had already ended; stopped its remaining parts: {', '.join(left)}")
        save(layout.state_file, replace(state, phase=Phase.STOPPED, supervisor=None, parts={}))
    return bool(left)


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


def wipe(layout: Layout, *, spare_root: Path = placement.SPARE_ROOT) -> None:
    """Delete the data directory, and the database if it was moved. Nothing may run."""
    shutil.rmtree(layout.root)
    moved = placement.spare_directory(layout.root, spare_root).parent
    if moved.exists():
        shutil.rmtree(moved)
