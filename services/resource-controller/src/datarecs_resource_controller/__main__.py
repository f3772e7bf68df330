"""`datarecs-resource-controller`."""

import sys

from datarecs_resource_controller.settings import Settings
from datarecs_resource_controller.wiring import build
from datarecs_runtime.service import run_service


def main() -> int:
    """Decide schedules until a stop is requested."""
    return run_service("resource-controller", Settings, build)


if __name__ == "__main__":
    sys.exit(main())
