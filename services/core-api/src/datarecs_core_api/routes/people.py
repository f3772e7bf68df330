"""`/` and `/docs`: pages for people, open as the OpenAPI document is."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from datarecs_core_api.guarded import StrictRoute
from datarecs_core_api.pages import POLICY, documentation_page, start_page

router = APIRouter(route_class=StrictRoute, include_in_schema=False)
_HEADERS = {"Content-Security-Policy": POLICY}


@router.get("/")
async def start() -> HTMLResponse:
    """What this server is, where its documentation is, how to sign in."""
    return HTMLResponse(start_page(), headers=_HEADERS)


@router.get("/docs")
def documentation(request: Request) -> HTMLResponse:
    """Every operation, from the document that this server publishes."""
    return HTMLResponse(documentation_page(request.app.openapi()), headers=_HEADERS)
