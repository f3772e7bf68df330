from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_core.errors.delivery import EventTooLargeError
from datarecs_core.runs.model import RunResult
from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.delivery import DeliveryReason, DeliveryState
from datarecs_core.webhooks.dialects import Dialect, Expression
from datarecs_core.webhooks.endpoint import (
    Auth,
    AutoDisable,
    DataFilter,
    Filter,
    Limits,
    Retry,
    SecretRef,
    Signing,
    SigningMode,
    WebhookEndpoint,
)
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_core.webhooks.signature import secret_key, sign
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, a_resource, an_id
from datarecs_testing.clock import ManualClock
from datarecs_testing.conformance.webhook_client import WebhookClientConformance
from datarecs_testing.deliveries import an_endpoint
from datarecs_testing.flaky import Flaky
from datarecs_testing.scripted_delivery import OK, ScriptedWebhookClient, answered
from datarecs_testing.webhook_house import SECRET
from datarecs_testing.webhook_house import WebhookHouse as House

MINUTE = timedelta(minutes=1)


def test_an_event_without_an_endpoint_leaves_nothing() -> None:
    house = House()
    house.publish()
    assert house.store.committed(A_TENANT).delivery.messages == {}


@pytest.mark.case("W07")
def test_the_same_event_three_times_is_one_message_and_one_delivery_per_endpoint() -> None:
    house = House()
    endpoints = [house.declare() for _ in range(2)]
    event = house.publish()
    with house.unit.begin(A_TENANT) as tx:
        again = [tx.inbox.first_time("webhook-service", "/datarecs/core-api", event)] * 2
    assert again == [False, False]
    assert len(house.store.committed(A_TENANT).delivery.messages) == 1
    assert [len(house.deliveries(endpoint)) for endpoint in endpoints] == [1, 1]


def test_a_delivery_goes_out_signed_and_is_recorded_with_its_attempt() -> None:
    house = House()
    endpoint = house.declare()
    event = house.publish()
    house.run(house.sending())
    (sent,) = house.client.sent
    headers = dict(sent.headers)
    assert list(headers) == [
        *("Content-Type", "User-Agent", "Accept-Encoding", "webhook-id", "webhook-timestamp"),
        *("webhook-signature", "datarecs-delivery", "datarecs-attempt", "datarecs-reason"),
        "traceparent",
    ]
    assert headers["webhook-id"] == str(event)
    timestamp = int(headers["webhook-timestamp"])
    assert timestamp == int(NOON.timestamp())
    assert headers["webhook-signature"] == sign(
        [secret_key(SECRET)], event_id=str(event), timestamp=timestamp, body=sent.body
    )
    (delivery,) = house.deliveries(endpoint)
    assert delivery.state is DeliveryState.SUCCEEDED
    (attempt,) = house.attempts(delivery)
    assert (attempt.outcome, attempt.status) == (Outcome.OK, 200)
    assert attempt.key_ids == ("k1",)
    assert attempt.request_headers["webhook-signature"] == "***"
    assert attempt.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert attempt.finished_at == NOON


@pytest.mark.case("W08")
def test_retries_reuse_the_id_and_sign_anew() -> None:
    answers = iter([answered(500), answered(500), OK])
    house = House(answer=lambda _: next(answers))
    endpoint = house.declare()
    house.publish()
    house.play_until_quiet(house.sending(), endpoint)
    (delivery,) = house.deliveries(endpoint)
    assert (delivery.state, delivery.attempt_no) == (DeliveryState.SUCCEEDED, 3)
    sent = [dict(request.headers) for request in house.client.sent]
    assert len({one["webhook-id"] for one in sent}) == 1
    assert len({one["webhook-timestamp"] for one in sent}) == 3
    assert len({one["webhook-signature"] for one in sent}) == 3
    assert len({request.body for request in house.client.sent}) == 1
    waits = [b.started_at - a.started_at for a, b in pairwise(house.attempts(delivery))]
    assert waits == [timedelta(seconds=5), timedelta(minutes=5)]


@pytest.mark.case("W09")
def test_always_500_is_ten_attempts_one_warning_and_one_dead_letter() -> None:
    house = House(answer=lambda _: answered(500))
    endpoint = house.declare()
    house.publish()
    house.play_until_quiet(house.sending(), endpoint)
    (delivery,) = house.deliveries(endpoint)
    assert delivery.reason is DeliveryReason.EXHAUSTED
    assert len(house.client.sent) == 10
    assert house.event_types() == ["webhook.delivery.failed", "webhook.delivery.dead_lettered"]
    assert house.clock.now() - NOON == timedelta(seconds=272_105)


