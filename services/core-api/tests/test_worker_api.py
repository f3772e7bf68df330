"""The control API: who is admitted, what it refuses, and what its one client makes of that."""

import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from datarecs_application.capturing.wire import PREFIX
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.capturing import Assignment, ClaimRequest, Claims, Renewed
from datarecs_core.captures.items import CaptureJobId, WorkKind, WorkToken
from datarecs_core.captures.outcomes import Finalize, Outcome, WorkStopped
from datarecs_core.errors.captures import (
    CaptureNotFoundError,
    LeaseLostError,
    OutcomeRefusedError,
)
from datarecs_core_api.token_signatures import is_signed
from datarecs_core_api.worker_tokens import TokenFaultError, TokenVerifier
from datarecs_outbound.worker_api import ControlUnavailableError, TokenRefusedError
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.control_api import ControlApi, serving
from datarecs_testing.issuer import (
    AUDIENCE,
    SigningKey,
    TestIssuer,
    ec_key,
    ed_key,
    rsa_key,
    running_issuer,
    token_of,
)

pytestmark = pytest.mark.integration

OURS = WorkToken(tenant_id=A_TENANT, item_id=CaptureJobId(FixedIds.nth(1)), epoch=3)
THEIRS = WorkToken(tenant_id=B_TENANT, item_id=CaptureJobId(FixedIds.nth(2)), epoch=1)
REQUEST = ClaimRequest(executor="site-1", kinds=(WorkKind.PLAN_TABLE,))


@dataclass(slots=True)
class Scripted:
    """Port CaptureControl that notes calls, and raises what a test sets."""

    error: Exception | None = None
    claimed: list[ClaimRequest] = field(default_factory=list)
    calls: list[tuple[str, WorkToken]] = field(default_factory=list)
    items: tuple[WorkToken, ...] = ()

    def claim(self, request: ClaimRequest) -> Claims:
        self.claimed.append(request)
        return Claims(tokens=self.items)

    def begin(self, token: WorkToken) -> Assignment | None:
        self._note("begin", token)
        return Assignment(
            token=token, kind=WorkKind.PLAN_TABLE, frame={"known": ["1"]}, deadline_seconds=9.5
        )

    def renew(self, tokens: Collection[WorkToken]) -> Mapping[WorkToken, Renewed]:
        return {token: Renewed(is_current=True, cancel_requested=True) for token in tokens}

    def put_sidecar(self, token: WorkToken, path: str, sha256: str, content: bytes) -> None:
        self._note(f"{path} {sha256} {content!r}", token)

    def end(self, token: WorkToken, outcome: Outcome) -> None:
        self._note(type(outcome).__name__, token)

    def _note(self, call: str, token: WorkToken) -> None:
        self.calls.append((call, token))
        if self.error is not None:
            raise self.error


@pytest.fixture
def control() -> Scripted:
    return Scripted()


@pytest.fixture
def issuer() -> Iterator[TestIssuer]:
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture
def api(control: Scripted, issuer: TestIssuer) -> Iterator[ControlApi]:
    with serving(control, issuer) as api:
        yield api


def posted(api: ControlApi, path: str, token: str, body: object) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {token}", "Datarecs-Worker-Protocol": "1"}
    return httpx2.post(f"{api.url}{path}", headers=headers, json=body, trust_env=False, timeout=30)


def claimed(api: ControlApi, token: str, **changes: object) -> httpx2.Response:
    wish = {"executor": "w", "kinds": ["PLAN_TABLE"], **changes}
    return posted(api, f"{PREFIX}/claims", token, wish)


@pytest.mark.case("Q32")
def test_no_key_and_no_other_token_is_a_worker(api: ControlApi, issuer: TestIssuer) -> None:
    assert claimed(api, api.house.key()).status_code == 403
    assert claimed(api, issuer.token(roles=["admin"])).status_code == 403
    assert claimed(api, issuer.token(datarecs_tenant=None)).status_code == 403
    assert claimed(api, issuer.token(datarecs_tenant="")).status_code == 403
    assert claimed(api, "no-token").status_code == 401
    assert claimed(api, issuer.token()).status_code == 200


@pytest.mark.case("Q32")
def test_a_worker_is_refused_everywhere_else(api: ControlApi, issuer: TestIssuer) -> None:
    headers = {"Authorization": f"Bearer {issuer.token()}"}
    for path in ("/api/v1/capture-jobs", "/api/v1/jobs", "/api/v1/keys"):
        answer = httpx2.get(f"{api.url}{path}", headers=headers, trust_env=False)
        assert answer.status_code == 403, path
    bad = {"Authorization": f"Bearer {issuer.token(aud='x')}"}
    assert httpx2.get(f"{api.url}/api/v1/jobs", headers=bad, trust_env=False).status_code == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "site-worker"},
        {"iss": "https://other.example.com"},
        {"exp": 1_700_000_000},
        {"exp": None},
        {"iat": None},
        {"sub": ""},
        {"nbf": 4_000_000_000},
    ],
)
def test_a_token_with_a_wrong_claim_is_no_credential(
    api: ControlApi, issuer: TestIssuer, changes: dict[str, Any]
) -> None:
    assert claimed(api, issuer.token(**changes)).status_code == 401


