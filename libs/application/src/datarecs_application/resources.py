"""Use cases of declared objects: create, replace, apply, delete, read.

Each works inside the caller's transaction, begun with `feed=1` or more, so that row, change record,
event, audit entry and the route's idempotency key share one commit. Rules are in core.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from datarecs_application.capturing.declared_jobs import cancel_captures
from datarecs_application.errors import ResourceExistsError
from datarecs_application.ports.outside import Ids, SecretStore
from datarecs_application.ports.resources import ConnectionUsers
from datarecs_application.ports.state import AuditEntry, Transaction
from datarecs_application.webhook_consent import claim_soon
from datarecs_core.access.principal import Principal
from datarecs_core.errors.security import QuotaExceededError
from datarecs_core.resources import changes
from datarecs_core.resources.changes import Write
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.reconciling import DRAIN_SINK, IN_USE, RECONCILED, SKIP_DRAIN
from datarecs_core.resources.refusals import (
    BeingDeletedError,
    PreconditionFailedError,
    ResourceNotFoundError,
    WriteConflictError,
)
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.endpoint import DRAIN
from datarecs_core.webhooks.signature import (
    GENERATED_BYTES,
    SECRET_FIELD,
    new_secret,
    secret_context,
)

ANY: Final = "*"
"""If-Match that overwrites any version; audited as such."""
_KEY_ID_BYTES = 9
NAMED_USERS = 10
"""Users of a connection named by a deletion that waits; further ones are only counted."""


class Outcome(StrEnum):
    """What became of a declaration, as the command line prints it."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Which object: names are unique per tenant, kind and namespace."""

    kind: Kind
    name: str
    namespace: str = DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What a new object needs from outside."""

    ids: Ids
    secrets: SecretStore
    random_bytes: Callable[[int], bytes]
    """From the system's secure source."""
    most: Mapping[Kind, int] = field(default_factory=dict)
    """How many objects of a kind the tenant may have; a kind that is not named has no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    resource: Resource
    outcome: Outcome
    generated_secret: str | None = None
    """A new endpoint's signing secret. Shown once, here, and never readable again."""
    is_gone: bool = False
    """The last finalizer of a dying object was removed by this write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    resource: Resource
    """As it last stood, or marked while its finalizers remain."""
    is_gone: bool


def get_resource(tx: Transaction, key: Key) -> Resource:
    """Raises ResourceNotFoundError, also for another tenant's object."""
    resource = tx.resources.get(key.kind, key.namespace, key.name)
    if resource is None:
        raise ResourceNotFoundError(kind=key.kind, namespace=key.namespace, name=key.name)
    return resource


def create_resource(
    tx: Transaction, actor: Principal, declared: Declared, *, making: Making
) -> Applied:
    """Create an object; an endpoint with managed signing gets a secret.

    Raises:
        ResourceExistsError: the name is taken.
        BeingDeletedError: an object with unfinished finalizers has it.
        QuotaExceededError: the tenant has reached its limit for the kind.
    """
    stored = tx.resources.for_update(declared.kind, declared.namespace, declared.name)
    if stored is not None:
        if stored.deletion_at is not None:
            raise BeingDeletedError(resource=stored)
        raise ResourceExistsError(kind=stored.kind, namespace=stored.namespace, name=stored.name)
    most = making.most.get(declared.kind)
    if most is not None and tx.quotas.resources(declared.kind) >= most:
        raise QuotaExceededError(what=f"objects of kind {declared.kind}", most=most)
    uid = ResourceUid(making.ids.new())
    write = changes.create(declared, tenant_id=tx.tenant_id, uid=uid, rv=tx.next_rv(), now=tx.now)
    used = _hold_connections(tx, write.resource)
    tx.resources.add(write.resource)
    _report_write(tx, actor, write, "resource.create")
    secret = _signing_secret(tx, write.resource, making)
    _act_soon(tx, write.resource)
    _finalize_unused(tx, used)
    return Applied(resource=write.resource, outcome=Outcome.CREATED, generated_secret=secret)


