"""core-api for tests: the real application over twins or a real database, and its callers.

Every answer is checked against the published OpenAPI document, so that no test passes with an
unpublished answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache, cached_property
from ipaddress import IPv4Network, IPv6Network
from typing import Any
from uuid import UUID

import httpx2
from fastapi import FastAPI
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from datarecs_application.observing import ObservedUnit
from datarecs_application.ports.feed import ChangeFeed, EventFilter, FeedEntry, ResourceFeed
from datarecs_application.ports.keys import ApiKey
from datarecs_application.ports.outside import BlobStores, Clock, Ids
from datarecs_application.ports.state import Queries, UnitOfWork, WorkFinder
from datarecs_core.access.permissions import Role, permissions_of
from datarecs_core.access.tokens import new_key
from datarecs_core.egress.addresses import Profile
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind
from datarecs_core.runs.model import Backend
from datarecs_core.values import RunId, TenantId
from datarecs_core_api.app import Service, build
from datarecs_core_api.auth import Authenticator
from datarecs_core_api.dependencies import Ports
from datarecs_core_api.feed import Feed
from datarecs_core_api.following import Following, Pace
from datarecs_core_api.limits import RequestLimits
from datarecs_core_api.openapi import document
from datarecs_core_api.pagination import Cursors
from datarecs_core_api.peers import Peers
from datarecs_core_api.places import DatedPlaces, Places
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_core_api.run_updates import RunUpdates
from datarecs_core_api.sign_in import FailedSignIns
from datarecs_core_api.tenant_live import RunEventForm
from datarecs_core_api.watching import ChangeForm, WatchFeed
from datarecs_core_api.wiring import previewing_of
from datarecs_core_api.worker_door import WorkerDoor
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_memory.change_feed import MemoryChangeFeed, MemoryResourceFeed
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.queries import MemoryQueries
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.api_sections import Limits
from datarecs_runtime.clock import random_bytes
from datarecs_runtime.health import ReadyCheck
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Egress, MailPreview, Secrets
from datarecs_specs.kinds import KINDS
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics

BASE_URL = "http://api.test"
LINK_KEY = b"k" * 32
REPORT_KEY = b"r" * 32
PREVIEW = MailPreview.model_validate(
    {
        "from": "datarecs@mail.example.com",
        "recipient_domains": dict.fromkeys((A_TENANT, B_TENANT), ("example.com",)),
    }
)
QUICK = Pace(poll=timedelta(milliseconds=20), ping=timedelta(seconds=15))
"""A time limit that no test should reach."""
PLACES = Places(bytes(32))
WATCH_PLACES = DatedPlaces(b"w" * 32)
UNHINDERED = Limits(
    requests_per_minute=1_000_000,
    tenant_requests_per_minute=1_000_000,
    writes_per_minute=1_000_000,
    keys_per_hour=1_000_000,
    waiting_runs_per_job=1_000_000,
    waiting_runs_per_tenant=1_000_000,
    open_captures_per_tenant=1_000_000,
)
"""Limits above those that tests reach by accident."""
published = cache(document)
_UNLISTED = frozenset({"/openapi.json", "/", "/docs"})
"""The document and pages for people."""
UNPUBLISHED = frozenset({400, 404, 405, 500, 503})
"""Allowed unpublished statuses: unknown paths and methods, and failures."""


@dataclass(kw_only=True)
class ApiHouse:
    """The application and its dependencies."""

    unit: UnitOfWork
    queries: Queries
    changes: ChangeFeed
    resource_changes: ResourceFeed
    finder: WorkFinder
    clock: Clock
    ids: Ids
    blobs: BlobStores
    profile: Profile = Profile.LOCAL
    secret_uses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The operator's bindings of secret references."""
    ready_when: Mapping[str, ReadyCheck] = field(default_factory=dict)
    pace: Pace = QUICK
    metrics: RecordedMetrics = field(default_factory=RecordedMetrics)
    limits: Limits = UNHINDERED
    trusted_proxies: Sequence[IPv4Network | IPv6Network] = ()
    backend: Backend = Backend.QUEUE
    mail_report_key: bytes | None = REPORT_KEY
    worker_door: WorkerDoor | None = None

    @cached_property
    def failures(self) -> FailedSignIns:
        return FailedSignIns(unit=self.unit, clock=self.clock, metrics=self.metrics)

    @cached_property
    def following(self) -> Following:
        return Following(self.metrics, self.pace)

    @cached_property
    def run_updates(self) -> RunUpdates:
        return RunUpdates(self.queries)

    @cached_property
    def feed(self) -> Feed[FeedEntry, EventFilter]:
        return Feed(self.changes, self.clock, self.metrics, form=RunEventForm(PLACES))

    @cached_property
    def watch_feed(self) -> WatchFeed:
        form = ChangeForm(WATCH_PLACES, self.clock)
        return Feed(self.resource_changes, self.clock, self.metrics, form=form)

    @cached_property
    def secrets(self) -> TenantSecrets:
        keyring = Keyring({"k1": bytes(32)}, current="k1")
        settings = Secrets(
            tenant_names={A_TENANT: "DEFAULT", B_TENANT: "DEFAULT"}, uses=self.secret_uses
        )
        return TenantSecrets(settings, keyring=keyring, environment={}, profile=self.profile)

    @cached_property
    def app(self) -> FastAPI:
        ports = Ports(
            unit=ObservedUnit(unit=self.unit, metrics=self.metrics, clock=self.clock),
            queries=self.queries,
            changes=self.changes,
            resource_changes=self.resource_changes,
            finder=self.finder,
            blobs=self.blobs,
            secrets=self.secrets,
            clock=self.clock,
            ids=self.ids,
            random_bytes=random_bytes,
            cursors=Cursors(b"k" * 32),
            following=self.following,
            run_updates=self.run_updates,
            feed=self.feed,
            places=PLACES,
            watch_feed=self.watch_feed,
            watch_places=WATCH_PLACES,
            base_url=BASE_URL,
            profile=self.profile,
            egress=Egress(),
            limits=self.limits,
            link_keys=(LINK_KEY,),
            mail_report_key=self.mail_report_key,
            previewing=previewing_of(PREVIEW, base_url=BASE_URL, ids=self.ids),
            backend=self.backend,
            reference_rules=self.secrets.rules,
        )
        keys = Authenticator(
            finder=self.finder,
            unit=self.unit,
            clock=self.clock,
            failures=self.failures,
            limits=RequestLimits(self.clock, self.limits),
            refuse_worker=(
                (lambda _: None) if self.worker_door is None else self.worker_door.refuse_elsewhere
            ),
        )
        service = Service(
            worker_door=self.worker_door,
            ports=ports,
            authenticator=keys,
            metrics=self.metrics,
            ready_when=self.ready_when,
            peers=Peers(self.trusted_proxies),
        )
        return build(service)

    def key(
        self,
        tenant: TenantId = A_TENANT,
        *,
        permissions: Iterable[str] = permissions_of([Role.ADMIN]),
        owner: str = "u-ana",
        lasts: timedelta = timedelta(days=90),
    ) -> str:
        """A new key of the tenant, in the form of a request."""
        now = self.clock.now()
        made = new_key(id_bytes=random_bytes(8), secret_bytes=random_bytes(32))
        key = ApiKey(
            key_id=made.key_id,
            tenant_id=tenant,
            name="test",
            owner=owner,
            secret_sha256=made.secret_sha256,
            permissions=frozenset(map(str, permissions)),
            created_at=now,
            expires_at=now + lasts,
        )
        with self.unit.begin(tenant) as tx:
            tx.api_keys.add(key)
        return made.text

    def caller(self, tenant: TenantId = A_TENANT, *roles: Role, owner: str = "u-ana") -> TestClient:
        """A client with a key of these roles; admin by default."""
        permissions = permissions_of(roles or [Role.ADMIN])
        return self.bearing(self.key(tenant, permissions=permissions, owner=owner))

    def bearing(self, key: str | None, *, address: str = "192.0.2.7") -> TestClient:
        """A client that sends this key, or none, from this address."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        client = TestClient(self.app, base_url=BASE_URL, headers=headers, client=(address, 50_000))
        client.event_hooks = {"request": [], "response": [check_published]}
        return client


@dataclass(kw_only=True)
class MemoryApiHouse(ApiHouse):
    """The application over twins; a test may read `store`; `clock` does not move by itself."""

    store: MemoryStore
    clock: ManualClock


def memory_api(**changes: Any) -> MemoryApiHouse:  # noqa: ANN401  any field of ApiHouse
    """A new application with an empty store."""
    clock, ids = ManualClock(), FixedIds()
    store = MemoryStore(clock, ids)
    house = MemoryApiHouse(
        **{
            "unit": MemoryUnitOfWork(store),
            "queries": MemoryQueries(store),
            "changes": MemoryChangeFeed(store),
            "resource_changes": MemoryResourceFeed(store),
            "finder": MemoryWorkFinder(store),
            "clock": clock,
            "ids": ids,
            "blobs": MemoryBlobStores(clock),
            "store": store,
            **changes,
        }
    )

    def on_notification(channel: str, payload: str) -> None:
        if channel == "datarecs_run":
            house.following.wake_followers(payload)
            house.feed.read()
        else:
            house.watch_feed.read()

    store.listen(on_notification)
    return house


def subject_of(caller: TestClient) -> str:
    """The subject of this caller's key in events and audit."""
    key = str(caller.headers["Authorization"]).removeprefix("Bearer ")
    return f"key:{key[4:16]}"