@pytest.mark.case("X53")
def test_failures_of_an_operational_endpoint_feed_no_loop() -> None:
    house = House(answer=lambda _: answered(500))
    endpoint = house.declare(
        WebhookEndpoint(url="https://a.example.com/", filter=Filter(operational=True))
    )
    house.publish(type_="io.datarecs.webhook.delivery.failed", about=endpoint.uid)
    assert house.deliveries(endpoint) == []
    house.publish(type_="io.datarecs.webhook.delivery.failed", about=ResourceUid(an_id()))
    house.play_until_quiet(house.sending(), endpoint)
    assert len(house.client.sent) == 10
    assert house.event_types() == []


@pytest.mark.case("W11")
def test_a_worker_that_dies_is_detected_by_its_lease_and_its_delivery_goes_again() -> None:
    house = House(answer=lambda _: None)
    endpoint = house.declare()
    house.publish()
    dead = house.sending("w-dead")
    dead.turn()
    assert house.client.in_flight == 1
    house.clock.advance(timedelta(seconds=61))
    house.client = ScriptedWebhookClient()
    house.run(house.sending("w-2"))
    (delivery,) = house.deliveries(endpoint)
    assert delivery.state is DeliveryState.SUCCEEDED
    assert delivery.schedule_index == 0
    lost, good = house.attempts(delivery)
    assert (lost.outcome, lost.worker) == (Outcome.WORKER_LOST, "w-dead")
    assert (good.outcome, good.worker) == (Outcome.OK, "w-2")
    assert house.metrics.total("leases_expired_total", queue="webhook") == 1


@pytest.mark.case("W12")
def test_a_late_result_changes_nothing_and_is_counted() -> None:
    slow = House(answer=lambda _: None)
    endpoint = slow.declare()
    slow.publish()
    paused = slow.sending("w-paused")
    paused.turn()
    slow.clock.advance(timedelta(seconds=61))
    slow.client = ScriptedWebhookClient(lambda _: answered(500))
    slow.run(slow.sending("w-2"), turns=2)
    before = slow.deliveries(endpoint)
    assert isinstance(paused.client, ScriptedWebhookClient)
    paused.client._answer = lambda _: OK  # noqa: SLF001  the receiver answers at last
    paused.turn()
    assert slow.deliveries(endpoint) == before
    assert slow.metrics.total("webhook_late_results_total") == 1


def test_a_refused_address_is_counted_by_its_class() -> None:
    house = House(answer=lambda _: AttemptEnd(outcome=Outcome.BLOCKED_ADDRESS))
    house.client.address_class = "private"
    house.declare()
    house.publish()
    house.run(house.sending())
    assert house.metrics.total("egress_blocked_total", **{"class": "private"}) == 1
    assert house.metrics.times("webhook_attempt_seconds") == 0


def test_attempts_and_ends_are_counted_and_what_is_on_the_wire_is_shown() -> None:
    house = House(answer=lambda _: None)
    endpoint = house.declare()
    house.publish()
    loop = house.sending()
    loop.turn()
    assert house.metrics.last("webhook_in_flight") == 1
    house.client._answer = lambda _: OK  # noqa: SLF001  the receiver answers at last
    house.run(loop)
    assert house.deliveries(endpoint)[0].state is DeliveryState.SUCCEEDED
    assert house.metrics.last("webhook_in_flight") == 0
    assert house.metrics.total("webhook_attempts_total", outcome="OK") == 1
    assert house.metrics.times("webhook_attempt_seconds") == 1
    assert house.metrics.total("webhook_deliveries_total", state="SUCCEEDED", reason="") == 1


@pytest.mark.case("W14")
def test_a_429_rests_the_whole_endpoint() -> None:
    answers = iter([answered(429, retry_after="7200"), OK, OK])
    house = House(answer=lambda _: next(answers))
    endpoint = house.declare(
        WebhookEndpoint(url="https://a.example.com/", limits=Limits(max_concurrent=1))
    )
    house.publish()
    house.publish()
    loop = house.sending()
    house.run(loop)
    assert len(house.client.sent) == 1
    house.clock.advance(timedelta(seconds=7199))
    house.run(loop)
    assert len(house.client.sent) == 1
    house.clock.advance(timedelta(seconds=1))
    house.run(loop, turns=5)
    assert len(house.client.sent) == 3
    assert {one.state for one in house.deliveries(endpoint)} == {DeliveryState.SUCCEEDED}


