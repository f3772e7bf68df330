"""The commands of the services, such as `datarecs-core-api`.

A service is imported only once its parts are installed, so that a base installation answers with
the command that installs them.
"""

import sys
from importlib import import_module

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import UsageFault
from datarecs_cli.parts import Extra, require


def capture_worker() -> int:
    """`datarecs-capture-worker`; it also reads Iceberg tables."""
    return _start("capture-worker", Extra.SERVER, Extra.ICEBERG)


def core_api() -> int:
    """`datarecs-core-api`."""
    return _start("core-api", Extra.SERVER)


def email_notifier() -> int:
    """`datarecs-email-notifier`."""
    return _start("email-notifier", Extra.SERVER)


def iceberg_sink() -> int:
    """`datarecs-iceberg-sink`; it writes Iceberg tables."""
    return _start("iceberg-sink", Extra.SERVER, Extra.ICEBERG)


def reconciliation_worker() -> int:
    """`datarecs-reconciliation-worker`; it also starts Spark and reads Iceberg tables."""
    return _start("reconciliation-worker", Extra.SERVER, Extra.SPARK, Extra.ICEBERG)


def resource_controller() -> int:
    """`datarecs-resource-controller`."""
    return _start("resource-controller", Extra.SERVER)


def run_controller() -> int:
    """`datarecs-run-controller`."""
    return _start("run-controller", Extra.SERVER)


def webhook_service() -> int:
    """`datarecs-webhook-service`."""
    return _start("webhook-service", Extra.SERVER)


def _start(name: str, *extras: Extra) -> int:
    command = f"datarecs-{name}"
    try:
        require(command, *extras)
    except UsageFault as fault:
        print(fault, file=sys.stderr)
        return ExitCode.USAGE
    main = import_module(f"datarecs_{name.replace('-', '_')}.__main__").main
    return int(main())
