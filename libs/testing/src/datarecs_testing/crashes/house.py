"""The whole platform for many cases: callers that retry, and the ledger at the end.

The services are killed at any time and started again; the outside world (callers, mail relay,
webhook receivers) is in the test's process and is never killed.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID

import httpx

from datarecs_application.ports.messaging import Sent
from datarecs_core.catalog.layout import run_document
from datarecs_core.resources.resource import API_VERSION, Kind
from datarecs_core.values import RunId
from datarecs_kafka.client import KafkaLogClient
from datarecs_postgres.roles import MIGRATE
from datarecs_postgres.tenants import create_tenant
from datarecs_specs.kinds import KINDS
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.crashes import killing, waits
from datarecs_testing.crashes.furnishing import RECIPIENTS, furnish
from datarecs_testing.crashes.ledger import CANCELLED, FINALISED, Expected, Verdict, settle
from datarecs_testing.crashes.observing import Observer
from datarecs_testing.crashes.processes import GROUPS, Processes
from datarecs_testing.crashes.wire import Wire
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.receiver import Receiver, webhook_receiver
from datarecs_testing.smtp_server import smtp_relay
from datarecs_testing.stack import KafkaBroker

COMPLETED, STOPPED = frozenset({"COMPLETED"}), frozenset({"CANCELLED"})


@dataclass(kw_only=True)
class House(Processes):
    """Made by `crash_house`."""

    key: str = field(repr=False)
    receivers: Mapping[str, Receiver]
    runs: dict[str, frozenset[str]] = field(default_factory=dict)
    """Every requested run, with its allowed final statuses."""
    reported_faults: set[str] = field(default_factory=set)
    """Faults that a test has already reported; the ledger covers the whole history."""

    def __post_init__(self) -> None:
        groups = tuple(GROUPS.values())
        self.wire = Wire(broker=self.broker, tenant=self.tenant, groups=groups)
        self.orders = killing.Orders(self.folder / killing.FOLDER)
        self.observer = Observer(
            database=self.database,
            tenant=self.tenant,
            wire=self.wire,
            relay=self.relay.script,
            receivers=self.receivers,
        )
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=10,
        )

    # --- callers

    def declare(self, kind: Kind, name: str, spec: Mapping[str, object]) -> None:
        body = {
            "apiVersion": API_VERSION,
            "kind": str(kind),
            "metadata": {"name": name},
            "spec": spec,
        }
        self._post(f"/api/v1/{KINDS[kind].path}", body, expected={201, 409})

    def trigger(self, job: str = "same", *, ends: frozenset[str] = COMPLETED) -> str:
        """Request until there is an answer, with one key; return the run's id."""
        headers = {"Idempotency-Key": secrets.token_hex(8)}
        answer = self._post(f"/api/v1/jobs/{job}/runs", {}, expected={202}, headers=headers)
        run_id = str(answer["run_id"])
        self.runs[run_id] = ends
        return run_id

    def cancel(self, run_id: str) -> None:
        """Request until there is an answer; a run that has already ended is not a fault."""
        self._post(f"/api/v1/runs/{run_id}/cancel", {}, expected={200, 202, 409})

    def poison(self, topic: str) -> None:
        """A record that cannot be handled: an end without its payload."""
        identity = secrets.token_hex(8)
        self.wire.poison.add(identity)
        headers = {
            "ce_id": identity,
            "ce_specversion": "1.0",
            "ce_source": "/datarecs/core-api",
            "ce_type": FINALISED,
            "ce_tenantid": str(self.tenant),
            "content-type": "application/json",
        }
        producer = KafkaLogClient(self.broker.access).producer()
        pairs = [(name, value.encode()) for name, value in headers.items()]
        ack = producer.send(topic, key=b"poison", value=b"{}", headers=pairs)
        assert isinstance(ack.wait(timedelta(seconds=30)), Sent)
        producer.close()

    def outcome(self, run_id: str) -> tuple[str, str | None, str | None]:
        """Status, error code and detail code of the row."""
        ((status, code, detail),) = self.database.query(
            "SELECT status, error_code, error_detail_code FROM datarecs.run WHERE run_id = %s",
            (run_id,),
        )
        return status, code, detail

    def proof(self, run_id: str) -> str:
        """The proof hash of a completed run."""
        blobs = open_blob_stores((self.folder / "blobs").as_uri()).of(self.tenant)
        document = json.loads(blobs.get(run_document(self.tenant, RunId(UUID(run_id)))))
        return str(document["proof_hash"])

    def statuses(self, run_ids: Iterable[str]) -> list[str]:
        return [self.outcome(one)[0] for one in run_ids]

    def _post(
        self,
        path: str,
        body: Mapping[str, object],
        *,
        expected: set[int],
        headers: Mapping[str, str] | None = None,
        patience_s: float = 120,
    ) -> dict[str, Any]:
        ends, answer_text = monotonic() + patience_s, "nothing"
        while monotonic() < ends:
            self.tend()
            try:
                answer = self.client.post(path, json=body, headers=headers)
            except httpx.TransportError as cause:
                answer_text = repr(cause)
            else:
                if answer.status_code in expected:
                    content: dict[str, Any] = answer.json()
                    return content
                answer_text = answer.text
                assert answer.status_code >= 409, f"{path} answered {answer_text}"
            self.rest()
        raise AssertionError(f"{path} was not answered: {answer_text}")

    # --- the end

    def until(self, holds: Callable[[], bool], *, patience_s: float = 180) -> None:
        """Wait for a condition, and restart killed processes during the wait."""
        ends = monotonic() + patience_s
        while not holds():
            assert monotonic() < ends, f"not within {patience_s} s; {self.observer.waiting()}"
            self.tend()
            self.rest()

    def settle(self, *, patience_s: float = 240) -> Verdict:
        """Wait until nothing changes, then check the ledger.

        Args:
            patience_s: maximum time without a change while work is still open.
        """
        before, ends, next_push = self.observer.waiting(), monotonic() + patience_s, 0.0
        while not self._at_rest():
            assert monotonic() < ends, f"no change for {patience_s} s: {self._state_report()}"
            self.tend()
            if monotonic() >= next_push:
                waits.end_pauses(self.database)
                next_push = monotonic() + 1
            self.rest()
            if (now := self.observer.waiting()) != before:
                before, ends = now, monotonic() + patience_s
        return settle(self.expected(), self.observer.seen())

    def expected(self) -> Expected:
        return Expected(
            runs=dict(self.runs),
            recipients=RECIPIENTS,
            endpoints={"all": None, "ends": frozenset({FINALISED, CANCELLED})},
            poison=frozenset(self.wire.poison),
            poisoned_groups=frozenset(GROUPS.values()),
        )

    def _at_rest(self) -> bool:
        if self.observer.waiting():
            return False
        return self.wire.catch_up() == 0 and not self.observer.waiting()

    def _state_report(self) -> str:
        last = [
            f"{log.name}: {log.read_text(errors='replace')[-600:]}"
            for log in sorted(self.folder.glob("*.log"))
        ]
        return "\n".join([str(self.observer.waiting()), str(self.deaths[-5:]), *last])


@contextmanager
def crash_house(
    folder: Path,
    database: PreparedDatabase,
    broker: KafkaBroker,
    **chosen: Any,  # noqa: ANN401  further fields of House
) -> Iterator[House]:
    """The platform with its declarations, all processes started, until the block ends."""
    principals = broker.apply_catalogue()
    tenant, key = create_tenant(database.url(MIGRATE), f"crash-{secrets.token_hex(4)}")
    for name in (killing.FOLDER, "blobs", "scratch"):
        (folder / name).mkdir(parents=True)
    with ExitStack() as held:
        house = House(
            folder=folder,
            database=database,
            broker=broker,
            principals=principals,
            tenant=tenant,
            key=key,
            receivers={name: held.enter_context(webhook_receiver()) for name in ("all", "ends")},
            relay=held.enter_context(smtp_relay()),
            **chosen,
        )
        held.callback(house.client.close)
        held.callback(house.stop)
        for group in GROUPS.values():
            broker.skip_backlog(group)
        house.wire.start()
        furnish(house)
        yield house