@pytest.mark.case("X52")
def test_a_410_disables_at_once_sends_an_event_and_retains_waiting_deliveries() -> None:
    house = House(answer=lambda _: answered(410))
    spec = WebhookEndpoint(url="https://a.example.com/h?k=v", limits=Limits(max_concurrent=1))
    endpoint = house.declare(spec)
    house.publish()
    house.publish()
    loop = house.sending()
    house.run(loop, turns=4)
    assert len(house.client.sent) == 1
    states = sorted(one.state for one in house.deliveries(endpoint))
    assert states == [DeliveryState.DEAD_LETTERED, DeliveryState.PENDING]
    assert "webhook.endpoint.auto_disabled" in house.event_types()
    house.publish()
    assert len(house.deliveries(endpoint)) == 2
    with house.unit.begin(A_TENANT, feed=1) as tx:
        disabled = tx.resources.get_by_uid(endpoint.uid)
        assert disabled is not None
        changed = replace(disabled, generation=2, rv=tx.next_rv())
        assert tx.resources.replace(changed, expected_rv=disabled.rv)
    house.clock.advance(timedelta(seconds=30))
    house.run(loop)
    assert len(house.client.sent) == 2


def test_the_resource_shows_when_its_endpoint_fails_is_disabled_and_is_well_again() -> None:
    answers = iter([*[answered(500)] * 4, OK, answered(410)])
    house = House(answer=lambda _: next(answers))
    endpoint = house.declare()
    loop = house.sending()
    shown = []
    for _ in range(2):
        house.publish()
        house.play_until_quiet(loop, endpoint)
        with house.unit.begin(A_TENANT, read_only=True) as tx:
            resource = tx.resources.get_by_uid(endpoint.uid)
        assert resource is not None
        shown.append("disabled" in resource.status)
    assert shown == [False, True]
    assert house.event_types("resource.") == ["resource.webhookendpoint.status_updated"] * 3


def test_an_endpoint_that_cannot_be_read_harms_no_other() -> None:
    house = House()
    broken = house.declare()
    with house.unit.begin(A_TENANT) as tx:
        spoilt = replace(broken, spec={"url": 3}, generation=2, rv=2)
        assert tx.resources.replace(spoilt, expected_rv=1)
    good = house.declare()
    house.publish()
    house.run(house.sending())
    assert house.deliveries(good)[0].state is DeliveryState.SUCCEEDED
    assert house.deliveries(broken) == []


@pytest.mark.parametrize("away_from", ["lease", "record"])
def test_a_database_that_is_away_for_a_moment_loses_no_result(away_from: str) -> None:
    house = House(clock=ManualClock(now=NOON, by_itself=True))
    endpoint = house.declare()
    house.publish()
    loop = house.sending()
    if away_from == "record":
        loop._start_due()  # noqa: SLF001  the first half of a turn
    loop.unit_of_work = Flaky(house.unit, 1, StoreUnavailableError(cause="restart"))
    loop.run(_After(house.clock, timedelta(seconds=20)))
    (delivery,) = house.deliveries(endpoint)
    assert delivery.state is DeliveryState.SUCCEEDED
    assert len(house.client.sent) == 1


def test_a_defect_at_one_endpoint_is_that_endpoints_problem() -> None:
    house = House()
    first, second = house.declare(), house.declare()
    house.publish()
    loop = house.sending()
    loop.unit_of_work = Flaky(house.unit, 1, RuntimeError("a defect"))
    house.run(loop)
    states = [house.deliveries(one)[0].state for one in (first, second)]
    assert sorted(states) == [DeliveryState.PENDING, DeliveryState.SUCCEEDED]


def test_a_defect_while_recording_leaves_the_delivery_to_its_lease() -> None:
    house = House()
    endpoint = house.declare()
    house.publish()
    loop = house.sending()
    loop._start_due()  # noqa: SLF001  the first half of a turn
    loop.unit_of_work = Flaky(house.unit, 1, RuntimeError("a defect"))
    loop.turn()
    assert house.deliveries(endpoint)[0].state is DeliveryState.LEASED
    house.clock.advance(timedelta(seconds=61))
    house.run(loop)
    assert house.deliveries(endpoint)[0].state is DeliveryState.SUCCEEDED


def test_a_full_replica_claims_nothing_more() -> None:
    house = House(answer=lambda _: None)
    house.declare()
    for _ in range(3):
        house.publish()
    loop = house.sending()
    loop.max_in_flight = 1
    house.run(loop)
    assert house.client.most_in_flight == 1


