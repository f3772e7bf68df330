"""The capture-worker with the hook that kills it, and small groups of files.

Groups of 128 files would need 256,000 files for the 2,000 groups of a storm.
"""

import importlib
import sys
from pathlib import Path

from datarecs_core import crashing
from datarecs_core.captures import plan
from datarecs_testing.crashes import killing

GROUP_FILES = 2
PROCESS = "capture_worker"
"""The name of its orders."""

if __name__ == "__main__":
    plan.GROUP_FILES = GROUP_FILES
    crashing.hook = killing.Killer(Path.cwd() / killing.FOLDER, PROCESS)
    sys.exit(importlib.import_module("datarecs_capture_worker.__main__").main())
