"""`datarecs-webhook-service`."""

import sys

from datarecs_runtime.service import run_service
from datarecs_webhook_service.settings import Settings
from datarecs_webhook_service.wiring import build


def main() -> int:
    """Run until told to stop; the exit code says how it ended."""
    return run_service("webhook-service", Settings, build)


if __name__ == "__main__":
    sys.exit(main())
