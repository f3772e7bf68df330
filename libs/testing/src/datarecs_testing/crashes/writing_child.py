"""The worker's child; its Java process is killed while the result is written."""

import sys

import psutil  # type: ignore[import-untyped]  # publishes no types

from datarecs_core import crashing
from datarecs_core.crashing import CrashPoint
from datarecs_reconciliation_worker import child


def kill_java(point: CrashPoint) -> None:
    """The hook: the run's differences are stored, its result file is not."""
    if point is CrashPoint.RESULT_BEFORE_RENAME:
        for process in java_below(psutil.Process()):
            process.kill()
            process.wait()


def java_below(process: psutil.Process) -> list[psutil.Process]:
    """Java processes that the process started."""
    return [one for one in process.children(recursive=True) if one.name() == "java"]


if __name__ == "__main__":
    crashing.hook = kill_java
    sys.exit(child.main())
