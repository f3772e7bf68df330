"""The login of a sink: the rights that the page lists, and no others."""

import re
import secrets
from pathlib import Path

import pytest

from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.sink_logins import (
    PREFIX,
    create_login,
    create_topic,
    member_count,
    send_values,
    sink_rights,
)
from datarecs_testing.stack import KafkaBroker

ROWS = {
    "the topics": "TOPIC payments",
    f"topics that begin with `{PREFIX}`": f"TOPIC {PREFIX}*",
    f"groups that begin with `{PREFIX}`": f"GROUP {PREFIX}*",
    f"transactional ids that begin with `{PREFIX}`": f"TRANSACTIONAL_ID {PREFIX}*",
    "the cluster": "CLUSTER kafka-cluster",
}


def test_the_rights_are_those_that_the_page_lists() -> None:
    page = (Path(__file__).parents[3] / "docs/howto/sink.md").read_text(encoding="utf-8")
    table = page.partition("## What the login needs")[2].partition("\n## ")[0]
    listed = {
        (ROWS[place], operation.upper())
        for place, operations in re.findall(
            r"^\| ([^|]+?) \| ([A-Z][^|]+?) \|$", table, re.MULTILINE
        )
        for operation in operations.split(", ")
    }
    granted = {
        (f"{one.resource.name} {one.name}{'*' if one.is_prefix else ''}", one.operation.name)
        for one in sink_rights(["payments"])
    }
    assert granted == listed


@pytest.mark.integration
def test_a_login_of_a_sink_writes_no_record_of_its_topic(kafka_broker: KafkaBroker) -> None:
    suffix = secrets.token_hex(4)
    topic, name = f"payments-{suffix}", f"landing-{suffix}"
    for _ in range(2):
        create_topic(kafka_broker.access, topic, partitions=2)
        create_login(kafka_broker.access, name, [topic], password="sample-password")
    send_values(kafka_broker.access, topic, [b"{}"] * 3)
    login = BrokerAccess(
        bootstrap=kafka_broker.bootstrap, username=name, password="sample-password"
    )
    with pytest.raises(LogUnavailableError):
        send_values(login, topic, [b"{}"])
    assert member_count(kafka_broker.access, f"{PREFIX}{suffix}") == 0
