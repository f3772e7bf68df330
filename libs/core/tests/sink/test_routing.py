"""Which tables a record lands in."""

from decimal import Decimal

import pytest

from datarecs_core.sink.definition import RouteRule, SinkTarget
from datarecs_core.sink.routing import router


def target(name: str, rule: RouteRule | None) -> SinkTarget:
    return SinkTarget(catalog="lake", namespace=("sales",), name=name, route=rule)


TARGETS = (
    target("orders", RouteRule(equals="order")),
    target("returns", RouteRule(any_of=("return", "refund"))),
    target("audits", RouteRule(prefix="re")),
)


@pytest.mark.case("I37")
@pytest.mark.parametrize(
    ("kind", "tables"),
    [("order", (0,)), ("refund", (1, 2)), ("review", (2,)), ("other", ()), ("Order", ())],
)
def test_a_record_goes_to_every_table_of_a_rule_that_matches(
    kind: str, tables: tuple[int, ...]
) -> None:
    route = router("type", TARGETS)
    assert route({"type": kind}) == tables
    assert route({"type": kind}) == tables


@pytest.mark.parametrize("value", [{}, {"type": None}, {"type": ["order"]}, {"type": {}}])
def test_a_record_without_the_field_matches_no_rule(value: dict[str, object]) -> None:
    assert router("type", TARGETS)(value) == ()


def test_a_dotted_path_leads_into_objects() -> None:
    route = router("meta.kind", TARGETS)
    assert route({"meta": {"kind": "order"}}) == (0,)
    assert route({"meta": "order"}) == ()


@pytest.mark.parametrize(
    ("value", "text"), [(7, "7"), (True, "true"), (False, "false"), (Decimal("1.50"), "1.50")]
)
def test_numbers_and_truth_values_are_compared_as_json_writes_them(
    value: object, text: str
) -> None:
    assert router("type", (target("t", RouteRule(equals=text)),))({"type": value}) == (0,)


def test_without_a_routing_field_every_table_gets_every_record() -> None:
    plain = (target("first", None), target("second", None))
    assert router(None, plain)({}) == (0, 1)
    assert router("type", plain)({}) == (0, 1)


def test_a_table_without_a_rule_gets_every_record() -> None:
    route = router("type", (*TARGETS, target("all", None)))
    assert route({"type": "order"}) == (0, 3)
    assert route({}) == (3,)


def test_more_texts_than_are_remembered_are_routed_alike() -> None:
    route = router("type", TARGETS)
    assert {route({"type": f"re{number}"}) for number in range(10_500)} == {(2,)}
