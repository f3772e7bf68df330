"""Actions of controllers: reconcile an object now, leave it alone, act on it again."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from datarecs_application.ports.state import Transaction
from datarecs_application.resources import annotate_resource
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.resources.reconciling import PAUSED, RECONCILE_AT, RECONCILED
from datarecs_core.resources.resource import DEFAULT_NAMESPACE
from datarecs_core.values import instant_text
from datarecs_core_api.addressing import key_of
from datarecs_core_api.auth import needs
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import JsonBody, Namespace, NoFieldsIn, Sent
from datarecs_core_api.outputs import ResourceOut
from datarecs_core_api.published_types import ObjectName
from datarecs_core_api.views import resource_view
from datarecs_specs.kinds import KINDS, KindEntry

router = APIRouter(prefix="/api/v1", tags=["resources"], route_class=GuardedRoute)
Writer = Annotated[Principal, needs(Permission.RESOURCE_WRITE)]
NoFields = Annotated[Sent[NoFieldsIn], Depends(JsonBody(NoFieldsIn))]


def _reconciling_route(entry: KindEntry) -> None:
    @router.post(
        f"{_path(entry)}/reconcile",
        operation_id=f"reconcile_{_noun(entry)}",
        summary=f"Reconcile one of the {entry.path} now",
        status_code=202,
        responses={202: {"model": ResourceOut}},
    )
    def reconcile(
        name: ObjectName,
        caller: Writer,
        request: Request,
        body: NoFields,
        use: Using,
        namespace: Namespace = DEFAULT_NAMESPACE,
    ) -> Response:
        """Also after an error that its controller does not repeat. The status follows."""

        def act(tx: Transaction, _key: str | None) -> Answer:
            key = key_of(tx, entry, name, namespace=namespace)
            set_to = {RECONCILE_AT: instant_text(tx.now)}
            resource = annotate_resource(
                tx, caller, key, set_to=set_to, action="resource.reconcile"
            )
            return Answer(status=202, body=resource_view(resource))

        return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


def _pausing_route(entry: KindEntry) -> None:
    @router.post(
        f"{_path(entry)}/pause",
        operation_id=f"pause_{_noun(entry)}",
        summary=f"Let the controller leave one of the {entry.path} alone",
        responses={200: {"model": ResourceOut}},
    )
    def pause(
        name: ObjectName,
        caller: Writer,
        request: Request,
        body: NoFields,
        use: Using,
        namespace: Namespace = DEFAULT_NAMESPACE,
    ) -> Response:
        """Its status stays as it is, with the condition Paused. Runs start as before."""

        def act(tx: Transaction, _key: str | None) -> Answer:
            key = key_of(tx, entry, name, namespace=namespace)
            resource = annotate_resource(
                tx, caller, key, set_to={PAUSED: "true"}, action="resource.pause"
            )
            return Answer(status=200, body=resource_view(resource))

        return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


def _resuming_route(entry: KindEntry) -> None:
    @router.post(
        f"{_path(entry)}/resume",
        operation_id=f"resume_{_noun(entry)}",
        summary=f"Let the controller act on one of the {entry.path} again",
        responses={200: {"model": ResourceOut}},
    )
    def resume(
        name: ObjectName,
        caller: Writer,
        request: Request,
        body: NoFields,
        use: Using,
        namespace: Namespace = DEFAULT_NAMESPACE,
    ) -> Response:
        """Undo a pause; the controller acts at once."""

        def act(tx: Transaction, _key: str | None) -> Answer:
            key = key_of(tx, entry, name, namespace=namespace)
            resource = annotate_resource(
                tx, caller, key, set_to={PAUSED: None}, action="resource.resume"
            )
            return Answer(status=200, body=resource_view(resource))

        return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


def _path(entry: KindEntry) -> str:
    return f"/{entry.path}/{{name}}/actions"


def _noun(entry: KindEntry) -> str:
    return entry.path.replace("-", "_").removesuffix("s")


for _entry in (KINDS[kind] for kind in sorted(RECONCILED)):
    _reconciling_route(_entry)
    _pausing_route(_entry)
    _resuming_route(_entry)
