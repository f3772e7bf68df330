"""Declared objects: one set of routes for every kind, created from the table of kinds.

Bodies are JSON or one YAML document; every fault is returned at once. PUT and DELETE need If-Match.
"""

from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from datarecs_application.ports.state import Transaction
from datarecs_application.resources import (
    ANY,
    Applied,
    Deleted,
    Key,
    Making,
    Outcome,
    apply_resource,
    create_resource,
    delete_resource,
    replace_resource,
)
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Resource
from datarecs_core_api.addressing import key_of, read_resource
from datarecs_core_api.auth import Reader, needs
from datarecs_core_api.conditional import json_answer, required, unless_known
from datarecs_core_api.declaring import Declaration, DeclarationBody, declared
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import Namespace
from datarecs_core_api.limits import most_of_each_kind
from datarecs_core_api.object_lists import (
    LabelSelector,
    Namespaces,
    Objects,
    Since,
    check_purpose,
    read_page,
)
from datarecs_core_api.outputs import AppliedOut, CreatedOnce, ResourceOut, ResourcePage
from datarecs_core_api.pagination import DEFAULT_LIMIT, MAX_LIMIT, Cursor, next_link
from datarecs_core_api.published_types import ObjectName
from datarecs_core_api.streaming import MEDIA_TYPE, WATCH_SCHEMA
from datarecs_core_api.transactions import repeated
from datarecs_core_api.views import applied_view, created_once, resource_view
from datarecs_core_api.watching import watch_answer
from datarecs_specs.documents import Expected
from datarecs_specs.kinds import KINDS, KindEntry

router = APIRouter(prefix="/api/v1", tags=["resources"], route_class=GuardedRoute)
Writer = Annotated[Principal, needs(Permission.RESOURCE_WRITE)]
IfMatch = Annotated[str | None, Header(description="The object's ETag, or *.")]
Written = AppliedOut | CreatedOnce