@dataclass
class _After:
    """A stop that comes when so much time of the manual clock has passed."""

    clock: ManualClock
    span: timedelta

    def __post_init__(self) -> None:
        self._end = self.clock.now() + self.span

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool:
        self.clock.advance(timedelta(seconds=1))
        return self.clock.now() >= self._end

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002  the clock decides
        return self.is_set()


@pytest.mark.case("W29")
def test_open_requests_never_exceed_the_limit_over_two_replicas() -> None:
    house = House(answer=lambda _: None)
    spec = WebhookEndpoint(url="https://a.example.com/", limits=Limits(max_concurrent=2))
    house.declare(spec)
    for _ in range(5):
        house.publish()
    for owner in ("w-1", "w-2"):
        house.run(house.sending(owner))
    assert house.client.in_flight == 2


def test_a_hanging_endpoint_holds_only_its_slots_and_delays_no_other() -> None:
    house = House(answer=lambda request: None if "hang" in request.url else OK)
    hanging = house.declare(WebhookEndpoint(url="https://hang.example.com/"))
    healthy = house.declare(WebhookEndpoint(url="https://good.example.com/"), tenant=B_TENANT)
    for _ in range(3):
        house.publish()
    house.publish(tenant=B_TENANT)
    house.run(house.sending())
    assert [one.state for one in house.deliveries(healthy)] == [DeliveryState.SUCCEEDED]
    assert {one.state for one in house.deliveries(hanging)} == {DeliveryState.LEASED}


def test_a_disabled_endpoint_retains_its_deliveries_until_it_is_enabled_or_they_expire() -> None:
    house = House()
    spec = WebhookEndpoint(url="https://a.example.com/", retry=Retry(max_age=MINUTE))
    endpoint = house.declare(spec)
    house.publish()
    off = an_endpoint(
        replace(spec, enabled=False), uid=endpoint.uid, name=endpoint.name, generation=2, rv=2
    )
    with house.unit.begin(A_TENANT) as tx:
        assert tx.resources.replace(off, expected_rv=1)
    loop = house.sending()
    house.play_until_quiet(loop, endpoint)
    assert house.client.sent == []
    (delivery,) = house.deliveries(endpoint)
    assert delivery.reason is DeliveryReason.EXPIRED


@pytest.mark.case("R64")
def test_a_deleted_endpoint_discards_what_waits() -> None:
    house = House()
    endpoint = house.declare()
    house.publish()
    with house.unit.begin(A_TENANT) as tx:
        tx.resources.remove(endpoint, expected_rv=1)
    house.run(house.sending())
    (delivery,) = house.deliveries(endpoint)
    assert (delivery.state, delivery.reason) == (
        DeliveryState.DISCARDED,
        DeliveryReason.ENDPOINT_DELETED,
    )
    assert house.event_types() == []


@pytest.mark.case("W24")
def test_secrets_are_in_no_row_event_or_log_line(caplog: pytest.LogCaptureFixture) -> None:
    prefix = "env:DATARECS_CONN_" + A_TENANT.hex.upper()
    sent_as = {"_TOKEN": "webhook:a.example.com", "_URL": "url", "_KEY": "webhook:a.example.com"}
    house = House(
        answer=lambda _: answered(500),
        uses={prefix + name: (use,) for name, use in sent_as.items()},
    )
    house.environment |= {
        "DATARECS_CONN_" + A_TENANT.hex.upper() + "_TOKEN": "canary-bearer",
        "DATARECS_CONN_" + A_TENANT.hex.upper() + "_URL": "https://a.example.com/canary-path",
        "DATARECS_CONN_" + A_TENANT.hex.upper() + "_KEY": "canary-header",
    }
    spec = WebhookEndpoint(
        url_from=SecretRef(secret_ref=f"{prefix}_URL"),
        auth=Auth(bearer=SecretRef(secret_ref=f"{prefix}_TOKEN")),
        headers={"X-Key": SecretRef(secret_ref=f"{prefix}_KEY")},
    )
    endpoint = house.declare(spec)
    house.publish()
    house.play_until_quiet(house.sending(), endpoint)
    sent = house.client.sent[0]
    assert sent.url == "https://a.example.com/canary-path"
    assert dict(sent.headers)["Authorization"] == "Bearer canary-bearer"
    assert dict(sent.headers)["X-Key"] == "canary-header"
    everything = repr(house.store.committed(A_TENANT).delivery) + caplog.text
    everything += repr(house.store.committed(A_TENANT).outbox)
    assert "canary" not in everything
    assert SECRET not in everything
    attempt = house.attempts(house.deliveries(endpoint)[0])[0]
    assert attempt.url == "https://a.example.com"


