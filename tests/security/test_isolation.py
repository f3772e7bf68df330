"""No tenant sees or changes another's data, on any route: generated from the routes themselves.

Tenant B has one of everything. For each guarded route a caller of tenant A names B's ids, and must
get exactly the answer for an unknown id; B's rows must not change.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from itertools import count
from typing import Any
from uuid import UUID

import httpx2
import pytest

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.entities import Entities
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.indexes import Indexes
from datarecs_application.catalogue.pointer_store import PointerStore
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_application.catalogue.tables import Tables
from datarecs_application.ports.delivery import DeliveryKey, WebhookAttempt
from datarecs_core.access.permissions import GRANTS, Permission, Role
from datarecs_core.catalog.layout import run_document, sidecar_blob
from datarecs_core.catalog.records import Account, Catalog, Connector, Namespace, View
from datarecs_core.notifications.feedback import NewSuppression, SuppressionReason
from datarecs_core.notifications.mail import MailState
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import RunResult, RunStatus
from datarecs_core.sink.checkpoint import TaskWish
from datarecs_core.sink.declared import SinkWish
from datarecs_core.values import ResourceUid, RunId, TenantId
from datarecs_core_api.app import routes
from datarecs_core_api.capture_bodies import CAPTURE_EXAMPLE
from datarecs_core_api.guarded import ANY_PRINCIPAL, guarded_routes
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_specs.kinds import KINDS
from datarecs_testing.api import MemoryApiHouse, change_run, declare, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.catalogue import (
    a_catalog,
    a_namespace,
    a_snapshot,
    a_table,
    a_view,
    an_account,
    constraints,
    target_stats,
)
from datarecs_testing.clock import NOON
from datarecs_testing.conformance.catalogue import a_connector
from datarecs_testing.conformance.catalogue_generations import publication
from datarecs_testing.conformance.catalogue_indexes import CONTENT, an_index
from datarecs_testing.deliveries import a_delivery, a_mail
from datarecs_testing.finished_runs import balance_check, books, document

ROUTES = sorted(guarded_routes(routes()).items(), key=lambda item: item[0][::-1])
WITH_IDS = [(method, path) for (method, path), _ in ROUTES if "{" in path]
ACTIONS = ("/test", "/{delivery_id}/resend")
PATHS = {entry.path: kind for kind, entry in KINDS.items()}


CATALOGUE_IDS = ("catalog_id", "namespace_id", "table_id", "view_id", "connector_id")
NOBODYS_OBJECT = "019bc000-0000-7000-8000-0000000ffffc"


@dataclass(frozen=True)
class Ids:
    """Possible values in the paths."""

    names: Mapping[Kind, str]
    run_id: str
    key_id: str
    mail_id: str
    address: str
    delivery_id: str = ""
    action_id: str = ""
    job_id: str = NOBODYS_OBJECT
    catalogue_id: str = NOBODYS_OBJECT
    """Of every object of the catalogue: a catalog, a namespace, a table, a view, a connector."""

    def fill(self, template: str) -> str:
        kind = PATHS.get(template.split("/")[3])
        name = self.names[kind] if kind else ""
        return template.format(
            name=name,
            run_id=self.run_id,
            key_id=self.key_id,
            delivery_id=self.delivery_id,
            action_id=self.action_id,
            job_id=self.job_id,
            mail_id=self.mail_id,
            address=self.address,
            stage="balance-check",
            **dict.fromkeys(CATALOGUE_IDS, self.catalogue_id),
            snapshot_id="1",
            target_id="table" if template.endswith("/stats/{target_id}") else "file-0",
        )


NOBODYS = Ids(
    names=dict.fromkeys(Kind, "019bc000-0000-7000-8000-0000000fffff"),
    run_id="019bc000-0000-7000-8000-0000000ffffe",
    key_id=12 * "z",
    delivery_id="019bc000-0000-7000-8000-0000000ffffe",
    action_id="019bc000-0000-7000-8000-0000000ffffd",
    mail_id="019bc000-0000-7000-8000-0000000ffffd",
    address="nobody@example.com",
)


@dataclass(frozen=True)
class Neighbours:
    house: MemoryApiHouse
    theirs: Ids
    """Of tenant B: uids, since names may exist on both sides."""
    names: Ids
    """Of tenant B: names that A does not have."""


@cache
def a_document() -> bytes:
    """A run.json; each run has the same."""
    tables = books()
    return json.dumps(document(balance_check(tables), tables)).encode()


@pytest.fixture
def neighbours() -> Neighbours:
    house = memory_api()
    bob = house.caller(B_TENANT, owner="u-bob")
    names = {kind: declare(bob, kind).rpartition("/")[2] for kind in Kind}
    uids = {
        kind: bob.get(f"/api/v1/{KINDS[kind].path}/{name}").json()["metadata"]["uid"]
        for kind, name in names.items()
    }
    run_id = bob.post(f"/api/v1/jobs/{names[Kind.RECONCILIATION_JOB]}/runs").json()["run_id"]
    house.blobs.of(B_TENANT).put(run_document(B_TENANT, RunId(UUID(run_id))), a_document())
    ended = {"status": RunStatus.COMPLETED, "result": RunResult.UNMATCHED, "closed_at": NOON}
    change_run(house.unit, run_id, B_TENANT, **ended)
    with house.unit.begin(B_TENANT) as tx:
        delivery = a_delivery(tenant_id=B_TENANT, endpoint_uid=UUID(uids[Kind.WEBHOOK_ENDPOINT]))
        tx.deliveries.add([delivery])
        attempt = WebhookAttempt(
            key=DeliveryKey(delivery.received_on, delivery.delivery_id),
            attempt_no=1,
            lease_epoch=1,
            worker="w",
            started_at=NOON,
        )
        tx.deliveries.open_attempts([attempt])
        mail = a_mail(
            tenant_id=B_TENANT,
            recipient="bob@example.com",
            state=MailState.FAILED,
            due_at=None,
        )
        tx.mails.add(mail)
        bounced = NewSuppression(
            recipient_key="bob@example.com",
            reason=SuppressionReason.HARD_BOUNCE,
            text="",
            ends_at=None,
        )
        tx.mail_choices.suppress(bounced)
    mail_id, address = str(mail.delivery_id), "bob@example.com"
    hook = f"/api/v1/webhook-endpoints/{uids[Kind.WEBHOOK_ENDPOINT]}"
    action_id = bob.post(f"{hook}/test").json()["action_id"]
    key_id = house.key(B_TENANT, owner="u-bob")[4:16]
    house.following.end()  # streams say how they begin, and no more
    capture = {**CAPTURE_EXAMPLE, "connection": names[Kind.CONNECTION]}
    job_id = bob.post("/api/v1/capture-jobs", json=capture).json()["job_id"]
    catalogue_id = store_catalogue(house, B_TENANT)
    with house.unit.begin(B_TENANT) as tx:
        wish = SinkWish(tasks=1, wish=TaskWish.RUN, revision="1")
        tx.sinks.want(ResourceUid(UUID(uids[Kind.SINK_TABLE])), wish)
    others = (str(delivery.delivery_id), action_id, job_id, catalogue_id)
    return Neighbours(
        house,
        Ids(uids, run_id, key_id, mail_id, address, *others),
        Ids(
            names,
            run_id.replace("-", ""),
            key_id,
            mail_id.replace("-", ""),
            address,
            *(one.replace("-", "") for one in others),
        ),
    )


def store_catalogue(house: MemoryApiHouse, tenant: TenantId) -> str:
    """A catalogue with one object of each kind; all have one id."""
    account = CatalogueAccount(
        tenant=tenant,
        pointers=PointerStore(unit=house.unit, tenant=tenant),
        blobs=house.blobs.of(tenant),
        clock=house.clock,
    )
    same = UUID("019bc000-0000-7000-8000-0000000eeeee")
    Entities(account, Account).create(an_account(id=tenant))
    Entities(account, Catalog).create(a_catalog(id=same))
    namespace = a_namespace(same, id=same)
    Entities(account, Namespace).create(namespace)
    table = Tables(account).create(a_table(namespace, id=same)).record
    Entities(account, View).create(a_view(namespace, id=same, name="view"))
    Entities(account, Connector).create(replace(a_connector(), id=same))
    Snapshots(account).ingest(a_snapshot(table, 1), is_current=True)
    Statistics(account).put_targets([target_stats(table, 1)])
    Statistics(account).put_constraints(constraints(table, 1, "id"))
    Indexes(account).put_content(same, 1, "file-0", CONTENT)
    index = an_index(table)
    key = sidecar_blob(tenant, same, 1, "file-0", str(index.sha256))
    Indexes(account).put([replace(index, blob_key=key)])
    Generations(account).publish(publication(table))
    return str(same)


def send(  # noqa: PLR0913  a request in full
    house: MemoryApiHouse, key: str, method: str, template: str, *, ids: Ids, path: str = ""
) -> httpx2.Response:
    """A complete request with a valid body and headers; only the ids are of another tenant."""
    place = path or ids.fill(template)
    body = body_for(method, place, template, run_id=ids.run_id)
    headers = {"If-Match": "*"}
    answer: httpx2.Response = house.bearing(key).request(method, place, headers=headers, json=body)
    return answer


WITHOUT_BODY = (
    *("/runs", "/cancel", "/retry", "/ws-tickets", "/enable", "/disable", "/rotate"),
    *("_id}/resend", "/webhook-endpoints/{name}/test", "/actions/preview"),
    *("/actions/reconcile", "/actions/pause", "/actions/resume", "_id}/release"),
    *("/actions/commit-now", "/actions/retry", "/actions/reset"),
)


def body_for(
    method: str, path: str, template: str, *, run_id: str = NOBODYS.run_id
) -> Mapping[str, object] | None:
    if method not in {"POST", "PUT"} or template.endswith(WITHOUT_BODY):
        return None
    for tails, body in (
        (("/keys",), {"name": "k", "scopes": ["read"]}),
        (("/recover", "/replay"), {"since": (NOON - timedelta(hours=1)).isoformat()}),
        (("/webhook-resends",), {"ids": [NOBODYS.delivery_id]}),
        (("/capture-jobs", "/capture-jobs/now"), CAPTURE_EXAMPLE),
        (("/accept-table",), {"table": "a.b", "catalog": "lake", "records": "leave_out"}),
        (("/preview",), {"run_id": str(UUID(run_id))}),
        (("/test",), {"run_id": str(UUID(run_id)), "address": "finops@example.com"}),
    ):
        if template.endswith(tails):
            return body
    kind = PATHS[template.split("/")[3]]
    example = EXAMPLES[kind]
    name = path.rpartition("/")[2] if method == "PUT" else f"new-{kind.lower()}"
    return {**example, "metadata": {"name": name}}


def shown(answer: httpx2.Response, ids: Ids) -> tuple[int, dict[str, str], Any]:
    """The content of an answer, without requested ids and those of the request."""
    text = answer.text
    others = (ids.run_id, ids.key_id, ids.delivery_id, ids.action_id, ids.job_id, ids.catalogue_id)
    for one in (*ids.names.values(), *others):
        text = text.replace(one, "ID")
    body = json.loads(text) if text else {}
    for member in ("trace_id", "request_id", "instance"):
        body.pop(member, None)
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in {"x-request-id", "content-length", "ratelimit"}
    }
    return answer.status_code, headers, body


@pytest.mark.case("X01", "R71")
@pytest.mark.parametrize(("method", "template"), WITH_IDS)
def test_anothers_id_is_an_unknown_id(neighbours: Neighbours, method: str, template: str) -> None:
    house = neighbours.house
    key = house.key()
    before = house.store.committed(B_TENANT)
    unknown = send(house, key, method, template, ids=NOBODYS)
    for ids in (neighbours.theirs, neighbours.names):
        foreign = send(house, key, method, template, ids=ids)
        assert foreign.status_code == 404
        assert shown(foreign, ids) == shown(unknown, NOBODYS)
    assert house.store.committed(B_TENANT) == before


def test_the_same_requests_succeed_for_their_owner(neighbours: Neighbours) -> None:
    """Else the test above would pass for requests that are never valid."""
    house, ids = neighbours.house, neighbours.theirs
    key = house.key(B_TENANT, owner="u-bob")
    statuses = {}
    for method, template in sorted(
        WITH_IDS, key=lambda one: ("DELETE" in one, "connections" in one[1], one)
    ):
        path = ids.fill(template)
        if method == "PUT":
            kind = PATHS[template.split("/")[3]]
            path = template.format(name=neighbours.names.names[kind])
        statuses[method, template] = send(
            house, key, method, template, ids=ids, path=path
        ).status_code
    expected = dict.fromkeys(WITH_IDS, 200)
    expected["POST", "/api/v1/jobs/{name}/runs"] = 202
    expected["POST", "/api/v1/runs/{run_id}/cancel"] = 409
    expected["POST", "/api/v1/runs/{run_id}/retry"] = 202
    expected["POST", "/api/v1/capture-jobs/{job_id}/release"] = 409  # it is cancelled by now
    for verb in ("commit-now", "retry", "reset"):
        expected["POST", f"/api/v1/sink-tables/{{name}}/actions/{verb}"] = 202
    # No coordinator has begun yet.
    expected["POST", "/api/v1/sink-tables/{name}/actions/accept-table"] = 409
    expected["DELETE", "/api/v1/sink-tables/{name}"] = 202  # its last commit is waited for
    for segment in ("connections", "jobs", "captures", "sink-tables"):
        expected["POST", f"/api/v1/{segment}/{{name}}/actions/reconcile"] = 202
    expected["DELETE", "/api/v1/webhook-endpoints/{name}"] = 202  # its deliveries are open
    for method, template in WITH_IDS:
        if method == "POST" and template.endswith((*ACTIONS, "/recover", "/replay")):
            expected[method, template] = 202
    expected["POST", "/api/v1/webhook-endpoints/{name}/replay"] = 409  # its recover is still open
    expected["POST", "/api/v1/emails/{mail_id}/resend"] = 202
    expected["POST", "/api/v1/notification-rules/{name}/test"] = 202
    assert statuses == expected


@pytest.mark.case("X01", "X71")
@pytest.mark.parametrize(
    "path", [path for (method, path), _ in ROUTES if (method, "{" in path) == ("GET", False)]
)
def test_no_list_holds_anything_of_another(neighbours: Neighbours, path: str) -> None:
    ana = neighbours.house.caller()
    for query in ("", "?namespace=*", "?all=1", "?limit=200"):
        answer = ana.get(path + query)
        for secret in (*neighbours.theirs.names.values(), neighbours.theirs.run_id, str(B_TENANT)):
            assert secret not in answer.text


@pytest.mark.case("X02")
@pytest.mark.parametrize(("method", "template"), [one for one, _ in ROUTES])
def test_a_tenant_that_is_named_has_no_effect(
    neighbours: Neighbours, method: str, template: str
) -> None:
    house, other = neighbours.house, str(B_TENANT)
    before = house.store.committed(B_TENANT)
    answer = house.bearing(house.key()).request(
        method,
        f"{NOBODYS.fill(template)}?tenant_id={other}&tenant={other}&tenantid={other}",
        headers={
            "If-Match": "*",
            "X-Tenant-Id": other,
            "tenantid": other,
            "Cookie": f"tenant_id={other}; tenant={other}",
        },
        json=body_for(method, NOBODYS.fill(template), template),
    )
    assert answer.status_code < 500
    assert other not in answer.text
    assert house.store.committed(B_TENANT) == before


@pytest.mark.case("X02", "X21")
@pytest.mark.parametrize(
    ("method", "template"), [one for one, _ in ROUTES if one[0] in {"POST", "PUT"}]
)
def test_a_tenant_in_a_body_is_an_unknown_field(
    neighbours: Neighbours, method: str, template: str
) -> None:
    caller = neighbours.house.caller()
    job = declare(caller).rpartition("/")[2]
    run_id = caller.post(f"/api/v1/jobs/{job}/runs").json()["run_id"]
    path = replace(NOBODYS, names=dict.fromkeys(Kind, job), run_id=run_id).fill(template)
    body = {**(body_for(method, path, template) or {}), "tenant_id": str(B_TENANT)}
    answer = caller.request(method, path, headers={"If-Match": "*"}, json=body)
    assert answer.status_code == 422
    assert "/tenant_id" in {one["pointer"] for one in answer.json()["errors"]}


@pytest.mark.case("X03")
def test_a_version_of_another_is_no_version(neighbours: Neighbours) -> None:
    house = neighbours.house
    ana, bob = house.caller(), house.caller(B_TENANT)
    for kind in Kind:
        place = declare(ana, kind)
        etag = bob.get(place).headers["ETag"]
        assert ana.get(place, headers={"If-None-Match": etag}).status_code == 200
        body = {**EXAMPLES[kind], "metadata": {"name": place.rpartition("/")[2]}}
        assert ana.put(place, json=body, headers={"If-Match": etag}).status_code == 412
        assert ana.delete(place, headers={"If-Match": etag}).status_code == 412


@pytest.mark.case("X12")
@pytest.mark.parametrize(("method", "template"), [one for one, _ in ROUTES])
def test_nobody_is_let_in_without_a_key(neighbours: Neighbours, method: str, template: str) -> None:
    """Before the body is read and before any lookup."""
    house = neighbours.house
    answer = house.bearing(None).request(
        method,
        neighbours.theirs.fill(template) + "?limit=x",
        content=b"not json",
        headers={"Content-Type": "text/plain"},
    )
    assert (answer.status_code, answer.json()["code"]) == (401, "DR6011")


TABLE = "tables/{table_id}"
SNAPSHOT = f"{TABLE}/snapshots/{{snapshot_id}}"
CATALOGUE_READS = (
    *("catalogs", "catalogs/{catalog_id}", "catalogs/{catalog_id}/namespaces"),
    *("namespaces/{namespace_id}", "namespaces/{namespace_id}/tables"),
    *("namespaces/{namespace_id}/views", TABLE, "views/{view_id}", "resolve"),
    *("connectors", "connectors/{connector_id}", f"{TABLE}/snapshots", SNAPSHOT),
    *(f"{TABLE}/snapshots/current", f"{TABLE}/root", f"{TABLE}/history"),
    *(f"{SNAPSHOT}/stats", f"{SNAPSHOT}/stats/{{target_id}}", f"{SNAPSHOT}/files"),
    *(f"{SNAPSHOT}/constraints", f"{SNAPSHOT}/index-artifacts", f"{SNAPSHOT}/capture-status"),
    *("pointers", "record", "faults"),
)
WANTED: Mapping[str, str] = {
    "GET /api/v1/jobs": "read",
    "GET /api/v1/runs": "read",
    "POST /api/v1/jobs/{name}/runs": "run.trigger",
    "POST /api/v1/runs/{run_id}/cancel": "run.cancel",
    "POST /api/v1/runs/{run_id}/retry": "run.retry",
    "GET /api/v1/runs/{run_id}": "read",
    "GET /api/v1/runs/{run_id}/events": "read",
    "GET /api/v1/runs/{run_id}/timeline": "read",
    "GET /api/v1/runs/{run_id}/stages": "read",
    "GET /api/v1/runs/{run_id}/stages/{stage}": "read",
    "GET /api/v1/runs/{run_id}/report": "read",
    "GET /api/v1/runs/{run_id}/mismatches": "sample.read",
    "GET /api/v1/events/stream": "read",
    "POST /api/v1/ws-tickets": ANY_PRINCIPAL,
    "GET /api/v1/webhook-endpoints/{name}/deliveries": "read",
    "POST /api/v1/webhook-endpoints/{name}/test": "delivery.resend",
    "POST /api/v1/webhook-endpoints/{name}/recover": "delivery.resend",
    "POST /api/v1/webhook-endpoints/{name}/replay": "delivery.resend",
    "POST /api/v1/webhook-endpoints/{name}/enable": "delivery.resend",
    "POST /api/v1/webhook-endpoints/{name}/disable": "delivery.resend",
    "POST /api/v1/webhook-endpoints/{name}/secret/rotate": "secret.write",
    "GET /api/v1/webhook-deliveries/{delivery_id}": "read",
    "POST /api/v1/webhook-deliveries/{delivery_id}/resend": "delivery.resend",
    "POST /api/v1/webhook-resends": "delivery.resend",
    "GET /api/v1/webhook-actions/{action_id}": "read",
    "DELETE /api/v1/webhook-actions/{action_id}": "delivery.resend",
    "GET /api/v1/emails": "read",
    "GET /api/v1/emails/{mail_id}/attempts": "read",
    "POST /api/v1/emails/{mail_id}/resend": "delivery.resend",
    "GET /api/v1/email-suppressions": "read",
    "DELETE /api/v1/email-suppressions/{address}": "delivery.resend",
    "DELETE /api/v1/runs/{run_id}/report-links": "delivery.resend",
    "POST /api/v1/notification-rules/{name}/preview": "delivery.resend",
    "POST /api/v1/notification-rules/{name}/test": "delivery.resend",
    "POST /api/v1/schedules/{name}/actions/preview": "read",
    **{
        f"POST /api/v1/{kind}/{{name}}/actions/{action}": "resource.write"
        for kind in ("connections", "jobs", "captures", "sink-tables")
        for action in ("reconcile", "pause", "resume")
    },
    **{
        f"POST /api/v1/sink-tables/{{name}}/actions/{action}": "resource.write"
        for action in ("commit-now", "retry", "reset", "accept-table")
    },
    "GET /api/v1/sink-tables/{name}/commits": "read",
    "GET /api/v1/sink-tables/{name}/partitions": "read",
    "GET /api/v1/schedules/{name}/history": "read",
    "POST /api/v1/capture-jobs": "capture.trigger",
    "POST /api/v1/capture-jobs/now": "capture.trigger",
    "GET /api/v1/capture-jobs": "read",
    "GET /api/v1/capture-jobs/{job_id}": "read",
    "GET /api/v1/capture-jobs/{job_id}/tree": "read",
    "POST /api/v1/capture-jobs/{job_id}/cancel": "capture.cancel",
    "POST /api/v1/capture-jobs/{job_id}/release": "queue.drain",
    **{f"GET /api/v1/catalog/{path}": "read" for path in CATALOGUE_READS},
    f"GET /api/v1/catalog/{SNAPSHOT}/index-artifacts/{{target_id}}/content": "sample.read",
    "GET /api/v1/kinds": "read",
    "GET /api/v1/system/stats": "system.read",
    "GET /api/v1/keys": ANY_PRINCIPAL,
    "POST /api/v1/keys": ANY_PRINCIPAL,
    "DELETE /api/v1/keys/{key_id}": ANY_PRINCIPAL,
    "GET /api/v1/whoami": ANY_PRINCIPAL,
    **{
        f"{method} /api/v1/{path}{tail}": permission
        for path in PATHS
        for method, tail, permission in (
            ("GET", "", "read"),
            ("GET", "/{name}", "read"),
            ("GET", "/{name}/changes", "read"),
            ("POST", "", "resource.write"),
            ("PUT", "/{name}", "resource.write"),
            ("DELETE", "/{name}", "resource.write"),
        )
    },
}
"""The route table of the security page, for the routes that exist."""


@pytest.mark.case("X15")
def test_the_routes_require_what_the_table_says() -> None:
    assert {f"{method} {path}": permission for (method, path), permission in ROUTES} == WANTED


@pytest.mark.case("X15")
@pytest.mark.parametrize("role", [*Role, None])
def test_each_role_opens_exactly_its_routes(neighbours: Neighbours, role: Role | None) -> None:
    house = neighbours.house
    held: frozenset[Permission] = GRANTS[role] if role else frozenset()
    key = house.key(permissions=held)
    for (method, template), permission in ROUTES:
        if template == "/api/v1/keys" and method == "POST":
            continue  # what a key may hold is a separate rule
        answer = send(house, key, method, template, ids=NOBODYS)
        allowed = permission == ANY_PRINCIPAL or permission in held
        assert (answer.status_code == 403) is not allowed, (method, template, answer.text)


@pytest.mark.case("X15")
def test_a_refusal_does_not_reveal_whether_the_thing_exists(neighbours: Neighbours) -> None:
    house = neighbours.house
    caller = house.caller()
    job = declare(caller)
    run = caller.post(f"{job}/runs").headers["Location"]
    viewer = house.key(permissions=GRANTS[Role.VIEWER], owner="u-vera")
    for path in (run, f"/api/v1/runs/{NOBODYS.run_id}", f"/api/v1/runs/{neighbours.theirs.run_id}"):
        for method, tail in (("GET", "/mismatches"), ("POST", "/cancel")):
            answer = house.bearing(viewer).request(method, path + tail)
            assert (answer.status_code, answer.json()["code"]) == (403, "DR6012")


@pytest.mark.case("X14")
def test_every_refusal_of_a_permission_is_audited(neighbours: Neighbours) -> None:
    house = neighbours.house
    house.bearing(house.key(permissions=["read"], owner="u-vera")).post("/api/v1/jobs")
    line = house.store.committed(A_TENANT).audit[-1].row
    assert (line.action, line.outcome) == ("access.refuse", "refused")
    assert line.actor.startswith("key:")
    assert line.detail == {"permission": "resource.write", "route": "POST /api/v1/jobs"}


OPAQUE = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # ids
    r"|recon-[0-9a-z]{26}-[0-9a-z]{26}"  # executions, named by ids
    r"|drk_[a-z2-7]{12}_[A-Za-z0-9_-]{43}|\b[a-z2-7]{12}\b"  # keys
    r"|whsec_[A-Za-z0-9+/=]+"
    r"|(?<![\w-])[\w-]{22}(?![\w-])"  # places in the feed
    r"|(?<![\w-])[\w-]{100,}(?![\w-])"  # cursors
    r"|\b[0-9a-f]{16,64}\b"  # traces and hashes over ids
)
"""Texts that are random or encrypted, and of one length whatever they stand for."""


def visible_to_tenant(*, is_other_busy: bool) -> list[str]:
    """Every answer that A gets and every event it sends, without opaque texts."""
    house = memory_api()
    ana, bob = house.caller(), house.caller(B_TENANT, owner="u-bob")

    def others_work() -> None:
        for _ in range(7 if is_other_busy else 0):
            declare(bob, name=f"job-{next(NUMBERS)}")
            bob.post("/api/v1/keys", json={"name": "ci"})
            bob.post(f"{declare(bob, name=f'job-{next(NUMBERS)}')}/runs")

    lines = []
    house.following.end()
    places = []
    for kind in Kind:
        others_work()
        places.append(declare(ana, kind))
        others_work()
        metadata = {"name": places[-1].rpartition("/")[2], "labels": {"changed": "yes"}}
        body = {**EXAMPLES[kind], "metadata": metadata}
        lines.append(ana.put(places[-1], json=body, headers={"If-Match": "*"}))
    others_work()
    runs = [ana.post("/api/v1/jobs/ledger-vs-exports/runs") for _ in range(2)]
    run = str(runs[0].headers["Location"])
    others_work()
    house.clock.advance(timedelta(seconds=1))  # keys are listed by their age
    lines += [*runs, ana.post(f"{run}/cancel"), ana.post("/api/v1/keys", json={"name": "ci"})]
    for (method, template), _ in ROUTES:
        if method == "GET":
            ids = Ids(
                {kind: place.rpartition("/")[2] for kind, place in zip(Kind, places, strict=True)},
                run.rpartition("/")[2],
                "",
                NOBODYS.mail_id,
                NOBODYS.address,
            )
            lines.append(ana.get(ids.fill(template) + "?limit=1"))
            lines.append(ana.get(ids.fill(template)))
    lines.append(ana.get("/api/v1/events/stream?after=0"))
    events = house.store.committed(A_TENANT).outbox.values()
    return [
        *(OPAQUE.sub("…", f"{one.status_code} {dict(one.headers)} {one.text}") for one in lines),
        *(OPAQUE.sub("…", f"{one.row.headers} {one.row.data!r}") for one in events),
    ]


NUMBERS = count()


@pytest.mark.case("X04")
def test_what_a_tenant_sees_does_not_depend_on_the_activity_of_another() -> None:
    """Every route and every event: a global number anywhere would differ."""
    quiet, busy = visible_to_tenant(is_other_busy=False), visible_to_tenant(is_other_busy=True)
    assert len(quiet) > len(ROUTES)
    assert busy == quiet


@pytest.mark.case("X03")
def test_a_cursor_lasts_for_its_tenant_alone(neighbours: Neighbours) -> None:
    house = neighbours.house
    ana, bob = house.caller(), house.caller(B_TENANT)
    for name in ("a", "b"):
        declare(bob, name=name)
    cursor = bob.get("/api/v1/jobs?limit=1").json()["next"]
    assert bob.get(f"/api/v1/jobs?cursor={cursor}").status_code == 200
    refused = ana.get(f"/api/v1/jobs?cursor={cursor}")
    assert (refused.status_code, refused.json()["code"]) == (400, "DR4006")
    house.clock.advance(timedelta(hours=25))
    assert bob.get(f"/api/v1/jobs?cursor={cursor}").status_code == 400
