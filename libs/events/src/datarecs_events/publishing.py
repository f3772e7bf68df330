"""The content of `events-schema/`: the contract of the events for readers without Python.

Every file as text, by its path: schemas, examples, payloads that must be refused, the catalogue,
the subscriptions, the AsyncAPI document and a page about allowed changes. `schemas` compares these
texts with a folder.
"""

import json
from collections.abc import Mapping

from datarecs_events.asyncapi import asyncapi_text
from datarecs_events.catalogue import CATALOGUE, SUBSCRIPTIONS, TOPICS, EventDef, Subscription
from datarecs_events.conversion import to_plain
from datarecs_events.examples import example_of, examples_of
from datarecs_events.field_docs import class_doc
from datarecs_events.json_schema import schema_of
from datarecs_events.json_text import write
from datarecs_events.shapes import Integer, Record, Word, shape_of

Payload = dict[str, object]

_README = """\
# Events of datarecs

Every event is a CloudEvent 1.0. On Kafka it is in binary mode: attributes in `ce_` headers, the
payload as the record's value. Webhooks get the JSON format by default, with the same bytes.
`make schemas` writes this folder; edit the dataclasses in `libs/core`, never these files.

| file | content |
|---|---|
| `<type>/1.json` | JSON Schema (2020-12) of the payload; `$id` is the event's `dataschema` |
| `<type>/examples/` | payloads that every reader must accept |
| `<type>/invalid/` | payloads that every reader must refuse |
| `catalogue.json` | every type with source, emitters, topic, key and subject |
| `subscriptions.json` | the types that each service reads, as filters on `type` |
| `asyncapi.yaml` | the same as AsyncAPI 3.1: topics, messages, their senders and readers |

Act on `reconciliation.run.finalised` and `reconciliation.run.cancelled`: they are sent after the
change in the database. `run.completed` and `run.errored` are raw outcomes and may precede it.

## What may change

- Within a type only optional fields are added; the number after the dot in `dataschema` increases.
- Removing, renaming, retyping, narrowing a limit, requiring a field or changing its meaning makes a
  new type with the suffix `.v2`; both are sent for at least two minor releases.
- Closed enums (`enum` in a schema) never change within a type. Open ones are texts with `examples`.
- Readers ignore unknown fields, accept higher additions and keep unknown words as text.
- Numbers with a fraction are exact decimals: read them with a decimal parser, or use the text
  beside them (`tolerance_value_exact`).

## Types

| type, after `{prefix}` | topic | written by | meaning |
|---|---|---|---|
"""


def published_files() -> dict[str, str]:
    """Path below `events-schema/` to content, for every file of the folder."""
    files = {
        "README.md": _readme(),
        "catalogue.json": _pretty([_entry(one) for one in CATALOGUE]),
        "subscriptions.json": _pretty([_filter(*pair) for pair in _subscribed_types()]),
        "asyncapi.yaml": asyncapi_text(),
    }
    for one in CATALOGUE:
        folder = one.short_name
        files[f"{folder}/1.json"] = _pretty(schema_of(one))
        for name, event in examples_of(one).items():
            plain = to_plain(shape_of(one.event_class), event)
            files[f"{folder}/examples/{name}.json"] = _pretty(plain)
        for name, payload in refused_payloads(one).items():
            files[f"{folder}/invalid/{name}.json"] = _pretty(payload)
    return files


def refused_payloads(definition: EventDef) -> Mapping[str, Payload]:
    """Payloads that violate the type's schema, by their fault."""
    shape = shape_of(definition.event_class)
    good = to_plain(shape, example_of(definition.type))
    if not isinstance(good, dict):
        raise TypeError(f"{definition.type} has no object as payload")
    needed = [one.name for one in shape.fields if one.required and one.name != "tenant_id"][-1]
    bad: dict[str, Payload] = {
        f"without-{needed}": {name: value for name, value in good.items() if name != needed},
        f"number-as-{needed}": good | {needed: -0.5},
    }
    bad |= _bad_fields(shape, good)
    for name in definition.absent:
        bad[f"with-{name}"] = good | {name: "MATCHED"}
    if definition.exactly_one:
        none = {k: v for k, v in good.items() if k not in definition.exactly_one}
        both = {"result": "MATCHED", "error": {"code": "UNKNOWN", "message": "both"}}
        bad |= {"neither": none, "both": none | both}
    return bad


def _bad_fields(shape: Record, good: Payload) -> dict[str, Payload]:
    """An unknown word of each closed enum, and a negative count."""
    bad: dict[str, Payload] = {}
    for one in shape.fields:
        if isinstance(one.shape, Word):
            bad[f"unknown-{one.name}"] = good | {one.name: "SOMETHING_ELSE"}
        elif isinstance(one.shape, Integer):
            bad[f"negative-{one.name}"] = good | {one.name: -1}
    return bad


def _entry(one: EventDef) -> Payload:
    return {
        "type": one.type.value,
        "dataschema": one.dataschema,
        "schema": f"{one.short_name}/1.json",
        "source": one.source,
        "emitters": [service.value for service in one.emitters],
        "topic": None if one.topic is None else one.topic.value,
        "key": one.key,
        "subject": one.subject.replace("{event.", "<").replace("}", ">"),
        "kind": one.kind.value,
    }


def _subscribed_types() -> list[tuple[Subscription, str | None]]:
    return [
        (one, name)
        for one in SUBSCRIPTIONS
        for name in ([None] if one.types is None else sorted(one.types))
    ]


def _filter(one: Subscription, name: str | None) -> Payload:
    """In the form of a Knative Trigger; without a type: all types of the topic."""
    trigger: Payload = {"subscriber": one.service.value, "topic": one.topic.value}
    return trigger if name is None else trigger | {"filter": {"attributes": {"type": name}}}


def _readme() -> str:
    prefix = CATALOGUE[0].type.removesuffix(CATALOGUE[0].short_name)
    rows = [
        f"| `{one.short_name}` | {one.topic or 'HTTP only'} | {', '.join(one.emitters) or '-'} "
        f"| {class_doc(one.event_class)} |"
        for one in CATALOGUE
    ]
    topics = [
        f"| `{one.name}` | {one.partitions} | {one.retention.days} d | {', '.join(one.readers)} |"
        for one in TOPICS
    ]
    head = "\n## Topics\n\n| topic | partitions | kept | read by |\n|---|---|---|---|\n"
    body = _README.replace("{prefix}", prefix)
    return body + "\n".join(rows) + "\n" + head + "\n".join(topics) + "\n"


def _pretty(value: object) -> str:
    """JSON with one member per line, and with all digits of Decimals, which `json` cannot write."""
    return _indented(value, "\n") + "\n"


def _indented(value: object, line: str) -> str:
    inner = line + "  "
    match value:
        case dict() if value:
            members = (f"{write(key)}: {_indented(item, inner)}" for key, item in value.items())
            return "{" + inner + ("," + inner).join(members) + line + "}"
        case list() if value:
            items = (_indented(item, inner) for item in value)
            return "[" + inner + ("," + inner).join(items) + line + "]"
        case None | float():
            return json.dumps(value)
        case _:
            return write(value)
