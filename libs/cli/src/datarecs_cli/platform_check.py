"""`datarecs doctor --platform`: checks machine, database, broker, blob store and parts.

Addresses come from the settings, as for `datarecs admin`; the default is the platform of the data
directory. Nothing is changed.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from datarecs_cli.check_steps import CheckStep, Outcome, failed, skipped, warned
from datarecs_cli.commands import admin
from datarecs_cli.stack import machine, provisioning
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.observe import view
from datarecs_cli.stack.state import load
from datarecs_runtime.environment import process_environment

WARN_DISK_BYTES = 5 * machine.GIB
MOST_SKEW_S = 5.0
PATIENCE_S = 60.0
"""Seconds that an event may wait for the relay without a warning."""
SHOWN = 3
"""Differences in one line; further ones are only counted."""


def platform_steps(layout: Layout) -> Iterator[CheckStep]:
    """Every step, machine first."""
    yield CheckStep("machine", "python", _python)
    yield CheckStep("machine", "java", _java)
    yield CheckStep("machine", "memory", _memory)
    yield CheckStep("machine", "disk", lambda: _disk(layout))
    yield CheckStep("database", "server", lambda: _server(layout))
    yield CheckStep("database", "schema", lambda: _schema(layout))
    yield CheckStep("database", "rights", lambda: _rights(layout))
    yield CheckStep("database", "clock", lambda: _clock(layout))
    yield CheckStep("database", "outbox", lambda: _outbox(layout))
    yield CheckStep("kafka", "topics and rights", lambda: _topics(layout))
    yield CheckStep("blobs", "conditional write", lambda: _blobs(layout))
    for name in load(layout.state_file).expected:
        yield CheckStep(name, "ready", lambda name=name: _part(layout, name))  # type: ignore[misc]  # the name of this turn


def _python() -> Outcome:
    seen = f"Python {sys.version.split()[0]}"
    if sys.version_info < (3, 11):  # noqa: UP036  an installation may be forced
        return failed(seen, "install Python 3.11 or newer")
    return Outcome(seen=seen)


def _java() -> Outcome:
    from datarecs_cli.stack.java import Places, find_java, packaged_home

    with tempfile.TemporaryDirectory() as folder:
        places = Places(packaged=packaged_home())
        java = find_java(process_environment(), shim_home=Path(folder), places=places)
    return Outcome(seen=f"Java {java.version} from {java.origin}")


def _memory() -> Outcome:
    size = machine.memory_of_machine()
    seen, least = f"{size / machine.GIB:.1f} GiB", machine.LEAST_MEMORY_BYTES
    if size < least:
        return failed(
            seen, f"run on a machine or container with {least // machine.GIB} GiB or more"
        )
    return Outcome(seen=seen)


def _disk(layout: Layout) -> Outcome:
    folder = next(one for one in (layout.root, *layout.root.parents) if one.is_dir())
    free = shutil.disk_usage(folder).free
    seen, fix = f"{free / machine.GIB:.1f} GiB free at {folder}", "free space, or move --data-dir"
    if free < machine.LEAST_DISK_BYTES:
        return failed(seen, fix)
    return warned(seen, fix) if free < WARN_DISK_BYTES else Outcome(seen=seen)


def _server(layout: Layout) -> Outcome:
    from datarecs_postgres.condition import database_condition

    known = database_condition(admin.migration_url(layout))
    seen = f"PostgreSQL {known.server}"
    return Outcome(seen=seen) if known.is_supported else failed(seen, "use PostgreSQL 15 or newer")


def _schema(layout: Layout) -> Outcome:
    from datarecs_postgres.condition import database_condition
    from datarecs_postgres.database import newest_revision

    fault = database_condition(admin.migration_url(layout)).schema_fault
    if fault is not None:
        fix = "run: datarecs admin migrate" if "migrat" in fault else "install a newer release"
        return failed(fault, fix)
    return Outcome(seen=f"migration {newest_revision()}")


def _rights(layout: Layout) -> Outcome:
    from datarecs_postgres.schema_check import schema_faults

    return _differences(
        schema_faults(admin.migration_url(layout)), "restore the rights of the release"
    )


def _clock(layout: Layout) -> Outcome:
    from datarecs_postgres.condition import database_condition
    from datarecs_runtime.clock import SystemClock

    skew = (
        database_condition(admin.migration_url(layout)).now - SystemClock().now()
    ).total_seconds()
    seen = f"the database is {abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}"
    if abs(skew) < MOST_SKEW_S:
        return Outcome(seen=seen)
    return warned(seen, "synchronise the clocks of both machines (NTP)")


def _outbox(layout: Layout) -> Outcome:
    from datarecs_postgres.condition import oldest_unsent

    age = oldest_unsent(admin.relay_url(layout))
    if age is None:
        return Outcome(seen="no event waits for delivery")
    seen = f"the oldest event waits for {age.total_seconds():.0f} s"
    if age.total_seconds() < PATIENCE_S:
        return Outcome(seen=seen)
    return warned(seen, "check that run-controller runs and reaches the broker")


def _topics(layout: Layout) -> Outcome:
    login, is_local = admin.broker_login(layout)
    differences = provisioning.topic_differences(login, local=is_local)
    return _differences(differences, "run: datarecs admin topics apply")


def _blobs(layout: Layout) -> Outcome:
    """Exclusive creation of a file, which every commit of a result needs."""
    if not layout.blobs.is_dir():
        return skipped(f"there is no {layout.blobs}", "start `datarecs up`, or name --data-dir")
    with tempfile.TemporaryDirectory(dir=layout.blobs, prefix=".doctor-") as folder:
        probe = Path(folder) / "probe"
        probe.touch(exist_ok=False)
        try:
            probe.touch(exist_ok=False)
        except FileExistsError:
            return Outcome(seen=str(layout.blobs))
    return failed(f"{layout.blobs} overwrites files", "use a file system with exclusive creation")


def _part(layout: Layout, name: str) -> Outcome:
    part = next((one for one in view(layout).parts if one.name == name), None)
    if part is None:
        return failed("the platform is not running", "start it: datarecs up")
    if part.silence is not None:
        return failed(part.silence, f"read its log in {layout.root / 'logs'}")
    return Outcome(seen=part.address)


def _differences(faults: Sequence[str], fix: str) -> Outcome:
    if not faults:
        return Outcome(seen="as this release declares them")
    more = f" and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
    return failed("; ".join(faults[:SHOWN]) + more, fix)
