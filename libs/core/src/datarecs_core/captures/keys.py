"""The two keys of a work item: which requests are equal, and which items never run at once.

Spec queue-capture 5, 12.
"""

from dataclasses import replace

from datarecs_core.captures.items import CaptureJobId, CaptureTask, WorkKind
from datarecs_core.captures.request import (
    CapturePolicy,
    CaptureRequest,
    CaptureScope,
    ObjectName,
)
from datarecs_core.documents import to_document
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex
from datarecs_core.values import TenantId


def dedupe_key(
    tenant: TenantId, kind: WorkKind, parent_id: CaptureJobId | None, task: CaptureTask
) -> str:
    """Equal for items that would do the same work: the order of lists and names beside ids.

    Who asked, when, and which executor is named are no part of it. The parent is, so that each of
    two planners gets its children.
    """
    document: dict[str, JsonValue] = {
        "tenant": str(tenant),
        "kind": kind.value,
        "parent": None if parent_id is None else str(parent_id),
        "task": to_document(_plain(task)),
    }
    return sha256_hex(canonical_json(document))


def claim_key(kind: WorkKind, task: CaptureTask) -> str | None:
    """At most one running item of a tenant has it; None: any number may run."""
    match kind:
        case WorkKind.PLAN_CONNECTOR:
            scope = to_document(_plain_scope(task.request.scope))
            return f"lane:connector:{task.request.connection_uid}:{_digest(scope)}"
        case WorkKind.PLAN_TABLE:
            return f"lane:table:{_object(task)}"
        case WorkKind.PLAN_VIEW:
            return f"lane:view:{_object(task)}"
        case WorkKind.PLAN_SNAPSHOT:
            return f"snapshot:{task.table_id}:{_snapshot(task)}"
        case WorkKind.FINALIZE_SNAPSHOT_CAPTURE:
            return f"lane:finalize:{task.table_id}:{_snapshot(task)}"
        case WorkKind.EXEC_FILE_GROUP:
            return None


def _snapshot(task: CaptureTask) -> str:
    if task.snapshot_id is not None:
        return str(task.snapshot_id)
    return "*" if task.native_id is None else _digest(task.native_id)


def _object(task: CaptureTask) -> str:
    """The object of a connection, by its name in the source: it has an id only when planned."""
    return f"{task.request.connection_uid}:{_digest(to_document(task.object))}"


def _digest(value: JsonValue) -> str:
    return sha256_hex(canonical_json(value))


def _plain(task: CaptureTask) -> CaptureTask:
    has_id = task.table_id is not None
    return replace(
        task,
        request=_plain_request(task.request),
        object=None if has_id else task.object,
        native_id=None if task.snapshot_id is not None else task.native_id,
    )


def _plain_request(request: CaptureRequest) -> CaptureRequest:
    policy: CapturePolicy = request.policy
    selection = request.selection
    if selection is not None:
        selection = replace(selection, snapshot_ids=tuple(sorted(set(selection.snapshot_ids))))
    return replace(
        request,
        scope=_plain_scope(request.scope),
        policy=replace(
            policy,
            outputs=tuple(sorted(set(policy.outputs))),
            columns=tuple(sorted(set(policy.columns))),
        ),
        selection=selection,
    )


def _plain_scope(scope: CaptureScope) -> CaptureScope:
    return replace(
        scope,
        namespaces=tuple(sorted(set(scope.namespaces))),
        tables=tuple(sorted(set(scope.tables), key=_by_name)),
    )


def _by_name(name: ObjectName) -> tuple[tuple[str, ...], str]:
    return name.namespace, name.name
