"""The object of a path: by its name and namespace, or by its uid.

One place, so that an unknown name, another tenant's name and an invalid name give the same
response.
"""

from datarecs_application.ports.state import Transaction
from datarecs_application.resources import Key
from datarecs_core.resources.resource import Resource
from datarecs_core.values import ResourceUid
from datarecs_core_api.inputs import canonical_uuid, is_name
from datarecs_core_api.problems import not_found
from datarecs_specs.kinds import KindEntry


def key_of(tx: Transaction, entry: KindEntry, name: str, *, namespace: str) -> Key:
    """The key of an existing object, or of one that could be created with this name.

    Raises:
        ProblemError: 404, the name is not possible.
    """
    by_uid = _by_uid(tx, entry, name)
    if by_uid is not None:
        return Key(kind=by_uid.kind, name=by_uid.name, namespace=by_uid.namespace)
    if not is_name(name):
        raise not_found(str(entry.kind))
    return Key(kind=entry.kind, name=name, namespace=namespace)


def read_resource(tx: Transaction, entry: KindEntry, name: str, *, namespace: str) -> Resource:
    """Raises ProblemError (404), also for another tenant's."""
    key = key_of(tx, entry, name, namespace=namespace)
    resource = tx.resources.get(key.kind, key.namespace, key.name)
    if resource is None:
        raise not_found(str(entry.kind))
    return resource


def _by_uid(tx: Transaction, entry: KindEntry, text: str) -> Resource | None:
    uid = canonical_uuid(text)
    resource = None if uid is None else tx.resources.get_by_uid(ResourceUid(uid))
    return resource if resource is not None and resource.kind is entry.kind else None
