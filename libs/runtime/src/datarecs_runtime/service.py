"""The `main` of every service: settings, logs, wiring, loops, exit code.

The `__main__.py` of the services differ only in three names, and a refused start must look the same
in all of them.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import structlog

from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.process import InsecureStartError, SettingsError
from datarecs_runtime.logging import configure, log_what_nobody_catches
from datarecs_runtime.process import Process, ProcessExit
from datarecs_runtime.sections import Log
from datarecs_runtime.server_rules import refuse_insecure_settings
from datarecs_runtime.settings import ServiceSettings, describe, load

S = TypeVar("S", bound=ServiceSettings)


def run_service(
    name: str,
    settings_class: type[S],
    build: Callable[[S], Process],
    *,
    arguments: Sequence[str] | None = None,
    commands: Mapping[str, Callable[[S, Sequence[str]], int]] = MappingProxyType({}),
) -> int:
    """Run a service until it ends; returns the exit code.

    Args:
        name: name of the service, in logs.
        settings_class: the settings class with the sections that it reads.
        build: its wiring.
        arguments: of the command line; None: those of this process. Without arguments the service
            runs; `--help` prints its settings.
        commands: first argument -> function to call instead, with the further arguments.
    """
    argv = sys.argv[1:] if arguments is None else arguments
    command = commands.get(argv[0]) if argv else None
    if "--help" in argv and command is None:
        sys.stdout.write(usage(name, settings_class))
        return 0
    try:
        settings = load(settings_class)
    except SettingsError as refusal:
        configure(name, Log())
        structlog.get_logger().error(
            "settings_refused", code=refusal.code.docs_id, message=str(refusal)
        )
        return int(ProcessExit.SETTINGS)
    configure(name, settings.log)
    log_what_nobody_catches()
    try:
        refuse_insecure_settings(settings)
        if command is not None:
            return command(settings, argv[1:])
        process = build(settings)
    except (InsecureStartError, SettingsError) as refusal:
        structlog.get_logger().error(
            "start_refused", code=refusal.code.docs_id, message=str(refusal)
        )
        return int(ProcessExit.SETTINGS)
    except DatarecsError as refusal:
        structlog.get_logger().exception("start_refused", code=refusal.code.docs_id)
        return int(ProcessExit.LOOP_DIED)
    return process.run()


def usage(name: str, settings_class: type[ServiceSettings]) -> str:
    """The text of `--help`: every setting with its default and meaning."""
    lines = [f"{name}: a service of datarecs. It takes no arguments; its settings are:", ""]
    for setting in describe(settings_class):
        default = f" [{setting.default}]" if setting.default else ""
        lines += [f"{setting.name}{default}", f"    {setting.meaning}"]
    return "\n".join(lines) + "\n"
