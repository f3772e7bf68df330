"""What was written to a declared object, and by whom: one route for every kind."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from datarecs_core.errors.api import ApiCode
from datarecs_core.resources.change_feed import ResourceChange
from datarecs_core.resources.resource import DEFAULT_NAMESPACE
from datarecs_core_api.addressing import key_of
from datarecs_core_api.auth import Reader
from datarecs_core_api.conditional import json_answer
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.inputs import Namespace
from datarecs_core_api.outputs import ChangeOut, Page
from datarecs_core_api.pagination import DEFAULT_LIMIT, MAX_LIMIT, Cursor, next_link
from datarecs_core_api.problems import ProblemError, not_found
from datarecs_core_api.published_types import ObjectName
from datarecs_specs.kinds import KINDS, KindEntry

router = APIRouter(prefix="/api/v1", tags=["resources"], route_class=GuardedRoute)


def _changes_route(entry: KindEntry) -> None:
    noun = entry.singular.replace("-", "_")

    @router.get(
        f"/{entry.path}/{{name}}/changes",
        operation_id=f"list_{noun}_changes",
        summary=f"List the changes of one of the {entry.path}",
        responses={200: {"model": Page[ChangeOut]}},
    )
    def list_changes(
        name: ObjectName,
        caller: Reader,
        request: Request,
        use: Using,
        namespace: Namespace = DEFAULT_NAMESPACE,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
        cursor: Cursor | None = None,
    ) -> Response:
        """Newest first, of the last 14 days, also after its deletion and of others of its name."""
        before = None
        if cursor is not None:
            place = use.watch_places.read(caller.tenant_id, cursor)
            if place is None:
                detail = "the cursor does not belong to this list"
                raise ProblemError(code=ApiCode.INVALID_CURSOR, detail=detail)
            before, _ = place
        with use.unit.begin(caller.tenant_id, read_only=True) as tx:
            key = key_of(tx, entry, name, namespace=namespace)
            changes = tx.resources.changes_of(
                key.kind, key.namespace, key.name, limit=limit + 1, before=before
            )
            exists = changes or tx.resources.get(key.kind, key.namespace, key.name) is not None
        if not exists and before is None:
            raise not_found(str(entry.kind))
        following = None
        if len(changes) > limit:
            last = changes[limit - 1]
            following = use.watch_places.write(caller.tenant_id, last.rv, at=last.at)
        page = Page(items=[_view(one) for one in changes[:limit]], next=following)
        return json_answer(page, headers=next_link(request, page.next))


def _view(change: ResourceChange) -> ChangeOut:
    return ChangeOut(
        op=change.op,
        changed=list(change.changed),
        generation=change.generation,
        uid=change.uid,
        actor=change.actor,
        at=change.at,
    )


for _entry in KINDS.values():
    _changes_route(_entry)
