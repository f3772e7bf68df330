"""Kinds: one canonical form and one hash for all equal declarations."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

import pytest

from datarecs_core.hashing import canonical_json
from datarecs_core.jobs.definition import Limits, Parameter, ReconciliationJob
from datarecs_core.resources.resource import Kind
from datarecs_specs.documents import decode_json, decode_stored, decode_yaml
from datarecs_specs.kinds import KINDS, kind_named
from datarecs_specs.records import ListOf, ListOrWord, MapOf, Record, Tagged

JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: orders}}
spec:
  {more}
  sources:
    - {{name: ledger, kind: postgres, connection: pg, relation: public.orders}}
    - {{name: exports, kind: csv, connection: files, path: a.csv}}
  stages:
    - {{name: rows, type: row, dimensions: [id], measures: [{measure}]}}
"""
SPECS: Mapping[Kind, Mapping[str, object]] = {
    Kind.CONNECTION: {
        "type": "postgres",
        "config": {"host": "db.example.com", "database": "ledger", "user": "recon"},
        "auth": {"password": "env:DATARECS_CONN_DEFAULT_PG"},
    },
    Kind.SCHEDULE: {"job": "orders", "cron": "30 2 * * *"},
    Kind.WEBHOOK_ENDPOINT: {"url": "https://erp.example.com/hook"},
    Kind.NOTIFICATION_RULE: {"to": [{"address": "finops@example.com"}]},
    Kind.RETENTION_POLICY: {"targets": {"runs": {"ttl": "P90D"}}},
    Kind.CAPTURE: {"connection": "lake", "mode": "METADATA_ONLY", "snapshots": {"select": "ALL"}},
    Kind.SINK_TABLE: {
        "connection": "kafka",
        "topics": ["orders"],
        "table": {"catalog": "lake", "namespace": "sales", "name": "orders"},
    },
}


FIXED = "sha256:68863bfe2d3ae16469bc12e438d381b66f9c38137e13f852c2abf48090ee4e53"


def hash_of(*, more: str = "empty: warn", measure: str = "{name: amount}") -> str:
    (decoded,) = decode_yaml(JOB.format(more=more, measure=measure).encode())
    declared, _ = decoded.require()
    return declared.spec_hash


@pytest.mark.case("R02")
@pytest.mark.parametrize(
    "same",
    [
        {"more": "normalize: {strings: {trim: none}}"},
        {"more": "parameters: {}"},
        {"more": "results: {breaks: {retention: P30D}}"},
        {"more": "schema: {mode: strict, ignore: []}"},
        {"measure": "{combine: all, name: amount, tolerances: [{type: EXACT}]}"},
    ],
)
def test_defaults_spelled_out_change_no_hash(same: dict[str, str]) -> None:
    assert hash_of(**same) == hash_of()


@pytest.mark.parametrize(
    "neutral",
    [
        "description: text",
        "owner: team-b",
        "execution: {memory: 4GiB, deadline: PT2H}",
        "results: {reports: [html, csv]}",
        "params: {}",
    ],
)
def test_what_changes_no_number_changes_no_hash(neutral: str) -> None:
    assert hash_of(more=neutral) == hash_of()


@pytest.mark.parametrize(
    "other",
    [
        {"more": "empty: error"},
        {"more": "reference: exports"},
        {"more": "results: {breaks: {sample_per_class: 5}}"},
        {"measure": "{name: amount, tolerances: [{type: ABSOLUTE, value: 0.01}]}"},
        {"measure": "{name: other}"},
    ],
)
def test_what_changes_a_number_changes_the_hash(other: dict[str, str]) -> None:
    assert hash_of(**other) != hash_of()


def test_an_alias_and_its_field_are_one() -> None:
    tolerance = "{name: amount, tolerances: [{type: ABSOLUTE, value: 0.01}]}"
    assert hash_of(measure="{name: amount, abs_tol: 0.01}") == hash_of(measure=tolerance)


def test_the_hash_of_a_spec_is_fixed_for_ever() -> None:
    """Stored verdicts name it; if this fails, a default or the canonical form has changed."""
    assert hash_of() == FIXED


@pytest.mark.parametrize("kind", list(SPECS))
def test_every_kind_is_written_canonically_and_read_back(kind: Kind) -> None:
    body = {
        "apiVersion": "datarecs.io/v1",
        "kind": str(kind),
        "metadata": {"name": "x"},
        "spec": SPECS[kind],
    }
    declared, spec = decode_json(body).require()
    assert decode_stored(kind, "x", declared.spec) == spec
    again, _ = decode_json({**body, "spec": declared.spec}).require()
    assert again == declared
    assert canonical_json(declared.spec)


def test_defaults_are_materialised() -> None:
    body = {
        "apiVersion": "datarecs.io/v1",
        "kind": "WebhookEndpoint",
        "metadata": {"name": "x"},
        "spec": SPECS[Kind.WEBHOOK_ENDPOINT],
    }
    declared, _ = decode_json(body).require()
    assert (declared.spec["timeout"], declared.spec["signing"]) == (
        "PT15S",
        {"mode": "managed", "secret_refs": []},
    )


def _records(shape: object) -> Iterator[Record]:
    match shape:
        case Record():
            yield shape
            for one in shape.fields:
                yield from _records(one.shape)
        case Tagged():
            yield from _records(shape.general)
            for variant in shape.variants.values():
                yield from _records(variant)
        case ListOf():
            yield from _records(shape.item)
        case MapOf():
            yield from _records(shape.value)
        case ListOrWord():
            yield from _records(shape.items)
        case _:
            pass


def test_shapes_and_models_have_the_same_fields() -> None:
    """A field of a model that no shape reads could never be set, one too many never built."""
    read: dict[type, set[str]] = {}
    for entry in KINDS.values():
        for record in _records(entry.shape):
            if isinstance(record.model, type) and is_dataclass(record.model):
                read.setdefault(record.model, set()).update(one.keyword for one in record.fields)
    names = {model: {one.name for one in fields(model)} for model in read}
    names[ReconciliationJob].remove("name")  # of the metadata
    names[Parameter].remove("many")  # within `type`
    names[Limits] -= {"max_value_bytes", "max_key_bytes"}  # the platform's, not a job's
    assert read == names


def test_the_table_names_every_kind() -> None:
    assert set(KINDS) == set(Kind)
    assert len({entry.path for entry in KINDS.values()}) == len(Kind)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("ReconciliationJob", Kind.RECONCILIATION_JOB),
        ("jobs", Kind.RECONCILIATION_JOB),
        ("job", Kind.RECONCILIATION_JOB),
        ("CONN", Kind.CONNECTION),
        ("webhook-endpoint", Kind.WEBHOOK_ENDPOINT),
        ("rule", Kind.NOTIFICATION_RULE),
        ("schedule", Kind.SCHEDULE),
        ("sched", Kind.SCHEDULE),
        ("retention-policy", Kind.RETENTION_POLICY),
        ("retention-policies", Kind.RETENTION_POLICY),
        ("ret", Kind.RETENTION_POLICY),
        ("captures", Kind.CAPTURE),
        ("cap", Kind.CAPTURE),
        ("sink-table", Kind.SINK_TABLE),
        ("sink-tables", Kind.SINK_TABLE),
        ("sink", Kind.SINK_TABLE),
    ],
)
def test_a_kind_is_known_by_any_of_its_names(word: str, kind: Kind) -> None:
    entry = kind_named(word)
    assert entry is not None
    assert entry.kind is kind


def test_an_unknown_word_names_no_kind() -> None:
    assert kind_named("pipeline") is None
