"""The list of events agrees with itself, with Source 001 and with what each service may do."""

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from datarecs_core.captures import events as capture
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.events import RunFinalised, RunTriggered
from datarecs_core.sink import events as sink
from datarecs_events import catalogue, event_types
from datarecs_events.catalogue import (
    CATALOGUE,
    DEAD_LETTER_TOPICS,
    EVENT_TYPES_BY_SERVICE,
    SUBSCRIPTIONS,
    TOPICS,
    DataRecsEventType,
    EventKind,
    Service,
    Topic,
    definition_of,
    definitions_of,
    subscriptions_of,
)
from datarecs_events.event_types import FILTERED_TYPES, PREFIX
from datarecs_events.examples import example_of, examples_of
from datarecs_events.field_docs import field_docs
from datarecs_events.shapes import Record, shape_of

SOURCE_001 = {
    "run": "triggered queued queue_errored completed errored finalised cancel_requested cancelled "
    "rows_processed",
    "run.extraction": "started completed errored",
    "run.comparison": "started completed errored",
    "run.stage": "started completed errored",
}
LIBS = Path(__file__).parents[2]


def test_every_member_has_one_definition() -> None:
    assert sorted(one.type for one in CATALOGUE) == sorted(DataRecsEventType)


def test_the_eighteen_types_of_source_001_exist_under_its_sources() -> None:
    runs = {one.type: one for one in CATALOGUE if one.kind.of_run}
    listed = [f"{family}.{name}" for family, names in SOURCE_001.items() for name in names.split()]
    assert len(listed) == 18
    assert set(runs) == {f"{PREFIX}reconciliation.{name}" for name in listed}
    worker = {one.type for one in runs.values() if one.source.endswith("reconciliation-worker")}
    platform = {"triggered", "queued", "queue_errored", "finalised", "cancel_requested"}
    platform_types = {f"{PREFIX}reconciliation.run.{name}" for name in {*platform, "cancelled"}}
    assert worker == set(runs) - platform_types
    assert {one.source for one in runs.values() if one.type in platform_types} == {
        "/datarecs/core-api"
    }


@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.short_name)
def test_a_definition_fits_its_class(one: catalogue.EventDef) -> None:
    names = [field.name for field in dataclasses.fields(one.event_class)]  # type: ignore[arg-type]  # events are dataclasses
    assert {one.key, "tenant_id", *one.exactly_one, *one.fixed} <= set(names)
    for event in examples_of(one).values():
        assert definition_of(event) is one
        assert one in definitions_of(type(event))
        assert re.fullmatch(r"[a-z-]+/\S+", one.subject_of(event))


@pytest.mark.case("STY-04")
@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.short_name)
def test_every_field_of_an_event_says_what_it_means(one: catalogue.EventDef) -> None:
    seen: list[type[object]] = []

    def check(shape: Record) -> None:
        seen.append(shape.event_class)
        silent = {part.name for part in shape.fields} - set(field_docs(shape.event_class))
        assert silent == set(), f"{shape.event_class.__name__} leaves fields unexplained"
        for part in shape.fields:
            inner = getattr(part.shape, "item", part.shape)
            if isinstance(inner, Record):
                check(inner)

    check(shape_of(one.event_class))
    assert all(cls.__doc__ for cls in seen)


def test_a_class_outside_the_catalogue_has_no_definition() -> None:
    with pytest.raises(KeyError):
        definitions_of(int)
    with pytest.raises(KeyError):
        definition_of(3)
    with pytest.raises(KeyError):
        example_of("io.datarecs.nothing")


def test_an_event_of_a_resource_belongs_to_the_type_of_its_kind() -> None:
    event = example_of(DataRecsEventType.RULE_CREATED)
    assert definition_of(event).type is DataRecsEventType.RULE_CREATED
    assert len(definitions_of(type(event))) == len(Kind)


@pytest.mark.case("L02")
def test_the_email_notifier_can_receive_nothing_but_finalised_runs() -> None:
    (only,) = subscriptions_of(Service.EMAIL_NOTIFIER)
    assert only.topic is Topic.RUN_PLATFORM
    assert only.types == frozenset({DataRecsEventType.RUN_FINALISED})
    assert [one for one in DataRecsEventType if only.admits(one)] == [
        DataRecsEventType.RUN_FINALISED
    ]


def test_the_webhook_service_receives_every_topic_without_a_filter() -> None:
    subscriptions = subscriptions_of(Service.WEBHOOK_SERVICE)
    assert {one.topic for one in subscriptions} == set(Topic)
    assert all(one.admits("anything") for one in subscriptions)


