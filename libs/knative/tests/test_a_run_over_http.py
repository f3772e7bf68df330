"""A run whose events travel through a Broker that delivers everything twice, and may fail."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.notifications import MailPolicy, Planning
from datarecs_application.ports.messaging import Delivery
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.notifications.rule import Match, NotificationRule, Notify, Recipient
from datarecs_core.runs.events import RunFinalised
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.values import TenantId
from datarecs_email_notifier.handlers import Handlers as MailHandlers
from datarecs_email_notifier.wiring import read_rule
from datarecs_events.catalogue import SUBSCRIPTIONS, Service, Topic
from datarecs_kafka.handling import Handling, Headers, Subscription
from datarecs_kafka.relay import Relay
from datarecs_knative.http_headers import log_headers
from datarecs_knative.sending import BrokerIngress
from datarecs_memory.outbox_reader import MemoryOutboxReader
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_run_controller.handlers import Handlers as ControllerHandlers
from datarecs_run_controller.wiring import subscriptions
from datarecs_runtime.clock import Latch
from datarecs_testing.builders import NOON, an_id
from datarecs_testing.deliveries import a_rule
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.platform import RunPlatform
from datarecs_testing.real_path import matched

Take = Callable[[bytes, Headers], Delivery]
TURNS = 200


@dataclass
class Broker:
    """Delivers an event to each service that a Trigger names, twice; `outages` fail first."""

    services: Mapping[str, Take]
    outages: list[int] = field(default_factory=list)
    delivered: list[tuple[str, str, Delivery]] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)

    def ingress(self, request: httpx.Request) -> httpx.Response:
        if self.outages:
            return httpx.Response(self.outages.pop(0))
        event_type = request.headers["ce-type"]
        for service, take in self.services.items():
            if not any(one.service == service and one.admits(event_type) for one in SUBSCRIPTIONS):
                continue
            headers = log_headers(request.headers.items())
            for _ in range(2):
                delivery = take(request.content, headers)
                self.delivered.append((service, event_type, delivery))
                if delivery is Delivery.NEVER:
                    self.dead.append(event_type)
        return httpx.Response(202)


@dataclass
class World:
    folder: Path

    def __post_init__(self) -> None:
        self.runs = RunPlatform(folder=self.folder, launcher=QueueLauncher(), script=matched)
        rule = NotificationRule(
            to=(Recipient(address="ana@example.com"),),
            notify=Notify.EVERY_RUN,
            match=Match(outcomes=("MATCHED", "UNMATCHED", "ERRORED")),
        )
        with self.runs.unit.begin(self.runs.tenant) as tx:
            tx.resources.add(a_rule(rule, tenant_id=self.runs.tenant))
        self.broker = Broker(
            {
                Service.RUN_CONTROLLER: self._handling(
                    Service.RUN_CONTROLLER, subscriptions(ControllerHandlers())
                ).take,
                Service.EMAIL_NOTIFIER: self._handling(
                    Service.EMAIL_NOTIFIER, (self._mailing(),)
                ).take,
            }
        )
        self.relay = Relay(
            BrokerIngress("http://broker.test", transport=httpx.MockTransport(self.broker.ingress)),
            MemoryOutboxReader(self.runs.store),
            owner="test",
            metrics=self.runs.metrics,
            clock=self.runs.clock,
            wake=Latch(),
        )

    def _handling(self, group: str, wired: tuple[Subscription, ...]) -> Handling:
        return Handling(
            self.runs.unit,
            group=group,
            subscriptions=wired,
            metrics=RecordedMetrics(),
            clock=self.runs.clock,
        )

    def _mailing(self) -> Subscription:
        planning = Planning(
            consumer=Service.EMAIL_NOTIFIER,
            specs=StoredSpecs(read_rule),
            policy=MailPolicy(
                mail_domain="mail.example.com", domains={self.runs.tenant: {"example.com"}}
            ),
            ids=self.runs.ids,
        )
        plan = MailHandlers(planning, RecordedMetrics()).plan_mails
        return Subscription(Topic.RUN_PLATFORM, (RunFinalised,), plan)

    def relayed(self) -> None:
        """Send until nothing waits."""
        for _ in range(TURNS):
            self.relay.turn()
            if not any(
                one.sent_at is None
                for state in self.runs.store.everything().values()
                for one in state.outbox.values()
            ):
                return
            self.runs.clock.advance(timedelta(seconds=1))
        raise AssertionError("the outbox was never empty")

    def mails(self) -> int:
        return len(self.runs.store.committed(self.runs.tenant).delivery.mails)

    def worked(self) -> Run:
        run = self.runs.trigger()
        self.relayed()
        self.runs.launching.step()
        assert self.runs.supervise()
        self.relayed()
        return run


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.case("K39")
def test_a_run_that_is_delivered_twice_ends_once_with_one_mail(world: World) -> None:
    run = world.worked()
    assert world.runs.now(run).status is RunStatus.COMPLETED
    assert world.runs.event_names(run).count("run.finalised") == 1
    assert world.mails() == 1
    assert world.broker.dead == []
    of_mail = {name for service, name, _ in world.broker.delivered if service == "email-notifier"}
    assert of_mail == {"io.datarecs.reconciliation.run.finalised"}


def test_an_ingress_that_fails_gets_every_event_later(world: World) -> None:
    world.broker.outages = [503, 500, 429, 503]
    run = world.worked()
    assert world.runs.now(run).status is RunStatus.COMPLETED
    assert world.runs.event_names(run).count("run.finalised") == 1


HEADERS: Headers = (
    ("ce_specversion", b"1.0"),
    ("ce_id", str(an_id()).encode()),
    ("ce_source", b"/datarecs/reconciliation-worker"),
    ("ce_type", b"io.datarecs.reconciliation.run.completed"),
    ("ce_time", NOON.isoformat().encode()),
    ("ce_tenantid", b"01900000-0000-7000-8000-00000000000a"),
    ("content-type", b"application/json"),
)


@pytest.mark.parametrize(
    ("name", "value", "delivery"),
    [
        ("ce_type", b"io.datarecs.unheard", Delivery.DONE),
        ("ce_source", b"/datarecs/core-api", Delivery.NEVER),
        ("ce_specversion", b"0.3", Delivery.NEVER),
        ("ce_tenantid", b"", Delivery.NEVER),
    ],
)
def test_what_can_never_be_handled_is_for_the_dead_letter_sink(
    world: World, name: str, value: bytes, delivery: Delivery
) -> None:
    take = world.broker.services[Service.RUN_CONTROLLER]
    headers = tuple((one, value if one == name else text) for one, text in HEADERS)
    assert take(b"{}", headers) is delivery


class Away:
    """A database that cannot be reached."""

    def begin(self, tenant: TenantId, *, feed: int = 0, read_only: bool = False) -> Any:  # noqa: ANN401  never returns
        raise StoreUnavailableError(cause=f"{tenant} {feed} {read_only}")


def test_while_the_database_is_away_the_broker_is_to_repeat(world: World) -> None:
    run = world.runs.trigger()
    (queued,) = world.runs.store.committed(world.runs.tenant).outbox.values()
    handling = Handling(
        Away(),
        group=Service.RUN_CONTROLLER,
        subscriptions=subscriptions(ControllerHandlers()),
        metrics=RecordedMetrics(),
        clock=world.runs.clock,
    )
    assert handling.take(queued.row.data, queued.row.headers) is Delivery.LATER
    assert world.runs.now(run).status is RunStatus.TRIGGERED
