"""Status of the platform: alive, ready, its figures, and its kinds and schemas."""

from typing import Annotated

from fastapi import APIRouter, Request, Response

from datarecs_application.stats import stats_of
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core_api.auth import AnyPrincipal, Reader, needs
from datarecs_core_api.conditional import json_answer
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import GuardedRoute, StrictRoute
from datarecs_core_api.outputs import JsonObject, KindOut, LiveOut, Page, ReadyOut, WhoamiOut
from datarecs_core_api.problems import not_found
from datarecs_core_api.published_types import KindPath
from datarecs_core_api.stats_outputs import StatsOut
from datarecs_specs.json_schema import json_schema
from datarecs_specs.kinds import KINDS, KindEntry, kind_named

open_router = APIRouter(tags=["system"], route_class=StrictRoute)
router = APIRouter(prefix="/api/v1", tags=["system"], route_class=GuardedRoute)


@open_router.get("/livez", operation_id="get_livez")
async def livez() -> LiveOut:
    """The process responds; other systems are not checked."""
    return LiveOut(status="alive")


@open_router.get(
    "/readyz",
    operation_id="get_readyz",
    responses={200: {"model": ReadyOut}, 503: {"model": ReadyOut}},
)
def readyz(request: Request) -> Response:
    """503 with the reasons while a required system is unavailable."""
    reasons: dict[str, str] = request.app.state.health.reasons()
    status = "waiting" if reasons else "ready"
    return json_answer(ReadyOut(status=status, reasons=reasons), status=503 if reasons else 200)


@open_router.get("/schemas/{kind}/v1.json", operation_id="get_schema")
def schema(kind: KindPath) -> JsonObject:
    """JSON Schema of a kind, for editors; by its name, path or short name."""
    entry = kind_named(kind)
    if entry is None:
        raise not_found("schema")
    return json_schema(entry.kind)


@router.get("/kinds", operation_id="list_kinds")
def kinds(caller: Reader) -> Page[KindOut]:  # noqa: ARG001  only for the permission
    """The declared kinds with their paths and short names, in the order of `apply`."""
    entries = sorted(KINDS.values(), key=lambda entry: entry.order)
    return Page(items=[_kind_view(one) for one in entries])


@router.get("/system/stats", operation_id="get_stats")
def stats(
    caller: Annotated[Principal, needs(Permission.SYSTEM_READ)],  # noqa: ARG001  only for the permission
    use: Using,
) -> StatsOut:
    """Figures of watches, controllers and schedulers, over all tenants; for operators.

    They are sums of the metrics of the processes that reported within the last 60 seconds, each
    since its start.
    """
    return StatsOut.model_validate(stats_of(use.finder.read_stats()))


def _kind_view(entry: KindEntry) -> KindOut:
    return KindOut(
        kind=str(entry.kind),
        path=entry.path,
        alias=entry.alias,
        json_schema=f"/schemas/{entry.alias}/v1.json",
    )


@router.get("/whoami", operation_id="get_whoami")
def whoami(caller: AnyPrincipal) -> WhoamiOut:
    """Who the key belongs to and what it may do."""
    return WhoamiOut(
        tenant_id=caller.tenant_id,
        subject=caller.subject,
        owner=caller.owner,
        key_id=caller.key_id,
        permissions=sorted(caller.permissions),
    )
