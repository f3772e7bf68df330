"""The loop that sends webhooks: claim endpoints, lease, start attempts, record their ends.

Attempts run in parallel in the client, and receivers that do not answer share half of the open
requests; the loop itself never waits on a receiver.
"""

from collections import defaultdict
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import timedelta

import structlog

from datarecs_application.egress_health import NETWORK, EgressHealth
from datarecs_application.loops import Silent, StepSignals
from datarecs_application.ports.delivery import Ticket, WebhookClient, WebhookReport
from datarecs_application.ports.outside import Clock, Metrics, Wake
from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_application.webhook_consent import ConsentAnswer, ConsentRequest, record_answer
from datarecs_application.webhook_draining import release_endpoint
from datarecs_application.webhook_requests import Prepared, RequestMaker
from datarecs_application.webhook_slots import RequestSlots
from datarecs_application.webhooks import (
    EndedAttempt,
    Leased,
    Leasing,
    Settled,
    record_ends,
    show_status,
)
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.base import DatarecsError
from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.delivery import Delivery
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_core.webhooks.shown import shown_response

log = structlog.get_logger()

POLL = timedelta(milliseconds=200)
IDLE_POLL = timedelta(milliseconds=500)
"""Between two claims while no attempt is running."""
DRAIN = timedelta(seconds=30)
"""An attempt takes at most 30 s, so after that no attempt is running."""
ENDPOINTS_AT_ONCE = 20
AFTER_FAILURE = timedelta(seconds=1)
SHOWN_BODY_BYTES = 10_240
LEASED, STARTED, RECORDED = "webhooks_leased", "webhooks_started", "webhooks_recorded"

_Endpoint = tuple[TenantId, ResourceUid]


