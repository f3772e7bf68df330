"""Conformance suites of Resources and SealedSecrets: compare-and-set, one change per write."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from threading import Event, Thread

import pytest

from datarecs_application.errors import ResourceExistsError
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.resources.selector import parse_selector
from datarecs_core.values import TenantId
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, a_resource
from datarecs_testing.conformance.stores import Stores, carry_out


def stored(stores: Stores, **changes: object) -> Resource:
    """A new resource with its change record."""
    tenant = TenantId(changes.get("tenant_id", A_TENANT))  # type: ignore[arg-type]  # a tenant
    with stores.api.unit.begin(tenant, feed=8) as tx:
        resource = a_resource(**{**changes, "rv": tx.next_rv()})
        tx.resources.add(resource)
        tx.resources.record_change(resource, op="CREATED", changed=["spec"], actor="u-1")
    return resource


def replaced(stores: Stores, resource: Resource, *, expected_rv: int, **changes: object) -> bool:
    """A compare-and-set in its own transaction, with the next feed number."""
    with stores.api.unit.begin(A_TENANT, feed=1) as tx:
        newer = replace(resource, **{**changes, "rv": tx.next_rv()})  # type: ignore[arg-type]  # any
        return tx.resources.replace(newer, expected_rv=expected_rv)


def current(stores: Stores, resource: Resource) -> Resource | None:
    with stores.api.unit.begin(resource.tenant_id, read_only=True) as tx:
        return tx.resources.get_by_uid(resource.uid)


class ResourcesConformance:
    @pytest.mark.case("R01")
    def test_a_new_resource_comes_back_whole(self, stores: Stores) -> None:
        resource = stored(
            stores,
            spec={"limit": Decimal("0.010"), "text": "größe", "list": [1, None, True]},
            labels={"team": "finance"},
            annotations={"note": "x"},
            finalizers=("datarecs.io/in-use",),
        )
        with stores.api.unit.begin(A_TENANT) as tx:
            by_name = tx.resources.get(resource.kind, resource.namespace, resource.name)
            locked = tx.resources.for_update(resource.kind, resource.namespace, resource.name)
        assert by_name == locked == current(stores, resource) == resource

    @pytest.mark.case("R01")
    def test_a_name_is_taken_once_and_nothing_is_written_twice(self, stores: Stores) -> None:
        resource = stored(stores, name="ledger")
        with pytest.raises(ResourceExistsError) as failure:
            stored(stores, name="ledger")
        assert failure.value.name == "ledger"
        assert current(stores, resource) == resource
        assert len(stores.api.finder.feed_after("resource", 0, 100)) == 1

    def test_names_are_separate_per_kind_and_namespace(self, stores: Stores) -> None:
        stored(stores, name="ledger")
        stored(stores, name="ledger", namespace="other")
        stored(stores, name="ledger", kind=Kind.RECONCILIATION_JOB)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.resources.get(Kind.WEBHOOK_ENDPOINT, "default", "ledger") is None

    def test_a_resource_is_added_only_to_its_tenant(self, stores: Stores) -> None:
        resource = a_resource(tenant_id=A_TENANT)
        with pytest.raises(ValueError, match="own tenant"):
            carry_out(stores.api.unit, B_TENANT, lambda tx: tx.resources.add(resource))

    @pytest.mark.case("R06")
    def test_of_two_writers_with_one_version_the_second_fails(self, stores: Stores) -> None:
        resource = stored(stores)
        first = replaced(stores, resource, expected_rv=resource.rv, spec={"n": 1})
        second = replaced(stores, resource, expected_rv=resource.rv, spec={"n": 2})
        after = current(stores, resource)
        assert (first, second) == (True, False)
        assert after is not None
        assert after.spec == {"n": 1}

    def test_a_version_never_moves_back(self, stores: Stores) -> None:
        resource = stored(stores)
        with stores.api.unit.begin(A_TENANT) as tx:
            older = replace(resource, rv=resource.rv - 1, spec={})
            assert not tx.resources.replace(older, expected_rv=resource.rv)

    @pytest.mark.case("R03")
    @pytest.mark.case("R05")
    def test_a_change_of_spec_and_metadata_leaves_the_status(self, stores: Stores) -> None:
        endpoint = stored(stores, kind=Kind.WEBHOOK_ENDPOINT)
        with stores.webhook.unit.begin(A_TENANT, feed=1) as tx:
            observed = replace(
                endpoint, rv=tx.next_rv(), status={"phase": "Active"}, observed_generation=1
            )
            assert tx.resources.replace(observed, expected_rv=endpoint.rv)
        changes = {
            "spec": {"n": 1},
            "generation": 2,
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "finalizers": ("datarecs.io/webhook-drain",),
            "deletion_at": NOON,
        }
        assert replaced(stores, observed, expected_rv=observed.rv, **changes)
        after = current(stores, endpoint)
        assert after is not None
        assert after == replace(observed, rv=after.rv, version=3, **changes)  # type: ignore[arg-type]  # any

    @pytest.mark.case("R06")
    def test_a_version_counts_the_writes_of_its_object_alone(self, stores: Stores) -> None:
        mine = stored(stores)
        for _ in range(3):
            stored(stores)
        versions = []
        for number in range(3):
            before = current(stores, mine)
            assert before is not None
            versions.append(before.version)
            assert replaced(stores, mine, expected_rv=before.rv, spec={"n": number})
        assert versions == [1, 2, 3]

    @pytest.mark.case("R04")
    def test_a_status_is_written_by_its_controller_alone(self, stores: Stores) -> None:
        endpoint = stored(stores, kind=Kind.WEBHOOK_ENDPOINT)
        with stores.webhook.unit.begin(A_TENANT, feed=1) as tx:
            observed = replace(endpoint, rv=tx.next_rv(), status={"phase": "Active"})
            assert tx.resources.replace(observed, expected_rv=endpoint.rv)
            tx.resources.record_change(
                observed, op="STATUS_UPDATED", changed=["status"], actor="webhook-service"
            )
        after = current(stores, endpoint)
        assert after == replace(observed, version=2)
        assert after.generation == endpoint.generation

    def test_a_vanished_resource_is_not_replaced(self, stores: Stores) -> None:
        assert not replaced(stores, a_resource(), expected_rv=1)

    @pytest.mark.case("R11")
    def test_a_removal_needs_the_current_version(self, stores: Stores) -> None:
        resource = stored(stores)
        with stores.api.unit.begin(A_TENANT, feed=1) as tx:
            assert not tx.resources.remove(resource, expected_rv=resource.rv - 1)
            last = replace(resource, rv=tx.next_rv())
            assert tx.resources.remove(last, expected_rv=resource.rv)
            tx.resources.record_change(last, op="DELETED", changed=[], actor="u-1")
        assert current(stores, resource) is None
        assert [rv for _, rv in stores.api.finder.feed_after("resource", 0, 9)] == [
            resource.rv,
            last.rv,
        ]

    def test_a_name_is_free_again_after_its_removal(self, stores: Stores) -> None:
        old = stored(stores, name="ledger")
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.resources.remove(old, expected_rv=old.rv)
        new = stored(stores, name="ledger")
        assert new.uid != old.uid
        assert not replaced(stores, old, expected_rv=old.rv)

    def test_users_of_a_connection_are_named_in_order(self, stores: Stores) -> None:
        for namespace, name, connection in (
            ("default", "b", "ledger"),
            ("team", "a", "ledger"),
            ("default", "a", "ledger"),
            ("default", "c", "other"),
        ):
            spec = {"sources": [{"connection": "files"}, {"connection": connection}]}
            stored(stores, kind=Kind.RECONCILIATION_JOB, namespace=namespace, name=name, spec=spec)
        stored(stores, kind=Kind.NOTIFICATION_RULE, spec={"sources": [{"connection": "ledger"}]})
        stored(stores, kind=Kind.NOTIFICATION_RULE, name="n", spec={"connection": "ledger"})
        stored(stores, kind=Kind.CAPTURE, name="z", spec={"connection": "ledger"})
        stored(stores, kind=Kind.CAPTURE, name="y", spec={"connection": "other"})
        sinks: dict[str, dict[str, object]] = {
            "s": {"connection": "topics", "tables": [{"catalog": "ledger"}]},
            "t": {"connection": "topics", "dynamic": {"catalog": "ledger"}},
            "u": {"connection": "topics", "dynamic": {"catalog": "other"}},
        }
        for name, declared in sinks.items():
            stored(stores, kind=Kind.SINK_TABLE, name=name, spec=declared)
        with stores.api.unit.begin(A_TENANT) as tx:
            users = tx.resources.users_of("ledger", limit=2)
            first = (Kind.CAPTURE, "default", "z"), (Kind.RECONCILIATION_JOB, "default", "a")
            assert users == (first, 6)
            assert tx.resources.users_of("nothing", limit=2) == ((), 0)
        with stores.api.unit.begin(B_TENANT) as tx:
            assert tx.resources.users_of("ledger", limit=2).total == 0

    def test_who_locks_a_connection_sees_every_job_that_held_it(self, stores: Stores) -> None:
        connection = stored(stores, kind=Kind.CONNECTION, name="ledger")
        counts, ended = list[int](), Event()

        def count() -> None:
            with stores.api.unit.begin(A_TENANT) as tx:
                tx.resources.for_update(Kind.CONNECTION, connection.namespace, "ledger")
                counts.append(tx.resources.users_of("ledger", limit=1).total)
            ended.set()

        with stores.api.unit.begin(A_TENANT, feed=1) as tx:
            tx.resources.hold(Kind.CONNECTION, connection.namespace, ["ledger", "nothing"])
            spec = {"sources": [{"connection": "ledger"}]}
            tx.resources.add(
                a_resource(kind=Kind.RECONCILIATION_JOB, name="late", spec=spec, rv=tx.next_rv())
            )
            other = Thread(target=count)
            other.start()
            assert not ended.wait(0.3)  # it waits for this transaction
        other.join(10)
        assert counts == [1]

    def test_resources_are_listed_newest_first_in_pages(self, stores: Stores) -> None:
        made = [stored(stores, created_at=NOON + timedelta(minutes=n)) for n in range(4)]
        stored(stores, kind=Kind.NOTIFICATION_RULE)
        stored(stores, namespace="other", created_at=NOON - timedelta(minutes=1))
        with stores.api.unit.begin(A_TENANT) as tx:
            first = tx.resources.page(Kind.CONNECTION, limit=3)
            cursor = (first[-1].created_at, first[-1].uid)
            rest = tx.resources.page(Kind.CONNECTION, before=cursor)
            other = tx.resources.page(Kind.CONNECTION, namespace="other")
        newest = [one.name for one in reversed(made)]
        assert [one.name for one in (*first, *rest)] == [*newest, other[0].name]
        assert len(other) == 1

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("", ["a", "b", "c"]),
            ("team=finance", ["a"]),
            ("team!=finance", ["b", "c"]),
            ("team in (finance, hr)", ["a", "b"]),
            ("team notin (finance, hr)", ["c"]),
            ("team", ["a", "b"]),
            ("!team", ["c"]),
            ("team,env=prod", ["a"]),
            ("example.com/tier=", ["b"]),
        ],
    )
    def test_a_list_may_be_limited_by_labels(
        self, stores: Stores, text: str, names: list[str]
    ) -> None:
        stored(stores, name="a", labels={"team": "finance", "env": "prod"})
        stored(stores, name="b", labels={"team": "hr", "example.com/tier": ""})
        stored(stores, name="c", labels={"env": "prod"})
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            page = tx.resources.page(Kind.CONNECTION, selector=parse_selector(text))
        assert sorted(one.name for one in page) == names


class SealedSecretsConformance:
    def test_who_may_read_gets_the_live_values_newest_first(self, stores: Stores) -> None:
        endpoint = stored(stores, kind=Kind.WEBHOOK_ENDPOINT)
        for key_id in ("k1", "k2"):
            with stores.api.unit.begin(A_TENANT) as tx:
                tx.secrets.put(endpoint.uid, "signing", key_id, key_id.encode())
            stores.pass_time(timedelta(seconds=1))
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert tx.secrets.live(endpoint.uid, "signing") == [("k2", b"k2"), ("k1", b"k1")]
            assert tx.secrets.live(endpoint.uid, "another") == []

    def test_erased_values_are_gone(self, stores: Stores) -> None:
        endpoint = stored(stores, kind=Kind.WEBHOOK_ENDPOINT)
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.secrets.put(endpoint.uid, "signing", "k1", b"sealed")
        for _ in range(2):
            with stores.api.unit.begin(A_TENANT) as tx:
                tx.secrets.erase(endpoint.uid)
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert tx.secrets.live(endpoint.uid, "signing") == []

    def test_values_go_with_their_resource(self, stores: Stores) -> None:
        endpoint = stored(stores, kind=Kind.WEBHOOK_ENDPOINT)
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.secrets.put(endpoint.uid, "signing", "k1", b"sealed")
            tx.resources.remove(endpoint, expected_rv=endpoint.rv)
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert tx.secrets.live(endpoint.uid, "signing") == []
