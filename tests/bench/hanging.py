"""Webhooks to 10 receivers that answer beside 1,000 that hang, while PostgreSQL restarts once.

Real database with fsync, real client, one process. Reports the time from the commit of an event to
its request at the receivers that answer, and whether a delivery was lost.
"""

import argparse
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from time import perf_counter

import structlog

from datarecs_application.loops.webhook_sending import WebhookSending
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.webhook_fan_out import IncomingEvent, fan_out
from datarecs_application.webhook_requests import RequestMaker
from datarecs_application.webhooks import Leasing
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.egress.urls import UrlRules
from datarecs_core.errors.base import DatarecsError
from datarecs_core.values import EventId, TenantId
from datarecs_core.webhooks.endpoint import Limits, Retry, WebhookEndpoint
from datarecs_core.webhooks.signature import new_secret, secret_context
from datarecs_outbound.dialling import Dialling
from datarecs_outbound.http import GuardedHttp, GuardedTransport
from datarecs_outbound.webhook import GuardedWebhookClient
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, WEBHOOK
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids, random_bytes, random_fraction
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.deliveries import a_message, an_endpoint, read_endpoint
from datarecs_testing.figures import quantile
from datarecs_testing.measured_servers import servers
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.receiver import Receiver, Request, webhook_receiver
from datarecs_testing.stack import MortalServer

