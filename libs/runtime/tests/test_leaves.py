"""Processes below a process that have no child."""

import subprocess
import sys

from datarecs_runtime.tree import leaves_below

_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
input()
child.communicate(b"")
"""


def test_a_process_without_children_is_a_leaf_and_its_parent_is_not() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert leaves_below(parent.pid) == (child,)
        parent.communicate("\n")
    assert leaves_below(parent.pid) == ()
