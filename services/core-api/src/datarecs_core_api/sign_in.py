"""Effects of a failed sign-in: a token of its address, a line in the audit of the key's tenant.

A separate module because both are state of the process. A key is verified before failures are
counted, so failures of others do not refuse a valid key (ADR 0086). The line is written by a loop:
a request with a known key id must do no more work than one with an unknown id.
"""

from dataclasses import dataclass
from datetime import timedelta
from queue import Empty, Full, Queue

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.outside import Clock, Metrics, Wake
from datarecs_application.ports.state import AuditEntry, UnitOfWork
from datarecs_core.values import TenantId
from datarecs_core_api.buckets import Level, Rate, TokenBuckets
from datarecs_core_api.peers import limited_name

log = structlog.get_logger()
FAILURES = Rate(quota=10, window_s=60)
"""Of an address; and how many lines in a minute one key id can add to its tenant's audit."""
MOST_WAITING = 1_000
"""Lines that are not written yet; more of them are counted alone."""
PACE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    tenant_id: TenantId
    entry: AuditEntry


class FailedSignIns:
    """Loop that writes failed sign-ins to the audit. Safe from several threads."""

    name = "sign_in_audit"

    def __init__(
        self, *, unit: UnitOfWork, clock: Clock, metrics: Metrics, rate: Rate = FAILURES
    ) -> None:
        self._unit, self._clock, self._metrics = unit, clock, metrics
        self._addresses = TokenBuckets(clock, rate)
        self._keys = TokenBuckets(clock, rate)
        self._waiting: Queue[_Line] = Queue(MOST_WAITING)

    def count(self, address: str, *, reason: str) -> Level:
        """One more failure of this address; without a token the response is 429."""
        level = self._addresses.take(limited_name(address))
        self._metrics.count("auth_failures_total", reason=reason if level.is_taken else "too_many")
        return level

    def record(self, tenant_id: TenantId, entry: AuditEntry) -> None:
        """Have the line written soon, unless this key id has filled many lines already."""
        if not self._keys.take(entry.resource_uid).is_taken:
            return
        try:
            self._waiting.put_nowait(_Line(tenant_id=tenant_id, entry=entry))
        except Full:
            log.warning("sign_in_not_audited", tenant_id=str(tenant_id), key_id=entry.resource_uid)

    def run(self, stop: Wake) -> None:
        """Write waiting lines, once a second; at the end all that are left."""
        while not self._clock.wait(PACE, until=stop):
            self.write_waiting()
        self.write_waiting()

    def write_waiting(self) -> None:
        """Write every line that waits; a line that the database refuses is logged and left out."""
        while True:
            try:
                line = self._waiting.get_nowait()
            except Empty:
                return
            try:
                with self._unit.begin(line.tenant_id) as tx:
                    tx.audit.append(line.entry)
            except (StoreBusyError, StoreUnavailableError) as failure:
                log.warning(
                    "sign_in_not_audited",
                    tenant_id=str(line.tenant_id),
                    key_id=line.entry.resource_uid,
                    code=failure.code.docs_id,
                )
