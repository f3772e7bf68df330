"""The catalogue over REST: objects, snapshots, statistics of one generation, keys and faults."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import pytest
from starlette.testclient import TestClient

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.entities import Entities
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.indexes import Indexes
from datarecs_application.catalogue.pointer_store import PointerStore
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_application.catalogue.tables import Tables
from datarecs_core.access.permissions import Role
from datarecs_core.catalog import layout
from datarecs_core.catalog.records import Account, Catalog, Connector, Namespace, Table, View
from datarecs_core.values import RunId, TenantId
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.catalogue import (
    DAWN,
    a_catalog,
    a_namespace,
    a_snapshot,
    a_table,
    a_view,
    an_account,
    constraints,
    file_stats,
    target_stats,
)
from datarecs_testing.conformance.catalogue import a_connector
from datarecs_testing.conformance.catalogue_generations import RESCAN, publication
from datarecs_testing.conformance.catalogue_indexes import CONTENT, a_failed_index, an_index

ROOT = "/api/v1/catalog"


@dataclass(frozen=True)
class Lake:
    """A catalogue with everything in it."""

    house: MemoryApiHouse
    account: CatalogueAccount
    catalog: Catalog
    namespace: Namespace
    table: Table
    view: View
    connector: Connector

    @property
    def place(self) -> str:
        return f"{ROOT}/tables/{self.table.id}"


def account_of(house: MemoryApiHouse, tenant: TenantId = A_TENANT) -> CatalogueAccount:
    return CatalogueAccount(
        tenant=tenant,
        pointers=PointerStore(unit=house.unit, tenant=tenant),
        blobs=house.blobs.of(tenant),
        clock=house.clock,
    )


@pytest.fixture
def lake() -> Lake:
    house = memory_api()
    account = account_of(house)
    Entities(account, Account).create(an_account())
    catalog = Entities(account, Catalog).create(a_catalog()).record
    namespaces = Entities(account, Namespace)
    namespace = namespaces.create(a_namespace(catalog.id, "sales.eu")).record
    namespaces.create(a_namespace(catalog.id, "sales.eu", "old", parent_id=namespace.id))
    table = Tables(account).create(a_table(namespace)).record
    view = Entities(account, View).create(a_view(namespace, name="open_orders")).record
    connector = Entities(account, Connector).create(a_connector()).record
    snapshots, statistics = Snapshots(account), Statistics(account)
    for number in (1, 2):
        snapshots.ingest(a_snapshot(table, number, hours=number), is_current=number == 1)
    statistics.put_files([file_stats(table, 1, f"part-{n}", rows=1) for n in range(3)])
    column = file_stats(table, 1, "x").columns[0]
    statistics.put_targets(
        [target_stats(table, 1), target_stats(table, 1, target_id="column-1", scalar=column)]
    )
    statistics.put_constraints(constraints(table, 1, "id"))
    Indexes(account).put_content(table.id, 1, "file-0", CONTENT)
    Indexes(account).put([an_index(table), a_failed_index(table)])
    Generations(account).publish(publication(table))
    return Lake(house, account, catalog, namespace, table, view, connector)


@pytest.fixture
def client(lake: Lake) -> TestClient:
    return lake.house.caller()


def answer(client: TestClient, path: str, **query: str) -> Mapping[str, object]:
    response = client.get(path, params=query)
    assert response.status_code == 200, response.text
    body: Mapping[str, object] = response.json()
    return body


def listed(client: TestClient, path: str, **query: str) -> list[Mapping[str, object]]:
    items = answer(client, path, **query)["items"]
    assert isinstance(items, list)
    return items


def names(client: TestClient, path: str, field: str = "name", **query: str) -> list[object]:
    records = [one["record"] for one in listed(client, path, **query)]
    return [one[field] for one in records if isinstance(one, dict)]


def test_objects_are_listed_by_name_and_read_by_id(lake: Lake, client: TestClient) -> None:
    catalog, namespace = lake.catalog.id, lake.namespace.id
    assert names(client, f"{ROOT}/catalogs") == ["lake"]
    inner = [["sales.eu"], ["sales.eu", "old"]]
    assert names(client, f"{ROOT}/catalogs/{catalog}/namespaces", "path") == inner
    below = names(client, f"{ROOT}/catalogs/{catalog}/namespaces", "path", prefix='"sales.eu"')
    assert below == inner[1:]
    assert names(client, f"{ROOT}/namespaces/{namespace}/tables") == ["orders"]
    assert names(client, f"{ROOT}/namespaces/{namespace}/views") == ["open_orders"]
    assert names(client, f"{ROOT}/connectors") == ["ledger"]
    objects = {
        "catalogs": ("Catalog", catalog),
        "namespaces": ("Namespace", namespace),
        "tables": ("Table", lake.table.id),
        "views": ("View", lake.view.id),
        "connectors": ("Connector", lake.connector.id),
    }
    for path, (kind, uid) in objects.items():
        one = answer(client, f"{ROOT}/{path}/{uid}")
        assert (one["kind"], one["pointer_version"]) == (kind, 1)
        content = one["record"]
        assert isinstance(content, dict)
        assert content["id"] == str(uid)


def test_a_name_is_resolved_to_its_object(lake: Lake, client: TestClient) -> None:
    objects = {
        "lake": ("catalog", lake.catalog.id),
        'lake."sales.eu"': ("namespace", lake.namespace.id),
        'lake."sales.eu".orders': ("table", lake.table.id),
        '"lake"."sales.eu"."open_orders"': ("view", lake.view.id),
    }
    for name, (kind, uid) in objects.items():
        assert answer(client, f"{ROOT}/resolve", name=name) == {"kind": kind, "id": str(uid)}
    for name in ("nowhere", "lake.sales.eu.orders", 'lake."sales.eu".nothing', "nowhere.a.b"):
        assert client.get(f"{ROOT}/resolve", params={"name": name}).status_code == 404
    for name in ("a..b", '"open', ""):
        assert client.get(f"{ROOT}/resolve", params={"name": name}).status_code == 422


@pytest.mark.case("S55")
def test_a_known_version_is_not_sent_again(lake: Lake, client: TestClient) -> None:
    paths = [
        lake.place,
        f"{lake.place}/root",
        f"{lake.place}/snapshots/current",
        f"{lake.place}/snapshots/1",
        f"{lake.place}/snapshots/1/constraints",
        f"{lake.place}/snapshots/1/stats/table",
        f"{lake.place}/snapshots/1/index-artifacts/file-0/content",
    ]
    for path in paths:
        first = client.get(path)
        assert first.status_code == 200, path
        again = client.get(path, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
    Tables(lake.account).update(a_table(lake.namespace, id=lake.table.id), expected_version=1)
    etag = client.get(lake.place).headers["ETag"]
    renamed = a_table(lake.namespace, id=lake.table.id, description="new")
    Tables(lake.account).update(renamed, expected_version=1)
    assert client.get(lake.place, headers={"If-None-Match": etag}).status_code == 200


@pytest.mark.case("S33")
def test_snapshots_are_listed_newest_first_and_read_as_of_a_time(
    lake: Lake, client: TestClient
) -> None:
    place = f"{lake.place}/snapshots"
    assert names(client, place, "snapshot_id") == ["2", "1"]

    def current(**query: str) -> object:
        content = answer(client, f"{place}/current", **query)["record"]
        assert isinstance(content, dict)
        return content["snapshot_id"]

    assert current() == "1"
    assert current(as_of=(DAWN + timedelta(hours=3)).isoformat()) == "2"
    assert current(as_of=(DAWN + timedelta(hours=1.5)).isoformat()) == "1"
    early = client.get(f"{place}/current", params={"as_of": DAWN.isoformat()})
    assert early.status_code == 404
    for ancient in (
        *("1970-01-01T00:00:00Z", "1969-12-31T00:00:00Z", "1900-01-01T00:00:00Z"),
        *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "1970-01-01T00:00:00+14:00"),
    ):
        answered = client.get(f"{place}/current", params={"as_of": ancient})
        assert answered.status_code == 404, ancient
    for later in ("2096-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"):
        answered = client.get(f"{place}/current", params={"as_of": later})
        assert (answered.status_code, "still to come" in answered.text) == (422, True), later
    precise = client.get(f"{place}/current", params={"as_of": "2026-01-31T12:00:00.123456789Z"})
    assert (precise.status_code, "at most six digits" in precise.text) == (422, True)
    assert client.get(f"{place}/current", params={"as_of": "yesterday"}).status_code == 422
    for unknown in ("3", "01", "x", "9" * 20):
        assert client.get(f"{place}/{unknown}").status_code == 404


def test_the_status_of_a_capture_is_that_of_its_publication(lake: Lake, client: TestClient) -> None:
    status = answer(client, f"{lake.place}/snapshots/1/capture-status")
    assert (status["state"], status["generation"]) == ("FINALIZED", "1")
    assert answer(client, f"{lake.place}/snapshots/2/capture-status")["state"] == "PENDING"
    assert client.get(f"{lake.place}/snapshots/2/stats").status_code == 404


def test_constraints_indexes_and_history_are_read(lake: Lake, client: TestClient) -> None:
    place = f"{lake.place}/snapshots/1"
    constraint = answer(client, f"{place}/constraints")["record"]
    assert isinstance(constraint, dict)
    assert constraint["constraints"][0]["type"] == "NOT_NULL"
    assert names(client, f"{place}/index-artifacts", "state") == ["READY", "FAILED"]
    content = client.get(f"{place}/index-artifacts/file-0/content")
    assert content.content == CONTENT
    assert client.get(f"{place}/index-artifacts/file-1/content").status_code == 404
    assert client.get(f"{lake.place}/snapshots/2/constraints").status_code == 404
    versions = listed(client, f"{lake.place}/history")
    assert [one["root_version"] for one in versions] == [3, 2, 1]
    assert [one["current_snapshot_id"] for one in versions] == ["1", "1", None]


@pytest.mark.case("S55")
def test_a_cursor_stays_in_its_generation_when_another_one_is_published(
    lake: Lake, client: TestClient
) -> None:
    place = f"{lake.place}/snapshots/1"
    first = {path: answer(client, f"{place}/{path}", limit="1") for path in ("files", "stats")}
    Generations(lake.account).begin_draft(lake.table.id, 1, RESCAN)
    records = [file_stats(lake.table, 1, f"part-{n}", rows=2) for n in range(3)]
    Statistics(lake.account).put_files(records, RESCAN)
    Generations(lake.account).publish(publication(lake.table, generation=RESCAN))
    rows = []
    page = first["files"]
    while page["next"] is not None:
        page = answer(client, f"{place}/files", limit="1", cursor=str(page["next"]))
        assert page["generation"] == "base"
        assert isinstance(page["items"], list)
        rows += [one["rows"] for one in page["items"]]
    assert rows == [1, 1]
    page = answer(client, f"{place}/stats", limit="1", cursor=str(first["stats"]["next"]))
    assert (page["generation"], page["next"]) == ("base", None)
    fresh = answer(client, f"{place}/files")
    assert (fresh["generation"], fresh["number"]) == (RESCAN, "2")
    for path in ("stats", "index-artifacts"):
        other = client.get(f"{place}/{path}", params={"cursor": str(first["files"]["next"])})
        assert (other.status_code, other.json()["code"]) == (400, "DR4006")


def test_lists_have_pages(lake: Lake, client: TestClient) -> None:
    for number in range(5):
        Tables(lake.account).create(a_table(lake.namespace, name=f"t{number}"))
    path = f"{ROOT}/namespaces/{lake.namespace.id}/tables"
    seen, query = [], {"limit": "2"}
    for _ in range(3):
        page = answer(client, path, **query)
        seen += [one["record"]["name"] for one in page["items"]]  # type: ignore[attr-defined]  # JSON
        query["cursor"] = str(page["next"])
    assert seen == ["orders", *(f"t{number}" for number in range(5))]
    assert query["cursor"] == "None"


@pytest.mark.case("X15")
def test_values_of_a_source_are_shown_and_audited_only_with_their_permission(
    lake: Lake, client: TestClient
) -> None:
    viewer = lake.house.caller(A_TENANT, Role.VIEWER)
    path = f"{lake.place}/snapshots/1/stats/column-1"

    def bounds(caller: TestClient) -> tuple[object, object]:
        content = answer(caller, path)["record"]
        assert isinstance(content, dict)
        scalar = content["scalar"]
        return scalar["min"], scalar["max"]

    assert bounds(viewer) == (None, None)
    assert "sample.read" not in _audited(lake)
    assert bounds(client) == ("-0", "17")
    assert _audited(lake)[-1] == "sample.read"
    for part in ("stats", "files"):
        text = viewer.get(f"{lake.place}/snapshots/1/{part}").text
        assert '"17"' not in text
    key = layout.file_stats(A_TENANT, lake.table.id, 1, "part-0")
    assert '"17"' not in viewer.get(f"{ROOT}/record", params={"key": key}).text
    assert '"17"' in client.get(f"{ROOT}/record", params={"key": key}).text
    content = f"{lake.place}/snapshots/1/index-artifacts/file-0/content"
    assert viewer.get(content).status_code == 403


def test_pointers_and_records_are_read_by_key(lake: Lake, client: TestClient) -> None:
    keys = [str(one["key"]) for one in listed(client, f"{ROOT}/pointers", prefix="catalogs/by-id")]
    assert keys == [layout.catalog_by_id(A_TENANT, lake.catalog.id)]
    everything = listed(client, f"{ROOT}/pointers", limit="200")
    assert {str(one["key"]).split("/")[3] for one in everything} == {
        *("catalogs", "connectors", "namespaces", "tables", "views")
    }
    relative = f"catalogs/by-id/{lake.catalog.id}"
    entry = answer(client, f"{ROOT}/record", key=relative)
    assert entry["kind"] == "Catalog"
    pointer = entry["pointer"]
    assert isinstance(pointer, dict)
    blob = answer(client, f"{ROOT}/record", key=pointer["blob_key"])
    assert blob["pointer"] is None
    assert blob["record"] == entry["record"]
    assert (
        answer(client, f"{ROOT}/record", key="catalogs/by-name/lake")["record"] == (entry["record"])
    )


def test_every_name_is_followed_to_its_object(lake: Lake, client: TestClient) -> None:
    pointers = listed(client, f"{ROOT}/pointers", limit="200")
    keys = [str(one["key"]) for one in pointers if "/by-name/" in f"{one['key']}"]
    keys += [str(one["key"]) for one in pointers if "/by-path/" in f"{one['key']}"]
    kinds = set()
    for key in keys:
        entry = answer(client, f"{ROOT}/record", key=key)
        pointer, content = entry["pointer"], entry["record"]
        assert isinstance(pointer, dict)
        assert isinstance(content, dict), key
        assert pointer["key"] == key
        assert pointer["resource_id"] in content.values(), key
        kinds.add(entry["kind"])
    assert kinds == {"Catalog", "Namespace", "Table", "View", "Connector"}
    marker = layout.catalog_children(A_TENANT, lake.catalog.id)
    assert answer(client, f"{ROOT}/record", key=marker)["record"] is None


def test_keys_of_runs_of_others_and_unreadable_ones_are_unknown(
    lake: Lake, client: TestClient
) -> None:
    run = layout.run_document(A_TENANT, RunId(an_id()))
    lake.account.blobs.put(run, b"{}")
    sidecar = layout.sidecar_blob(A_TENANT, lake.table.id, 1, "file-0", "a" * 64)
    theirs = f"/accounts/{B_TENANT}/catalogs/by-name/lake"
    unknown = ("catalogs/by-name/x", "..", f"accounts/{B_TENANT}/catalogs/x.pb")
    for key in (run, sidecar, theirs, *unknown):
        assert client.get(f"{ROOT}/record", params={"key": key}).status_code == 404
    for prefix in (f"/accounts/{B_TENANT}/", "a b"):
        refused = client.get(f"{ROOT}/pointers", params={"prefix": prefix})
        assert refused.status_code == 422


@pytest.mark.case("S55")
@pytest.mark.case("X01")
def test_an_object_of_another_tenant_does_not_exist(lake: Lake) -> None:
    bob = lake.house.caller(B_TENANT)
    table = f"tables/{lake.table.id}"
    for path in (table, f"{table}/snapshots", f"{table}/root", f"{table}/snapshots/1/stats"):
        assert bob.get(f"{ROOT}/{path}").status_code == 404
    assert listed(bob, f"{ROOT}/catalogs") == []
    assert listed(bob, f"{ROOT}/pointers") == []
    assert bob.get(f"{ROOT}/resolve", params={"name": "lake"}).status_code == 404


@pytest.mark.case("S18")
def test_damaged_records_are_named_with_their_pointers(lake: Lake, client: TestClient) -> None:
    assert _faults(client) == {}
    by_id = layout.table_by_id(A_TENANT, lake.table.id)
    root = layout.current_root(A_TENANT, lake.table.id)
    index = layout.index(A_TENANT, lake.table.id, 1, "file-0")
    blob = lake.account.pointers.get_many([by_id, root])[by_id].blob_key
    assert blob is not None
    lake.account.blobs.put(blob, lake.account.blobs.get(blob)[:-1] + b"?")
    sidecar = an_index(lake.table).blob_key
    assert sidecar is not None
    lake.account.blobs.delete(sidecar)
    assert _faults(client) == {
        by_id: ("BLOB_CORRUPT", blob),
        index: ("CATALOGUE_INCONSISTENT", sidecar),
    }
    assert _faults(client, table_id=str(lake.table.id)) == _faults(client)
    other = client.get(f"{ROOT}/faults", params={"table_id": str(an_id())})
    assert other.status_code == 404
    damaged = client.get(lake.place)
    assert (damaged.status_code, damaged.json()["reason"]) == (500, "BLOB_CORRUPT")


@pytest.mark.case("S38")
def test_a_missing_manifest_is_a_fault_and_no_other_generation_is_shown(
    lake: Lake, client: TestClient
) -> None:
    active = Generations(lake.account).active(lake.table.id, 1)
    assert active is not None
    lake.account.blobs.delete(active.manifest)
    refused = client.get(f"{lake.place}/snapshots/1/stats")
    assert (refused.status_code, refused.json()["reason"]) == (500, "CATALOGUE_INCONSISTENT")
    assert layout.active_targets(A_TENANT, lake.table.id, 1) in _faults(client)


def _faults(client: TestClient, **query: str) -> dict[str, tuple[str, str]]:
    """Of all pages, of three pointers each."""
    faults: dict[str, tuple[str, str]] = {}
    cursor: dict[str, str] = {}
    while True:
        page = answer(client, f"{ROOT}/faults", limit="3", **query, **cursor)
        items = page["items"]
        assert isinstance(items, list)
        faults |= {one["pointer"]: (one["code"], one["blob_key"]) for one in items}
        if page["next"] is None:
            return faults
        cursor = {"cursor": str(page["next"])}


def _audited(lake: Lake) -> list[str]:
    return [one.row.action for one in lake.house.store.committed(A_TENANT).audit]
