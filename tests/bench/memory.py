"""Memory of a process and of all below it: Python, Java and the processes of tasks together.

Shared pages count once: Linux reports the proportional share of each process (`smaps_rollup`).
"""

import re
from collections.abc import Iterator
from pathlib import Path

_KIB = 1024


def process_tree(pid: int) -> Iterator[int]:
    """A process and all below it; those that have just ended are left out."""
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text(encoding="ascii").split()
        except OSError:
            continue
        for child in children:
            yield from process_tree(int(child))


def tree_bytes(pid: int) -> int:
    """Memory of the process and all below it, now."""
    return sum(_process_bytes(process) for process in process_tree(pid))


def _process_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    share = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(share[1]) * _KIB if share else 0
