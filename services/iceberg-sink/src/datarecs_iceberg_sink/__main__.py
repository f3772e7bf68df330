"""`datarecs-iceberg-sink`."""

import sys

from datarecs_iceberg_sink.settings import Settings
from datarecs_iceberg_sink.wiring import build
from datarecs_runtime.service import run_service


def main() -> int:
    """Run tasks of sinks until a stop is requested."""
    return run_service("iceberg-sink", Settings, build)


if __name__ == "__main__":
    sys.exit(main())
