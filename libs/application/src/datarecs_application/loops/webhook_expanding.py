"""The loop that expands actions: tenants with open ones, one chunk of each in a transaction.

A poll, not a consumer: the row is authoritative, so a lost process or wake-up loses nothing.
"""

from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta

import structlog

from datarecs_application.loops import Silent, StepSignals
from datarecs_application.ports.outside import Clock, Metrics, Wake
from datarecs_application.ports.state import Transaction, UnitOfWork, WorkFinder
from datarecs_application.webhook_actions import Expanding
from datarecs_core.errors.base import DatarecsError
from datarecs_core.values import TenantId
from datarecs_core.webhooks.actions import ActionState, WebhookAction

log = structlog.get_logger()

POLL = timedelta(milliseconds=500)
AFTER_FAILURE = timedelta(seconds=1)
OPEN_AT_ONCE = 100
"""Open actions of a tenant among which one is expanded."""
EXPANDED = "webhook_action_expanded"


@dataclass(slots=True)
class WebhookExpanding:
    """A loop; several processes may run it, a locked action is passed over."""

    finder: WorkFinder
    unit_of_work: UnitOfWork
    expanding: Expanding
    _: KW_ONLY
    metrics: Metrics
    clock: Clock
    signals: StepSignals = field(default_factory=Silent)

    @property
    def name(self) -> str:
        return "webhook_expanding"

    def run(self, stop: Wake) -> None:
        """Expand until `stop`; a chunk that has begun is committed first."""
        while not stop.is_set():
            try:
                is_idle = not self.turn()
            except DatarecsError as cause:
                if not cause.retryable:
                    raise
                log.warning("webhook_expanding_waits", code=cause.code.name, cause=str(cause))
                is_idle = True
                self.clock.wait(AFTER_FAILURE, until=stop)
            if is_idle:
                self.clock.wait(POLL, until=stop)

    def turn(self) -> bool:
        """One chunk for each tenant with open actions; False when there was none."""
        due = self.finder.due_tenants("webhook_actions")
        self.metrics.gauge("webhook_actions_open", sum(count for _, count in due))
        expanded = [self._expand_safely(tenant) for tenant, _ in due]
        return any(expanded)

    def _expand_safely(self, tenant: TenantId) -> bool:
        """A tenant with actions that cannot be handled does not affect other tenants."""
        try:
            return self._expand_next(tenant)
        except Exception as cause:
            if isinstance(cause, DatarecsError) and cause.retryable:
                raise
            log.exception("webhook_action_failed", tenant_id=str(tenant))
            return False

    def _expand_next(self, tenant: TenantId) -> bool:
        with self.unit_of_work.begin(tenant) as tx:
            action = self._first_moved(tx)
        if action is None:
            return False
        _log_closed(action)
        self.signals.reached(EXPANDED)
        return True

    def _first_moved(self, tx: Transaction) -> WebhookAction | None:
        """One chunk of the oldest action that does not wait for room at its endpoint."""
        for action in tx.webhook_actions.open(OPEN_AT_ONCE):
            after = self.expanding.expand(tx, action)
            if after is not action:
                return after
        return None


def _log_closed(action: WebhookAction) -> None:
    if action.state is not ActionState.OPEN:
        log.info(
            "webhook_action_closed",
            tenant_id=str(action.tenant_id),
            action_id=str(action.action_id),
            endpoint_id=str(action.endpoint_uid),
            kind=action.kind.value,
            state=action.state.value,
            made=action.made,
        )
