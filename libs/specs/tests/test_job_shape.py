"""The job's shape: fields, kinds of source, types of stage, tolerances, each read strictly."""

import textwrap
from datetime import timedelta
from decimal import Decimal

import pytest

from datarecs_core.jobs.definition import (
    EXACTLY,
    Accept,
    Dimension,
    ReconciliationJob,
    Source,
    Stage,
    Tolerance,
)
from datarecs_core.jobs.types import decimal
from datarecs_core.jobs.vocabulary import (
    EmptyText,
    ParameterType,
    SourceKind,
    ToleranceBase,
    ToleranceType,
)
from datarecs_core.resources.connection import SERVES
from datarecs_specs.documents import decode_yaml

JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: orders}}
spec:
  sources:
    - {source}
    - {{name: other, kind: csv, connection: files, path: b.csv}}
  stages:
    - {stage}
{rest}"""
A_SOURCE = "{name: one, kind: csv, connection: files, path: a.csv}"
A_STAGE = "{name: rows, type: row, dimensions: [id], measures: [{name: amount}]}"


def text(*, source: str = A_SOURCE, stage: str = A_STAGE, rest: str = "") -> str:
    return JOB.format(source=source, stage=stage, rest=textwrap.indent(rest, "  "))


def faults_of(**parts: str) -> list[str]:
    (decoded,) = decode_yaml(text(**parts).encode())
    return [f"{fault.code.docs_id} {fault.path}" for fault in decoded.faults]


def job(**parts: str) -> ReconciliationJob:
    (decoded,) = decode_yaml(text(**parts).encode())
    _, spec = decoded.require()
    assert isinstance(spec, ReconciliationJob)
    return spec


def source(written: str) -> Source:
    return job(source=written).sources[0]


def stage(written: str) -> Stage:
    return job(stage=written).stages[0]


def tolerances(written: str) -> tuple[Tolerance, ...]:
    read = stage(f"{{name: s, type: aggregate, measures: [{{name: m, {written}}}]}}")
    assert read.measures != "*"
    return read.measures[0].tolerances


def tolerance_faults(written: str) -> list[str]:
    faults = faults_of(stage=f"{{name: s, type: aggregate, measures: [{{name: m, {written}}}]}}")
    return [fault.replace("spec.stages[0].measures[0]", "m") for fault in faults]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("tolerances: [{type: ABSOLUTE, value: 0.010}]", (ToleranceType.ABSOLUTE, "0.010")),
        ('tolerances: [{type: ABSOLUTE, value: "0.01"}]', (ToleranceType.ABSOLUTE, "0.01")),
        ("tolerances: [{type: ABSOLUTE, value: 0}]", (ToleranceType.ABSOLUTE, "0")),
        ("tolerances: [{type: PERCENTAGE, value: 100}]", (ToleranceType.PERCENTAGE, "100")),
        ("abs_tol: 0.01", (ToleranceType.ABSOLUTE, "0.01")),
        ("rel_tol: 0.001", (ToleranceType.PERCENTAGE, "0.1")),
        ("rel_tol: 1", (ToleranceType.PERCENTAGE, "100")),
    ],
)
@pytest.mark.case("X28")
def test_a_tolerance_is_read_digit_for_digit(
    written: str, expected: tuple[ToleranceType, str]
) -> None:
    (read,) = tolerances(written)
    assert (read.type, str(read.value)) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("tolerances: [{type: ABSOLUTE, value: -1}]", ["DR1040 m.tolerances[0].value"]),
        ("tolerances: [{type: ABSOLUTE, value: .nan}]", ["DR1040 m.tolerances[0].value"]),
        ("tolerances: [{type: ABSOLUTE, value: 1e3}]", ["DR1040 m.tolerances[0].value"]),
        ("tolerances: [{type: ABSOLUTE, value: 1e999999}]", ["DR1040 m.tolerances[0].value"]),
        ('tolerances: [{type: ABSOLUTE, value: "0,01"}]', ["DR1040 m.tolerances[0].value"]),
        ("tolerances: [{type: ABSOLUTE, value: [1]}]", ["DR1011 m.tolerances[0].value"]),
        ("tolerances: [{type: ABSOLUTE, value: }]", ["DR1011 m.tolerances[0].value"]),
        ("tolerances: [{type: PERCENTAGE, value: 101}]", ["DR1041 m.tolerances[0].value"]),
        (
            "function: min, tolerances: [{type: DURATION, value: 5m}]",
            ["DR1046 m.tolerances[0].value"],
        ),
        ("tolerances: [{type: ABSOLUTE}]", ["DR1010 m.tolerances[0]"]),
        ("tolerances: [{value: 1}]", ["DR1010 m.tolerances[0]"]),
        ("tolerances: [{type: EXACT, value: 1}]", ["DR1044 m.tolerances[0].value"]),
        (
            "tolerances: [{type: ABSOLUTE, value: 1, base: max_abs}]",
            ["DR1043 m.tolerances[0].base"],
        ),
        ("tolerances: [{type: absolute, value: 1}]", ["DR1012 m.tolerances[0].type"]),
        ("tolerances: []", ["DR1014 m.tolerances"]),
        ("tolerances: {type: EXACT}", ["DR1011 m.tolerances"]),
        ("tolerances: [EXACT]", ["DR1011 m.tolerances[0]"]),
        ("abs_tol: x", ["DR1040 m.tolerances"]),
        ("rel_tol: 1.01", ["DR1041 m.tolerances"]),
        ("rel_tol: 0.0000000000000000001", ["DR1040 m.tolerances"]),
        ("abs_tol: 1, rel_tol: 1", ["DR1005 m"]),
    ],
)
@pytest.mark.case("X27")
@pytest.mark.case("X28")
def test_a_bad_tolerance_is_reported_at_its_place(written: str, expected: list[str]) -> None:
    assert tolerance_faults(written) == expected


def test_without_tolerances_a_measure_compares_exactly() -> None:
    assert tolerances("column: amount") == EXACTLY


def test_the_base_of_a_percentage_is_preserved() -> None:
    (read,) = tolerances("tolerances: [{type: PERCENTAGE, value: 1, base: max_abs}]")
    assert read.base is ToleranceBase.MAX_ABS


def test_a_duration_is_a_length() -> None:
    (read,) = tolerances("function: max, tolerances: [{type: DURATION, value: PT0.5S}]")
    assert read.value == timedelta(milliseconds=500)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{name: a, kind: csv, connection: f}", ["DR1030 spec.sources[0]"]),
        (
            "{name: a, kind: postgres, connection: c, relation: r, query: select 1}",
            ["DR1030 spec.sources[0]"],
        ),
        ("{name: a, kind: csv, connection: f, path: x, topic: t}", ["DR1006 spec.sources[0]"]),
        (
            "{name: a, kind: csv, connection: f, path: x, options: {fetch_size: 1}}",
            ["DR1006 spec.sources[0].options"],
        ),
        (
            "{name: a, kind: csv, connection: f, path: x, snapshot: {ref: main}}",
            ["DR1006 spec.sources[0].snapshot"],
        ),
        (
            "{name: a, kind: postgres, connection: f, relation: x, snapshot: {ref: main}}",
            ["DR1006 spec.sources[0].snapshot"],
        ),
        (
            "{name: a, kind: csv, connection: f, path: x, partition: {by: id}}",
            ["DR1006 spec.sources[0]"],
        ),
        (
            "{name: a, kind: parquet, connection: f, path: x, partition_by: none}",
            ["DR1006 spec.sources[0]"],
        ),
        (
            "{name: a, kind: json, connection: f, path: x, partition: {count: 8}}",
            ["DR1006 spec.sources[0]"],
        ),
        (
            "{name: a, kind: iceberg, connection: f, relation: x.y, partition: {by: day}}",
            ["DR1006 spec.sources[0]"],
        ),
        ("{name: a, kind: postgres, relation: x}", ["DR1010 spec.sources[0]"]),
        ("{name: a, kind: csv, connection: f, path: ../x}", ["DR1008 spec.sources[0].path"]),
        ("{kind: csv, connection: f, path: x}", ["DR1010 spec.sources[0]"]),
        ("{name: a, connection: f, path: x}", ["DR1010 spec.sources[0]"]),
        (
            "{name: a, kind: csv, connection: f, path: x, cast: {d: day}}",
            ["DR1012 spec.sources[0].cast.d"],
        ),
        (
            "{name: a, kind: csv, connection: f, path: x,columns: {d: {}, e: {column: a,expr: b}}}",
            ["DR1010 spec.sources[0].columns.d", "DR1005 spec.sources[0].columns.e"],
        ),
        (
            '{name: a, kind: csv, connection: f, path: x, columns: {"a\\u202eb": c}}',
            ["DR1015 spec.sources[0].columns"],
        ),
        (
            "{name: a, kind: csv, connection: f, path: x, limits: {max_rows: 0, max_bytes: 1GB}}",
            ["DR1012 spec.sources[0].limits.max_rows", "DR1011 spec.sources[0].limits.max_bytes"],
        ),
        (
            "{name: a, kind: csv, connection: f, path: x, timezone: CET5}",
            ["DR1071 spec.sources[0].timezone"],
        ),
        ("[a]", ["DR1011 spec.sources[0]"]),
    ],
)
def test_a_bad_source_is_reported(written: str, expected: list[str]) -> None:
    assert faults_of(source=written) == expected


def test_an_option_names_the_kinds_it_belongs_to() -> None:
    (decoded,) = decode_yaml(
        text(
            source="{name: a, kind: csv, connection: f, path: x, options: {fetch_size: 1}}"
        ).encode()
    )
    assert decoded.faults[0].hint == "it is an option of kind postgres"


def test_a_partition_of_files_is_placed_at_its_key() -> None:
    written = "{name: a, kind: csv, connection: f, path: x, partition_by: id}"
    (decoded,) = decode_yaml(text(source=written).encode())
    (fault,) = decoded.faults
    assert (fault.line, fault.column) == (6, 7 + written.index("partition_by"))
    assert fault.pointer == "/spec/sources/0/partition"
    assert fault.hint == "leave it out; it is for kind postgres"


def test_a_partition_that_says_nothing_is_every_kinds() -> None:
    """Specs stored before, with all defaults spelled out, stay readable."""
    written = "{name: a, kind: csv, connection: f, path: x, partition: {by: auto}}"
    assert source(written) == source("{name: a, kind: csv, connection: f, path: x}")


def test_options_at_their_default_are_left_to_the_connector() -> None:
    written = "{{name: a, kind: csv, connection: f, path: x, options: {{{}}}}}"
    assert source(written.format("header: true, delimiter: ';'")).options == {"delimiter": ";"}


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_the_types_of_an_option_are_text_in_their_canonical_form(kind: str) -> None:
    written = f"{{name: a, kind: {kind}, connection: f, path: x, options: {{schema: {{}}}}}}"
    written_types = written.replace("schema: {}", "schema: {d: 'decimal(20, 4)', t: date}")
    assert source(written_types).options == {"schema": {"d": "decimal(20,4)", "t": "date"}}
    wrong = written.replace("schema: {}", "schema: {d: day}")
    (decoded,) = decode_yaml(text(source=wrong).encode())
    assert decoded.faults[0].code.docs_id == "DR1012"


def test_options_are_stored_complete() -> None:
    (decoded,) = decode_yaml(text().encode())
    declared, _ = decoded.require()
    assert str(declared.spec).count("'escape': '\"'") == 2


def test_columns_casts_and_partitions_read_in_their_short_forms() -> None:
    read = source(
        "{name: a, kind: postgres, connection: c, table: t, where: 'x > 1',"
        " column_mapping: {id: key, net: {expr: a - b}}, cast: {net: 'decimal(20,4)'},"
        " partition_by: id}"
    )
    assert (read.relation, read.filter, read.partition.by) == ("t", "x > 1", "id")
    assert (read.columns["id"].column, read.columns["net"].expr) == ("key", "a - b")
    assert read.cast == {"net": decimal(20, 4)}


@pytest.mark.parametrize("kind", list(SERVES))
def test_every_kind_of_source_that_is_read_can_be_declared(kind: SourceKind) -> None:
    is_table = kind in {SourceKind.ICEBERG, SourceKind.POSTGRES}
    origin = "relation: a.b" if is_table else "path: x"
    if kind is SourceKind.KAFKA:
        origin = "topic: orders"
    assert source(f"{{name: a, kind: {kind}, connection: c, {origin}}}").kind is kind


@pytest.mark.parametrize("kind", sorted(set(SourceKind) - set(SERVES)))
def test_a_kind_of_source_that_is_not_read_is_refused_with_those_that_are(kind: str) -> None:
    (decoded,) = decode_yaml(text(source=f"{{name: a, kind: {kind}, connection: c}}").encode())
    (fault,) = decoded.faults
    assert (fault.code.docs_id, fault.path) == ("DR1012", "spec.sources[0].kind")
    assert "not part of this release; not one of postgres, parquet, csv, json, iceberg" in (
        fault.message
    )


def test_a_table_snapshot_preserves_all_its_digits() -> None:
    read = source(
        "{name: a, kind: iceberg, connection: c, relation: r,"
        " snapshot: {snapshot_id: 9223372036854775807}}"
    )
    assert read.snapshot.snapshot_id == 2**63 - 1


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        ("{as_of: 2026-01-31T12:00:00Z}", []),
        ("{as_of: 2026-01-31T12:00:00}", ["DR1034 spec.sources[0].snapshot.as_of"]),
        ("{as_of: yesterday}", ["DR1034 spec.sources[0].snapshot.as_of"]),
        ("{ref: main, snapshot_id: 1}", ["DR1005 spec.sources[0].snapshot"]),
    ],
)
def test_a_table_is_read_at_one_known_time(snapshot: str, expected: list[str]) -> None:
    one = f"{{name: a, kind: iceberg, connection: c, relation: b.t, snapshot: {snapshot}}}"
    assert faults_of(source=one) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{name: s, type: counts, dimensions: [a]}", ["DR1006 spec.stages[0]"]),
        ("{name: s, type: aggregate, queries: {}}", ["DR1006 spec.stages[0]"]),
        ("{name: s, type: aggregate, measures: '*'}", ["DR1053 spec.stages[0].measures"]),
        ("{name: s, type: agregate}", ["DR1012 spec.stages[0].type"]),
        ("{name: s}", ["DR1010 spec.stages[0]"]),
        ("{name: s, type: row, confirm: {}}", ["DR1010 spec.stages[0].confirm"]),
        (
            "{name: s, type: row, confirm: {after: PT2H, attempts: 9}}",
            ["DR1046 spec.stages[0].confirm.after", "DR1012 spec.stages[0].confirm.attempts"],
        ),
        ("{name: s, type: row, measures: [a]}", ["DR1011 spec.stages[0].measures[0]"]),
        ("{name: s, type: row, dimensions: a}", ["DR1011 spec.stages[0].dimensions"]),
        ("{name: s, type: row, where: a; drop table t}", ["DR1031 spec.stages[0].where"]),
        (
            "{name: s, type: row, accept: {max_outside: -1, max_outside_percent: 101}}",
            [
                "DR1012 spec.stages[0].accept.max_outside",
                "DR1041 spec.stages[0].accept.max_outside_percent",
            ],
        ),
    ],
)
def test_a_bad_stage_is_reported(written: str, expected: list[str]) -> None:
    assert faults_of(stage=written) == expected


def test_dimensions_read_as_names_and_as_mappings() -> None:
    read = stage("{name: s, type: aggregate, on: [account, {name: currency, column: ccy}]}")
    assert read.dimensions == (
        Dimension(name="account"),
        Dimension(name="currency", column="ccy"),
    )


def test_the_star_and_its_exceptions_are_read() -> None:
    read = stage(
        "{name: s, type: row, dimensions: [id], measures: '*', except: [load_ts],"
        " measure_defaults: {date: {tolerances: [{type: DURATION, value: P1D}]}}}"
    )
    assert (read.measures, read.except_, len(read.measure_defaults)) == ("*", ("load_ts",), 1)


def test_an_empty_accept_is_not_no_accept() -> None:
    assert stage("{name: s, type: row, accept: {}}").accept == Accept()
    assert stage("{name: s, type: row}").accept is None


@pytest.mark.parametrize(
    ("rest", "filtered", "code", "hint"),
    [
        ("parameters: {d: {type: datum}}", "day = :d", "DR1012", "did you mean 'date'?"),
        ("parameters: {d: {type: list<dates>}}", "d = :d", "DR1012", "mean 'list<date>'?"),
        ("parameters: {days: {type: date}}", "day = :day", "DR1033", "did you mean 'days'?"),
    ],
)
def test_a_parameter_with_a_fault_has_one_message(
    rest: str, filtered: str, code: str, hint: str
) -> None:
    source = f'{{name: one, kind: csv, connection: files, path: a.csv, filter: "{filtered}"}}'
    (decoded,) = decode_yaml(text(source=source, rest=rest).encode())
    (fault,) = decoded.faults
    assert (fault.code.docs_id, hint in fault.hint) == (code, True)


def test_an_undeclared_parameter_is_named() -> None:
    source = '{name: one, kind: csv, connection: files, path: a.csv, filter: "c IN (:currency)"}'
    (decoded,) = decode_yaml(text(source=source).encode())
    (fault,) = decoded.faults
    assert fault.message == "it uses the parameter `:currency`, which the job does not declare"


def test_a_key_without_a_blank_after_its_colon_is_explained() -> None:
    (decoded,) = decode_yaml(text(source=A_SOURCE.replace("kind: csv", "kind:csv")).encode())
    faults = {fault.message: fault.hint for fault in decoded.faults}
    assert faults["unknown field 'kind:csv'"] == "write a blank after the colon, as in `kind: …`"


def test_mapped_values_are_always_texts() -> None:
    read = stage(
        "{name: s, type: row, measures: [{name: m, map: {one: {P: PAID, 1: true, no: 0.10}}}]}"
    )
    assert read.measures != "*"
    assert read.measures[0].map == {"one": {"P": "PAID", "1": "true", "no": "0.10"}}


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("parameters: {D: {type: date}}", ["DR1013 spec.parameters"]),
        ("parameters: {d: {type: day}}", ["DR1012 spec.parameters.d.type"]),
        ("parameters: {d: {}}", ["DR1010 spec.parameters.d"]),
        (
            "parameters: {d: {type: date, default: 2026-02-30}}",
            ["DR1034 spec.parameters.d.default"],
        ),
        (
            'parameters: {d: {type: date, default: "{{ now }}"}}',
            ["DR1035 spec.parameters.d.default"],
        ),
        ("execution: {memory: 1MiB}", ["DR1012 spec.execution.memory"]),
        ("execution: {attempts: '3'}", ["DR1011 spec.execution.attempts"]),
        ("execution: {attempts: 3.0}", ["DR1011 spec.execution.attempts"]),
        ("execution: {partitions: many}", ["DR1011 spec.execution.partitions"]),
        ("execution: {resume: yes}", ["DR1011 spec.execution.resume"]),
        ("execution: {deadline: PT1S}", ["DR1046 spec.execution.deadline"]),
        ("execution: {retry_on: [TIMED_OUT]}", ["DR1012 spec.execution.retry_on[0]"]),
        ("results: {breaks: {mask: {iban: hash}}}", ["DR1072 spec.results.breaks.mask"]),
        ("results: {reports: [pdf]}", ["DR1012 spec.results.reports[0]"]),
        ("normalize: {numbers: {round: 19}}", ["DR1012 spec.normalize.numbers.round"]),
        ("normalize: {numbers: {null: empty}}", ["DR1012 spec.normalize.numbers.null"]),
        ("schema: {equivalences: [[text]]}", ["DR1014 spec.schema.equivalences[0]"]),
        ("description: " + "x" * 2_001, ["DR1015 spec.description"]),
        ('owner: "e\\u0301"', ["DR1015 spec.owner"]),
        ("notifications: []", ["DR1006 spec"]),
        (
            'parameters: {t: {type: text, default: "a\\0b"}}',
            ["DR1015 spec.parameters.t.default"],
        ),
        (
            'parameters: {t: {type: text, default: {"a\\0b": 1}}}',
            ["DR1034 spec.parameters.t.default", "DR1015 spec.parameters.t.default"],
        ),
        ("timezone: localtime", ["DR1071 spec.timezone"]),
        ("timezone: ../etc/passwd", ["DR1071 spec.timezone"]),
        ("timezone: Europe", ["DR1071 spec.timezone"]),
    ],
)
def test_the_rest_of_a_job_is_read_strictly(rest: str, expected: list[str]) -> None:
    assert faults_of(rest=rest) == expected


def test_the_rest_of_a_job_is_read() -> None:
    read = job(
        rest=textwrap.dedent(
            """\
            parameters:
              day: {type: date, default: "{{ run.date - 1d }}"}
              n: {type: list<int>, default: [1, 2], allowed: [1, 2, 3]}
              t: {type: text, default: 012}
            normalize: {strings: {empty: null, trim: both}, numbers: {round: 2}}
            execution: {memory: 4GiB, timeout: PT2H, partitions: 7, retry_on: [CRASHED]}
            timezone: Europe/Paris
            results: {breaks: {mask: {amount: redact}}}
            """
        )
    )
    assert (read.parameters["n"].many, read.parameters["n"].type) == (True, ParameterType.INT)
    assert read.parameters["t"].default == "012"
    assert read.normalize.strings.empty is EmptyText.NULL
    assert (read.execution.memory, read.execution.deadline) == (4 * 1024**3, timedelta(hours=2))


@pytest.mark.case("U18")
def test_texts_stay_unchanged() -> None:
    owners = ["no", "012", "1e3", "12:30:45", "0.10"]
    assert [job(rest=f"owner: {owner}").owner for owner in owners] == owners


@pytest.mark.case("U18")
def test_a_bare_decimal_never_passes_a_float() -> None:
    (read,) = tolerances("tolerances: [{type: ABSOLUTE, value: 12345678901234567.89}]")
    assert read.value == Decimal("12345678901234567.89")


def test_all_levels_of_meaning_need_one_answer() -> None:
    assert faults_of(
        source="{name: other, kind: csv, connection: f, path: x}",
        stage="{name: s, type: row, scope: {from_stage: s}, measures: [{name: m, funktion: x}]}",
    ) == [
        "DR1020 spec.sources[1].name",
        "DR1022 spec.stages[0].scope.from_stage",
        "DR1004 spec.stages[0].measures[0]",
    ]


@pytest.mark.case("P44")
@pytest.mark.parametrize("name", ["order", "two words", "\N{GRINNING FACE}", "e\u0301", "\ue000"])
def test_a_column_may_have_any_visible_name(name: str) -> None:
    assert list(source(_with_column(name)).columns) == [name]


def _with_column(name: str) -> str:
    return f'{{name: a, kind: csv, connection: f, path: x, columns: {{"{name}": c}}}}'


@pytest.mark.case("X29")
@pytest.mark.parametrize("key", ["\\0", "\u202e", "\u200b"])
def test_no_mapped_text_holds_an_invisible_character(key: str) -> None:
    faults = faults_of(
        stage="{name: s, type: row, measures: [{name: m, map: {one: {a: " + f'"{key}"' + "}}}]}"
    )
    assert [fault.split()[0] for fault in faults] == ["DR1015"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            (
                "{decimal: ',', thousands: ., date_format: '%d.%m.%Y', null_words: [n/a],"
                " timestamp_format: '%d.%m.%Y %H:%M', formats: {day: '%Y%m%d'},"
                " encoding: windows-1252, skip: {first: 1, last: 1, prefixes: ['#']}}"
            ),
            [],
        ),
        ("{thousands: .}", ["DR1034 spec.sources[0].options.thousands"]),
        ("{thousands: x}", ["DR1012 spec.sources[0].options.thousands"]),
        ("{date_format: '%d.%m'}", ["DR1034 spec.sources[0].options.date_format"]),
        ("{date_format: '%H:%M'}", ["DR1034 spec.sources[0].options.date_format"]),
        ("{timestamp_format: '%Y%m%d'}", ["DR1034 spec.sources[0].options.timestamp_format"]),
        ("{formats: {a: '%Q'}}", ["DR1034 spec.sources[0].options.formats.a"]),
        (
            "{schema: {a: date}, formats: {a: '%Y%m%d'}}",
            ["DR1005 spec.sources[0].options.formats"],
        ),
        ("{skip: {middle: 1}}", ["DR1004 spec.sources[0].options.skip"]),
        ("{encoding: ebcdic}", ["DR1012 spec.sources[0].options.encoding"]),
    ],
)
def test_options_of_csv_files_are_checked_before_a_file_is_read(
    options: str, expected: list[str]
) -> None:
    written = f"{{name: a, kind: csv, connection: f, path: x, options: {options}}}"
    assert faults_of(source=written) == expected
