"""Query parameters: every route refuses an unknown one, and a repeated one."""

import re
from typing import Any

import pytest

from datarecs_core.access.permissions import GRANTS, Role
from datarecs_core_api.openapi import document
from datarecs_testing.api import MemoryApiHouse, memory_api

OPERATIONS = [
    (method, path, operation)
    for path, operations in document()["paths"].items()
    for method, operation in operations.items()
]
NAMES = [f"{method} {path}" for method, path, _ in OPERATIONS]
NOBODY = "0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c01"


@pytest.fixture(scope="module")
def house() -> MemoryApiHouse:
    return memory_api()


def faults_of(house: MemoryApiHouse, method: str, path: str, query: str) -> list[dict[str, str]]:
    """The faults of a 422, for any other fault of the request."""
    place = re.sub(r"\{[a-z_]+\}", NOBODY, path)
    permissions = sorted({*map(str, GRANTS[Role.ADMIN]), "system.read"})
    caller = house.bearing(house.key(permissions=permissions))
    answer = caller.request(method, f"{place}?{query}")
    assert answer.status_code == 422, answer.text
    errors: list[dict[str, str]] = answer.json()["errors"]
    return errors


def query_names(operation: dict[str, Any]) -> dict[str, bool]:
    """Published query parameters, and whether each is a list."""
    return {
        one["name"]: "array" in str(one["schema"])
        for one in operation.get("parameters", ())
        if one["in"] == "query"
    }


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=NAMES)
class TestEveryRoute:
    def test_refuses_a_parameter_that_it_does_not_know(
        self, house: MemoryApiHouse, method: str, path: str, operation: dict[str, Any]
    ) -> None:
        (fault,) = faults_of(house, method, path, "zzqqzz=1")
        assert fault["pointer"] == "/query/zzqqzz"
        assert fault["message"] == "unknown parameter"
        known = query_names(operation)
        assert all(name in fault["hint"] for name in known)
        assert fault["hint"].endswith("no parameters") is not bool(known)

    def test_names_the_nearest_parameter_of_a_misspelt_one(
        self, house: MemoryApiHouse, method: str, path: str, operation: dict[str, Any]
    ) -> None:
        for name in query_names(operation):
            misspelt = f"{name}x"
            (fault,) = faults_of(house, method, path, f"{misspelt}=1")
            assert (fault["pointer"], fault["hint"]) == (
                f"/query/{misspelt}",
                f"did you mean {name!r}?",
            )

    def test_takes_a_single_value_once(
        self, house: MemoryApiHouse, method: str, path: str, operation: dict[str, Any]
    ) -> None:
        for name, is_list in query_names(operation).items():
            if not is_list:
                (fault,) = faults_of(house, method, path, f"{name}=1&{name}=1")
                assert (fault["pointer"], fault["message"]) == (
                    f"/query/{name}",
                    "this parameter may occur once",
                )


def test_a_misspelt_filter_returns_no_runs(house: MemoryApiHouse) -> None:
    answer = house.caller().get("/api/v1/runs?stauts=ERRORED")
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["hint"] == "did you mean 'status'?"


def test_a_caller_without_a_key_learns_no_names(house: MemoryApiHouse) -> None:
    assert house.bearing(None).get("/api/v1/runs?stauts=ERRORED").status_code == 401


def test_of_a_long_name_only_the_beginning_is_repeated(house: MemoryApiHouse) -> None:
    (fault,) = faults_of(house, "get", "/api/v1/runs", f"{'n' * 500}=1")
    assert fault["pointer"] == f"/query/{'n' * 64}"


def test_a_list_parameter_may_be_repeated(house: MemoryApiHouse) -> None:
    house.following.end()
    place = "/api/v1/events/stream"
    query = "type=io.datarecs.a&type=io.datarecs.b"
    with house.caller().stream("GET", f"{place}?{query}") as answer:
        assert answer.status_code == 200