HEALTHY = 10
MOST_OPEN = 256
TARGET_S = 2.0
AROUND_RESTART_S = 5.0
"""Events so close to the restart are in no figure, but none of them may be lost."""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Arrivals(list[Request]):
    """Requests with the time of each."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[tuple[str, str], float] = {}

    def append(self, request: Request) -> None:
        key = request.line.split(" ")[1], request.by_name["webhook-id"]
        self.at.setdefault(key, perf_counter())
        super().append(request)


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:

        def accept() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
    for one in held:
        one.close()


@dataclass(kw_only=True)
class Platform:
    """Declared endpoints, events, and the sending loop in this process."""

    database: PreparedDatabase
    held: ExitStack
    ids: UuidV7Ids = field(default_factory=UuidV7Ids)
    specs: StoredSpecs[WebhookEndpoint] = field(default_factory=lambda: StoredSpecs(read_endpoint))

    def __post_init__(self) -> None:
        self.secrets = TenantSecrets(
            Secrets(), keyring=Keyring({"k": bytes(range(32))}, current="k"), environment={}
        )
        self.api, self.unit = self._unit(API), self._unit(WEBHOOK)

    def _unit(self, role: str) -> PostgresUnitOfWork:
        database = Database(self.database.url(role))
        self.held.callback(database.close)
        return PostgresUnitOfWork(database, self.ids)

    def declare(self, tenant: TenantId, url: str, count: int) -> None:
        for number in range(count):
            spec = WebhookEndpoint(
                url=f"{url}{number}",
                limits=Limits(rate_per_minute=6000, max_concurrent=32),
                retry=Retry(delays=(timedelta(seconds=5),) * 20),
            )
            with self.api.begin(tenant, feed=8) as tx:
                endpoint = an_endpoint(
                    spec, tenant_id=tenant, rv=tx.next_rv(), created_at=tx.now, name=f"h-{number}"
                )
                tx.resources.add(endpoint)
                context = secret_context(tenant, endpoint.uid, "k1")
                secret = new_secret(random_bytes(32)).encode()
                sealed = self.secrets.seal(secret, context=context)
                tx.secrets.put(endpoint.uid, "signing", "k1", sealed)

    def publish(self, tenant: TenantId) -> EventId:
        """Store an event with its deliveries; again while the database is away, as a consumer."""
        event_id = EventId(self.ids.new())
        attributes = {**a_message(event_id).attributes, "tenantid": str(tenant)}
        while True:
            try:
                with self.unit.begin(tenant, feed=8) as tx:
                    event = IncomingEvent(
                        event_id=event_id,
                        type=attributes["type"],
                        time=tx.now,
                        attributes=attributes,
                        data=b'{"v":0.010}',
                    )
                    fan_out(tx, event, specs=self.specs, ids=self.ids, base_url="http://127.0.0.1")
            except DatarecsError as cause:
                if not cause.retryable:
                    raise
                threading.Event().wait(0.2)
            else:
                return event_id

    def loop(self) -> WebhookSending:
        policy = Policy(purpose=Purpose.WEBHOOK, profile=Profile.LOCAL)
        database = Database(self.database.url(WEBHOOK))
        self.held.callback(database.close)
        return WebhookSending(
            PostgresWorkFinder(database),
            PostgresUnitOfWork(database, self.ids),
            GuardedWebhookClient(
                lambda: GuardedHttp(
                    GuardedTransport(Dialling(policy=policy), max_connections=MOST_OPEN)
                ),
                rules=UrlRules(policy=policy),
            ),
            leasing=Leasing(
                specs=self.specs,
                jitter=random_fraction,
                owner="bench/0",
                ids=self.ids,
                random_bytes=random_bytes,
            ),
            requests=RequestMaker(
                secrets=self.secrets,
                user_agent="datarecs-webhook/bench",
                child_trace=lambda _: TRACE,
                base_url="http://127.0.0.1",
            ),
            metrics=RecordedMetrics(),
            clock=SystemClock(),
            max_in_flight=MOST_OPEN,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hanging", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--events", type=int, default=6, help="per second")
    wanted = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with ExitStack() as held:
        running = held.enter_context(servers(kafka=False))
        platform = Platform(database=running.database(), held=held)
        silent = held.enter_context(silent_port())
        receiver = held.enter_context(webhook_receiver())
        arrivals = Arrivals()
        receiver.requests = arrivals
        platform.declare(A_TENANT, f"http://127.0.0.1:{silent}/", wanted.hanging)
        platform.declare(B_TENANT, f"http://127.0.0.1:{receiver.port}/", HEALTHY)
        stop = Latch()
        thread = threading.Thread(target=platform.loop().run, args=(stop,), daemon=True)
        thread.start()
        held.callback(stop.set)
        platform.publish(B_TENANT)
        receiver.wait_for(HEALTHY)
        for _ in range(3):
            platform.publish(A_TENANT)
        published, restarted = _load(platform, wanted, running.postgres.process)
        return _report(published, restarted, arrivals, receiver)


def _load(
    platform: Platform, wanted: argparse.Namespace, process: MortalServer | None
) -> tuple[dict[EventId, float], float]:
    """Events at an even rate; PostgreSQL restarts in the middle."""
    pause, began = threading.Event(), perf_counter()
    published: dict[EventId, float] = {}
    restarted = 0.0
    for number in range(wanted.seconds * wanted.events):
        due = began + number / wanted.events
        pause.wait(max(0.0, due - perf_counter()))
        if not restarted and number * 2 >= wanted.seconds * wanted.events:
            if process is None:
                raise RuntimeError("this server cannot be restarted")
            process.kill()
            process.restart()
            restarted = perf_counter()
        event = platform.publish(B_TENANT)
        published[event] = perf_counter()
    return published, restarted


def _report(
    published: dict[EventId, float], restarted: float, arrivals: Arrivals, receiver: Receiver
) -> int:
    expected, events = len(published) * HEALTHY, {str(event) for event in published}
    ends, pause = perf_counter() + 120, threading.Event()
    while perf_counter() < ends:
        arrived = sum(event in events for _, event in list(arrivals.at))
        if arrived >= expected:
            break
        pause.wait(0.5)
    lost = expected - sum(
        (f"/{number}", str(event)) in arrivals.at
        for event in published
        for number in range(HEALTHY)
    )
    delays = [
        arrivals.at[f"/{number}", str(event)] - at
        for event, at in published.items()
        if abs(at - restarted) > AROUND_RESTART_S
        for number in range(HEALTHY)
        if (f"/{number}", str(event)) in arrivals.at
    ]
    p50, p99 = quantile(delays, 0.5), quantile(delays, 0.99)
    copies = len(receiver.requests) - len(arrivals.at)
    sys.stdout.write(
        f"deliveries {expected}, missing after 120 s {lost}, copies {copies}\n"
        f"event to request: median {p50:.3f} s, p99 {p99:.3f} s (target {TARGET_S:g} s)\n"
    )
    return 0 if lost == 0 and p99 <= TARGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
