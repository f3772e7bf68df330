"""`datarecs-capture-worker`."""

import sys

from datarecs_capture_worker.settings import Settings
from datarecs_capture_worker.wiring import build
from datarecs_runtime.service import run_service


def main() -> int:
    """Serve the queue of captures until a stop is requested."""
    return run_service("capture-worker", Settings, build)


if __name__ == "__main__":
    sys.exit(main())
