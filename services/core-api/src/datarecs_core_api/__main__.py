"""`datarecs-core-api`."""

import sys

from datarecs_core_api.settings import Settings
from datarecs_core_api.wiring import build
from datarecs_runtime.service import run_service


def main() -> int:
    """Run until a stop is requested; the exit code shows how it ended."""
    return run_service("core-api", Settings, build)


if __name__ == "__main__":
    sys.exit(main())
