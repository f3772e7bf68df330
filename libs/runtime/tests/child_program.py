"""The program behind the conformance tests of children: follows the script of its plan."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from datarecs_runtime.child_template import become_child
from datarecs_runtime.frames import SupervisorChannel, take_over_stdio
from datarecs_testing.conformance.child_process import follow

TEMPLATE = "template"
"""The argument with which each run of the script is a fork."""


class Side:
    def __init__(self, channel: SupervisorChannel) -> None:
        self._channel = channel
        self.receive = channel.receive
        self.send = channel.send
        self._raw = channel._sending  # noqa: SLF001  to break the frames on purpose

    def send_raw(self, document: bytes) -> None:
        self._raw.write(len(document).to_bytes(4) + document)
        self._raw.flush()

    def end_by(self, number: int) -> NoReturn:
        os.kill(os.getpid(), number)
        signal.pause()
        raise AssertionError("a killed program goes on")

    def ignore_terminate(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def main() -> int:
    channel = take_over_stdio()
    plan = channel.receive()
    if plan is None:
        return 9
    prepare(plan, channel)
    return follow(plan, Side(channel))


def prepare(plan: Mapping[str, object], channel: SupervisorChannel) -> None:
    if "print" in plan:
        sys.stdout.write(str(plan["print"]) * 1000)
        sys.stdout.flush()
        os.system("echo noise of a program")  # noqa: S605  nothing of a user in it
    if "environment" in plan:
        channel.send({"environment": sorted(os.environ), "cwd": str(Path.cwd())})
    if "tell_pid" in plan:
        channel.send({"pid": os.getpid()})
    if "grandchild" in plan:
        # As Spark's Python workers do: out of the process group, in the same session.
        grandchild = subprocess.Popen(["sleep", "600"], process_group=0)
        channel.send({"pid": os.getpid(), "grandchild": grandchild.pid})


if __name__ == "__main__":
    if TEMPLATE in sys.argv:
        become_child(())
    sys.exit(main())