@dataclass(slots=True)
class WebhookSending:
    """A loop. Holds attempts between lease and record; a crash leaves them to their leases."""

    finder: WorkFinder
    unit_of_work: UnitOfWork
    client: WebhookClient
    _: KW_ONLY
    leasing: Leasing
    requests: RequestMaker
    metrics: Metrics
    clock: Clock
    max_in_flight: int = 256
    claim_batch: int = 50
    signals: StepSignals = field(default_factory=Silent)
    _egress: EgressHealth = field(init=False)
    _slots: RequestSlots = field(init=False)
    _prepared: dict[tuple[object, ...], Prepared] = field(default_factory=dict, init=False)
    _consents: dict[Ticket, ConsentRequest] = field(default_factory=dict, init=False)
    _unrecorded: dict[_Endpoint, list[EndedAttempt]] = field(
        default_factory=lambda: defaultdict(list), init=False
    )

    def __post_init__(self) -> None:
        self._egress = EgressHealth(self.clock)
        self._slots = RequestSlots(self.max_in_flight)

    @property
    def name(self) -> str:
        return "webhook_sending"

    def run(self, stop: Wake) -> None:
        """Send until `stop`, then wait for running attempts and record them."""
        while not stop.is_set():
            try:
                self.turn()
            except DatarecsError as cause:
                if not cause.retryable:
                    raise
                log.warning("webhook_sending_waits", code=cause.code.name, cause=str(cause))
                self.clock.wait(AFTER_FAILURE, until=stop)
        self._drain()
        self.client.close()

    def turn(self) -> None:
        """One round: start what may start, then take what has ended."""
        busy = self._start_due()
        pause = POLL if self.client.in_flight else IDLE_POLL
        for report in self.client.ended(timedelta() if busy else pause):
            self._take(report)
        self._record_all()
        self.metrics.gauge("webhook_in_flight", self.client.in_flight)

    def _drain(self) -> None:
        deadline = self.clock.monotonic() + DRAIN.total_seconds()
        while self.client.in_flight and self.clock.monotonic() < deadline:
            for report in self.client.ended(POLL):
                self._take(report)
            self._record_quietly()
        self._record_quietly()

    def _record_quietly(self) -> None:
        try:
            self._record_all()
        except DatarecsError as cause:
            log.warning("webhook_results_not_recorded", code=cause.code.name)

    def _start_due(self) -> bool:
        """Claim endpoints while there is room; True when more may be due.

        A claimed endpoint without room is claimed again after a few seconds.
        """
        free = self.max_in_flight - self.client.in_flight
        if free <= 0:
            return False
        wanted = min(ENDPOINTS_AT_ONCE, free)
        claimed = self.finder.claim_deliveries(wanted)
        started = False
        for tenant, endpoint in claimed:
            free = self.max_in_flight - self.client.in_flight
            room = min(free, self._slots.room((tenant, endpoint)), self.claim_batch)
            if room > 0:
                started |= self._start_safely(tenant, endpoint, room)
        return started or len(claimed) == wanted

    def _start_safely(self, tenant: TenantId, endpoint: ResourceUid, limit: int) -> bool:
        """An endpoint that cannot be handled is that endpoint's problem."""
        try:
            return self._start_endpoint(tenant, endpoint, limit)
        except Exception as cause:
            if isinstance(cause, DatarecsError) and cause.retryable:
                raise
            log.exception("webhook_endpoint_failed", endpoint_id=str(endpoint))
            return False

    def _start_endpoint(self, tenant: TenantId, endpoint: ResourceUid, limit: int) -> bool:
        before = self.clock.monotonic()
        with self.unit_of_work.begin(tenant) as tx:
            leased, settled = self.leasing.lease_due(tx, endpoint, limit=limit)
        self._count(settled)
        self._show_status(tenant, endpoint, settled)
        self.signals.reached(LEASED)
        if settled.consent_request is not None:
            self._request_consent(settled.consent_request)
        for one in leased:
            since_lease = timedelta(seconds=self.clock.monotonic() - before)
            try:
                self._start(one, since_lease=since_lease)
            except Exception:
                # A defect: its lease runs out, and it is tried again as WORKER_LOST.
                log.exception("webhook_not_started", delivery_id=str(one.delivery.delivery_id))
        return bool(leased)

    def _start(self, leased: Leased, *, since_lease: timedelta) -> None:
        made = self.requests.prepare(leased, since_lease=since_lease)
        if isinstance(made, Prepared):
            self._prepared[made.request.ticket] = made
            self.client.start(made.request)
            self._slots.opened((leased.delivery.tenant_id, leased.delivery.endpoint_uid))
            self.signals.reached(STARTED)
            return
        endpoint = (leased.delivery.tenant_id, leased.delivery.endpoint_uid)
        log.warning(
            "webhook_secret_unavailable", endpoint_id=str(endpoint[1]), cause=made.log.error
        )
        self.metrics.count("webhook_attempts_total", outcome=made.end.outcome)
        self._unrecorded[endpoint].append(EndedAttempt(end=made.end, log=made.log, shown_url=""))

    def _request_consent(self, request: ConsentRequest) -> None:
        """Send OPTIONS; a request without an answer is due again after some minutes."""
        outgoing = self.requests.consent(request)
        if outgoing is None:
            endpoint = str(request.endpoint_uid)
            log.warning("webhook_consent_not_requested", endpoint_id=endpoint, cause="no URL")
            return
        self._consents[outgoing.ticket] = request
        self.client.start(outgoing)

    def _take_consent(self, request: ConsentRequest, report: WebhookReport) -> None:
        answer = ConsentAnswer(
            status=report.end.status,
            headers=report.response_headers,
            origin=self.requests.origin,
        )
        log.info(
            "webhook_consent_answered",
            endpoint_id=str(request.endpoint_uid),
            outcome=report.end.outcome.value,
            status=report.end.status,
        )
        try:
            with self.unit_of_work.begin(request.tenant_id) as tx:
                record_answer(tx, request, answer)
        except Exception:
            # Without an answer the request is due again after some minutes.
            log.exception("webhook_consent_not_recorded", endpoint_id=str(request.endpoint_uid))

    def _take(self, report: WebhookReport) -> None:
        consent = self._consents.pop(report.ticket, None)
        if consent is not None:
            self._take_consent(consent, report)
            return
        prepared = self._prepared.pop(report.ticket, None)
        if prepared is None:
            return
        crash_point(CrashPoint.DELIVER_AFTER_SEND)
        is_success = report.end.outcome is Outcome.OK
        self._slots.closed(
            (report.ticket.tenant_id, report.ticket.endpoint_uid), is_success=is_success
        )
        self._egress.note(report.ticket.tenant_id, report.ticket.endpoint_uid, report.end.outcome)
        self._measure(report.end, report.phases.get("total", 0) / 1000)
        if report.address_class is not None:
            self.metrics.count("egress_blocked_total", 1, **{"class": report.address_class})
        ended = EndedAttempt(
            end=report.end,
            shown_url=prepared.event_url,
            log=replace(
                prepared.log,
                outcome=report.end.outcome,
                status=report.end.status,
                error=report.end.error,
                phases=report.phases,
                response_headers=shown_response(report.response_headers),
                response_body=report.response_body[:SHOWN_BODY_BYTES],
                truncated=report.truncated,
                address_class=report.address_class,
            ),
        )
        self._unrecorded[report.ticket.tenant_id, report.ticket.endpoint_uid].append(ended)

    def _measure(self, end: AttemptEnd, seconds: float) -> None:
        self.metrics.count("webhook_attempts_total", outcome=end.outcome)
        if end.outcome is not Outcome.BLOCKED_ADDRESS:
            self.metrics.observe("webhook_attempt_seconds", seconds)

    def _record_all(self) -> None:
        """One transaction per endpoint; what cannot be written now stays for the next turn."""
        for tenant, endpoint in list(self._unrecorded):
            try:
                self._record(tenant, endpoint, self._unrecorded[tenant, endpoint])
            except Exception as cause:
                if isinstance(cause, DatarecsError) and cause.retryable:
                    raise
                # Their leases run out, and they are tried again as WORKER_LOST.
                log.exception("webhook_results_dropped", endpoint_id=str(endpoint))
            del self._unrecorded[tenant, endpoint]

    def _record(self, tenant: TenantId, endpoint: ResourceUid, ends: list[EndedAttempt]) -> None:
        with self.unit_of_work.begin(tenant) as tx:
            settled = record_ends(
                tx,
                endpoint,
                ends,
                leasing=self.leasing,
                excused=NETWORK if self._is_egress_suspect() else (),
            )
        self._count(settled)
        self._show_status(tenant, endpoint, settled)
        self.signals.reached(RECORDED)
        crash_point(CrashPoint.DELIVER_AFTER_MARK)

    def _is_egress_suspect(self) -> bool:
        is_suspect = self._egress.is_suspect()
        self.metrics.gauge("webhook_egress_suspect", int(is_suspect))
        return is_suspect

    def _show_status(self, tenant: TenantId, endpoint: ResourceUid, settled: Settled) -> None:
        """After the commit and separately: deliveries never wait for a resource's row.

        An endpoint that is being deleted and has nothing open is removed here.
        """
        if settled.status_moved:
            with self.unit_of_work.begin(tenant, feed=1) as tx:
                show_status(tx, endpoint, specs=self.leasing.specs)
        if settled.is_drained:
            with self.unit_of_work.begin(tenant, feed=1) as tx:
                release_endpoint(tx, endpoint)

    def _count(self, settled: Settled) -> None:
        for delivery in settled.closed:
            _log_closed(delivery)
            self.metrics.count(
                "webhook_deliveries_total", state=delivery.state, reason=delivery.reason or ""
            )
        if settled.late:
            self.metrics.count("webhook_late_results_total", settled.late)
        if settled.gaps:
            self.metrics.count("webhook_order_gaps_total", settled.gaps)
        if settled.lost:
            self.metrics.count("leases_expired_total", settled.lost, queue="webhook")


def _log_closed(delivery: Delivery) -> None:
    log.info(
        "webhook_delivery_closed",
        tenant_id=str(delivery.tenant_id),
        endpoint_id=str(delivery.endpoint_uid),
        delivery_id=str(delivery.delivery_id),
        event_id=str(delivery.event_id),
        state=delivery.state.value,
        reason=delivery.reason,
        attempts=delivery.attempt_no,
    )
