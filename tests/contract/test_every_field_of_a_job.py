"""A field of a job that is accepted has an effect: on the result, on the plan, or it is refused.

The fields come from the published schema, so one that is added without a probe fails here.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path

import pytest

from datarecs_cli.local.engines import heap_of
from datarecs_cli.local.reports import further
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import SERVES
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import Run
from datarecs_specs.documents import Decoded, decode_json
from datarecs_testing.api import memory_api
from datarecs_testing.builders import A_TENANT
from datarecs_testing.fields.documents import ABSENT, Json, Probe, jobs_of, place_of, put
from datarecs_testing.fields.job_probes import JOB_PROBES, probe_of
from datarecs_testing.fields.observing import Observed, observed
from datarecs_testing.fields.schema_fields import SchemaAlias, SchemaField, aliases_of, fields_of
from datarecs_testing.fields.tiny_sources import write_lake, write_sources

FIELDS = fields_of(Kind.RECONCILIATION_JOB)
ALIASES = aliases_of(Kind.RECONCILIATION_JOB)
ROOT = Path(__file__).parents[2]
Observe = Callable[[list[Json]], Observed]


def shown_by_the_api(job: Json) -> object:
    """What `datarecs get job` shows."""
    shown = memory_api().caller().post("/api/v1/jobs", json=job).json()
    metadata = {name: shown["metadata"].get(name) for name in ("name", "labels", "annotations")}
    return {"spec": shown["spec"], **metadata}


def namespace_of(job: Json) -> object:
    """Where the job is stored, and so who finds it."""
    return decode_json(job).require()[0].namespace


def run_of(job: Json) -> Run:
    """The run that a trigger makes of the job."""
    house = memory_api()
    caller = house.caller()
    assert caller.post("/api/v1/jobs", json=job).status_code == 201
    assert caller.post("/api/v1/jobs/probe/runs").status_code == 202
    (run,) = house.store.committed(A_TENANT).runs.values()
    return run


def deleted(job: Json) -> object:
    """Whether a deleted job goes at once."""
    caller = memory_api().caller()
    caller.post("/api/v1/jobs", json=job)
    return caller.delete("/api/v1/jobs/probe", headers={"If-Match": "*"}).status_code


def spec_of(job: Json) -> ReconciliationJob:
    _, spec = decode_json(job).require()
    assert isinstance(spec, ReconciliationJob)
    return spec


Effect = Callable[[Json], object]
CHANGES_NO_NUMBER: Mapping[str, tuple[Probe, Effect]] = {
    "metadata.name": (Probe(value="other", before="probe"), shown_by_the_api),
    "metadata.namespace": (Probe(value="other"), namespace_of),
    "metadata.labels": (Probe(value={"domain": "orders"}), shown_by_the_api),
    "metadata.annotations": (Probe(value={"wiki": "x"}), shown_by_the_api),
    "metadata.finalizers": (Probe(value=["example.com/wait"]), deleted),
    "spec.description": (Probe(value="of orders"), shown_by_the_api),
    "spec.owner": (Probe(value="team-a"), shown_by_the_api),
    "spec.parameters.*.description": (
        Probe(value="a day", other_fields={"parameters.amount.type": "text"}),
        shown_by_the_api,
    ),
    "spec.results.reports": (
        Probe(value=["markdown"]),
        lambda job: further(spec_of(job).results.reports),
    ),
    "spec.execution.memory": (
        Probe(value="8GiB"),
        lambda job: heap_of(spec_of(job).execution.memory),
    ),
    "spec.execution.deadline": (Probe(value="PT2H"), lambda job: run_of(job).deadline_seconds),
    "spec.execution.attempts": (Probe(value=5), lambda job: run_of(job).max_attempts),
    "spec.execution.priority": (Probe(value=1), lambda job: run_of(job).priority),
}
"""The only fields that neither plan nor result shows, each with the place where it acts."""
SHOWN_ELSEWHERE: Mapping[str, str] = {
    "spec.execution.retry_on": "libs/application/tests/test_runs.py"
    "::test_a_declared_retry_returns_the_run_instead_of_reporting",
}
"""Fields that only a supervised run obeys, with the test that shows it."""
PROBED = [
    one
    for one in FIELDS
    if not one.is_fixed and one.path not in {*CHANGES_NO_NUMBER, *SHOWN_ELSEWHERE}
]


@pytest.fixture(scope="module")
def observe(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Jobs over the tiny sources; the same documents are compared once."""
    folder = tmp_path_factory.mktemp("sources")
    seen: dict[str, Observed] = {}

    def once(documents: list[Json]) -> Observed:
        key = repr(documents)
        if key not in seen:
            seen[key] = observed(documents, folder)
        return seen[key]

    with ExitStack() as closing:
        write_sources(folder)
        write_lake(folder, closing)
        yield once


