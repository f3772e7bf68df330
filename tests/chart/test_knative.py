"""The chart with the eventing mode knative: Triggers of the subscriptions, and no Kafka."""

import json

import pytest

from datarecs_events.catalogue import SUBSCRIPTIONS
from tests.chart.policy import of_kind
from tests.chart.rendering import KNATIVE, KubeObject, example, merge, render
from tests.chart.test_manifests import schema_faults
from tests.chart.test_values import refusal

RUNS = "io.datarecs.reconciliation."


@pytest.fixture(scope="module")
def objects() -> list[KubeObject]:
    return render(merge(example(), KNATIVE))


def by_subscriber(objects: list[KubeObject]) -> dict[str, list[str | None]]:
    """Service to the types of its Triggers; None for a Trigger without a filter."""
    types: dict[str, list[str | None]] = {}
    for one in of_kind(objects, "Trigger"):
        spec = one["spec"]
        name = spec["subscriber"]["ref"]["name"].removeprefix("datarecs-").removesuffix("-ce")
        attributes = spec.get("filter", {}).get("attributes", {})
        assert set(attributes) <= {"type"}
        types.setdefault(name, []).append(attributes.get("type"))
    return types


@pytest.mark.case("K38")
def test_triggers_have_exactly_the_filters_of_the_contract(objects: list[KubeObject]) -> None:
    types = by_subscriber(objects)
    assert types["email-notifier"] == [f"{RUNS}run.finalised"]
    assert types["webhook-service"] == [None]
    ends = {f"{RUNS}run.completed", f"{RUNS}run.errored"}
    assert ends <= set(types["run-controller"])
    assert f"{RUNS}run.finalised" not in types["run-controller"]
    subscribed = {
        name for one in SUBSCRIPTIONS if one.service == "run-controller" for name in one.types or ()
    }
    assert sorted(map(str, types["run-controller"])) == sorted(subscribed)
    assert set(types) == {"run-controller", "email-notifier", "webhook-service"}


@pytest.mark.case("K38")
def test_deliveries_are_ordered_and_end_at_the_dead_letter_sink(objects: list[KubeObject]) -> None:
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "Service")}
    for one in of_kind(objects, "Trigger"):
        assert one["metadata"]["annotations"] == {
            "kafka.eventing.knative.dev/delivery.order": "ordered"
        }
        assert one["spec"]["delivery"] == {
            "retry": 10,
            "backoffPolicy": "exponential",
            "backoffDelay": "PT1S",
            "deadLetterSink": KNATIVE["eventing"]["deadLetterSink"],
        }
        subscriber = one["spec"]["subscriber"]
        assert subscriber["uri"] == "/ce"
        (port,) = services[subscriber["ref"]["name"]]["ports"]
        assert (port["port"], port["targetPort"]) == (80, "events")
        assert list(schema_faults(one, "1.31")) == []


@pytest.mark.case("K30")
def test_a_trigger_without_a_subscriber_is_detected(objects: list[KubeObject]) -> None:
    trigger = next(of_kind(objects, "Trigger"))
    spec = {name: value for name, value in trigger["spec"].items() if name != "subscriber"}
    assert len(list(schema_faults({**trigger, "spec": spec}, "1.31"))) == 1


def test_nothing_of_kafka_is_left(objects: list[KubeObject]) -> None:
    text = json.dumps([one for one in objects if one["kind"] != "Trigger"])
    for word in ("DATARECS_KAFKA", "kafka__", "datarecs-topics", "kafka-ca"):
        assert word not in text
    for one in of_kind(objects, "Deployment"):
        env = {
            variable["name"]: variable["value"]
            for variable in one["spec"]["template"]["spec"]["containers"][0]["env"]
        }
        is_reader = one["metadata"]["name"].removeprefix("datarecs-") in by_subscriber(objects)
        assert (env.get("DATARECS_EVENTING__MODE") == "knative") is is_reader


def test_only_the_broker_reaches_the_port_of_events(objects: list[KubeObject]) -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "NetworkPolicy")}
    for service in by_subscriber(objects):
        rules = [
            rule
            for rule in policies[f"datarecs-{service}"]["ingress"]
            if rule["ports"][0]["port"] == "events"
        ]
        (rule,) = rules
        names = rule["from"][0]["namespaceSelector"]["matchLabels"]
        assert names == {"kubernetes.io/metadata.name": "knative-eventing"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("brokerUrl", "eventing.brokerUrl is not set"),
        ("deadLetterSink", "eventing.deadLetterSink is not set"),
    ],
)
def test_what_the_mode_needs_is_named(name: str, message: str) -> None:
    values = merge(example(), KNATIVE)
    values["eventing"].pop(name)
    assert message in refusal(values)