def test_one_author_per_outcome() -> None:
    raw = {DataRecsEventType.RUN_COMPLETED, DataRecsEventType.RUN_ERRORED}
    end = {DataRecsEventType.RUN_FINALISED, DataRecsEventType.RUN_CANCELLED}
    for service, types in EVENT_TYPES_BY_SERVICE.items():
        assert raw <= types or not raw & types
        assert (raw <= types) is (service is Service.RECONCILIATION_WORKER)
        assert (end <= types) is (service is Service.RUN_CONTROLLER)


def test_no_service_emits_what_it_receives_about_runs() -> None:
    for one in SUBSCRIPTIONS:
        emitted = EVENT_TYPES_BY_SERVICE[one.service]
        assert not (one.types or frozenset()) & emitted


def test_a_subscription_names_types_of_its_topic() -> None:
    topics = {one.type: one.topic for one in CATALOGUE}
    for one in SUBSCRIPTIONS:
        assert {topics[name] for name in one.types or ()} <= {one.topic}


def test_each_topic_is_written_by_the_relay_and_read_by_its_subscribers() -> None:
    assert [one.name for one in TOPICS] == list(Topic)
    assert {one.topic for one in CATALOGUE} - {None} == set(Topic)
    for topic in TOPICS:
        assert topic.writers == ("relay",)
        assert set(topic.readers) == {
            one.service for one in SUBSCRIPTIONS if one.topic == topic.name
        }


def test_each_group_has_separate_dead_letters() -> None:
    assert {one.name: one.writers for one in DEAD_LETTER_TOPICS} == {
        f"{group}.dlq": (group,) for group in {one.service for one in SUBSCRIPTIONS}
    }


def test_an_event_of_a_run_is_of_one_of_three_layers() -> None:
    assert {kind for kind in EventKind if kind.of_run} == {
        EventKind.PLATFORM,
        EventKind.INFRASTRUCTURE,
        EventKind.PROGRESS,
    }
    assert definition_of(example_of(DataRecsEventType.RUN_TRIGGERED)).event_class is RunTriggered
    assert definitions_of(RunFinalised)[0].addition == 2


def test_every_event_of_a_capture_is_known_and_in_one_order() -> None:
    family = [one for one in CATALOGUE if one.kind is EventKind.CAPTURE]
    defined = {one for one in vars(capture).values() if isinstance(one, type)}
    of_captures = {one for one in defined if issubclass(one, capture.CaptureEvent)}
    assert {one.event_class for one in family} == of_captures - {capture.CaptureEvent}
    assert {one.topic for one in family} == {Topic.CAPTURE}
    for one in family:
        event = example_of(one.type)
        assert isinstance(event, capture.CaptureEvent)
        assert one.key_of(event) == str(event.root_job_id)
        assert one.subject_of(event) == f"capture/{event.root_job_id}"


def test_every_event_of_a_sink_is_known_and_in_one_order() -> None:
    family = [one for one in CATALOGUE if one.kind is EventKind.SINK]
    defined = {one for one in vars(sink).values() if isinstance(one, type)}
    of_sinks = {one for one in defined if issubclass(one, sink.SinkEvent)}
    assert {one.event_class for one in family} == of_sinks - {sink.SinkEvent}
    assert {one.topic for one in family} == {Topic.SINK}
    assert {one.emitters for one in family} == {(Service.ICEBERG_SINK,)}
    for one in family:
        event = example_of(one.type)
        assert isinstance(event, sink.SinkEvent)
        assert one.key_of(event) == str(event.sink_uid)
        assert one.subject_of(event) == f"sink/{event.sink_uid}"


def literals(path: Path) -> list[str]:
    """Texts of a module that spell out a type, docstrings aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docs
        and PREFIX in node.value
    ]


def test_no_module_but_one_spells_out_a_type() -> None:
    home = Path(event_types.__file__)
    shipped = [*LIBS.glob("*/src/**/*.py"), *LIBS.parent.glob("services/*/src/**/*.py")]
    assert home in shipped
    testing = LIBS / "testing"
    modules_with_types = {
        str(path.relative_to(LIBS.parent)): texts
        for path in shipped
        if path != home and testing not in path.parents and (texts := literals(path))
    }
    assert modules_with_types == {}


def test_a_filter_chooses_from_every_type_that_webhooks_get() -> None:
    topics = {one.topic for one in subscriptions_of(Service.WEBHOOK_SERVICE)}
    assert {one.type for one in CATALOGUE if one.topic in topics} == FILTERED_TYPES
