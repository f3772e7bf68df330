"""Actions of controllers: reconcile an object now, leave it alone, act on it again."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from datarecs_application.ports.state import Transaction
from datarecs_application.resources import annotate_resource
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.resources.reconciling import PAUSED, RECONCILE_AT, RECONCILED
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind
from datarecs_core.values import instant_text
from datarecs_core_api.addressing import key_of
from datarecs_core_api.auth import check_permission, needs
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Action:
    """One action: an annotation that it sets, or removes with the value None."""

    name: str
    summary: str
    description: str
    annotation: str
    value: Callable[[datetime], str | None]
    """From the database's time."""
    status: int = 200
    may_start: bool = False
    """Whether the controller of a Capture may start one after it."""


_ACTIONS = (
    _Action(
        name="reconcile",
        summary="Reconcile one of the {path} now",
        description="Also after an error that its controller does not repeat. The status follows.",
        annotation=RECONCILE_AT,
        value=instant_text,
        status=202,
        may_start=True,
    ),
    _Action(
        name="pause",
        summary="Let the controller leave one of the {path} alone",
        description="Its status stays as it is, with the condition Paused. Runs start as before;"
        " a Capture starts nothing, a SinkTable commits what it has read and holds.",
        annotation=PAUSED,
        value=lambda _: "true",
    ),
    _Action(
        name="resume",
        summary="Let the controller act on one of the {path} again",
        description="Undo a pause; the controller acts at once.",
        annotation=PAUSED,
        value=lambda _: None,
        may_start=True,
    ),
)


def _action_route(entry: KindEntry, action: _Action) -> None:
    noun = entry.path.replace("-", "_").removesuffix("s")

    @router.post(
        f"/{entry.path}/{{name}}/actions/{action.name}",
        operation_id=f"{action.name}_{noun}",
        summary=action.summary.format(path=entry.path),
        description=action.description,
        status_code=action.status,
        responses={action.status: {"model": ResourceOut}},
    )
    def act_on(
        name: ObjectName,
        caller: Writer,
        request: Request,
        body: NoFields,
        use: Using,
        namespace: Namespace = DEFAULT_NAMESPACE,
    ) -> Response:
        if action.may_start and entry.kind is Kind.CAPTURE:
            check_permission(request, caller, Permission.CAPTURE_TRIGGER)

        def act(tx: Transaction, _key: str | None) -> Answer:
            resource = annotate_resource(
                tx,
                caller,
                key_of(tx, entry, name, namespace=namespace),
                set_to={action.annotation: action.value(tx.now)},
                action=f"resource.{action.name}",
            )
            return Answer(status=action.status, body=resource_view(resource))

        return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


for _entry in (KINDS[kind] for kind in sorted(RECONCILED)):
    for _one in _ACTIONS:
        _action_route(_entry, _one)