@pytest.mark.case("X65")
@pytest.mark.parametrize("place", ["bearer", "header", "signing", "url"])
@pytest.mark.parametrize("bound", ["postgres:db.example.com", "webhook:b.example.com", None])
def test_a_secret_of_another_purpose_or_host_is_never_sent(place: str, bound: str | None) -> None:
    reference = "env:DATARECS_CONN_" + A_TENANT.hex.upper() + "_DB"
    house = House(uses={reference: (bound,)} if bound else {})
    house.environment[reference.removeprefix("env:")] = "https://a.example.com/canary"
    spec = WebhookEndpoint(url="https://a.example.com/")
    ref = SecretRef(secret_ref=reference)
    match place:
        case "bearer":
            spec = replace(spec, auth=Auth(bearer=ref))
        case "header":
            spec = replace(spec, headers={"X-Key": ref})
        case "signing":
            signing = Signing(mode=SigningMode.REFERENCE, secret_refs=(reference,))
            spec = replace(spec, signing=signing)
        case _:
            spec = replace(spec, url=None, url_from=ref)
    endpoint = house.declare(spec)
    house.publish()
    house.run(house.sending())
    assert house.client.sent == []
    (delivery,) = house.deliveries(endpoint)
    assert delivery.last_outcome is Outcome.SECRET_UNAVAILABLE
    assert house.attempts(delivery)[0].error == "SECRET_REFUSED"


@pytest.mark.parametrize("broken", ["no secret", "tampered", "reference"])
def test_without_a_secret_nothing_is_sent_and_it_is_tried_in_a_minute(broken: str) -> None:
    house = House()
    spec = WebhookEndpoint(url="https://a.example.com/")
    if broken == "reference":
        refs = ("env:DATARECS_CONN_" + A_TENANT.hex.upper() + "_GONE",)
        spec = replace(spec, signing=Signing(mode=SigningMode.REFERENCE, secret_refs=refs))
    endpoint = house.declare(spec)
    with house.unit.begin(A_TENANT) as tx:
        if broken != "reference":
            tx.secrets.erase(endpoint.uid)
        if broken == "tampered":
            tx.secrets.put(endpoint.uid, "signing", "k2", b"not an envelope")
    house.publish()
    loop = house.sending()
    house.run(loop)
    assert house.client.sent == []
    (delivery,) = house.deliveries(endpoint)
    assert delivery.last_outcome is Outcome.SECRET_UNAVAILABLE
    assert delivery.due_at == NOON + MINUTE
    assert delivery.schedule_index == 0


@pytest.mark.case("W38")
def test_data_above_64_kib_is_refused() -> None:
    house = House()
    house.declare()
    with pytest.raises(EventTooLargeError):
        house.publish(data=b'{"t":"' + b"x" * 65_530 + b'"}')


@pytest.mark.case("W42")
def test_an_event_reaches_the_endpoints_of_its_tenant_alone() -> None:
    house = House()
    ours, theirs = house.declare(), house.declare(tenant=B_TENANT)
    house.publish()
    assert len(house.deliveries(ours)) == 1
    assert house.deliveries(theirs) == []


@pytest.mark.case("W06")
def test_a_filter_over_data_takes_the_ends_and_jobs_it_names() -> None:
    house = House()
    job = a_resource(name="ledger", labels={"team": "finance"})
    with house.unit.begin(A_TENANT) as tx:
        tx.resources.add(job)
    ends = DataFilter(job_selector={"team": "finance"}, results=(RunResult.UNMATCHED,))
    endpoint = house.declare(
        WebhookEndpoint(url="https://a.example.com/", filter=Filter(data=ends))
    )
    ours = {"job_id": str(job.uid)}
    house.publish(type_="io.datarecs.reconciliation.run.triggered", values=ours)
    house.publish(values={**ours, "result": "MATCHED"})
    house.publish(values={"job_id": str(an_id()), "result": "UNMATCHED"})
    wanted = house.publish(values={**ours, "result": "UNMATCHED"})
    assert [one.event_id for one in house.deliveries(endpoint)] == [wanted]