def test_a_token_with_another_signature_is_no_credential(
    api: ControlApi, issuer: TestIssuer
) -> None:
    stranger = ec_key()
    claims = issuer.claims()
    forged = token_of(stranger, claims, jwk=stranger.public)
    unsigned = token_of(SigningKey("none", issuer.key.public, lambda _: b""), claims)
    symmetric = token_of(SigningKey("HS256", issuer.key.public, lambda _: bytes(32)), claims)
    for token in (forged, unsigned, symmetric, issuer.token()[:-4] + "AAAA"):
        assert claimed(api, token).status_code == 401


@pytest.mark.parametrize("key", [rsa_key(), rsa_key(algorithm="PS256"), ec_key(), ed_key()])
def test_each_accepted_algorithm(key: SigningKey) -> None:
    content = b"header.claims"
    signature = key.sign(content)
    assert is_signed(key.algorithm, key.public, signature, content)
    assert not is_signed(key.algorithm, key.public, signature, content + b".")
    others = {"RS256", "PS256", "ES256", "EdDSA", "HS256", "none"} - {key.algorithm}
    assert not any(is_signed(one, key.public, signature, content) for one in others)


def test_a_short_key_signs_nothing() -> None:
    key = rsa_key(bits=1024)
    assert not is_signed("RS256", key.public, key.sign(b"x"), b"x")


@pytest.mark.case("Q32")
def test_a_worker_of_a_tenant_sees_nothing_of_another(
    api: ControlApi, issuer: TestIssuer, control: Scripted
) -> None:
    issuer.tenant = str(A_TENANT)
    worker = api.worker()
    worker.claim(REQUEST)
    assert control.claimed[-1].tenant == A_TENANT
    renewed = worker.renew([OURS, THEIRS])
    assert renewed[OURS] == Renewed(is_current=True, cancel_requested=True)
    assert renewed[THEIRS] == Renewed(is_current=False)
    with pytest.raises(CaptureNotFoundError):
        worker.begin(THEIRS)
    with pytest.raises(CaptureNotFoundError):
        worker.end(THEIRS, WorkStopped())
    with pytest.raises(CaptureNotFoundError):
        worker.put_sidecar(THEIRS, "a", "0" * 64, b"")
    assert control.calls == []


@pytest.mark.case("Q32")
def test_an_expired_token_is_replaced_once(
    api: ControlApi, issuer: TestIssuer, control: Scripted
) -> None:
    worker = api.worker()
    issuer.changes = {"exp": 1_700_000_000}
    worker.calls.token.current()
    issuer.changes = {}
    control.items = (OURS,)
    assert list(worker.claim(REQUEST).tokens) == [OURS]
    assert issuer.granted == 2


@pytest.mark.case("Q32")
def test_a_token_that_is_refused_again_ends_claims_and_readiness(
    api: ControlApi, issuer: TestIssuer, control: Scripted
) -> None:
    worker = api.worker()
    assert worker.calls.ready() is None
    issuer.changes = {"aud": "another"}
    with pytest.raises(TokenRefusedError):
        worker.claim(REQUEST)
    assert issuer.granted == 2
    assert "refuses the token" in (worker.calls.ready() or "")
    issuer.changes = {}
    with pytest.raises(ControlUnavailableError):
        worker.claim(REQUEST)
    assert (issuer.granted, control.claimed) == (2, [])
    worker.renew([OURS])
    assert worker.calls.ready() is None
    worker.claim(REQUEST)
    assert len(control.claimed) == 1


def test_credentials_that_the_issuer_refuses_are_named(api: ControlApi) -> None:
    with pytest.raises(StoreUnavailableError, match="DATARECS_WORKER__OIDC__CLIENT_ID"):
        api.worker(password="wrong").claim(REQUEST)


@pytest.mark.case("Q34")
def test_the_ninth_claim_that_waits_is_refused_and_repeated_later(
    api: ControlApi, issuer: TestIssuer
) -> None:
    token = issuer.token()
    with ThreadPoolExecutor(9) as pool:
        waiting = [pool.submit(claimed, api, token, wait_seconds=3) for _ in range(8)]
        time.sleep(1)  # noqa: TID251  until all of them wait
        began = time.monotonic()
        ninth = claimed(api, token)
        took = time.monotonic() - began
        assert (ninth.status_code, ninth.headers["Retry-After"]) == (429, "1")
        assert "queue-busy" in ninth.json()["detail"]
        assert took >= 0.25
        with pytest.raises(StoreBusyError):
            api.worker().claim(REQUEST)
        assert {one.result().status_code for one in waiting} == {200}
    assert claimed(api, token).json() == {"items": []}


