"""`datarecs-run-controller`."""

import sys

from datarecs_run_controller.settings import Settings
from datarecs_run_controller.wiring import build, redrive
from datarecs_runtime.service import run_service


def main() -> int:
    """Run until a stop is requested, or re-drive dead letters; the exit code shows how it ended."""
    return run_service("run-controller", Settings, build, commands={"redrive": redrive})


if __name__ == "__main__":
    sys.exit(main())
