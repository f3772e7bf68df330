"""`datarecs-email-notifier`."""

import sys

from datarecs_email_notifier.settings import Settings
from datarecs_email_notifier.wiring import build, redrive
from datarecs_runtime.service import run_service


def main() -> int:
    """Run until a stop is requested, or re-drive dead letters; the exit code shows how it ended."""
    return run_service("email-notifier", Settings, build, commands={"redrive": redrive})


if __name__ == "__main__":
    sys.exit(main())
