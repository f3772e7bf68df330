"""Every operation of the OpenAPI document, with generated requests: what comes back is published.

Good and bad requests alike: no answer with 500, no status, type or body that the document does not
name, no bad request taken for a good one.
"""

from datetime import timedelta
from typing import Any

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
    house.following.end()  # streams say how they begin, and no more
    return house


HOUSE = a_house()
KEY = {"Authorization": f"Bearer {HOUSE.key()}"}
CONFIG = schemathesis.Config.from_dict(
    {
        # every corner of a schema in turn: a job's has minutes of them
        "phases": {"coverage": {"enabled": False}},
        # the key is ours; a request that lacks it on purpose would get it all the same
        "generation": {"with-security-parameters": False},
        # a schema cannot say which cursor or which reference exists
        "checks": {"positive_data_acceptance": {"enabled": False}},
    }
)
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", HOUSE.app, config=CONFIG)


@SCHEMA.parametrize()
@settings(
    max_examples=8,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_published(case: Any) -> None:  # noqa: ANN401  a generated request
    HOUSE.clock.advance(timedelta(minutes=2))  # so that wrong keys are answered 401, not 429
    case.call_and_validate(headers=KEY)