def replace_resource(
    tx: Transaction, actor: Principal, declared: Declared, *, match: str, making: Making
) -> Applied:
    """Replace spec, labels, annotations and finalizers with the declared ones.

    An equal declaration writes nothing and changes no number. Repeatable with `match=ANY`. An
    endpoint gets a secret when its signing becomes managed, and loses it when that ends.

    Args:
        tx: begun with `feed=1` or more.
        actor: who requests it.
        declared: the whole object.
        match: the ETag the caller read, with its quotes, or ANY.
        making: as for a new object.

    Raises:
        ResourceNotFoundError: there is nothing to replace.
        PreconditionFailedError: another write came first.
        FinalizerAddedError: the object is being deleted.
    """
    stored = _locked(tx, Key(kind=declared.kind, name=declared.name, namespace=declared.namespace))
    _check(stored, match)
    write = changes.declare(stored, declared, rv=tx.next_rv(), now=tx.now)
    if write is None:
        return Applied(resource=stored, outcome=Outcome.UNCHANGED)
    used = _hold_connections(tx, stored, write.resource)
    _store(tx, write, stored)
    action = "resource.overwrite" if match == ANY else "resource.replace"
    _report_write(tx, actor, write, action)
    if not write.is_gone:
        _act_soon(tx, write.resource)
    else:
        _reconcile_users(tx, write.resource)
    _finalize_unused(tx, used)
    return Applied(
        resource=write.resource,
        outcome=Outcome.CONFIGURED,
        generated_secret=_signing_changed(tx, stored, write, making),
        is_gone=write.is_gone,
    )


def apply_resource(
    tx: Transaction, actor: Principal, declared: Declared, *, making: Making
) -> Applied:
    """Create the object, or replace any version of it with the declared one."""
    stored = tx.resources.for_update(declared.kind, declared.namespace, declared.name)
    if stored is None:
        return create_resource(tx, actor, declared, making=making)
    return replace_resource(tx, actor, declared, match=ANY, making=making)


def delete_resource(tx: Transaction, actor: Principal, key: Key, *, match: str) -> Deleted:
    """Delete the object with its sealed secrets, or mark it while finalizers remain.

    A connection that jobs, captures or sinks name remains until the last of them is gone. The
    running job of a Capture is cancelled. A SinkTable remains until its last commit.

    Raises:
        ResourceNotFoundError: there is no such object.
        PreconditionFailedError: another write came first.
    """
    stored = _locked(tx, key)
    _check(stored, match)
    used = _hold_connections(tx, stored)
    held_by = _held_by(tx, stored)
    write = changes.delete(stored, rv=tx.next_rv(), now=tx.now, held_by=held_by)
    if write is None:
        return Deleted(resource=stored, is_gone=False)
    _store(tx, write, stored)
    _report_write(tx, actor, write, "resource.delete")
    cancel_captures(tx, stored, by=actor.subject)
    if not write.is_gone:
        _act_soon(tx, write.resource)
    else:
        _reconcile_users(tx, write.resource)
    _finalize_unused(tx, used)
    return Deleted(resource=write.resource, is_gone=write.is_gone)


def _held_by(tx: Transaction, stored: Resource) -> tuple[str, ...]:
    """An endpoint stays while deliveries are open, a connection while users of it are there.

    A sink stays until its controller has seen its last commit, or that it never began.
    """
    if stored.kind is Kind.SINK_TABLE:
        is_first = stored.deletion_at is None and stored.annotations.get(SKIP_DRAIN) != "true"
        return (DRAIN_SINK,) if is_first else ()
    if stored.kind is Kind.CONNECTION:
        return (IN_USE,) if users_of(tx, stored).total else ()
    if stored.kind is not Kind.WEBHOOK_ENDPOINT or stored.deletion_at is not None:
        return ()
    left = tx.deliveries.waiting(stored.uid)
    if left.first_due is None and not left.leased:
        return ()
    tx.deliveries.states([stored.uid])
    tx.deliveries.hasten([stored.uid])
    return (DRAIN,)


