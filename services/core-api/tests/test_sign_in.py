"""Authentication: one response for every failure, equal work, no refusal for failures of others."""

import hashlib
import hmac
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from structlog.typing import EventDict

from datarecs_application.ports.keys import ApiKey
from datarecs_application.ports.state import AuditEntry
from datarecs_core.access import tokens
from datarecs_core.access.tokens import PresentedKey
from datarecs_core.values import TenantId
from datarecs_core_api import auth
from datarecs_core_api.sign_in import FAILURES, MOST_WAITING
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.unit_of_work import MemoryTransaction, MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT

WHOAMI = "/api/v1/whoami"
NOBODYS = f"drk_{12 * 'a'}_{43 * 'A'}"


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


def send_request(
    house: MemoryApiHouse, key: str | None, *, address: str = "192.0.2.7"
) -> httpx2.Response:
    answer: httpx2.Response = house.bearing(key, address=address).get(WHOAMI)
    return answer


def wrong_secret(key: str) -> str:
    return key[:17] + ("B" if key[17] != "B" else "C") + key[18:]


def revoked(house: MemoryApiHouse) -> str:
    key = house.key()
    with house.unit.begin(A_TENANT) as tx:
        tx.api_keys.revoke(key[4:16])
    house.clock.advance(timedelta(seconds=11))
    return key


FAULTY: dict[str, Callable[[MemoryApiHouse], str | None]] = {
    "wrong_secret": lambda house: wrong_secret(house.key()),
    "revoked": revoked,
    "expired": lambda house: house.key(lasts=timedelta()),
    "unknown": lambda _: NOBODYS,
    "malformed": lambda _: "drk_x",
    "none": lambda _: None,
}


@pytest.mark.case("X12")
def test_every_failure_has_one_body(house: MemoryApiHouse) -> None:
    bodies = set()
    for number, key in enumerate(FAULTY.values()):
        answer = send_request(house, key(house), address=f"192.0.2.{number}")
        problem = answer.json() | {"trace_id": "", "request_id": ""}
        bodies.add((answer.status_code, answer.headers["WWW-Authenticate"], str(problem)))
    ((status, challenge, _),) = bodies
    assert (status, challenge) == (401, "Bearer")


@pytest.mark.case("X12")
@pytest.mark.parametrize("cause", ["wrong_secret", "revoked", "expired"])
def test_the_cause_is_in_the_audit_of_the_keys_tenant(house: MemoryApiHouse, cause: str) -> None:
    key = FAULTY[cause](house)
    send_request(house, key)
    house.failures.write_waiting()
    key_id = (key or "")[4:16]
    line = house.store.committed(A_TENANT).audit[-1].row
    assert (line.action, line.outcome, line.actor) == ("sign_in", cause, f"key:{key_id}")
    assert line.resource_uid == key_id
    assert line.address == "192.0.2.7"


@pytest.mark.parametrize("scheme", ["Basic", "Token", "drk", ""])
def test_a_key_comes_as_bearer_alone(house: MemoryApiHouse, scheme: str) -> None:
    header = {"Authorization": f"{scheme} {house.key()}".strip()}
    assert house.bearing(None).get(WHOAMI, headers=header).status_code == 401
    lower = {"Authorization": f"bearer {house.key()}"}
    assert house.bearing(None).get(WHOAMI, headers=lower).status_code == 200


@pytest.mark.case("X12")
@pytest.mark.parametrize("query", ["api_key={}", "access_token={}", "x={}", "Authorization=x"])
def test_a_key_in_a_url_is_refused_even_if_it_is_good(house: MemoryApiHouse, query: str) -> None:
    key = house.key()
    answer = house.bearing(key).get(f"{WHOAMI}?{query.format(key)}")
    assert (answer.status_code, answer.json()["code"]) == (400, "DR6010")
    assert key not in answer.text


def test_a_key_in_a_path_is_refused_too(house: MemoryApiHouse) -> None:
    key = house.key()
    answer = house.bearing(None).get(f"/{key}")
    assert (answer.status_code, answer.json()["code"]) == (400, "DR6010")


class CountedFinder(MemoryWorkFinder):
    """Counts all lookups."""

    def __init__(self, house: MemoryApiHouse) -> None:
        super().__init__(house.store)
        self.key_ids: list[str] = []

    def resolve_api_key(self, key_id: str) -> ApiKey | None:
        self.key_ids.append(key_id)
        return super().resolve_api_key(key_id)