def test_a_claim_waits_for_work(api: ControlApi, issuer: TestIssuer, control: Scripted) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(claimed, api, issuer.token(), wait_seconds=15)
        while not control.claimed:
            time.sleep(0.01)  # noqa: TID251  another thread has no signal here
        control.items = (OURS,)
        items = waiting.result(timeout=10).json()["items"]
    assert [one["item_id"] for one in items] == [str(OURS.item_id)]


@pytest.mark.parametrize(
    "changes",
    [
        {"kinds": []},
        {"kinds": ["FINALIZE_SNAPSHOT_CAPTURE"]},
        {"kinds": ["NONE"]},
        {"limit": 0},
        {"wait_seconds": 21},
        {"executor": ""},
        {"more": 1},
    ],
)
def test_a_claim_outside_of_its_bounds_is_refused(
    api: ControlApi, issuer: TestIssuer, control: Scripted, changes: dict[str, Any]
) -> None:
    assert claimed(api, issuer.token(), **changes).status_code == 422
    assert control.claimed == []


def test_another_protocol_is_refused(api: ControlApi, issuer: TestIssuer) -> None:
    headers = {"Authorization": f"Bearer {issuer.token()}", "Datarecs-Worker-Protocol": "9"}
    answer = httpx2.post(f"{api.url}{PREFIX}/claims", headers=headers, json={}, trust_env=False)
    assert answer.status_code == 400
    assert "release" in answer.json()["detail"]


def test_each_call_reaches_the_control_unchanged(api: ControlApi, control: Scripted) -> None:
    worker = api.worker()
    assert worker.begin(OURS) == Assignment(
        token=OURS, kind=WorkKind.PLAN_TABLE, frame={"known": ["1"]}, deadline_seconds=9.5
    )
    worker.put_sidecar(OURS, "a b/ü.parquet", "0" * 64, b"index")
    worker.end(OURS, WorkStopped())
    sidecar = f"a b/ü.parquet {'0' * 64} b'index'"
    assert control.calls == [("begin", OURS), (sidecar, OURS), ("WorkStopped", OURS)]


@pytest.mark.parametrize(
    "error",
    [
        LeaseLostError(item_id=OURS.item_id, epoch=OURS.epoch),
        OutcomeRefusedError(item_id=OURS.item_id, faults=["one", "two"]),
        CaptureNotFoundError(item_id=OURS.item_id),
        StoreUnavailableError(cause="x"),
        StoreBusyError(cause="x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_each_refusal_is_the_one_of_the_control(
    api: ControlApi, control: Scripted, error: Exception
) -> None:
    control.error = error
    with pytest.raises(type(error)) as raised:
        api.worker().end(OURS, WorkStopped())
    if isinstance(error, OutcomeRefusedError):
        assert getattr(raised.value, "faults", ()) == ("one", "two")


def test_a_remote_worker_finalizes_nothing(api: ControlApi, issuer: TestIssuer) -> None:
    with pytest.raises(OutcomeRefusedError):
        api.worker().end(OURS, Finalize())
    headers = {
        "Authorization": f"Bearer {issuer.token()}",
        "Datarecs-Worker-Protocol": "1",
        "Datarecs-Tenant": str(A_TENANT),
        "Datarecs-Lease-Epoch": "3",
    }
    answer = httpx2.post(
        f"{api.url}{PREFIX}/items/{OURS.item_id}/end",
        headers=headers,
        json={"outcome": {"$type": "Finalize"}},
        trust_env=False,
    )
    assert (answer.status_code, answer.json()["reason"]) == (422, "OUTCOME_REFUSED")


def test_new_keys_of_the_issuer_are_read_after_a_pause(issuer: TestIssuer) -> None:
    clock, read = ManualClock(), list[int]()

    def keys() -> list[dict[str, Any]]:
        read.append(1)
        return list(issuer.published)

    verifier = TokenVerifier(read_keys=keys, issuer=issuer.url, audience=AUDIENCE, clock=clock)
    now = int(clock.now().timestamp())
    times = {"iat": now, "exp": now + 600}
    assert verifier.worker(issuer.token(**times)).is_worker
    issuer.key = ec_key("k2")
    issuer.published.append(issuer.key.public)
    with pytest.raises(TokenFaultError):
        verifier.worker(issuer.token(**times))
    assert len(read) == 1
    clock.advance(timedelta(seconds=31))
    assert verifier.worker(issuer.token(**times)).is_worker
    assert len(read) == 2