def annotate_resource(
    tx: Transaction,
    actor: Principal,
    key: Key,
    *,
    set_to: Mapping[str, str | None],
    action: str,
) -> Resource:
    """Set annotations of a stored object, or remove those with the value None; audited as `action`.

    Raises:
        ResourceNotFoundError: there is no such object.
    """
    stored = _locked(tx, key)
    annotations = {**stored.annotations, **set_to}
    declared = Declared(
        kind=stored.kind,
        name=stored.name,
        namespace=stored.namespace,
        labels=stored.labels,
        annotations={name: value for name, value in annotations.items() if value is not None},
        finalizers=stored.finalizers,
        spec=stored.spec,  # type: ignore[arg-type]  # stored as JSON
        spec_hash=stored.spec_hash,
    )
    write = changes.declare(stored, declared, rv=tx.next_rv(), now=tx.now)
    if write is None:
        return stored
    _store(tx, write, stored)
    _report_write(tx, actor, write, action)
    _act_soon(tx, write.resource)
    return write.resource


def release_resource(
    tx: Transaction, uid: ResourceUid, finalizer: str, *, actor: str
) -> Write | None:
    """Take a finalizer away; the object goes with its last one, and its sealed secrets with it.

    Called by the controller that the finalizer belongs to. Safe to repeat; None: nothing was taken.
    """
    stored = tx.resources.get_by_uid(uid)
    locked = stored and tx.resources.for_update(stored.kind, stored.namespace, stored.name)
    if locked is None or locked.uid != uid:
        return None
    write = changes.release(locked, finalizer, rv=tx.next_rv(), now=tx.now)
    if write is not None:
        used = _hold_connections(tx, locked) if write.is_gone else ()
        _store(tx, write, locked)
        _announce(tx, write, actor=actor)
        _finalize_unused(tx, used)
    return write


def observe_resource(
    tx: Transaction, uid: ResourceUid, status: Mapping[str, object], *, observed_generation: int
) -> Resource | None:
    """Write the status that the kind's controller observed; None when the object is deleted.

    Called only by the kind's controller; no audit entry, since no person requested it.
    """
    stored = tx.resources.get_by_uid(uid)
    locked = stored and tx.resources.for_update(stored.kind, stored.namespace, stored.name)
    if locked is None or locked.uid != uid:
        return None
    return observe_locked(tx, locked, status, observed_generation=observed_generation)


def observe_locked(
    tx: Transaction, locked: Resource, status: Mapping[str, object], *, observed_generation: int
) -> Resource:
    """The same for an object that this transaction has locked."""
    write = changes.observe(
        locked,
        status,
        observed_generation=observed_generation,
        rv=tx.next_rv(),
        now=tx.now,
    )
    if write is None:
        return locked
    _store(tx, write, locked)
    _announce(tx, write, actor=f"controller/{locked.kind}")
    return write.resource


def _locked(tx: Transaction, key: Key) -> Resource:
    stored = tx.resources.for_update(key.kind, key.namespace, key.name)
    if stored is None:
        raise ResourceNotFoundError(kind=key.kind, namespace=key.namespace, name=key.name)
    return stored


def _check(stored: Resource, match: str) -> None:
    if match not in {ANY, stored.etag}:
        raise PreconditionFailedError(resource=stored)


def users_of(tx: Transaction, connection: Resource) -> ConnectionUsers:
    """Users of every namespace find their connections in the default one."""
    if connection.namespace != DEFAULT_NAMESPACE:
        return ConnectionUsers(first=(), total=0)
    return tx.resources.users_of(connection.name, limit=NAMED_USERS)


def _hold_connections(tx: Transaction, *versions: Resource) -> tuple[str, ...]:
    """A change of a user of connections and their deletion are serialized; their names."""
    names: set[str] = set()
    for one in versions:
        if one.kind in {Kind.CAPTURE, Kind.SINK_TABLE}:
            names.add(str(one.spec["connection"]))
        if one.kind is Kind.SINK_TABLE:
            names |= _references(one.spec.get("tables"), "catalog")
            names |= _references([one.spec.get("dynamic")], "catalog")
        if one.kind is Kind.RECONCILIATION_JOB:
            names |= _references(one.spec.get("sources"), "connection")
    tx.resources.hold(Kind.CONNECTION, DEFAULT_NAMESPACE, sorted(names))
    return tuple(sorted(names))


def _references(parts: object, member: str) -> set[str]:
    """The names of connections in a list of sources or tables."""
    if not isinstance(parts, list | tuple):
        return set()
    names = {one.get(member) for one in parts if isinstance(one, Mapping)}
    return {name for name in names if isinstance(name, str)}


