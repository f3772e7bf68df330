"""`datarecs-email-notifier`."""

import sys

from datarecs_email_notifier.settings import Settings
from datarecs_email_notifier.wiring import build
from datarecs_runtime.service import run_service


def main() -> int:
    """Run until told to stop; the exit code says how it ended."""
    return run_service("email-notifier", Settings, build)


if __name__ == "__main__":
    sys.exit(main())
