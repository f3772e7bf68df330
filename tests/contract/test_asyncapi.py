"""`events-schema/asyncapi.yaml` agrees with the catalogue and the subscriptions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from datarecs_events.catalogue import CATALOGUE, SUBSCRIPTIONS, TOPICS

FOLDER = Path(__file__).parents[2] / "events-schema"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    content: dict[str, Any] = YAML(typ="safe").load(FOLDER / "asyncapi.yaml")
    return content


def references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for item in node.values():
            yield from references(item)
    elif isinstance(node, list):
        for item in node:
            yield from references(item)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for reference in references(document):
        if reference.startswith("./"):
            assert (FOLDER / reference).is_file()
            continue
        place: Any = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_each_type_of_a_topic_is_one_message_of_its_channel(document: dict[str, Any]) -> None:
    messages = document["components"]["messages"]
    messages_of_channels = {
        (channel["address"], messages[name]["name"])
        for channel in document["channels"].values()
        for name in channel["messages"]
    }
    assert messages_of_channels == {
        (one.topic, one.type) for one in CATALOGUE if one.topic is not None
    }
    assert {one["address"] for one in document["channels"].values()} == {one.name for one in TOPICS}


def test_operations_are_who_sends_and_who_receives(document: dict[str, Any]) -> None:
    operations = {
        (name.partition("-tells-" if one["action"] == "send" else "-hears-")[0], one["action"])
        for name, one in document["operations"].items()
    }
    senders = {(service, "send") for one in CATALOGUE if one.topic for service in one.emitters}
    assert operations == senders | {(one.service, "receive") for one in SUBSCRIPTIONS}
    messages_received = document["operations"]["email-notifier-hears-datarecs-run-platform"][
        "messages"
    ]
    assert [one["$ref"].rpartition("/")[2] for one in messages_received] == [
        "reconciliation-run-finalised"
    ]


def test_every_server_names_how_to_sign_in(document: dict[str, Any]) -> None:
    schemes = document["components"]["securitySchemes"]
    for server in document["servers"].values():
        (reference,) = server["security"]
        assert schemes[reference["$ref"].rpartition("/")[2]]["type"] == "scramSha512"
    protocols = {one["protocol"] for one in document["servers"].values()}
    assert protocols == {"kafka", "kafka-secure"}
