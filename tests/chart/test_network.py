"""Policies, accounts and rights equal the tables of the security page."""

from ipaddress import ip_network
from typing import Any

import pytest

from datarecs_core.egress.addresses import TABLE, Purpose
from tests.chart.policy import of_kind
from tests.chart.rendering import SERVICES, KubeObject, matrix, merge, render, render_case

PARTS = {
    "core-api": {"database", "blob", "control"},
    "run-controller": {"database", "kafka", "kubernetes"},
    "reconciliation-worker": {"database", "blob", "sources"},
    "workflow": {"database", "blob", "sources", "kubernetes"},
    "email-notifier": {"database", "kafka", "mail"},
    "resource-controller": {"database", "blob"},
    "capture-worker": {"database", "blob", "sources"},
    "iceberg-sink": {"database", "sources"},
    "webhook-service": {"database", "kafka", "webhooks"},
    "migrate": {"database"},
    "topics": {"kafka"},
}
PORTS = {
    (5432,): "database",
    (9092, 9093, 9094): "kafka",
    (443,): "blob",
    (443, 5432, 9092, 9093, 9094): "sources",
    (465, 587): "mail",
    (443, 8443): "webhooks",
    (6443,): "kubernetes",
    (9443,): "control",
    (53, 53): "dns",
}


def policies() -> dict[str, KubeObject]:
    prefix = "datarecs-"
    return {
        one["metadata"]["name"].removeprefix(prefix): one
        for one in of_kind(render_case("all-on"), "NetworkPolicy")
    }


def ports(rule: dict[str, Any]) -> tuple[int, ...]:
    return tuple(port["port"] for port in rule["ports"])


@pytest.mark.case("K36")
@pytest.mark.parametrize("name", PARTS)
def test_a_pod_reaches_the_parts_of_the_table_and_dns(name: str) -> None:
    spec = policies()[name]["spec"]
    assert {PORTS[ports(rule)] for rule in spec["egress"]} == PARTS[name] | {"dns"}


@pytest.mark.case("K36")
@pytest.mark.parametrize("name", SERVICES)
def test_only_clients_of_the_api_and_monitoring_come_in(name: str) -> None:
    rules = policies()[name]["spec"]["ingress"]
    expected = [("side", "monitoring")]
    if name == "core-api":
        expected.append(("http", "ingress-nginx"))
    assert [
        (
            rule["ports"][0]["port"],
            rule["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"],
        )
        for rule in rules
    ] == expected


@pytest.mark.case("K36")
def test_nothing_passes_by_default() -> None:
    spec = policies()["default-deny"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & spec.keys()


@pytest.mark.case("K36")
def test_webhooks_reach_no_denied_network() -> None:
    rule = next(
        rule
        for rule in policies()["webhook-service"]["spec"]["egress"]
        if PORTS[ports(rule)] == "webhooks"
    )
    blocks = [peer["ipBlock"] for peer in rule["to"]]
    assert [block["cidr"] for block in blocks] == ["0.0.0.0/0", "::/0"]
    excepted = [ip_network(text) for block in blocks for text in block["except"]]
    denied = [
        network
        for row in TABLE
        if Purpose.WEBHOOK not in row.open_to
        for network in row.networks
        if network.prefixlen
    ]
    assert [one for one in denied if not _covered(one, excepted)] == []
    assert _covered(ip_network("198.51.100.7/32"), excepted)
    assert _covered(ip_network("2001:4860::/32"), excepted)
    assert not _covered(ip_network("1.1.1.1/32"), excepted)
    assert not _covered(ip_network("2606:4700::/32"), excepted)
    assert _covered(ip_network("4000::/16"), excepted)


def _covered(network: Any, by: list[Any]) -> bool:  # noqa: ANN401  either family
    return any(one.version == network.version and network.subnet_of(one) for one in by)


@pytest.mark.case("K36")
def test_a_part_without_peers_is_not_reached() -> None:
    values = merge(
        matrix()["all-on"][1], {"network": {"to": {"sources": {"ports": [5432], "peers": []}}}}
    )
    worker = next(
        one
        for one in of_kind(render(values), "NetworkPolicy")
        if one["metadata"]["name"] == "datarecs-reconciliation-worker"
    )
    assert len(worker["spec"]["egress"]) == 3


@pytest.mark.case("K37")
def test_only_a_service_with_rules_has_a_role_and_a_token() -> None:
    with_rules, without = render_case("all-on"), render_case("example")
    roles = {one["metadata"]["name"]: one["rules"] for one in of_kind(with_rules, "Role")}
    assert roles == {
        "datarecs-run-controller": [
            {
                "apiGroups": ["argoproj.io"],
                "resources": ["workflows"],
                "verbs": ["create", "get", "list", "watch", "patch", "delete"],
            }
        ],
        "datarecs-workflow": [
            {
                "apiGroups": ["argoproj.io"],
                "resources": ["workflowtaskresults"],
                "verbs": ["create", "patch"],
            }
        ],
    }
    assert list(of_kind(without, "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")) == []
    tokens = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["automountServiceAccountToken"]
        for one in of_kind(with_rules, "Deployment", "Job")
    }
    assert [name for name, token in tokens.items() if token] == ["datarecs-run-controller"]
