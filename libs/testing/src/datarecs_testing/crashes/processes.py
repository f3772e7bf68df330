"""The services as processes: started through the launcher, killed, tended, with their settings.

Separate from the house because it uses neither callers nor results of runs. A waiting test calls
`tend`: a dead process is removed from its consumer group, as in the local stack, its leases end,
and it is started again.
"""

import json
import secrets
import signal
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from datarecs_cli.stack.services import UNHINDERED
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_core.values import TenantId
from datarecs_runtime.environment import process_environment
from datarecs_runtime.lifeline import tied_to_parent
from datarecs_testing.crashes import waits
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.smtp_server import TestRelay
from datarecs_testing.stack import KafkaBroker, free_test_port

API, CONTROLLER, WORKER, MAIL, WEBHOOK = (
    "datarecs_core_api",
    "datarecs_run_controller",
    "datarecs_reconciliation_worker",
    "datarecs_email_notifier",
    "datarecs_webhook_service",
)
ROLES = {
    API: "datarecs_api",
    CONTROLLER: "datarecs_controller",
    WORKER: "datarecs_worker_run",
    MAIL: "datarecs_mail",
    WEBHOOK: "datarecs_webhook",
}
GROUPS = {
    CONTROLLER: "run-controller",
    MAIL: "email-notifier",
    WEBHOOK: "webhook-service",
}
SECOND = "second_controller"
POLL_S = 0.05
BETWEEN_STARTS_S = 1.0
"""Minimum time between starts of a process that cannot start."""
_INHERITED = ("PATH", "HOME", "LANG")


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    process: str
    exit_code: int
    """Negative: the signal."""


@dataclass(kw_only=True)
class Processes:
    """All services, on running servers."""

    folder: Path
    """Working directory of each; logs, sources and scratch are below it."""
    database: PreparedDatabase
    broker: KafkaBroker
    principals: Mapping[str, str]
    """Passwords by principal."""
    tenant: TenantId
    relay: TestRelay
    java: Mapping[str, str] = field(default_factory=dict)
    """Settings by which the worker's child may start Spark; empty: it never does."""
    moves_time: bool = True
    """Whether waits end immediately; a soak uses real time instead."""
    lease: str = "10s"
    """The shortest allowed value; a soak on a busy machine needs a longer one."""
    slots: int = 1
    """Runs that the worker works on at once."""
    up: Callable[[], bool] = lambda: True
    """Whether database and broker run; called before each start."""
    port: int = field(default_factory=free_test_port)
    """Of REST."""
    deaths: list[Death] = field(default_factory=list)
    _buried: list[int] = field(default_factory=list)
    """Dead processes with leases that have not ended yet."""
    _not_before: dict[str, float] = field(default_factory=dict)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _kek: str = field(default_factory=lambda: b64encode(secrets.token_bytes(32)).decode())
    _pause: threading.Event = field(default_factory=threading.Event)

    def pid(self, process: str) -> int:
        return self._running[process].pid

    def send(self, process: str, number: signal.Signals) -> None:
        """Send a signal only to the process; safe after its end."""
        self._running[process].send_signal(number)

    def kill(self, process: str) -> bool:
        """Kill -9; False if it has already ended."""
        running = self._running.get(process)
        if running is None or running.poll() is not None:
            return False
        running.kill()
        return True

    def tend(self) -> None:
        """Restart dead processes, while their servers run."""
        for process in ROLES:
            running = self._running.get(process)
            if running is not None and running.poll() is not None:
                self.deaths.append(Death(process=process, exit_code=running.returncode))
                self._buried.append(running.pid)
                del self._running[process]
        if not self.up():
            return
        if self.moves_time:
            while self._buried:
                waits.end_leases(self.database, self._buried.pop())
        for process in ROLES.keys() - self._running.keys():
            if monotonic() >= self._not_before.get(process, 0):
                self._not_before[process] = monotonic() + BETWEEN_STARTS_S
                with suppress(LogUnavailableError):  # the broker is unavailable: next time
                    self._start(process)

    def stop(self) -> None:
        """Kill the remaining processes."""
        for running in self._running.values():
            running.kill()
            running.wait()

    def rest(self, seconds: float = POLL_S) -> None:
        self._pause.wait(seconds)

    def _start(self, process: str, *, as_name: str | None = None) -> None:
        if process in GROUPS and as_name is None:
            self.broker.forget_members(GROUPS[process])
        environment = process_environment()
        name = as_name or process
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                tied_to_parent(
                    [sys.executable, "-m", "datarecs_testing.crashes.launcher", process]
                ),
                env={one: environment[one] for one in _INHERITED if one in environment}
                | self._settings(process),
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def start_second_controller(self) -> None:
        """Start another replica."""
        self._start(CONTROLLER, as_name=SECOND)

    def end_second_controller(self) -> None:
        running = self._running.pop(SECOND)
        running.kill()
        running.wait()
        waits.end_leases(self.database, running.pid)
        self.broker.forget_members(GROUPS[CONTROLLER])  # the first joins again by itself

    def _settings(self, process: str) -> dict[str, str]:
        settings = {
            "DATARECS_PROFILE": "local",
            "DATARECS_SIDE__PORT": "0",
            "DATARECS_BASE_URL": "http://127.0.0.1",
            "DATARECS_BLOB__URL": (self.folder / "blobs").as_uri(),
            "DATARECS_SECRETS__KEK": self._kek,
            "DATARECS_DATABASE__URL": self.database.url(ROLES[process]),
            "DATARECS_QUEUE__LEASE_TTL": self.lease,
        }
        if process in GROUPS:
            settings |= self._broker_login("DATARECS_KAFKA", GROUPS[process])
            settings["DATARECS_KAFKA__BOOTSTRAP"] = self.broker.bootstrap
        if process == API:
            settings |= {**UNHINDERED, "DATARECS_API__PORT": str(self.port)}
        if process == CONTROLLER:
            settings |= self._broker_login("DATARECS_KAFKA__RELAY", "relay")
            settings["DATARECS_DATABASE__RELAY__URL"] = self.database.url("datarecs_relay")
        if process == WORKER:
            settings["DATARECS_WORKER__SCRATCH_DIR"] = str(self.folder / "scratch")
            settings["DATARECS_FILES__ROOTS"] = str(self.folder)
            settings["DATARECS_FILES__OWNER"] = str(self.tenant)
            settings["DATARECS_SPARK__DRIVER_MEMORY"] = "600m"
            settings["DATARECS_WORKER__MAX_PARALLELISM"] = str(self.slots)
            settings |= self.java
        if process == MAIL:
            settings |= self._mail()
        return settings

    def _broker_login(self, prefix: str, principal: str) -> dict[str, str]:
        return {
            f"{prefix}__USERNAME": principal,
            f"{prefix}__PASSWORD": self.principals[principal],
        }

    def _mail(self) -> dict[str, str]:
        return {
            "DATARECS_MAIL__HOST": self.relay.host,
            "DATARECS_MAIL__PORT": str(self.relay.port),
            "DATARECS_MAIL__SECURITY": "none",
            "DATARECS_MAIL__FROM": "datarecs@demo.localhost",
            "DATARECS_MAIL__RECIPIENT_DOMAINS": json.dumps({str(self.tenant): ["demo.localhost"]}),
            # One house serves every case of a session: above the rates its mails become digests.
            "DATARECS_MAIL__RECIPIENT_RATE": "100000",
            "DATARECS_MAIL__TENANT_RATE": "100000",
            "DATARECS_MAIL__RELAY_RATE": "10000",
        }
