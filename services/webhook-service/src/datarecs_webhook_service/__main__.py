"""`datarecs-webhook-service`."""

import sys

from datarecs_runtime.service import run_service
from datarecs_webhook_service.settings import Settings
from datarecs_webhook_service.wiring import build, redrive


def main() -> int:
    """Run until a stop is requested, or re-drive dead letters; the exit code shows how it ended."""
    return run_service("webhook-service", Settings, build, commands={"redrive": redrive})


if __name__ == "__main__":
    sys.exit(main())
