"""`datarecs-reconciliation-worker`."""

import sys

from datarecs_reconciliation_worker.settings import Settings
from datarecs_reconciliation_worker.wiring import build
from datarecs_runtime.service import run_service


def main() -> int:
    """Run until a stop is requested; the exit code shows how it ended."""
    return run_service("reconciliation-worker", Settings, build)


if __name__ == "__main__":
    sys.exit(main())
