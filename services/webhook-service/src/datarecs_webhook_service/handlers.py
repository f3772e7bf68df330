"""Handlers of the webhook-service: every event becomes rows for the matching endpoints.

Nothing is sent here: a slow receiver must never delay the consumer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from datarecs_application.ports.outside import Ids, Metrics
from datarecs_application.ports.state import Transaction
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.webhook_fan_out import IncomingEvent, fan_out
from datarecs_core.notifications.events import MailEvent
from datarecs_core.runs.events import RunEvent
from datarecs_core.values import ResourceUid, RunId
from datarecs_core.webhooks.endpoint import WebhookEndpoint
from datarecs_core.webhooks.events import DeliveryEvent, EndpointEvent
from datarecs_core.webhooks.matching import ERROR_CODE, JOB_ID, RESULT
from datarecs_events.codec import Received


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    specs: StoredSpecs[WebhookEndpoint]
    ids: Ids
    base_url: str
    metrics: Metrics

    def deliver(self, tx: Transaction, received: Received) -> None:
        """Any event: stored with its bytes, one delivery per matching endpoint of its tenant."""
        envelope = received.envelope
        event = IncomingEvent(
            event_id=envelope.id,
            type=envelope.type,
            time=envelope.time,
            attributes=envelope.attributes,
            data=received.data,
            endpoint_id=_endpoint_of(received.event),
            run_id=_run_of(received.event),
            values=_values_of(received.event),
        )
        made = fan_out(tx, event, specs=self.specs, ids=self.ids, base_url=self.base_url)
        if made.added:
            self.metrics.count("webhook_fanout_total", made.added)
        for one in made.superseded:
            self.metrics.count("webhook_deliveries_total", state=one.state, reason=one.reason or "")


def _endpoint_of(event: object) -> ResourceUid | None:
    return event.endpoint_id if isinstance(event, EndpointEvent) else None


def _run_of(event: object) -> RunId | None:
    match event:
        case RunEvent() | MailEvent():
            return event.run_id
        case DeliveryEvent():
            run_id = getattr(event, "run_id", None)
            return None if run_id is None else RunId(run_id)
        case _:
            return None


def _values_of(event: object) -> Mapping[str, str]:
    """Values for filters: the job of events of runs and mails, and the result or error code."""
    if not isinstance(event, RunEvent | MailEvent):
        return {}
    error = getattr(event, "error", None)
    values = {
        JOB_ID: event.job_id,
        RESULT: getattr(event, "result", None),
        ERROR_CODE: getattr(error, "code", None),
    }
    return {name: str(value) for name, value in values.items() if value is not None}
