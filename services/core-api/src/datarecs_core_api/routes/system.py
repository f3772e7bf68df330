"""What the platform says of itself: alive, ready, which kinds and schemas there are."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from datarecs_core_api.auth import AnyPrincipal
from datarecs_core_api.problems import not_found
from datarecs_specs.json_schema import json_schema
from datarecs_specs.kinds import KINDS, kind_named

router = APIRouter(tags=["system"])


@router.get("/livez", operation_id="get_livez")
def livez() -> dict[str, object]:
    """The process answers; says nothing about what it depends on."""
    return {"status": "alive"}


@router.get("/readyz", operation_id="get_readyz")
def readyz(request: Request) -> Response:
    """503 with the reasons while something it needs is missing."""
    reasons = {}
    for name, check in request.app.state.ready_when.items():
        reason = check()
        if reason is not None:
            reasons[name] = reason
    return JSONResponse(
        {"status": "waiting" if reasons else "ready", "reasons": reasons},
        status_code=503 if reasons else 200,
    )


@router.get("/schemas/{kind}/v1.json", operation_id="get_schema")
def schema(kind: str) -> dict[str, object]:
    """JSON Schema of a kind, for editors."""
    entry = kind_named(kind)
    if entry is None:
        raise not_found("schema")
    return dict(json_schema(entry.kind))


@router.get("/api/v1/kinds", operation_id="list_kinds")
def kinds(caller: AnyPrincipal) -> dict[str, object]:  # noqa: ARG001  any principal may read it
    """The declared kinds with their paths and short names."""
    items = [
        {"kind": entry.kind, "path": entry.path, "alias": entry.alias}
        for entry in sorted(KINDS.values(), key=lambda entry: entry.order)
    ]
    return {"items": items, "next": None}


@router.get("/api/v1/whoami", operation_id="get_whoami")
def whoami(caller: AnyPrincipal) -> dict[str, object]:
    """Who the key belongs to and what it may do."""
    return {
        "tenant_id": str(caller.tenant_id),
        "subject": caller.subject,
        "key_id": caller.key_id,
        "permissions": sorted(caller.permissions),
    }
