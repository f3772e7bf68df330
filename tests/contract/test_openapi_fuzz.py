"""Every operation of the OpenAPI document, with generated requests: what comes back is published.

Good and bad requests alike, with all checks of the tool: no answer with 500, no status, type,
header or body that the document does not name, no bad request taken for a good one, no good one
refused but for what no schema can say.
"""

from datetime import timedelta
from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS, load_all_checks

from datarecs_core.errors.api import ApiCode
from datarecs_core.resources.resource import Kind
from datarecs_specs.kinds import KINDS
from datarecs_testing.api import MemoryApiHouse, declare, memory_api

BEYOND_A_SCHEMA = {
    ApiCode.INVALID_CURSOR.docs_id,  # a cursor is signed
    ApiCode.PLACE_EXPIRED.docs_id,  # a place is encrypted
    ApiCode.INVALID_SPEC.docs_id,  # rules between the members of a declaration
    ApiCode.IDEMPOTENCY_KEY_REUSED.docs_id,  # earlier requests with this key
    ApiCode.BODY_TOO_LARGE.docs_id,  # bytes of the whole body
}
"""Refusals of a request that its schema allows; every other one is a finding."""


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
KEY = {"Authorization": f"Bearer {HOUSE.key(lasts=timedelta(days=400))}"}
# The key is ours; a request that lacks it on purpose would get it all the same.
REFUSALS = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "429"]
"""How a bad request is refused; the tool's list has no 413, and a long body is refused unread."""
GENERATION = {
    "generation": {"with-security-parameters": False},
    "checks": {"negative_data_rejection": {"expected-statuses": [*REFUSALS, "5xx"]}},
}
CONFIG = schemathesis.Config.from_dict(GENERATION)
WITHOUT_CORNERS = schemathesis.Config.from_dict(
    {**GENERATION, "phases": {"coverage": {"enabled": False}}}
)
DECLARATIONS = rf"^/api/v1/({'|'.join(one.path for one in KINDS.values())})(/\{{name\}})?$"
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", HOUSE.app, config=CONFIG).exclude(
    path_regex=DECLARATIONS
)
DECLARED = schemathesis.openapi.from_asgi(
    "/openapi.json", HOUSE.app, config=WITHOUT_CORNERS
).include(path_regex=DECLARATIONS)
load_all_checks()
ACCEPTANCE = CHECKS.get_one("positive_data_acceptance")


GRAMMAR = {
    *("/grace_period", "/secret", "/address", "/reason", "/query/label_selector"),
    *("/query/name", "/query/prefix", "/as_of"),
}
"""Texts that no schema describes: durations, base64, addresses, printable characters, selectors,
names and prefixes of the catalogue, times that are not still to come.
"""


def is_beyond_a_schema(response: Any) -> bool:  # noqa: ANN401  the tool's answer
    """Whether it was refused for what only the server knows."""
    if "problem+json" not in response.headers.get("content-type", [""])[0]:
        return False
    problem = response.json()
    pointers = [fault["pointer"] for fault in problem.get("errors", ())]
    of_the_job = bool(pointers) and all(one.startswith("/parameters/") for one in pointers)
    has_grammar = bool(pointers) and GRAMMAR.issuperset(pointers)
    is_too_long = problem["detail"] == "a number has an exponent out of range"
    needs_another = problem["detail"] == "a parameter has no effect"  # without another parameter
    has_rules = problem["detail"] == "the capture has faults"  # which fields belong together
    beyond = (of_the_job, has_grammar, is_too_long, needs_another, has_rules)
    return problem["code"] in BEYOND_A_SCHEMA or any(beyond)


FEW = settings(
    max_examples=8,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def check_answer(case: Any) -> None:  # noqa: ANN401  a generated request
    """Send a request, and hold the answer against the document with all checks."""
    HOUSE.clock.advance(timedelta(minutes=2))  # so that wrong keys are answered 401, not 429
    response = case.call(headers=KEY)
    excluded = [ACCEPTANCE] if is_beyond_a_schema(response) else []
    case.validate_response(response, excluded_checks=excluded)


@SCHEMA.parametrize()
@FEW
def test_every_answer_is_published(case: Any) -> None:  # noqa: ANN401  a generated request
    """With every corner of each parameter and body in turn."""
    check_answer(case)


@DECLARED.parametrize()
@FEW
def test_every_answer_to_a_declaration_is_published(case: Any) -> None:  # noqa: ANN401  a request
    """Without the corners: those of a declaration take minutes (decision 0088)."""
    check_answer(case)
