"""`datarecs-reconciliation-worker`."""

import sys

from datarecs_reconciliation_worker.settings import Settings
from datarecs_reconciliation_worker.wiring import build
from datarecs_reconciliation_worker.workflow_wiring import execute, finish
from datarecs_runtime.service import run_service


def main() -> int:
    """Serve the queue until a stop is requested, or one run of a workflow."""
    commands = {"execute": execute, "finish": finish}
    return run_service("reconciliation-worker", Settings, build, commands=commands)


if __name__ == "__main__":
    sys.exit(main())
