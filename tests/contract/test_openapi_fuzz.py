"""Every operation of the OpenAPI document, with generated requests: what comes back is published.

Good and bad requests alike: no answer with 500, no status, type or body that the document does not
name, no bad request taken for a good one.
"""

import schemathesis
from hypothesis import HealthCheck, settings

from datarecs_core.resources.resource import Kind
from datarecs_testing.api import MemoryApiHouse, declare, memory_api


def a_house() -> MemoryApiHouse:
    """With one object of each kind and a run, so that links lead somewhere."""
    house = memory_api()
    caller = house.caller()
    for kind in Kind:
        declare(caller, kind)
    caller.post("/api/v1/jobs/ledger-vs-exports/runs")
    return house


HOUSE = a_house()
KEY = {"Authorization": f"Bearer {HOUSE.key()}"}
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", HOUSE.app)


@SCHEMA.parametrize()
@settings(
    max_examples=15,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_published(case: schemathesis.Case) -> None:
    case.call_and_validate(headers=KEY)
