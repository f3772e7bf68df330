"""Use cases of declared objects, over the unit of work in memory."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.errors import ResourceExistsError
from datarecs_application.ports.state import Transaction
from datarecs_application.resources import (
    ANY,
    Applied,
    Key,
    Making,
    Outcome,
    apply_resource,
    create_resource,
    delete_resource,
    get_resource,
    observe_resource,
    replace_resource,
)
from datarecs_core.access.principal import Principal
from datarecs_core.hashing import JsonValue
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.refusals import (
    BeingDeletedError,
    FinalizerAddedError,
    PreconditionFailedError,
    ResourceNotFoundError,
)
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import TenantId
from datarecs_core.webhooks.signature import SECRET_FIELD, secret_context, secret_key
from datarecs_memory.store import MemoryStore, TenantState
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_testing.clock import FixedIds, ManualClock

KEEP = "example.com/keep"
FILES = Declared(
    kind=Kind.CONNECTION,
    name="files",
    labels={"team": "finance"},
    spec={"type": "files", "config": {"root": "data"}, "auth": {}},
    spec_hash="sha256:1",
)
MANAGED: dict[str, JsonValue] = {"mode": "managed", "secret_refs": []}
BY_REFERENCE: dict[str, JsonValue] = {"mode": "reference", "secret_refs": ["env:X"]}
HOOK = Declared(
    kind=Kind.WEBHOOK_ENDPOINT,
    name="erp",
    spec={"url": "https://erp.example.com", "signing": MANAGED},
    spec_hash="sha256:2",
)
FILES_KEY = Key(kind=Kind.CONNECTION, name="files")


def spec(root: str) -> Declared:
    return replace(FILES, spec={**FILES.spec, "config": {"root": root}}, spec_hash=root)


class Platform:
    """A store with one tenant, an editor of it, and what its commits left behind."""

    def __init__(self) -> None:
        self.clock, self.ids = ManualClock(), FixedIds()
        self.store = MemoryStore(self.clock, self.ids)
        self.tenant = self.store.create_tenant()
        self.unit = MemoryUnitOfWork(self.store)
        self.secrets = TenantSecrets(
            Secrets(), keyring=Keyring({"k1": bytes(32)}, current="k1"), environment={}
        )
        self.making = Making(ids=self.ids, secrets=self.secrets, random_bytes=self._bytes)
        self._issued = 0

    def _bytes(self, count: int) -> bytes:
        self._issued += 1
        return bytes([self._issued]) * count

    def actor(self, tenant: TenantId | None = None) -> Principal:
        return Principal(tenant_id=tenant or self.tenant, subject="ann", key_id="key1")

    @contextmanager
    def begin(self, tenant: TenantId | None = None) -> Iterator[Transaction]:
        with self.unit.begin(tenant or self.tenant, feed=1) as tx:
            yield tx

    def create(self, declared: Declared = FILES) -> Applied:
        with self.begin() as tx:
            return create_resource(tx, self.actor(), declared, making=self.making)

    def replace(self, declared: Declared, *, match: str = ANY) -> Applied:
        with self.begin() as tx:
            return replace_resource(tx, self.actor(), declared, match=match, making=self.making)

    @property
    def state(self) -> TenantState:
        return self.store.committed(self.tenant)

    def change_events(self) -> list[tuple[str, tuple[str, ...]]]:
        """Operation and changed parts of every record of the feed."""
        return [(change.op, change.changed) for change in self.state.changes]

    def events(self) -> list[str]:
        return [queued.row.type for queued in self.state.outbox.values()]

    def audited(self) -> list[str]:
        return [row.row.action for row in self.state.audit]

    def get(self, key: Key = FILES_KEY) -> Resource:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            return get_resource(tx, key)

    def live_secrets(self, resource: Resource) -> list[tuple[str, bytes]]:
        with self.begin() as tx:
            return tx.secrets.live(resource.uid, SECRET_FIELD)


@pytest.fixture
def platform() -> Platform:
    return Platform()


@pytest.mark.case("R01")
def test_a_create_leaves_one_record_one_event_and_one_audit_entry(platform: Platform) -> None:
    applied = platform.create()
    assert (applied.outcome, applied.resource.generation) == (Outcome.CREATED, 1)
    assert (platform.change_events(), platform.events(), platform.audited()) == (
        [("CREATED", ())],
        ["io.datarecs.resource.connection.created"],
        ["resource.create"],
    )


@pytest.mark.case("R01")
def test_a_name_is_taken_once_and_the_refusal_writes_nothing(platform: Platform) -> None:
    platform.create()
    with pytest.raises(ResourceExistsError):
        platform.create()
    assert (len(platform.change_events()), len(platform.events()), len(platform.audited())) == (
        1,
        1,
        1,
    )


@pytest.mark.case("R02")
def test_putting_the_same_again_changes_no_number_and_sends_no_event(platform: Platform) -> None:
    before = platform.create().resource
    applied = platform.replace(replace(FILES, spec=dict(reversed(list(FILES.spec.items())))))
    assert (applied.outcome, applied.resource) == (Outcome.UNCHANGED, before)
    assert (platform.change_events(), platform.audited()) == (
        [("CREATED", ())],
        ["resource.create"],
    )


@pytest.mark.case("R03")
def test_another_spec_is_an_update_of_the_next_generation(platform: Platform) -> None:
    before = platform.create().resource
    applied = platform.replace(spec("other"))
    assert (applied.outcome, applied.resource.generation) == (Outcome.CONFIGURED, 2)
    assert applied.resource.rv > before.rv
    assert platform.change_events()[1:] == [("UPDATED", ("spec",))]
    assert platform.events()[1:] == ["io.datarecs.resource.connection.updated"]


@pytest.mark.case("R04")
def test_a_status_is_recorded_without_an_actor(platform: Platform) -> None:
    stored = platform.create().resource
    with platform.begin() as tx:
        observe_resource(tx, stored.uid, {"phase": "Ready"}, observed_generation=1)
    after = platform.get()
    assert (after.status, after.generation, after.observed_generation) == ({"phase": "Ready"}, 1, 1)
    assert platform.change_events()[1:] == [("STATUS_UPDATED", ("status",))]
    assert platform.events()[1:] == ["io.datarecs.resource.connection.status_updated"]
    assert platform.audited() == ["resource.create"]


@pytest.mark.case("R23")
def test_an_identical_status_is_written_once(platform: Platform) -> None:
    stored = platform.create().resource
    for _ in range(100):
        with platform.begin() as tx:
            observe_resource(tx, stored.uid, {"phase": "Ready"}, observed_generation=1)
    assert len(platform.change_events()) == 2


@pytest.mark.case("R05")
@pytest.mark.parametrize(
    ("declared", "part"),
    [
        (replace(FILES, labels={}), "labels"),
        (replace(FILES, annotations={"a": "b"}), "annotations"),
        (replace(FILES, finalizers=(KEEP,)), "finalizers"),
    ],
)
def test_a_change_of_metadata_names_its_part(
    platform: Platform, declared: Declared, part: str
) -> None:
    platform.create()
    assert platform.replace(declared).resource.generation == 1
    assert platform.change_events()[1:] == [("UPDATED", (part,))]


@pytest.mark.case("R06")
def test_of_two_writers_with_one_version_the_second_is_refused(platform: Platform) -> None:
    read = platform.create().resource.etag
    first = platform.replace(spec("one"), match=read)
    with pytest.raises(PreconditionFailedError) as refused:
        platform.replace(spec("two"), match=read)
    assert refused.value.etag == first.resource.etag
    assert platform.get().spec_hash == "one"


@pytest.mark.case("R06")
def test_many_writers_who_read_again_lose_no_write(platform: Platform) -> None:
    """Each adds one to a counter, 20 writers, 25 times."""
    platform.create(replace(FILES, labels={"n": "0"}))

    def count() -> None:
        for _ in range(25):
            while True:
                seen = platform.get()
                declared = replace(FILES, labels={"n": str(int(seen.labels["n"]) + 1)})
                try:
                    platform.replace(declared, match=seen.etag)
                except PreconditionFailedError:
                    continue
                break

    writers = [threading.Thread(target=count) for _ in range(20)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert platform.get().labels == {"n": "500"}


@pytest.mark.case("R09")
def test_overwriting_any_version_is_audited_as_such(platform: Platform) -> None:
    stored = platform.create().resource
    platform.replace(spec("one"), match=stored.etag)
    platform.replace(spec("two"), match=ANY)
    assert platform.audited() == ["resource.create", "resource.replace", "resource.overwrite"]


def test_what_does_not_exist_is_neither_read_replaced_nor_deleted(platform: Platform) -> None:
    with pytest.raises(ResourceNotFoundError):
        platform.get()
    with pytest.raises(ResourceNotFoundError):
        platform.replace(FILES)
    with pytest.raises(ResourceNotFoundError), platform.begin() as tx:
        delete_resource(tx, platform.actor(), FILES_KEY, match=ANY)


def test_apply_creates_configures_or_leaves_alone(platform: Platform) -> None:
    outcomes = []
    for declared in (FILES, spec("other"), spec("other")):
        with platform.begin() as tx:
            applied = apply_resource(tx, platform.actor(), declared, making=platform.making)
        outcomes.append(applied.outcome)
    assert outcomes == [Outcome.CREATED, Outcome.CONFIGURED, Outcome.UNCHANGED]


@pytest.mark.case("R11")
def test_a_delete_without_finalizers_leaves_a_tombstone(platform: Platform) -> None:
    platform.create()
    with platform.begin() as tx:
        deleted = delete_resource(tx, platform.actor(), FILES_KEY, match=ANY)
    last = platform.state.changes[-1]
    assert (deleted.is_gone, last.op) == (True, "DELETED")
    assert last.resource is not None
    assert last.resource.spec == FILES.spec
    assert platform.events()[-1] == "io.datarecs.resource.connection.deleted"
    with pytest.raises(ResourceNotFoundError):
        platform.get()


@pytest.mark.case("R11")
def test_a_delete_with_a_finalizer_marks_and_the_name_stays_taken(platform: Platform) -> None:
    platform.create(replace(FILES, finalizers=(KEEP,)))
    with platform.begin() as tx:
        deleted = delete_resource(tx, platform.actor(), FILES_KEY, match=ANY)
    assert (deleted.is_gone, platform.get().deletion_at) == (False, platform.clock.now())
    with pytest.raises(BeingDeletedError):
        platform.create()
    with pytest.raises(FinalizerAddedError):
        platform.replace(replace(FILES, finalizers=(KEEP, "example.com/more")))
    with platform.begin() as tx:
        again = delete_resource(tx, platform.actor(), FILES_KEY, match=ANY)
    assert (again.is_gone, len(platform.change_events())) == (False, 2)


@pytest.mark.case("R11")
def test_taking_the_last_finalizer_away_lets_it_go(platform: Platform) -> None:
    platform.create(replace(FILES, finalizers=(KEEP,)))
    with platform.begin() as tx:
        delete_resource(tx, platform.actor(), FILES_KEY, match=ANY)
    assert platform.replace(FILES).is_gone
    assert [op for op, _ in platform.change_events()] == ["CREATED", "UPDATED", "DELETED"]


@pytest.mark.case("R12")
def test_a_recreated_object_is_another_one(platform: Platform) -> None:
    first = platform.create().resource
    with platform.begin() as tx:
        delete_resource(tx, platform.actor(), FILES_KEY, match=ANY)
    second = platform.create().resource
    assert [op for op, _ in platform.change_events()] == ["CREATED", "DELETED", "CREATED"]
    with platform.begin() as tx:
        assert observe_resource(tx, first.uid, {"x": 1}, observed_generation=1) is None
    with pytest.raises(PreconditionFailedError):
        platform.replace(spec("other"), match=first.etag)
    assert platform.get() == second


def test_a_delete_of_a_stale_version_is_refused(platform: Platform) -> None:
    stored = platform.create().resource
    platform.replace(spec("other"))
    with pytest.raises(PreconditionFailedError), platform.begin() as tx:
        delete_resource(tx, platform.actor(), FILES_KEY, match=stored.etag)


@pytest.mark.case("R71")
def test_another_tenant_sees_nothing(platform: Platform) -> None:
    platform.create()
    other = platform.store.create_tenant()
    with pytest.raises(ResourceNotFoundError), platform.begin(other) as tx:
        get_resource(tx, FILES_KEY)
    with pytest.raises(ResourceNotFoundError), platform.begin(other) as tx:
        delete_resource(tx, platform.actor(other), FILES_KEY, match=ANY)
    with platform.begin(other) as tx:
        made = create_resource(tx, platform.actor(other), FILES, making=platform.making)
    assert made.resource.tenant_id == other


def test_a_new_endpoint_gets_its_secret_once(platform: Platform) -> None:
    applied = platform.create(HOOK)
    assert applied.generated_secret is not None
    assert len(secret_key(applied.generated_secret)) == 32
    ((key_id, sealed),) = platform.live_secrets(applied.resource)
    context = secret_context(platform.tenant, applied.resource.uid, key_id)
    assert platform.secrets.open(sealed, context=context).decode() == applied.generated_secret
    assert platform.replace(replace(HOOK, labels={"a": "b"})).generated_secret is None


def test_an_endpoint_that_signs_by_reference_gets_none(platform: Platform) -> None:
    by_reference = replace(HOOK, spec={**HOOK.spec, "signing": BY_REFERENCE})
    applied = platform.create(by_reference)
    assert (applied.generated_secret, platform.live_secrets(applied.resource)) == (None, [])


def test_a_secret_comes_and_goes_with_managed_signing(platform: Platform) -> None:
    first = platform.create(HOOK)
    without = platform.replace(replace(HOOK, spec={**HOOK.spec, "signing": BY_REFERENCE}))
    assert (without.generated_secret, platform.live_secrets(first.resource)) == (None, [])
    again = platform.replace(HOOK)
    assert again.generated_secret not in {None, first.generated_secret}
    assert len(platform.live_secrets(first.resource)) == 1


def test_a_deleted_endpoint_leaves_no_secret(platform: Platform) -> None:
    platform.create(HOOK)
    with platform.begin() as tx:
        delete_resource(
            tx, platform.actor(), Key(kind=Kind.WEBHOOK_ENDPOINT, name="erp"), match=ANY
        )
    assert platform.state.secrets == {}


def test_the_secret_is_in_no_record_event_or_audit_entry(platform: Platform) -> None:
    secret = platform.create(HOOK).generated_secret
    assert secret is not None
    stored = f"{platform.state.changes}{platform.state.outbox}{platform.state.audit}"
    assert secret not in stored
    assert secret.removeprefix("whsec_") not in stored


def test_lists_are_newest_first(platform: Platform) -> None:
    for name in ("a", "b", "c"):
        platform.create(replace(FILES, name=name))
        platform.clock.advance(timedelta(seconds=1))
    with platform.unit.begin(platform.tenant, read_only=True) as tx:
        page = tx.resources.page(Kind.CONNECTION, limit=2)
    assert [one.name for one in page] == ["c", "b"]
