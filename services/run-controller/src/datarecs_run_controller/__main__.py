"""`datarecs-run-controller`."""

import sys

from datarecs_run_controller.settings import Settings
from datarecs_run_controller.wiring import build
from datarecs_runtime.service import run_service


def main() -> int:
    """Run until told to stop; the exit code says how it ended."""
    return run_service("run-controller", Settings, build)


if __name__ == "__main__":
    sys.exit(main())
