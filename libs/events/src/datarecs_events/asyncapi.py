"""The AsyncAPI 3.1 document: channels are topics, messages are types, operations are services.

It is made from the catalogue, as all files of `events-schema/`; payloads refer to the schemas in
it. `publishing` makes the other files.
"""

import json
import re
from collections.abc import Iterator, Mapping

from datarecs_events.catalogue import (
    CATALOGUE,
    SUBSCRIPTIONS,
    TOPICS,
    EventDef,
    Service,
    Topic,
    TopicDef,
)
from datarecs_events.envelope import SPECVERSION
from datarecs_events.field_docs import class_doc

Node = Mapping[str, object]
_PLAIN = re.compile(r"[A-Za-z$][A-Za-z0-9$_-]*")
_TEXT = {"type": "string"}
ASYNCAPI = "3.1.0"
_TAGS = {
    "runs": "Events of runs; act on run.finalised and run.cancelled.",
    "resources": "Changes of declared resources.",
    "notifications": "Outcomes of mails and webhooks.",
    "captures": "Captures of tables and their statistics, in order within a capture.",
    "sinks": "Commits of records of Kafka topics into Iceberg tables.",
}
_SCRAM = {
    "type": "scramSha512",
    "description": "One principal per reader: datarecs admin consumer create NAME.",
}
_SECURITY = [{"$ref": "#/components/securitySchemes/scram"}]
_SERVERS: Node = {
    "deployment": {
        "host": "{broker}:{port}",
        "protocol": "kafka-secure",
        "description": "The brokers of a deployment, over TLS (SASL_SSL).",
        "variables": {
            "broker": {"default": "kafka.example.com", "description": "One of the brokers."},
            "port": {"default": "9093", "description": "Its SASL_SSL listener."},
        },
        "security": _SECURITY,
    },
    "local": {
        "host": "127.0.0.1:{port}",
        "protocol": "kafka",
        "description": "The broker of `datarecs up`, on loopback without TLS.",
        "variables": {"port": {"default": "29092", "description": "`datarecs status` shows it."}},
        "security": _SECURITY,
    },
}


def asyncapi_text() -> str:
    """The document as YAML."""
    return "\n".join(_lines(_document(), "")) + "\n"


def _document() -> Node:
    sent = [one for one in CATALOGUE if one.topic is not None]
    return {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": "Events of datarecs",
            "version": "1.0.0",
            "description": "CloudEvents 1.0 on Kafka, binary mode: attributes in ce_ headers.",
            "contact": {"name": "The datarecs maintainers"},
            "license": {"name": "Apache-2.0"},
            "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        },
        "servers": _SERVERS,
        "defaultContentType": "application/json",
        "channels": {_id(one.name): _channel(one) for one in TOPICS},
        "operations": dict(_operations()),
        "components": {
            "messages": {_id(one.short_name): _message(one) for one in sent},
            "securitySchemes": {"scram": _SCRAM},
        },
    }


def _channel(topic: TopicDef) -> Node:
    return {
        "address": topic.name,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in _on(topic.name)},
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "partitions": topic.partitions,
                "topicConfiguration": {
                    "cleanup.policy": ["delete"],
                    "retention.ms": int(topic.retention.total_seconds() * 1000),
                },
                "bindingVersion": "0.5.0",
            }
        },
    }


def _message(one: EventDef) -> Node:
    return {
        "name": one.type.value,
        "title": one.short_name,
        "summary": class_doc(one.event_class),
        "contentType": "application/json",
        "headers": {
            "type": "object",
            "properties": {
                "ce_specversion": {"const": SPECVERSION},
                "ce_type": {"const": one.type.value},
                "ce_source": {"const": one.source},
                "ce_id": {"type": "string", "format": "uuid"},
                "ce_dataschema": _TEXT,
            },
            "required": ["ce_specversion", "ce_type", "ce_source", "ce_id"],
        },
        "payload": {"$ref": f"./{one.short_name}/1.json"},
        "bindings": {"kafka": {"key": _TEXT | {"description": one.key}, "bindingVersion": "0.5.0"}},
    }


def _operations() -> Iterator[tuple[str, Node]]:
    """The types that each service sends and receives."""
    for service in Service:
        for topic in Topic:
            definitions = [
                one for one in CATALOGUE if one.topic is topic and service in one.emitters
            ]
            if definitions:
                yield _operation(
                    service, "send", topic, [_id(one.short_name) for one in definitions]
                )
    for one in SUBSCRIPTIONS:
        messages = [
            _id(known.short_name)
            for known in CATALOGUE
            if known.topic is one.topic and one.admits(known.type)
        ]
        yield _operation(one.service, "receive", one.topic, messages)


def _operation(
    service: Service, action: str, topic: Topic, messages: list[str]
) -> tuple[str, Node]:
    channel = f"#/channels/{_id(topic)}"
    verb = "tells" if action == "send" else "hears"
    return f"{service}-{verb}-{_id(topic)}", {
        "action": action,
        "description": _DESCRIPTIONS[action].format(service=service, topic=topic),
        "channel": {"$ref": channel},
        "messages": [{"$ref": f"{channel}/messages/{name}"} for name in messages],
    }


_DESCRIPTIONS = {
    "send": "{service} writes these types to {topic}; the relay sends them.",
    "receive": "{service} reads these types of {topic}.",
}


def _on(topic: str) -> list[str]:
    return [_id(one.short_name) for one in CATALOGUE if one.topic == topic]


def _id(name: str) -> str:
    """A name without dots, as the document requires."""
    return name.replace(".", "-")


def _lines(value: object, indent: str) -> Iterator[str]:
    """Block style; texts are quoted as JSON, which is also YAML."""
    match value:
        case Mapping():
            for key, item in value.items():
                name = key if _PLAIN.fullmatch(key) else json.dumps(key)
                yield from _entry(f"{indent}{name}:", item, indent + "  ")
        case list():
            for item in value:
                first, *rest = _lines(item, indent + "  ")
                yield f"{indent}- {first.lstrip()}"
                yield from rest
        case _:
            yield f"{indent}{json.dumps(value, ensure_ascii=False)}"


def _entry(lead: str, item: object, indent: str) -> Iterator[str]:
    if isinstance(item, Mapping | list):
        yield lead
        yield from _lines(item, indent)
    else:
        yield f"{lead} {json.dumps(item, ensure_ascii=False)}"
