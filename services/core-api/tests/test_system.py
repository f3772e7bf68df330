"""The status of the platform, and the guard of every route."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

import jsonschema
import pytest
from fastapi import APIRouter, Depends, FastAPI, Response

from datarecs_core.access.permissions import Permission
from datarecs_core.resources.resource import Kind
from datarecs_core_api.auth import AnyPrincipal, Reader, needs
from datarecs_core_api.guarded import GuardedRoute, guarded_routes
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_specs.kinds import KINDS
from datarecs_testing.api import memory_api
from datarecs_testing.builders import A_TENANT


class TestReadiness:
    def test_needs_nothing_to_be_alive(self) -> None:
        house = memory_api(ready_when={"database": lambda: "down"})
        assert house.bearing(None).get("/livez").json() == {"status": "alive"}

    def test_names_what_is_missing(self) -> None:
        def broken() -> str:
            raise RuntimeError("password=hunter2")

        house = memory_api(
            ready_when={"database": lambda: None, "x": lambda: "not yet", "y": broken}
        )
        answer = house.bearing(None).get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {
            "status": "waiting",
            "reasons": {"x": "not yet", "y": "cannot be checked (RuntimeError)"},
        }

    def test_is_said_when_nothing_is(self) -> None:
        house = memory_api(ready_when={"database": lambda: None})
        answer = house.bearing(None).get("/readyz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ready", "reasons": {}})


class TestSchemas:
    @pytest.mark.parametrize("kind", Kind)
    def test_of_every_kind_are_public_and_accept_its_example(self, kind: Kind) -> None:
        client = memory_api().bearing(None)
        entry = KINDS[kind]
        schemas = [
            client.get(f"/schemas/{word}/v1.json").json()
            for word in (entry.alias, entry.path, kind)
        ]
        assert schemas[0] == schemas[1] == schemas[2]
        jsonschema.validate(EXAMPLES[kind], schemas[0])

    def test_of_anything_else_are_404(self) -> None:
        assert memory_api().bearing(None).get("/schemas/run/v1.json").status_code == 404


def test_kinds_come_in_the_order_of_apply() -> None:
    items = memory_api().caller().get("/api/v1/kinds").json()["items"]
    aliases = [one["alias"] for one in items]
    assert aliases == ["conn", "sink", "cap", "job", "sched", "hook", "rule", "ret"]


def test_each_kind_names_its_schema() -> None:
    caller = memory_api().caller()
    for one in caller.get("/api/v1/kinds").json()["items"]:
        assert caller.get(one["json_schema"]).json()["title"] == one["kind"]


def test_whoami_shows_the_permissions_of_the_key() -> None:
    house = memory_api()
    key = house.key(permissions=["run.trigger", "read"], owner="ci")
    assert house.bearing(key).get("/api/v1/whoami").json() == {
        "tenant_id": str(A_TENANT),
        "subject": f"key:{key[4:16]}",
        "owner": "ci",
        "key_id": key[4:16],
        "permissions": ["read", "run.trigger"],
    }


def test_readiness_checks_the_dependencies_once_a_second() -> None:
    """Public, without a key and without a limit."""
    checks = []

    def check() -> str | None:
        checks.append(1)
        return None

    house = memory_api(ready_when={"database": check})
    for _ in range(100):
        assert house.bearing(None).get("/readyz").status_code == 200
    assert len(checks) == 1
    house.clock.advance(timedelta(seconds=1))
    house.bearing(None).get("/readyz")
    assert len(checks) == 2


@pytest.mark.case("R69", "R71")
def test_figures_of_the_platform_are_for_operators_alone() -> None:
    house, place = memory_api(), "/api/v1/system/stats"
    house.finder.report_stats(UUID(int=1), {"reconciliations_total": 3, "polls": 2})
    refused = house.caller(A_TENANT).get(place)
    assert (refused.status_code, refused.json()["reason"]) == (403, "FORBIDDEN")
    operator = house.bearing(house.key(permissions=["system.read"]))
    stats = operator.get(place).json()
    assert set(stats) == {"watcher", "controller", "scheduler"}
    assert stats["controller"]["reconciliations_total"] == 3
    house.clock.advance(timedelta(seconds=60))
    assert operator.get(place).json()["controller"]["reconciliations_total"] == 0


class TestTheGuard:
    def test_refuses_a_route_without_a_permission(self) -> None:
        router = APIRouter(route_class=GuardedRoute)
        with pytest.raises(TypeError, match="exactly one permission"):
            router.get("/x")(lambda: None)

    def test_refuses_a_route_with_two(self) -> None:
        def route(one: Reader, other: AnyPrincipal) -> None: ...

        with pytest.raises(TypeError, match="exactly one permission"):
            APIRouter(route_class=GuardedRoute).get("/x")(route)

    def test_refuses_a_route_that_does_something_else_first(self) -> None:
        async def body() -> bytes:
            return b""

        def route(
            read: Annotated[bytes, Depends(body)],
            caller: Annotated[object, needs(Permission.READ)],
        ) -> None: ...

        with pytest.raises(TypeError, match="before anything else"):
            APIRouter(route_class=GuardedRoute).get("/x")(route)

    @pytest.mark.parametrize("nested", [False, True])
    def test_finds_an_open_route_however_it_got_there(self, nested: bool) -> None:
        app, router = FastAPI(), APIRouter(prefix="/v1" if nested else "/api/v1")
        router.get("/open")(lambda: None)
        outer = APIRouter(prefix="/api")
        outer.include_router(router)
        app.include_router(outer if nested else router)
        with pytest.raises(TypeError, match="/api/v1/open checks no permission"):
            guarded_routes(app)

    def test_finds_an_open_route_of_starlette(self) -> None:
        app = FastAPI()
        app.add_route("/api/v1/open", lambda _: Response())
        with pytest.raises(TypeError, match="checks no permission"):
            guarded_routes(app)