@pytest.mark.parametrize("field", PROBED, ids=lambda field: field.path)
def test_a_field_that_is_accepted_has_an_effect(field: SchemaField, observe: Observe) -> None:
    probe = probe_of(field.path)
    assert probe is not None, f"{field.path} is new: say in `job_probes` what it changes"
    documents, changed = jobs_of(field.path, probe)
    before, after = observe(documents), observe(changed)
    assert not before.faults, f"{field.path}: the job without it is refused: {before.faults}"
    if after.faults:
        assert all(fault.code.docs_id.startswith("DR1") for fault in after.faults)
        return
    needs_plan = bool(probe.plan_only) or "<postgres>" in field.path
    shown = (after.plan,) if needs_plan and not after.error else (after.result, after.error)
    known = (before.plan,) if needs_plan and not after.error else (before.result, before.error)
    assert shown != known, f"{field.path} is accepted and changes nothing"


@pytest.mark.parametrize("path", CHANGES_NO_NUMBER)
def test_a_field_that_changes_no_number_acts_where_it_says(path: str) -> None:
    probe, effect = CHANGES_NO_NUMBER[path]
    (*_, job), (*_, changed) = jobs_of(path, probe)
    assert effect(changed) != effect(job)


@pytest.mark.parametrize("path", SHOWN_ELSEWHERE)
def test_a_field_of_supervised_runs_has_a_separate_test(path: str) -> None:
    file, _, name = SHOWN_ELSEWHERE[path].partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert f"def {name}(" in text
    assert path.rpartition(".")[2] in text.partition(f"def {name}(")[2].partition("\ndef ")[0]


def test_every_probe_is_of_a_field_that_exists() -> None:
    paths = {re.sub(r"<\w+>", "<*>", one.path) for one in FIELDS} | {one.path for one in FIELDS}
    assert {*JOB_PROBES, *CHANGES_NO_NUMBER, *SHOWN_ELSEWHERE} <= paths


def test_the_number_of_fields_is_known(record_property: Callable[[str, object], None]) -> None:
    """A schema that offers no field would make every other test here pass."""
    fixed = [one for one in FIELDS if one.is_fixed]
    record_property("fields", len(FIELDS))
    counts = f"{len(FIELDS)} fields, {len(fixed)} of one word, {len(ALIASES)} aliases"
    print(counts)  # noqa: T201  the count that was requested
    assert len(PROBED) + len(fixed) + len(CHANGES_NO_NUMBER) + len(SHOWN_ELSEWHERE) == len(FIELDS)
    assert len(PROBED) > 250, counts


@pytest.mark.parametrize("kind", sorted(set(SourceKind) - set(SERVES)))
def test_a_kind_of_source_that_is_not_read_is_neither_offered_nor_accepted(kind: str) -> None:
    assert not [one.path for one in FIELDS if f"<{kind}>" in one.path]
    (*_, job), _ = jobs_of("spec.owner", Probe(value="x"))
    put(job, "spec.sources.0.kind", kind)
    (fault,) = (one for one in decode_json(job).faults if one.pointer == "/spec/sources/0/kind")
    assert fault.code.docs_id == "DR1012"
    assert ", ".join(SERVES) in fault.message


_ALIAS_VALUES: Mapping[str, tuple[object, object]] = {
    "abs_tol": ("0.5", [{"type": "ABSOLUTE", "value": "0.5"}]),
    "rel_tol": ("0.01", [{"type": "PERCENTAGE", "value": "1"}]),
}


def _with_alias(alias: SchemaAlias) -> tuple[Json, Json, Json]:
    """A job with the field, with its alias in its place, and with both."""
    below = f"{alias.parent}.{alias.field}"
    path, probe = next(
        (one.path, probe)
        for one in FIELDS
        if re.match(re.escape(below) + r"(\.|\[|$)", one.path) and not one.is_fixed
        for probe in (probe_of(one.path) or CHANGES_NO_NUMBER.get(one.path, (None,))[0],)
        if probe is not None
    )
    *_, plain = jobs_of(path, probe)[1]
    parent, _, _ = place_of(below, probe.key).rpartition(".")
    written, value = _ALIAS_VALUES.get(alias.name, (_at(plain, f"{parent}.{alias.field}"),) * 2)
    put(plain, f"{parent}.{alias.field}", value)
    copies = [deepcopy(plain), deepcopy(plain)]
    put(copies[0], f"{parent}.{alias.field}", ABSENT)
    for one in copies:
        put(one, f"{parent}.{alias.name}", written)
    return plain, copies[0], copies[1]


def _at(job: Json, place: str) -> object:
    value: object = job
    for name in place.split("."):
        value = value[int(name)] if isinstance(value, list) else value[name]  # type: ignore[index]  # JSON
    return value


def _codes(decoded: Decoded) -> set[str]:
    return {one.code.docs_id for one in decoded.findings}


@pytest.mark.parametrize("alias", ALIASES, ids=lambda one: f"{one.parent}.{one.name}")
def test_an_alias_has_the_effect_of_its_field_and_never_stands_beside_it(
    alias: SchemaAlias,
) -> None:
    plain, renamed, both = map(decode_json, _with_alias(alias))
    if plain.faults:
        assert {(one.code, one.message) for one in renamed.faults} == {
            (one.code, one.message) for one in plain.faults
        }
    else:
        assert renamed.spec == plain.spec
    assert "DR1007" in _codes(renamed)
    assert "DR1005" in _codes(both)
