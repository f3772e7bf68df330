"""Documents: every fault at once, each with its file, line and column."""

from dataclasses import replace
from decimal import Decimal

import pytest

from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.egress.urls import UrlRules
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.resources.annotations import FLAGS, KINDS
from datarecs_core.resources.connection import Connection
from datarecs_core.resources.resource import Kind
from datarecs_specs.documents import (
    EDITOR,
    Decoded,
    Expected,
    InvalidSpecError,
    decode_json,
    decode_stored,
    decode_yaml,
    job_of,
)
from datarecs_specs.findings import MAX_SHOWN, as_lines, headline

MINIMAL = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: orders-daily}
spec:
  sources:
    - {name: ledger, kind: postgres, connection: pg-ledger, relation: public.orders}
    - {name: exports, kind: parquet, connection: files, path: exports/*.parquet}
  stages:
    - name: balance-check
      type: aggregate
      dimensions: [account]
      measures: [{name: total_amount, function: sum, column: amount, tolerances: [{type: ABSOLUTE, value: 0.01}]}]
"""  # noqa: E501  as the spec has it
TWELVE = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: Orders_Daily}
spec:
  owner: [team-a]
  timezone: Europe/Pariss
  sources:
    - {name: ledger, kind: postgres, connection: pg-ledger, relation: orders, query: select 1}
    - name: exports
      kind: parquett
      connection: files
      path: exports/*.parquet
  reference: legder
  triggers: []
  stages:
    - name: balance-check
      type: aggregate
      dimensions: [account]
      measures:
        - name: total_amount
          function: sum
          tolerence: [{type: ABSOLUTE, value: 0.01}]
        - {name: pct, tolerances: [{type: PERCENTAGE, value: 101}]}
        - {name: neg, tolerances: [{type: ABSOLUTE, value: -1}]}
    - {type: row, scope: {from_stage: balance-chek}}
"""
NEGATIVE = "negative, and only zero or more is allowed"
NOT_A_DECIMAL = "not a decimal of at most 38 digits, 18 after the point"
TWELVE_PLACES = [
    "3:18 DR1013 metadata.name",
    "5:10 DR1011 spec.owner",
    "6:13 DR1071 spec.timezone",
    "8:79 DR1030 spec.sources[0]",
    "10:13 DR1012 spec.sources[1].kind",
    "13:14 DR1021 spec.reference",
    "14:3 DR1006 spec",
    "22:11 DR1004 spec.stages[0].measures[0]",
    "23:62 DR1041 spec.stages[0].measures[1].tolerances[0].value",
    "24:60 DR1040 spec.stages[0].measures[2].tolerances[0].value",
    "25:8 DR1010 spec.stages[1]",
]


def one(text: str) -> Decoded:
    (decoded,) = decode_yaml(text.encode())
    return decoded


def places(text: str) -> list[str]:
    return [
        f"{fault.line}:{fault.column} {fault.code.docs_id} {fault.path}"
        for decoded in decode_yaml(text.encode())
        for fault in decoded.findings
    ]


def job(text: str) -> ReconciliationJob:
    _, spec = one(text).require()
    assert isinstance(spec, ReconciliationJob)
    return spec


def changed(old: str, new: str) -> str:
    assert old in MINIMAL
    return MINIMAL.replace(old, new)


def test_the_minimal_job_of_twelve_lines_is_good() -> None:
    spec = job(MINIMAL)
    assert (spec.name, len(spec.sources), spec.stages[0].name) == (
        "orders-daily",
        2,
        "balance-check",
    )


@pytest.mark.case("P66")
@pytest.mark.case("U16")
def test_a_job_with_twelve_faults_reports_all_with_their_places() -> None:
    broken = TWELVE + "status: {}\n"
    assert places(broken) == [*TWELVE_PLACES, "26:1 DR1004 "]


@pytest.mark.case("U16")
def test_three_faults_are_three_lines_with_suggestion_and_code() -> None:
    text = changed("function: sum", "funktion: sum").replace("0.01", "-1")
    text = text.replace("  stages:", "  reference: ledgr\n  stages:")
    headlines = [headline(finding, "job.yaml") for finding in one(text).findings]
    assert [line.split(";")[0] for line in headlines] == [
        "job.yaml:8:14 DR1021 spec.reference: no source has this name",
        "job.yaml:13:39 DR1004 spec.stages[0].measures[0]: unknown field 'funktion'",
        f"job.yaml:13:107 DR1040 spec.stages[0].measures[0].tolerances[0].value: {NEGATIVE}",
    ]
    assert [line.split("; ")[-1] for line in headlines] == [
        "did you mean 'ledger'?",
        "did you mean 'function'?",
        "leave the sign out: a tolerance allows differences up and down alike",
    ]


def test_a_tolerance_that_is_no_decimal_is_refused_with_an_example() -> None:
    (fault,) = one(changed("0.01", "1e-3")).findings
    assert NOT_A_DECIMAL in headline(fault, "job.yaml")
    assert "write digits with a point, such as 0.01" in headline(fault, "job.yaml")


def test_a_caret_marks_the_word() -> None:
    text = changed("type: aggregate", "typ: aggregate")
    lines = as_lines(one(text).findings, file="job.yaml", text=text)
    assert lines[5:8] == [
        "job.yaml:10:7 DR1004 spec.stages[0]: unknown field 'typ'; did you mean 'type'?",
        "  10 |       typ: aggregate",
        "     |       ^^^",
    ]
    assert lines[9].endswith("docs  datarecs errors DR1004")


@pytest.mark.case("U17")
def test_a_fault_inside_an_alias_points_into_the_anchor() -> None:
    text = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: orders}
spec:
  sources:
    - &one {name: a, kind: csv, connection: files, path: a.csv, optoins: {}}
    - {<<: *one, name: b}
  stages: [{name: c, type: counts}]
"""
    assert places(text) == ["6:65 DR1004 spec.sources[0]", "6:65 DR1004 spec.sources[1]"]


@pytest.mark.case("U17")
def test_a_fault_after_a_long_text_has_its_place() -> None:
    text = changed(
        "  sources:",
        "  description: |\n    first: [line\n    second } line\n  owner: {}\n  sources:",
    )
    assert places(text) == ["8:10 DR1011 spec.owner"]


@pytest.mark.case("U17")
def test_a_fault_in_the_second_of_three_documents_has_its_place() -> None:
    broken = changed("kind: parquet", "kind: parqet")
    text = f"{MINIMAL}---\n{broken}---\n{MINIMAL}"
    assert places(text) == ["20:29 DR1012 spec.sources[1].kind"]


def test_a_document_without_kind_is_reported_at_its_start() -> None:
    assert places(f"{MINIMAL}---\nspec: {{}}\nmetadata: {{name: x}}\n") == [
        "14:1 DR1010 ",
        "14:1 DR1010 ",
    ]
    assert places("metadata: {}\napiVersion: datarecs.io/v1\nkind: Connection\nspec: {}") == [
        "1:1 DR1010 metadata",
        "4:1 DR1010 spec",
        "4:1 DR1010 spec",
    ]


def test_empty_documents_are_passed_over_and_an_empty_file_is_a_fault() -> None:
    assert [decoded.document for decoded in decode_yaml(f"---\n---\n{MINIMAL}".encode())] == [1]
    assert places("# nothing\n") == ["1:1 DR1010 "]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("kind: ReconciliationJop", "2:7 DR1016 kind"),
        ("kind: Pipeline", "2:7 DR1016 kind"),
        ("kind: 5", "2:7 DR1016 kind"),
        ("kind: []", "2:7 DR1011 kind"),
    ],
)
def test_an_unknown_kind_is_reported_alone(head: str, expected: str) -> None:
    assert places(changed("kind: ReconciliationJob", head)) == [expected]


def test_an_unknown_version_is_reported_with_the_other_faults() -> None:
    text = changed("datarecs.io/v1", "datarecs.io/v2").replace("sum", "sun")
    assert [place.split()[1] for place in places(text)] == ["DR1016", "DR1012"]


@pytest.mark.parametrize("text", ["[]", "5", "text"])
def test_a_document_that_is_not_a_mapping_is_reported(text: str) -> None:
    assert [place.split()[1] for place in places(text)] == ["DR1011"]


@pytest.mark.case("X21")
@pytest.mark.case("R07")
def test_what_the_server_sets_is_refused_field_by_field() -> None:
    body = {
        "apiVersion": "datarecs.io/v1",
        "kind": "Connection",
        "tenant_id": "x",
        "status": {},
        "result": "MATCHED",
        "cancel_requested": True,
        "metadata": {"name": "files", "uid": "x", "generation": 1},
        "spec": {"type": "files", "config": {"root": "data"}, "tenant_id": "x"},
    }
    assert sorted(finding.pointer for finding in decode_json(body).faults) == [
        "/cancel_requested",
        "/metadata/generation",
        "/metadata/uid",
        "/result",
        "/spec/tenant_id",
        "/status",
        "/tenant_id",
    ]


def body_of(decoded: Decoded) -> dict[str, object]:
    declared, _ = decoded.require()
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": str(declared.kind),
        "metadata": {"name": declared.name},
        "spec": declared.spec,
    }


def test_a_json_body_is_read_as_its_yaml_is() -> None:
    decoded = one(MINIMAL)
    assert decode_json(body_of(decoded)) == decoded


def test_faults_of_a_json_body_have_pointers_and_no_lines() -> None:
    body = body_of(one(MINIMAL))
    body["spec"] = {"sources": [], "stages": [{"name": "a", "type": "row", "x": 1}]}
    assert [finding.as_json() for finding in decode_json(body).faults] == [
        {
            "code": "DR1014",
            "pointer": "/spec/sources",
            "message": "0 entries; 2 to 32 are allowed",
        },
        {
            "code": "DR1004",
            "pointer": "/spec/stages/0/x",
            "message": "unknown field 'x'",
        },
    ]


@pytest.mark.case("X26")
@pytest.mark.parametrize("number", [Decimal("1e400"), Decimal("NaN"), 10**40, True, None])
def test_a_json_number_that_is_no_plain_decimal_is_refused(number: object) -> None:
    body = body_of(one(MINIMAL))
    spec = {**job_spec(), "stages": [stage_with({"type": "ABSOLUTE", "value": number})]}
    assert [finding.pointer for finding in decode_json({**body, "spec": spec}).faults] == [
        "/spec/stages/0/measures/0/tolerances/0/value"
    ]


def job_spec() -> dict[str, object]:
    declared, _ = one(MINIMAL).require()
    return dict(declared.spec)


def stage_with(tolerance: object) -> dict[str, object]:
    return {
        "name": "s",
        "type": "aggregate",
        "measures": [{"name": "m", "tolerances": [tolerance]}],
    }


def test_a_json_decimal_preserves_its_digits() -> None:
    body = body_of(one(MINIMAL))
    spec = {**job_spec(), "stages": [stage_with({"type": "ABSOLUTE", "value": Decimal("0.010")})]}
    declared, _ = decode_json({**body, "spec": spec}).require()
    assert '"0.010"' in str(declared.spec).replace("'", '"')


def test_the_body_must_match_the_path() -> None:
    body = body_of(one(MINIMAL))
    expected = Expected(kind=Kind.RECONCILIATION_JOB, name="other", namespace="default")
    assert [finding.pointer for finding in decode_json(body, expected=expected).faults] == [
        "/metadata/name"
    ]
    elsewhere = {**body, "metadata": {"name": "other", "namespace": "emea"}}
    assert [finding.pointer for finding in decode_json(elsewhere, expected=expected).faults] == [
        "/metadata/namespace"
    ]
    wrong_kind = Expected(kind=Kind.CONNECTION)
    assert [finding.pointer for finding in decode_json(body, expected=wrong_kind).faults] == [
        "/kind"
    ]


def test_a_body_without_a_namespace_uses_the_one_of_the_path() -> None:
    expected = Expected(kind=Kind.RECONCILIATION_JOB, name="orders-daily", namespace="emea")
    declared, _ = decode_json(body_of(one(MINIMAL)), expected=expected).require()
    assert declared.namespace == "emea"


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ('{name: x, labels: {"a b": c}}', "DR1013"),
        ("{name: x, labels: {team: -x}}", "DR1015"),
        ("{name: x, labels: {datarecs.io/own: y}}", "DR1013"),
        ("{name: x, labels: {datarecs.io/paused: y}}", "DR1013"),
        ("{name: x, annotations: {datarecs.io/own: y}}", "DR1013"),
        ("{name: x, annotations: {example.com/a/b: y}}", "DR1013"),
        ("{name: x, finalizers: [plain]}", "DR1013"),
        ("{name: x, namespace: A}", "DR1013"),
        ("{name: x, resourceVersion: 5}", "DR1004"),
        ("{name: x, ownerReferences: []}", "DR1004"),
        ("{name: " + "x" * 64 + "}", "DR1013"),
        ("[x]", "DR1011"),
    ],
)
def test_metadata_has_its_rules(metadata: str, code: str) -> None:
    findings = one(changed("{name: orders-daily}", metadata)).findings
    assert [finding.code.docs_id for finding in findings] == [code]


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, kinds in KINDS.items() for kind in sorted(kinds)]
)
def test_every_annotation_that_the_platform_obeys_may_be_declared(name: str, kind: Kind) -> None:
    (document,) = decode_yaml(
        f"apiVersion: datarecs.io/v1\nkind: {kind}\n"
        f'metadata: {{name: x, annotations: {{{name}: "true"}}}}\nspec: {{}}\n'.encode()
    )
    assert not [one for one in document.faults if one.pointer.startswith("/metadata")]


def test_who_writes_a_reserved_annotation_reads_which_ones_are_open() -> None:
    (fault,) = one(
        changed("{name: orders-daily}", "{name: x, annotations: {datarecs.io/own: y}}")
    ).faults
    assert all(name in fault.hint for name in KINDS)
    assert KINDS.keys() >= FLAGS


@pytest.mark.parametrize("name", ["datarecs.io/paused", "datarecs.io/hold"])
@pytest.mark.parametrize("value", ["yes", "True", "on", "", "1"])
def test_an_order_with_a_value_that_nothing_reads_is_refused(name: str, value: str) -> None:
    text = changed("{name: orders-daily}", f'{{name: x, annotations: {{{name}: "{value}"}}}}')
    (fault,) = one(text).faults
    assert fault.code.docs_id == "DR1012"
    assert fault.hint == 'write "true" or leave it out'


@pytest.mark.parametrize(
    "name", ["datarecs.io/paused", "datarecs.io/hold", "datarecs.io/reconcile-at"]
)
def test_an_order_on_a_kind_that_does_not_obey_it_is_refused(name: str) -> None:
    (document,) = decode_yaml(
        f"apiVersion: datarecs.io/v1\nkind: Schedule\nmetadata: {{name: x, annotations:"
        f' {{{name}: "true"}}}}\nspec: {{job: orders, cron: "@daily"}}\n'.encode()
    )
    (fault,) = document.faults
    assert fault.code.docs_id == "DR1009"
    assert "has no effect on a Schedule" in fault.sentence


def test_metadata_is_carried_over() -> None:
    text = changed(
        "{name: orders-daily}",
        "{name: x, namespace: emea, labels: {team: a}, finalizers: [example.com/keep],"
        ' annotations: {datarecs.io/paused: "true", wiki: "https://x"}}',
    )
    declared, _ = one(text).require()
    assert (declared.namespace, declared.labels, declared.finalizers) == (
        "emea",
        {"team": "a"},
        ("example.com/keep",),
    )
    assert declared.annotations == {"datarecs.io/paused": "true", "wiki": "https://x"}


def test_annotations_are_bounded_in_all() -> None:
    annotations = {f"a{index}": "x" * 100_000 for index in range(3)}
    body = {**body_of(one(MINIMAL)), "metadata": {"name": "x", "annotations": annotations}}
    assert [finding.pointer for finding in decode_json(body).faults] == ["/metadata/annotations"]


@pytest.mark.case("X29")
@pytest.mark.parametrize(
    "name", ["a\0b", "\ud800", "a\u202eb", "a\u200bb", "x" * 10_240, "..", "a/b", "", " a"]
)
def test_a_hostile_name_is_a_fault_and_never_echoed(name: str) -> None:
    body = {**body_of(one(MINIMAL)), "metadata": {"name": name}}
    (finding,) = decode_json(body).faults
    assert (finding.pointer, finding.code.docs_id) == ("/metadata/name", "DR1013")
    assert len(name) < 3 or name not in finding.sentence


@pytest.mark.case("X30")
@pytest.mark.parametrize(
    ("spec", "pointer", "limit"),
    [
        ({"stages": [{}] * 10_001}, "/spec/stages", "50"),
        ({"sources": [{}] * 65}, "/spec/sources", "32"),
        (
            {"stages": [{"name": "a", "type": "aggregate", "dimensions": ["d"] * 1_000}]},
            "/spec/stages/0/dimensions",
            "32",
        ),
        (
            {"stages": [{"name": "a", "type": "row", "measures": [{"name": "m"}] * 501}]},
            "/spec/stages/0/measures",
            "500",
        ),
    ],
)
def test_a_list_that_is_too_long_names_the_limit(
    spec: dict[str, object], pointer: str, limit: str
) -> None:
    body = {**body_of(one(MINIMAL)), "spec": {**job_spec(), **spec}}
    (finding,) = decode_json(body).faults
    assert (finding.code.docs_id, finding.pointer) == ("DR1014", pointer)
    assert limit in finding.message


def test_at_most_100_findings_are_shown_and_the_rest_counted() -> None:
    fields = "".join(f"  x{index}: 1\n" for index in range(130))
    text = MINIMAL + fields
    lines = as_lines(one(text).findings, file="job.yaml", text=text)
    assert sum("DR1004 spec: unknown" in line for line in lines) == MAX_SHOWN
    assert lines[-1] == "job.yaml: 30 more"


def test_an_alias_of_a_field_is_a_warning_and_works() -> None:
    decoded = one(changed("dimensions:", "keys:"))
    assert [headline(warning, "f") for warning in decoded.warnings] == [
        (
            "f:11:7 DR1007 warning: spec.stages[0]: 'keys' is another name of 'dimensions';"
            " write 'dimensions'"
        )
    ]
    assert decoded.spec == job(MINIMAL)


def test_an_alias_beside_its_field_is_reported_at_the_later_one() -> None:
    assert places(changed("  stages:", "  base: ledger\n  reference: ledger\n  stages:")) == [
        "8:3 DR1007 spec",
        "9:3 DR1005 spec",
    ]


def test_a_fault_with_faults_cannot_be_required() -> None:
    with pytest.raises(InvalidSpecError) as refused:
        one(changed("kind: parquet", "kind: x")).require()
    assert [finding.path for finding in refused.value.findings] == ["spec.sources[1].kind"]


def test_a_stored_spec_reads_back_to_the_same_job() -> None:
    declared, spec = one(MINIMAL).require()
    assert job_of(declared.name, declared.spec) == spec


@pytest.mark.case("R26")
def test_a_stored_spec_that_no_longer_fits_is_reported() -> None:
    declared, _ = one(MINIMAL).require()
    with pytest.raises(InvalidSpecError):
        decode_stored(declared.kind, declared.name, {**declared.spec, "gone": 1})


def test_a_stored_spec_of_another_kind_reads_too() -> None:
    spec = decode_stored(Kind.CONNECTION, "files", {"type": "files", "config": {"root": "data"}})
    assert isinstance(spec, Connection)


def test_meaning_is_judged_beside_faults_of_shape() -> None:
    text = changed("function: sum", "function: sun").replace("[account]", "[total_amount]")
    assert [place.split()[1] for place in places(text)] == ["DR1051", "DR1012"]


def test_a_fault_of_meaning_that_repeats_one_of_shape_is_left_out() -> None:
    text = changed("  stages:", "  reference: Ledger!\n  stages:")
    assert places(text) == ["8:14 DR1013 spec.reference"]


def test_what_a_server_needs_is_a_note_elsewhere_in_the_same_words() -> None:
    text = changed("connection: files, path: exports/*.parquet", "path: /tmp/x.parquet")
    (here,) = decode_yaml(text.encode())
    (there,) = decode_yaml(text.encode(), surroundings=replace(EDITOR, on_server=True))
    assert [(one.code.docs_id, one.severity) for one in here.findings] == [
        ("DR1010", "note"),
        ("DR1008", "note"),
    ]
    assert [one.severity for one in there.findings] == ["error", "error"]
    assert [one.as_json() for one in here.findings] == [one.as_json() for one in there.findings]


def test_a_server_refuses_more_than_an_editor() -> None:
    text = """\
apiVersion: datarecs.io/v1
kind: WebhookEndpoint
metadata: {name: hook}
spec: {url: "http://127.0.0.1:9000/x"}
"""
    strict = UrlRules(policy=Policy(purpose=Purpose.WEBHOOK, profile=Profile.SERVER))
    (refused,) = decode_yaml(text.encode(), surroundings=replace(EDITOR, webhooks=strict))
    assert (one(text).faults, [finding.pointer for finding in refused.faults]) == (
        (),
        ["/spec/url"],
    )