class _DryRunError(Exception):
    """Carries the response out of a transaction that must not commit."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


def _making(use: Ports) -> Making:
    return Making(
        ids=use.ids,
        secrets=use.secrets,
        random_bytes=use.random_bytes,
        most=most_of_each_kind(use.limits),
    )


def _answer(entry: KindEntry, applied: Applied) -> Answer:
    resource, secret = applied.resource, applied.generated_secret
    shown = applied_view(applied)
    created = applied.outcome is Outcome.CREATED
    headers = {"ETag": resource.etag}
    if created:
        headers["Location"] = _place(entry, resource)
    return Answer(
        status=201 if created else 200,
        body=shown if secret is None else created_once(applied, secret),
        replay_body=shown,
        headers=headers,
    )


def _place(entry: KindEntry, resource: Resource) -> str:
    elsewhere = resource.namespace != DEFAULT_NAMESPACE
    query = f"?namespace={quote(resource.namespace)}" if elsewhere else ""
    return f"/api/v1/{entry.path}/{resource.name}{query}"


def _reading_routes(entry: KindEntry) -> None:
    """List and get of one kind."""
    path, noun = f"/{entry.path}", entry.path.replace("-", "_")

    @router.get(
        path,
        operation_id=f"list_{noun}",
        summary=f"List {entry.path}",
        responses={
            200: {"model": ResourcePage, "content": {MEDIA_TYPE: {"schema": WATCH_SCHEMA}}},
            410: {},
        },
    )
    async def list_resources(
        caller: Reader,
        request: Request,
        use: Using,
        namespace: Namespaces = DEFAULT_NAMESPACE,
        label_selector: LabelSelector = "",
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
        cursor: Cursor | None = None,
        since: Since | None = None,
        last_event_id: Annotated[str | None, Header()] = None,
        *,
        watch: Annotated[bool, Query(description="Stream changes instead of a list.")] = False,
    ) -> Response:
        """Newest first; `next` is the cursor of the following page.

        With `watch=1` a stream of changes: each frame has the object after the write, and its id
        is the place to continue from. An object that no longer meets the selector is DELETED.
        """
        check_purpose(request, watch=watch)
        objects = Objects(entry=entry, namespace=namespace, labels=label_selector)
        if watch:
            place = (last_event_id or "").strip() or since
            return await watch_answer(request, use, caller, objects.watched, since=place)
        read = partial(read_page, use, caller, objects, limit=limit, cursor=cursor)
        page = await run_in_threadpool(read)
        return json_answer(page, headers=next_link(request, page.next))

    @router.get(
        f"{path}/{{name}}",
        operation_id=f"get_{_one(entry)}",
        summary=f"Get one of the {entry.path}",
        responses={200: {"model": ResourceOut}, 304: {}},
    )
    def get_resource(
        name: ObjectName,
        caller: Reader,
        use: Using,
        namespace: Namespace = DEFAULT_NAMESPACE,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        """By its name, or by its uid."""
        with use.unit.begin(caller.tenant_id, read_only=True) as tx:
            resource = read_resource(tx, entry, name, namespace=namespace)
        return unless_known(
            resource_view(resource), etag=resource.etag, if_none_match=if_none_match
        )


def _creating_route(entry: KindEntry) -> None:
    @router.post(
        f"/{entry.path}",
        operation_id=f"create_{_one(entry)}",
        summary=f"Create one of the {entry.path}",
        status_code=201,
        responses={201: {"model": Written}, 200: {"model": AppliedOut}, 409: {}},
    )
    def create_one(
        caller: Writer,
        request: Request,
        body: Annotated[Declaration, Depends(DeclarationBody(entry))],
        use: Using,
        namespace: Namespace = DEFAULT_NAMESPACE,
        *,
        dry_run: bool = False,
    ) -> Response:
        """A secret that is created for it is only in this response. `dry_run` writes nothing."""
        expected = Expected(kind=entry.kind, namespace=namespace)
        wanted = declared(request, body, use=use, caller=caller, expected=expected)

        def act(tx: Transaction, _key: str | None) -> Answer:
            answer = _answer(entry, create_resource(tx, caller, wanted, making=_making(use)))
            return _unless_dry(answer, dry_run=dry_run)

        try:
            return once(request, body.canonical, unit=use.unit, caller=caller, act=act)
        except _DryRunError as dry:
            return dry.answer.first()


def _replacing_route(entry: KindEntry) -> None:
    @router.put(
        f"/{entry.path}/{{name}}",
        operation_id=f"replace_{_one(entry)}",
        summary=f"Replace one of the {entry.path}",
        responses={
            200: {"model": Written},
            201: {"model": Written},
            409: {},
            412: {},
            428: {},
        },
    )
    def replace_one(
        name: ObjectName,
        caller: Writer,
        request: Request,
        body: Annotated[Declaration, Depends(DeclarationBody(entry))],
        use: Using,
        namespace: Namespace = DEFAULT_NAMESPACE,
        if_match: IfMatch = None,
        *,
        apply: bool = False,
        dry_run: bool = False,
    ) -> Response:
        """With `apply` and `If-Match: *` it is created when it is not there."""
        match, making = required(if_match), _making(use)
        known = _known_name(use, caller, entry, name, namespace=namespace)
        expected = Expected(kind=entry.kind, name=known.name, namespace=known.namespace)
        wanted = declared(request, body, use=use, caller=caller, expected=expected)

        def work(tx: Transaction) -> Answer:
            if apply and match == ANY:
                applied = apply_resource(tx, caller, wanted, making=making)
            else:
                applied = replace_resource(tx, caller, wanted, match=match, making=making)
            return _unless_dry(_answer(entry, applied), dry_run=dry_run)

        try:
            return repeated(use.unit, caller.tenant_id, work, feed=True).first()
        except _DryRunError as dry:
            return dry.answer.first()


def _deleting_route(entry: KindEntry) -> None:
    @router.delete(
        f"/{entry.path}/{{name}}",
        operation_id=f"delete_{_one(entry)}",
        summary=f"Delete one of the {entry.path}",
        responses={
            200: {"model": ResourceOut},
            202: {"model": ResourceOut},
            409: {},
            412: {},
            428: {},
        },
    )
    def delete_one(
        name: ObjectName,
        caller: Writer,
        use: Using,
        namespace: Namespace = DEFAULT_NAMESPACE,
        if_match: IfMatch = None,
    ) -> Response:
        """200 with its last state; 202 while finalizers remain."""
        match = required(if_match)
        key = _known_name(use, caller, entry, name, namespace=namespace)

        def work(tx: Transaction) -> Deleted:
            return delete_resource(tx, caller, key, match=match)

        deleted = repeated(use.unit, caller.tenant_id, work, feed=True)
        status = 200 if deleted.is_gone else 202
        return json_answer(resource_view(deleted.resource), status=status)


def _unless_dry(answer: Answer, *, dry_run: bool) -> Answer:
    """Raises _DryRunError, so that the transaction rolls back; the response has no secret."""
    if dry_run:
        raise _DryRunError(Answer(status=200, body=answer.replay_body or answer.body))
    return answer


def _known_name(
    use: Ports, caller: Principal, entry: KindEntry, name: str, *, namespace: str
) -> Key:
    """The key that a name or a uid in the path means."""
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        return key_of(tx, entry, name, namespace=namespace)


def _one(entry: KindEntry) -> str:
    return entry.singular.replace("-", "_")


for _entry in KINDS.values():
    _reading_routes(_entry)
    _creating_route(_entry)
    _replacing_route(_entry)
    _deleting_route(_entry)