def declare(caller: TestClient, kind: Kind = Kind.RECONCILIATION_JOB, **metadata: str) -> str:
    """The path of a new object of the kind, as its published example declares it."""
    example = EXAMPLES[kind]
    body = {**example, "metadata": {**_mapping(example["metadata"]), **metadata}}
    namespace = metadata.get("namespace", DEFAULT_NAMESPACE)
    answer = caller.post(f"/api/v1/{KINDS[kind].path}?namespace={namespace}", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.headers["Location"])


def change_run(
    unit: UnitOfWork,
    run_id: str,
    tenant: TenantId = A_TENANT,
    **fields: Any,  # noqa: ANN401  any field of Run
) -> None:
    """The run's row with other fields, as the run-controller would write them."""
    with unit.begin(tenant) as tx:
        run = tx.runs.for_update(RunId(UUID(run_id)))
        assert run is not None
        tx.runs.save(replace(run, **fields))


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, Mapping)
    return value


def check_published(response: httpx2.Response) -> None:
    """Check that the OpenAPI document contains the answer's status, type and body."""
    request = response.request
    operation = _operation(request.url.path, request.method)
    if operation is None:
        assert response.status_code in UNPUBLISHED or request.url.path in _UNLISTED
        return
    answer = operation["responses"].get(str(response.status_code))
    request_line = f"{request.method} {request.url.path}"
    assert answer is not None, (
        f"{request_line} answered {response.status_code}, which is not published"
    )
    _check_headers(request_line, response, answer.get("headers", {}))
    media = response.headers.get("content-type", "").split(";")[0]
    content = answer.get("content", {})
    if not content or request.method == "HEAD":
        return
    assert media in content, f"{request_line} answered {media}, which is not published"
    if media.endswith("json"):
        response.read()
        schema = {**content[media]["schema"], "components": published()["components"]}
        Draft202012Validator(schema).validate(response.json())


def _check_headers(
    request_line: str, response: httpx2.Response, named: Mapping[str, object]
) -> None:
    """Check that headers for clients are published for this answer, with their form."""
    for name, header in published()["components"]["headers"].items():
        text = response.headers.get(name)
        if text is None:
            assert name not in named or not header.get("required"), (
                f"{request_line} answered no {name}"
            )
            continue
        assert name in named, f"{request_line} answered {name}, which is not published"
        value = int(text) if header["schema"]["type"] == "integer" else text
        Draft202012Validator(header["schema"]).validate(value)


def _operation(path: str, method: str) -> Mapping[str, Any] | None:
    """The published entry of the path; literal segments take precedence over parameters."""
    wanted = {"HEAD": "get"}.get(method, method.lower())
    segments = path.split("/")
    fitting = [
        (template.count("{"), template)
        for template in published()["paths"]
        if len(template.split("/")) == len(segments)
        and all(
            part == segment or part.startswith("{")
            for part, segment in zip(template.split("/"), segments, strict=True)
        )
    ]
    if not fitting:
        return None
    operation: Mapping[str, Any] | None = published()["paths"][min(fitting)[1]].get(wanted)
    return operation
