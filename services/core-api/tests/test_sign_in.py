"""Who is let in: one answer for every failure, the cause in the audit, ten failures and no more."""

from collections.abc import Callable
from datetime import timedelta

import httpx2
import pytest

from datarecs_core_api.sign_in import FAILURES, MAX_REMEMBERED, SignInFailures
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT
from datarecs_testing.clock import ManualClock

WHOAMI = "/api/v1/whoami"
NOBODYS = f"drk_{12 * 'a'}_{43 * 'A'}"


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


def ask(house: MemoryApiHouse, key: str | None, *, address: str = "192.0.2.7") -> httpx2.Response:
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
        answer = ask(house, key(house), address=f"192.0.2.{number}")
        told = answer.json() | {"trace_id": "", "request_id": ""}
        bodies.add((answer.status_code, answer.headers["WWW-Authenticate"], str(told)))
    ((status, challenge, _),) = bodies
    assert (status, challenge) == (401, "Bearer")


@pytest.mark.case("X12")
@pytest.mark.parametrize("cause", ["wrong_secret", "revoked", "expired"])
def test_the_cause_stands_in_the_audit_of_the_keys_tenant(
    house: MemoryApiHouse, cause: str
) -> None:
    key = FAULTY[cause](house)
    ask(house, key)
    line = house.store.committed(A_TENANT).audit[-1].row
    assert (line.action, line.outcome, line.actor) == ("sign_in", cause, "u-ana")
    assert line.resource_uid == (key or "")[4:16]
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


class TestTooManyFailures:
    @pytest.mark.case("X13")
    def test_close_the_door_to_an_address_for_a_minute(self, house: MemoryApiHouse) -> None:
        good = house.key()
        for number in range(FAILURES):
            assert ask(house, f"drk_{number:a>12}_{43 * 'A'}".replace("0", "b")).status_code == 401
        closed = ask(house, good)
        assert (closed.status_code, closed.json()["code"]) == (429, "DR4016")
        assert closed.headers["Retry-After"] == "60"
        assert closed.json()["retry_after_s"] == 60
        assert ask(house, good, address="192.0.2.8").status_code == 200
        house.clock.advance(timedelta(seconds=60))
        assert ask(house, good).status_code == 200

    @pytest.mark.case("X13")
    def test_ask_the_database_no_more(self, house: MemoryApiHouse) -> None:
        asked = []

        class Counted(MemoryWorkFinder):
            def resolve_api_key(self, key_id: str) -> None:
                asked.append(key_id)

        counted = memory_api(finder=Counted(house.store))
        statuses = [ask(counted, NOBODYS).status_code for _ in range(100)]
        assert statuses == [401] * FAILURES + [429] * (len(statuses) - FAILURES)
        assert len(asked) == FAILURES

    def test_of_a_key_id_count_wherever_they_come_from(self, house: MemoryApiHouse) -> None:
        key = house.key()
        for number in range(FAILURES):
            ask(house, wrong_secret(key), address=f"198.51.100.{number}")
        assert ask(house, key, address="203.0.113.1").status_code == 429
        assert ask(house, house.key(), address="203.0.113.1").status_code == 200

    def test_count_within_a_minute_only(self, house: MemoryApiHouse) -> None:
        for _ in range(3 * FAILURES):
            assert ask(house, None).status_code == 401
            house.clock.advance(timedelta(seconds=7))

    @pytest.mark.case("X85")
    def test_count_by_the_peer_and_not_by_what_it_says(self, house: MemoryApiHouse) -> None:
        for number in range(FAILURES):
            header = {"X-Forwarded-For": f"198.51.100.{number}", "Forwarded": f"for={number}"}
            house.bearing(None).get(WHOAMI, headers=header)
        assert ask(house, house.key()).status_code == 429


def test_what_is_remembered_is_bounded() -> None:
    failures = SignInFailures(ManualClock())
    for _ in range(FAILURES):
        failures.note("first")
    for number in range(MAX_REMEMBERED):
        failures.note(f"address {number}")
    assert failures.closed_s("first") == 0


def test_a_closed_door_says_when_it_opens() -> None:
    clock = ManualClock()
    failures = SignInFailures(clock)
    for _ in range(FAILURES):
        failures.note("x")
    clock.advance(timedelta(seconds=20.5))
    assert failures.closed_s("x", "y") == 40
    assert failures.closed_s("y") == 0