def _finalize_unused(tx: Transaction, names: Sequence[str]) -> None:
    """Connections that wait for their last user are due after a change of one."""
    for name in names:
        connection = tx.resources.get(Kind.CONNECTION, DEFAULT_NAMESPACE, name)
        if connection is not None and connection.deletion_at is not None:
            tx.resource_work.reconcile_soon(connection.uid, connection.kind)


def _act_soon(tx: Transaction, resource: Resource) -> None:
    """Make a new declaration due for the service that carries it out."""
    claim_soon(tx, resource)
    if resource.kind is Kind.SCHEDULE:
        tx.schedules.decide_soon(resource.uid)
    if resource.kind is Kind.RETENTION_POLICY:
        tx.retention.sweep_soon(resource.uid)
    if resource.kind in RECONCILED:
        tx.resource_work.reconcile_soon(resource.uid, resource.kind)
    _reconcile_users(tx, resource)


def _reconcile_users(tx: Transaction, resource: Resource) -> None:
    """Users report whether their connections exist: those of a changed connection are due."""
    if resource.kind is Kind.CONNECTION and resource.namespace == DEFAULT_NAMESPACE:
        tx.resource_work.reconcile_users_of(resource.name)


def _store(tx: Transaction, write: Write, before: Resource) -> None:
    """Under the row lock the compare-and-set succeeds; otherwise the row was not locked."""
    if write.is_gone:
        stored = tx.resources.remove(write.resource, expected_rv=before.rv)
        if before.kind is Kind.WEBHOOK_ENDPOINT:
            tx.secrets.erase(before.uid)
    else:
        stored = tx.resources.replace(write.resource, expected_rv=before.rv)
    if not stored:
        raise WriteConflictError(kind=before.kind, name=before.name, tries=1)


def _report_write(tx: Transaction, actor: Principal, write: Write, action: str) -> None:
    _announce(tx, write, actor=actor.subject)
    resource = write.resource
    tx.audit.append(
        AuditEntry(
            actor=actor.subject,
            actor_kind="key" if actor.key_id else "user",
            action=action,
            resource_kind=str(resource.kind),
            resource_uid=str(resource.uid),
            detail={
                "namespace": resource.namespace,
                "name": resource.name,
                "generation": resource.generation,
                "changed": list(write.changed),
            },
        )
    )


def _announce(tx: Transaction, write: Write, *, actor: str) -> None:
    tx.resources.record_change(
        write.resource,
        op=str(write.op),
        changed=write.changed,
        actor=actor,
        old_labels=write.old_labels,
    )
    tx.outbox.append(write.event)


def is_signing_managed(resource: Resource) -> bool:
    """Whether the platform stores the signing secret of this object."""
    signing = resource.spec.get("signing")
    is_endpoint = resource.kind is Kind.WEBHOOK_ENDPOINT
    return is_endpoint and isinstance(signing, Mapping) and signing.get("mode") == "managed"


def _signing_changed(tx: Transaction, before: Resource, write: Write, making: Making) -> str | None:
    if write.is_gone or is_signing_managed(before) == is_signing_managed(write.resource):
        return None
    tx.secrets.erase(before.uid)
    return _signing_secret(tx, write.resource, making)


def _signing_secret(tx: Transaction, resource: Resource, making: Making) -> str | None:
    """Generate and seal the secret of an endpoint with managed signing."""
    if not is_signing_managed(resource):
        return None
    secret = new_secret(making.random_bytes(GENERATED_BYTES))
    store_secret(tx, resource, secret, making=making)
    return secret


def store_secret(tx: Transaction, resource: Resource, secret: str, *, making: Making) -> str:
    """Seal a signing secret and store it as the newest; returns its key id."""
    key_id = base64.urlsafe_b64encode(making.random_bytes(_KEY_ID_BYTES)).decode()
    context = secret_context(resource.tenant_id, resource.uid, key_id)
    sealed = making.secrets.seal(secret.encode(), context=context)
    tx.secrets.put(resource.uid, SECRET_FIELD, key_id, sealed)
    return key_id