@pytest.mark.case("W05")
def test_an_expression_over_attributes_decides_what_is_delivered() -> None:
    house = House()
    late = Expression(dialect=Dialect.PREFIX, attributes={"subject": "run/2026"})
    endpoint = house.declare(
        WebhookEndpoint(url="https://a.example.com/", filter=Filter(dialects=(late,)))
    )
    house.publish(subject="run/2025-1")
    wanted = house.publish(subject="run/2026-1")
    assert [one.event_id for one in house.deliveries(endpoint)] == [wanted]


def test_stopping_lets_what_is_under_way_end_and_records_it() -> None:
    house = House()
    endpoint = house.declare()
    house.publish()
    loop = house.sending()
    loop._start_due()  # noqa: SLF001  the first half of a turn
    stop = _Stopped()
    loop.run(stop)
    assert house.client.closed
    assert house.deliveries(endpoint)[0].state is DeliveryState.SUCCEEDED


class _Stopped:
    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool:
        return True

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002  set already
        return True


class TestScriptedClient(WebhookClientConformance):
    @pytest.fixture
    def client(self) -> ScriptedWebhookClient:
        return ScriptedWebhookClient()

    @pytest.fixture
    def url(self) -> str:
        return "https://a.example.com/"


def test_an_endpoint_that_fails_for_five_days_is_disabled_once_and_shows_it() -> None:
    house = House(answer=lambda _: answered(500))
    spec = WebhookEndpoint(url="https://a.example.com/", filter=Filter(operational=True))
    endpoint, loop = house.declare(spec), house.sending()
    for _ in range(12):
        house.publish()
    while house.clock.now() < NOON + timedelta(hours=121):
        house.run(loop, turns=1)
        house.clock.advance(timedelta(minutes=30))
        house.publish()
    assert house.event_types("webhook.endpoint") == ["webhook.endpoint.auto_disabled"]
    stored = house.store.committed(A_TENANT).resources[endpoint.uid]
    assert isinstance(stored.status["disabled"], dict)
    assert stored.status["disabled"]["by"] == "auto"
    before = len(house.client.sent)
    house.clock.advance(timedelta(hours=1))
    house.run(loop)
    assert len(house.client.sent) == before


def test_how_long_an_endpoint_may_fail_is_set_per_endpoint() -> None:
    house = House(answer=lambda _: answered(500))
    never = AutoDisable(enabled=False)
    soon = AutoDisable(after=timedelta(days=1))
    endpoints = [
        house.declare(WebhookEndpoint(url="https://a.example.com/", auto_disable=one))
        for one in (never, soon)
    ]
    loop = house.sending()
    while house.clock.now() < NOON + timedelta(hours=30):
        house.publish()
        house.run(loop, turns=1)
        house.clock.advance(timedelta(minutes=30))
    rows = house.store.committed(A_TENANT).delivery.endpoints
    assert [rows[one.uid].disabled is None for one in endpoints] == [True, False]


@pytest.mark.case("W32")
def test_an_outage_of_the_platforms_network_disables_no_endpoint() -> None:
    house = House(answer=lambda _: AttemptEnd(outcome=Outcome.DNS_FAILED))
    endpoints, loop = [house.declare() for _ in range(10)], house.sending()
    while house.clock.now() < NOON + timedelta(days=6):
        house.publish()
        house.run(loop, turns=2)
        house.clock.advance(timedelta(hours=2))
    assert house.event_types("webhook.endpoint") == []
    assert house.metrics.last("webhook_egress_suspect") == 1
    rows = house.store.committed(A_TENANT).delivery.endpoints
    assert {rows[one.uid].disabled for one in endpoints} == {None}


@pytest.mark.case("W30")
def test_an_open_circuit_rests_and_one_probe_closes_it() -> None:
    ends = iter([answered(500)] * 10)
    house = House(answer=lambda _: next(ends, OK))
    limits = Limits(rate_per_minute=6000, max_concurrent=32)
    house.declare(WebhookEndpoint(url="https://a.example.com/", limits=limits))
    for _ in range(40):
        house.publish()
    loop = house.sending()
    while len(house.client.sent) < 10:
        house.run(loop, turns=1)
        house.clock.advance(timedelta(seconds=2))
    opened = len(house.client.sent)
    house.run(loop)
    assert len(house.client.sent) == opened
    house.clock.advance(timedelta(seconds=31))
    house.run(loop, turns=1)
    assert len(house.client.sent) == opened + 1
    for _ in range(40):
        house.run(loop)
        house.clock.advance(timedelta(seconds=30))
    states = house.store.committed(A_TENANT).delivery.deliveries.values()
    assert {one.state for one in states} == {DeliveryState.SUCCEEDED}
