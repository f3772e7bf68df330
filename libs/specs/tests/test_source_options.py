"""Options of every kind of source: what was accepted once is accepted in each form it is written.

`validate` reads what a person wrote, `apply` sends it with its defaults, the server stores that,
and `get -o yaml` prints it for the next `apply`.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations

import pytest

from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.resource import Kind
from datarecs_specs.documents import Decoded, decode_json, job_of
from datarecs_specs.kinds import KINDS
from datarecs_specs.source_options import OPTIONS

ORIGINS = {
    SourceKind.POSTGRES: {"relation": "public.orders"},
    SourceKind.PARQUET: {"path": "a.parquet"},
    SourceKind.CSV: {"path": "a.csv"},
    SourceKind.JSON: {"path": "a.json"},
    SourceKind.KAFKA: {"topic": "orders"},
}
VALUES: Mapping[str, tuple[object, ...]] = {
    "fetch_size": (1, 10_000),
    "delimiter": (";", ","),
    "quote": ("'", '"'),
    "escape": ("\\", '"'),
    "null": ("", "-"),
    "null_words": ([], ["n/a"]),
    "thousands": ("", "."),
    "date_format": ("%d.%m.%Y",),
    "timestamp_format": ("%d.%m.%Y %H:%M",),
    "formats": ({}, {"b": "%d.%m.%Y"}),
    "skip": ({}, {"first": 2}, {"first": 0, "last": 1, "prefixes": ["#"]}),
    "id_columns": ([], ["a"]),
    "schema": ({}, {"a": "decimal(10,2)"}),
}
"""Of options that are no words and no flags."""


def values_of(kind: SourceKind, name: str) -> tuple[object, ...]:
    (field,) = (one for one in OPTIONS[kind] if one.name == name)
    schema = field.shape.schema()
    words = schema.get("enum")
    if isinstance(words, list):
        return tuple(words)
    return (True, False) if schema.get("type") == "boolean" else VALUES[name]


def choices(kind: SourceKind) -> Iterator[dict[str, object]]:
    """No option, each value of one, and each pair of values of two."""
    yield {}
    every = {one.name: values_of(kind, one.name) for one in OPTIONS[kind]}
    for name, values in every.items():
        yield from ({name: value} for value in values)
    for one, other in combinations(every, 2):
        yield from ({one: a, other: b} for a in every[one] for b in every[other])


def decoded(source: Mapping[str, object]) -> Decoded:
    other = {"name": "b", "kind": "postgres", "connection": "d", "relation": "b"}
    spec = {"sources": [source, other], "stages": [{"name": "n", "type": "counts"}]}
    return decoded_spec(spec)


def decoded_spec(spec: object) -> Decoded:
    return decode_json(
        {
            "apiVersion": "datarecs.io/v1",
            "kind": "ReconciliationJob",
            "metadata": {"name": "j"},
            "spec": spec,
        }
    )


def test_every_kind_with_options_has_a_source() -> None:
    assert ORIGINS.keys() == OPTIONS.keys()


@pytest.mark.parametrize("kind", OPTIONS)
def test_options_survive_each_form_in_which_they_are_written(kind: SourceKind) -> None:
    accepted = 0
    for options in choices(kind):
        source = {"name": "a", "kind": kind, "connection": "c", **ORIGINS[kind]}
        written = decoded({**source, "options": options})
        if written.faults:
            continue
        declared, job = written.require()
        assert isinstance(job, ReconciliationJob)
        minimal = KINDS[Kind.RECONCILIATION_JOB].shape.write(job, minimal=True)
        for form in (declared.spec, minimal):
            again = decoded_spec(form)
            assert not again.faults, options
            assert (again.spec, again.require()[0].spec_hash) == (job, declared.spec_hash), options
        assert job_of("j", declared.spec) == job, options
        accepted += 1
    assert accepted > len(OPTIONS[kind])