class CountedUnit(MemoryUnitOfWork):
    """Counts transactions."""

    begun = 0

    @contextmanager
    def begin(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[MemoryTransaction]:
        self.begun += 1
        with super().begin(tenant, feed=feed, read_only=read_only) as tx:
            yield tx


@pytest.mark.case("X12")
@pytest.mark.parametrize("cause", ["wrong_secret", "revoked", "expired", "unknown"])
def test_every_key_costs_one_lookup_and_one_comparison(
    house: MemoryApiHouse, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, compared = FAULTY[cause](house), []
    unit, finder = CountedUnit(house.store), CountedFinder(house)
    counted = memory_api(store=house.store, unit=unit, finder=finder, clock=house.clock)

    def is_genuine(presented: PresentedKey, stored_sha256: bytes | None) -> bool:
        compared.append(presented.key_id)
        return tokens.is_genuine(presented, stored_sha256)

    monkeypatch.setattr(auth, "is_genuine", is_genuine)
    assert send_request(counted, key).status_code == 401
    assert (len(finder.key_ids), len(compared), unit.begun) == (1, 1, 0)


@pytest.mark.case("X12")
@pytest.mark.parametrize("is_stored", [True, False])
def test_a_comparison_hashes_the_secret_once_whether_the_id_is_known_or_not(
    monkeypatch: pytest.MonkeyPatch, *, is_stored: bool
) -> None:
    hashed, compared = [], []

    def sha256(data: bytes) -> Any:  # noqa: ANN401  a hash object
        hashed.append(data)
        return hashlib.sha256(data)

    def compare_digest(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return hmac.compare_digest(left, right)

    monkeypatch.setattr(tokens, "hashlib", SimpleNamespace(sha256=sha256))
    monkeypatch.setattr(tokens, "hmac", SimpleNamespace(compare_digest=compare_digest))
    presented = tokens.parse_key(NOBODYS)
    assert presented is not None
    assert not tokens.is_genuine(presented, bytes(32) if is_stored else None)
    assert (len(hashed), compared) == (1, [(32, 32)])


def test_two_credentials_are_none(house: MemoryApiHouse) -> None:
    headers = [("Authorization", f"Bearer {house.key()}"), ("Authorization", f"Bearer {NOBODYS}")]
    assert house.bearing(None).get(WHOAMI, headers=headers).status_code == 401


class TestFailures:
    @pytest.mark.case("X13")
    def test_of_an_address_are_refused_after_ten_in_a_minute(self, house: MemoryApiHouse) -> None:
        answers = [send_request(house, NOBODYS) for _ in range(1_000)]
        statuses = [answer.status_code for answer in answers]
        assert statuses == [401] * FAILURES.quota + [429] * (1_000 - FAILURES.quota)
        refused = answers[-1]
        assert refused.json()["code"] == "DR4016"
        assert refused.headers["Retry-After"] == "6"
        assert refused.json()["retry_after_s"] == 6
        assert send_request(house, NOBODYS, address="192.0.2.8").status_code == 401
        house.clock.advance(timedelta(seconds=6))
        assert [send_request(house, NOBODYS).status_code for _ in range(2)] == [401, 429]

    @pytest.mark.case("X13")
    @pytest.mark.parametrize("cause", FAULTY)
    def test_never_refuse_a_valid_key(self, house: MemoryApiHouse, cause: str) -> None:
        good, faulty = house.key(), FAULTY[cause](house)
        for _ in range(5 * FAILURES.quota):
            send_request(house, faulty)
        assert send_request(house, faulty).status_code == 429
        assert send_request(house, good).status_code == 200

    @pytest.mark.case("X13")
    def test_with_a_wrong_secret_never_refuse_the_key_itself(self, house: MemoryApiHouse) -> None:
        key = house.key()
        for number in range(5 * FAILURES.quota):
            send_request(house, wrong_secret(key), address=f"198.51.100.{number}")
        assert send_request(house, key, address="203.0.113.1").status_code == 200

    @pytest.mark.case("X13")
    def test_are_spared_by_successes(self, house: MemoryApiHouse) -> None:
        good = house.key()
        for _ in range(5 * FAILURES.quota):
            assert send_request(house, good).status_code == 200
        assert send_request(house, NOBODYS).status_code == 401

    def test_of_an_ipv6_network_count_together(self, house: MemoryApiHouse) -> None:
        for number in range(FAILURES.quota):
            assert (
                send_request(house, NOBODYS, address=f"2001:db8:1:2::{number:x}").status_code == 401
            )
        assert send_request(house, NOBODYS, address="2001:db8:1:2:ffff::1").status_code == 429
        assert send_request(house, NOBODYS, address="2001:db8:1:3::1").status_code == 401

    def test_of_a_key_id_fill_its_tenants_audit_slowly(self, house: MemoryApiHouse) -> None:
        key = house.key()
        for number in range(5 * FAILURES.quota):
            send_request(house, wrong_secret(key), address=f"198.51.100.{number}")
        house.failures.write_waiting()
        assert len(house.store.committed(A_TENANT).audit) == FAILURES.quota

    def test_that_wait_for_the_audit_are_bounded(
        self, house: MemoryApiHouse, logs: list[EventDict]
    ) -> None:
        for number in range(MOST_WAITING + 1):
            entry = AuditEntry(
                actor=f"key:{number}", actor_kind="key", action="sign_in", resource_uid=str(number)
            )
            house.failures.record(A_TENANT, entry)
        assert [one["event"] for one in logs] == ["sign_in_not_audited"]
        house.failures.write_waiting()
        assert len(house.store.committed(A_TENANT).audit) == MOST_WAITING

    def test_are_in_the_audit_after_the_process_has_drained(self, house: MemoryApiHouse) -> None:
        send_request(house, wrong_secret(house.key()))
        stop = Latch()
        stop.set()
        house.failures.run(stop)
        assert len(house.store.committed(A_TENANT).audit) == 1


class TestTheAddress:
    @pytest.mark.case("X85")
    def test_is_the_peer_for_any_header(self, house: MemoryApiHouse) -> None:
        for number in range(FAILURES.quota):
            header = {"X-Forwarded-For": f"198.51.100.{number}", "Forwarded": f"for={number}"}
            house.bearing(None).get(WHOAMI, headers=header)
        assert send_request(house, None).status_code == 429

    @pytest.mark.case("X85")
    @pytest.mark.parametrize(
        ("forwarded", "address"),
        [
            (["203.0.113.9"], "203.0.113.9"),
            (["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
            (["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
            (["203.0.113.9, 10.1.2.3"], "203.0.113.9"),
            (["10.9.9.9, 203.0.113.9, 10.1.2.3"], "203.0.113.9"),
            (["10.9.9.9"], "10.9.9.9"),
            (["203.0.113.9:4711"], "203.0.113.9"),
            (["[2001:db8::9]:4711"], "2001:db8::9"),
            (["::ffff:203.0.113.9"], "203.0.113.9"),
            (["203.0.113.9, unknown"], "10.0.0.1"),
            (["203.0.113.9, <script>, 10.1.2.3"], "10.1.2.3"),
            ([""], "10.0.0.1"),
            ([], "10.0.0.1"),
        ],
    )
    def test_behind_a_trusted_proxy_is_the_right_most_one_that_is_none(
        self, forwarded: list[str], address: str
    ) -> None:
        house = memory_api(trusted_proxies=(ip_network("10.0.0.0/8"),))
        headers = [("X-Forwarded-For", value) for value in forwarded]
        key = house.key(lasts=timedelta())
        house.bearing(key, address="10.0.0.1").get(WHOAMI, headers=headers)
        house.failures.write_waiting()
        assert house.store.committed(A_TENANT).audit[-1].row.address == address

    @pytest.mark.case("X85")
    def test_is_not_taken_from_a_peer_outside_the_trusted_networks(self) -> None:
        house = memory_api(trusted_proxies=(ip_network("10.0.0.0/8"),))
        key = house.key(lasts=timedelta())
        header = {"X-Forwarded-For": "203.0.113.9"}
        house.bearing(key, address="192.0.2.7").get(WHOAMI, headers=header)
        house.failures.write_waiting()
        assert house.store.committed(A_TENANT).audit[-1].row.address == "192.0.2.7"
