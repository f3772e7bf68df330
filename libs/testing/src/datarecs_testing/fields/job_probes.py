"""A probe for every field of a job, by the path that the published schema gives it.

`<*>` stands for every kind of source or type of stage without a separate probe.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from datarecs_testing.fields.documents import QUERY, Probe

_VARIANT = re.compile(r"<\w+>")
_TIME_LIMIT = "no statement over a tiny source takes this long"
_LABEL = "a name for people; no number depends on it"
_SHOWN = "the display of totals in reports; no number depends on it"
_WORK = "the execution of the work; no number depends on it"
_ALL = {"stages.0.measures": "*"}
_MERGED = {"sources.1.kind": "csv", "sources.1.path": "header.csv", **_ALL}
_BIG = {"stages.0.measures": [{"name": "word"}], "sources.1.path": "big.parquet"}


def _odd(name: str) -> Mapping[str, object]:
    return {**_MERGED, "sources.0.path": f"{name}.csv"}


def _of(column: str, **other: object) -> dict[str, object]:
    """The stage compares one column."""
    return {"stages.0.measures": [{"name": column}], **other}


_ONE_ZONE = {**_of("moment"), "sources.1.timezone": "UTC"}
_SOURCE = {
    "name": Probe(value="uno", before="one"),
    "filter": Probe(value="id > 1"),
    "columns.*.column": Probe(value="fine"),
    "columns.*.expr": Probe(value="amount * 2"),
    "cast": Probe(value={"amount": "text"}),
    "timezone": Probe(value="Europe/Paris", before="UTC", other_fields=_ONE_ZONE),
    "partition.by": Probe(value="none"),
    "partition.count": Probe(value=3),
    "limits.max_rows": Probe(value=1),
    "limits.statement_timeout": Probe(value="PT1S", plan_only=_TIME_LIMIT),
    "limits.max_connections": Probe(value=2),
}
_POSTGRES = {
    "connection": Probe(value="db2", before="db"),
    "relation": Probe(value="public.other", before="public.one"),
    "query": Probe(value="select * from one", drops="sources.0.relation"),
    "snapshot.max_hold": Probe(value="PT2H"),
    "options.fetch_size": Probe(value=7),
    "options.verify_count": Probe(value=True),
    "limits.max_bytes": Probe(value="1KiB"),
}
_FILES = {
    "snapshot.as_of": Probe(value="2026-01-31T12:00:00Z"),
    "connection": Probe(value="there", before="here"),
    "query": Probe(value="select * from one where id > 1"),
}
_PARQUET = {
    "path": Probe(value="other/one.parquet", before="one.parquet"),
    "limits.max_bytes": Probe(value="1KiB", other_fields={"sources.0.path": "big.parquet", **_BIG}),
    "options.hive_partitions": Probe(
        value=False, other_fields={"sources.0.path": "parts/*/*.parquet", **_ALL}
    ),
    "options.merge_schema": Probe(
        value=True, other_fields={"sources.0.path": "merged/*.parquet", **_ALL}
    ),
}
_CSV = {
    "path": Probe(value="other/one.csv", before="one.csv"),
    "limits.max_bytes": Probe(value="1KiB", other_fields={"sources.0.path": "big.csv", **_BIG}),
    "options.delimiter": Probe(value=";", before=",", other_fields=_odd("delimiter")),
    "options.quote": Probe(value="'", other_fields=_odd("quote")),
    "options.escape": Probe(value="\\", other_fields=_odd("escape")),
    "options.header": Probe(value=False, other_fields=_odd("header")),
    "options.null": Probe(value="NA", other_fields=_odd("null")),
    "options.multiline": Probe(value=True, other_fields=_odd("multiline")),
    "options.schema": Probe(
        value={"word": "int"}, before={"word": "text"}, other_fields=_odd("schema")
    ),
    "options.decimal": Probe(value=",", other_fields=_odd("decimal")),
    "options.thousands": Probe(
        value=".", other_fields={**_odd("thousands"), "sources.0.options.decimal": ","}
    ),
    "options.date_format": Probe(value="%d.%m.%Y", other_fields=_odd("day")),
    "options.timestamp_format": Probe(value="%d.%m.%Y %H:%M", other_fields=_odd("moment")),
    "options.formats": Probe(value={"word": "%d.%m.%Y"}, other_fields=_odd("day")),
    "options.null_words": Probe(value=["NA"], other_fields=_odd("null")),
    "options.encoding": Probe(value="windows-1252", other_fields=_odd("encoding")),
    "options.skip.first": Probe(value=1, other_fields=_odd("header")),
    "options.skip.last": Probe(value=1, other_fields=_odd("header")),
    "options.skip.prefixes": Probe(value=["1"], other_fields=_odd("header")),
}
_JSON = {
    "path": Probe(value="other/one.json", before="one.json"),
    "limits.max_bytes": Probe(value="1KiB", other_fields={"sources.0.path": "big.json", **_BIG}),
    "options.encoding": Probe(
        value="windows-1252",
        other_fields={**_MERGED, "sources.0.path": "encoding.json"},
    ),
    "options.schema": Probe(
        value={"word": "float64"},
        before={"word": "text"},
        other_fields={**_MERGED, "sources.0.path": "schema.json"},
    ),
    "timezone": Probe(
        value="Europe/Paris",
        before="UTC",
        other_fields={**_ONE_ZONE, "sources.0.options.schema": {"moment": "local_timestamp"}},
    ),
}


_TOPIC = {
    "connection": Probe(value="cluster2", before="cluster"),
    "topic": Probe(value="other", before="orders"),
    "snapshot.from.timestamp": Probe(value="2026-01-02T12:00:00Z"),
    "snapshot.from.offsets": Probe(value={"0": 2}),
    "snapshot.to.timestamp": Probe(value="2026-01-02T12:00:00Z"),
    "snapshot.to.offsets": Probe(value={"0": 2}),
    "options.decode": Probe(value="text"),
    "options.fold": Probe(value="latest_by_key"),
    "options.id_columns": Probe(value=["id"]),
    "options.case_insensitive": Probe(value=True),
    "options.tombstones": Probe(value="delete"),
    "options.schema": Probe(
        value={"word": "float64"},
        before={"word": "text"},
        other_fields={**_MERGED, "sources.0.topic": "schema"},
    ),
    "limits.max_bytes": Probe(value="1KiB", other_fields={"sources.0.topic": "big", **_BIG}),
    "limits.max_connections": Probe(
        value=2, plan_only="the number of readers changes no row of a topic"
    ),
    "timezone": Probe(
        value="Europe/Paris",
        before="UTC",
        other_fields={**_ONE_ZONE, "sources.0.options.schema": {"moment": "local_timestamp"}},
    ),
}


def _of_a_table(kind: str, probes: Mapping[str, Probe]) -> dict[str, Probe]:
    """Path and options of files that a query reads, as those of the source's own path."""
    made = {}
    for name, one in probes.items():
        if name == "path" or name.startswith("options."):
            other = {
                place.replace("sources.0.options", "sources.0.tables.t.options"): value
                for place, value in one.other_fields.items()
            }
            other["sources.0.tables.t.path"] = other.pop("sources.0.path", f"one.{kind}")
            other["sources.0.query"] = "select * from t"
            made[f"tables.*.{name}"] = replace(one, key="t", other_fields=other)
    return made


_ICEBERG = {
    "connection": Probe(value="pond", before="lake"),
    "relation": Probe(value="books.other", before="books.one"),
    "snapshot.ref": Probe(value="first"),
    "snapshot.as_of": Probe(value="1999-12-31T00:00:00Z"),
    "snapshot.snapshot_id": Probe(value=1),
    "options": Probe(value={"any": 1}),
    "limits.max_bytes": Probe(
        value="1KiB", other_fields={"sources.0.relation": "books.big", **_BIG}
    ),
}

_CLOSE = [{"type": "ABSOLUTE", "value": "0.01"}]
_MEASURE = "stages.1.measures.0"


_PERCENT = {"type": "PERCENTAGE", "value": "9.5"}


def _judged(
    measure: str = _MEASURE,
    percent: Mapping[str, object] = _PERCENT,
    fields: Mapping[str, object] | None = None,
) -> dict[str, Probe]:
    """Fields of a measure and of `measure_defaults`, at every place."""
    fields = fields or {}
    first, second = f"{measure}.tolerances.0", f"{measure}.tolerances"
    both = [{"type": "ABSOLUTE", "value": "0.001"}, {"type": "ABSOLUTE", "value": "500"}]
    return {
        "tolerances[].type": Probe(
            value="PERCENTAGE",
            before="ABSOLUTE",
            key="decimal",
            other_fields={**fields, f"{first}.value": "0.02"},
        ),
        "tolerances[].value": Probe(
            value="500",
            before="0.001",
            key="decimal",
            other_fields={**fields, f"{first}.type": "ABSOLUTE"},
        ),
        "tolerances[].base": Probe(
            value="max_abs",
            before="min_abs",
            key="decimal",
            other_fields={**fields, first: percent},
        ),
        "combine": Probe(value="any", key="decimal", other_fields={**fields, second: both}),
        "bound": Probe(
            value="exclusive",
            key="decimal",
            other_fields={**fields, second: [{"type": "ABSOLUTE", "value": "0.02"}]},
        ),
    }


def _of_a_unit() -> dict[str, Probe]:
    """Fields of the tolerance that one unit has."""
    unit = f"{_MEASURE}.unit"
    fields = {f"{unit}.column": "grp"}
    first = f"{unit}.tolerances.a.0"
    close = {"type": "ABSOLUTE", "value": "0.02"}
    part = {"type": "PERCENTAGE", "value": "9.5"}
    return {
        "type": Probe(
            value="PERCENTAGE", before="ABSOLUTE", key="a", other_fields={**fields, first: close}
        ),
        "value": Probe(value="500", before="0.001", key="a", other_fields={**fields, first: close}),
        "base": Probe(
            value="max_abs",
            before="min_abs",
            key="e",
            other_fields={**fields, f"{unit}.tolerances.e.0": part},
        ),
    }


_NO_UNIT = {
    "measures[].unit.column": Probe(value="grp"),
    "measures[].unit.values": Probe(value=["a"]),
    **{
        f"measures[].unit.tolerances.*[].{name}": Probe(value=value, key="a")
        for name, value in (("type", "ABSOLUTE"), ("value", "1"), ("base", "max_abs"))
    },
}
"""Fields of stages with measures without a unit: each is refused."""
_GAP = {"amount": "0"}
_STAGE = {
    "name": Probe(value="other", before="probed", plan_only=_LABEL),
    "dimensions[].name": Probe(
        value="label",
        before="id",
        other_fields={"stages.1.dimensions.0.column": "id"},
        plan_only=_LABEL,
    ),
    "dimensions[].column": Probe(value="grp"),
    "measures[].name": Probe(
        value="label", before="sum", other_fields={f"{_MEASURE}.column": "amount"}, plan_only=_LABEL
    ),
    "measures[].column": Probe(value="fine"),
    "measures[].function": Probe(value="max"),
    **{f"measures[].{name}": probe for name, probe in _judged().items()},
    "measures[].map": Probe(
        value={"two": {"PAID": "P"}}, other_fields={"stages.1.measures": [{"name": "code"}]}
    ),
    "measures[].map_strict": Probe(
        value=True,
        other_fields={"stages.1.measures": [{"name": "code", "map": {"two": {"X": "P"}}}]},
    ),
    "measures[].unit.column": Probe(
        value="word", before="grp", other_fields={f"{_MEASURE}.unit.values": ["a"]}
    ),
    "measures[].unit.values": Probe(
        value=["a", "b"], before=["a"], other_fields={f"{_MEASURE}.unit.column": "grp"}
    ),
    **{f"measures[].unit.tolerances.*[].{name}": one for name, one in _of_a_unit().items()},
    "measures[].adds_up": Probe(value=False, plan_only=_SHOWN),
    "except": Probe(value=["amount"], other_fields={"stages.1.measures": "*"}),
    **{
        f"measure_defaults.*.{name}": probe
        for name, probe in _judged(
            "stages.1.measure_defaults.decimal", fields={"stages.1.measures": "*"}
        ).items()
    },
    "where": Probe(value="id > 1"),
    "compare_to": Probe(
        value="all_pairs", other_fields={"reference": "two", f"{_MEASURE}.tolerances": _CLOSE}
    ),
    "reference": Probe(value="two"),
    "on_unmatched": Probe(value="stop"),
    "warn_at.outside_percent": Probe(value="0"),
    "warn_at.unmatched_percent": Probe(value="0"),
    "warn_at.gap": Probe(value=_GAP),
    "accept.max_outside": Probe(value=0),
    "accept.max_outside_percent": Probe(value="0"),
    "accept.max_unmatched": Probe(value=0),
    "accept.max_unmatched_percent": Probe(value="0"),
    "accept.max_gap": Probe(value=_GAP),
    "scope.from_stage": Probe(value="first"),
    "duplicates": Probe(value="error"),
    "confirm.after": Probe(value="PT2S", before="PT1S"),
    "confirm.attempts": Probe(value=1, other_fields={"stages.1.confirm.after": "PT1S"}),
    "confirm.max_keys": Probe(value=1, other_fields={"stages.1.confirm.after": "PT1S"}),
}
_ROW_COUNT = {"stages.1.measures.0.name": "row_count"}
_TEXT = {"stages.1.measures": [{"name": "code", "function": "max"}]}
_TURNED = {"sources.1.path": "turned.parquet", "schema.order": True}
_CODE = {"stages.1.measures": [{"name": "code"}]}
_ONE_MORE = [{"type": "ABSOLUTE", "value": "1"}]
_COUNTS = {
    **_NO_UNIT,
    **{
        f"measures[].{name}": probe
        for name, probe in _judged(
            percent={"type": "PERCENTAGE", "value": "30"}, fields=_ROW_COUNT
        ).items()
    },
    "measures[].tolerances[].type": Probe(
        value="PERCENTAGE",
        before="ABSOLUTE",
        other_fields={**_ROW_COUNT, f"{_MEASURE}.tolerances.0.value": "2"},
    ),
    "measures[].bound": Probe(
        value="exclusive",
        other_fields={
            **_ROW_COUNT,
            f"{_MEASURE}.tolerances": [{"type": "ABSOLUTE", "value": "2"}],
        },
    ),
    "compare_to": Probe(
        value="all_pairs",
        other_fields={"reference": "two", **_ROW_COUNT, f"{_MEASURE}.tolerances": _ONE_MORE},
    ),
    "measures[].name": Probe(value="other", before="row_count"),
    "measures[].column": Probe(value="nothing", other_fields=_ROW_COUNT),
    "measures[].function": Probe(value="sum", other_fields=_ROW_COUNT),
    "measures[].map": Probe(value={"two": {"1": "2"}}, other_fields=_ROW_COUNT),
    "measures[].map_strict": Probe(value=True, other_fields=_ROW_COUNT),
    "measures[].adds_up": Probe(value=False, other_fields=_ROW_COUNT, plan_only=_SHOWN),
    "warn_at.gap": Probe(value={"row_count": "0"}),
    "accept.max_gap": Probe(value={"row_count": "0"}),
}
_SCHEMA = {
    "reference": Probe(value="two", other_fields=_TURNED),
    "on_unmatched": Probe(value="stop", other_fields=_TURNED),
}
_AGGREGATE = {
    "dimensions[].name": Probe(
        value="label",
        before="grp",
        other_fields={"stages.1.dimensions.0.column": "grp"},
        plan_only=_LABEL,
    ),
    "dimensions[].column": Probe(value="cased"),
    "measures[].map": Probe(value={"two": {"PAID": "P"}}, other_fields=_TEXT),
    "measures[].map_strict": Probe(
        value=True, other_fields={**_TEXT, f"{_MEASURE}.map": {"two": {"X": "P"}}}
    ),
}
_CUSTOM = {
    **_NO_UNIT,
    "dimensions[].name": Probe(
        value="label",
        before="k",
        other_fields={"stages.1.dimensions.0.column": "k"},
        plan_only=_LABEL,
    ),
    "dimensions[].column": Probe(value="other"),
    "measures[].name": Probe(
        value="label", before="t", other_fields={f"{_MEASURE}.column": "t"}, plan_only=_LABEL
    ),
    "measures[].map": Probe(value={"two": {"PAID": "P"}}, other_fields=_CODE),
    "measures[].map_strict": Probe(
        value=True, other_fields={**_CODE, f"{_MEASURE}.map": {"two": {"X": "P"}}}
    ),
    "queries": Probe(
        value={name: f"{QUERY} having k = 'a'".format(name) for name in ("one", "two", "three")},
        before={name: QUERY.format(name) for name in ("one", "two", "three")},
    ),
    "warn_at.gap": Probe(value={"t": "0"}),
    "accept.max_gap": Probe(value={"t": "0"}),
}
_FINGERPRINTS = {
    **_NO_UNIT,
    "measures[].tolerances[].type": Probe(value="ABSOLUTE", before="EXACT"),
    "measures[].tolerances[].value": Probe(
        value="1", other_fields={f"{_MEASURE}.tolerances.0.type": "EXACT"}
    ),
    "measures[].tolerances[].base": Probe(
        value="max_abs", other_fields={f"{_MEASURE}.tolerances.0.type": "EXACT"}
    ),
    "measures[].combine": Probe(value="any"),
    "measures[].bound": Probe(value="exclusive"),
    "measures[].adds_up": Probe(value=True),
    "compare_to": Probe(value="all_pairs"),
}
_SOURCES_AND_STAGES: Mapping[str, Probe] = {
    **{f"spec.sources[]<*>.{name}": one for name, one in {**_SOURCE, **_FILES}.items()},
    **{f"spec.sources[]<postgres>.{name}": one for name, one in _POSTGRES.items()},
    **{
        f"spec.sources[]<{kind}>.{name}": one
        for kind, probes in (("parquet", _PARQUET), ("csv", _CSV), ("json", _JSON))
        for name, one in {**probes, **_of_a_table(kind, probes)}.items()
    },
    **{f"spec.sources[]<iceberg>.{name}": one for name, one in _ICEBERG.items()},
    **{f"spec.sources[]<kafka>.{name}": one for name, one in _TOPIC.items()},
    **{f"spec.stages[]<*>.{name}": one for name, one in _STAGE.items()},
    **{f"spec.stages[]<counts>.{name}": one for name, one in _COUNTS.items()},
    **{f"spec.stages[]<schema>.{name}": one for name, one in _SCHEMA.items()},
    **{f"spec.stages[]<aggregate>.{name}": one for name, one in _AGGREGATE.items()},
    **{f"spec.stages[]<custom_sql>.{name}": one for name, one in _CUSTOM.items()},
    **{f"spec.stages[]<digest>.{name}": one for name, one in _FINGERPRINTS.items()},
}

_DAY = {
    "parameters.d": {"type": "date", "default": "{{ run.date }}"},
    "sources.0.filter": "day = :d",
}
_NUMBER = {"parameters.d": {"type": "int", "default": "1"}, "sources.0.filter": "id = :d"}
_COLUMNS = {"stages.0": {"name": "shape", "type": "schema"}, "sources.1.path": "single.parquet"}
_NESTED = {
    **_of("document"),
    "sources.0.cast": {"document": "json"},
    "sources.1.cast": {"document": "json"},
}
_SINGLE = _of("single", **{"sources.1.path": "single.parquet"})


def _rules() -> dict[str, Probe]:
    """Rules of `normalize`: of a type, and of a column by its name."""
    texts = {
        "trim": Probe(value="both", other_fields=_of("padded")),
        "case": Probe(value="fold", other_fields=_of("cased")),
        "unicode": Probe(value="NFC", other_fields=_of("accent")),
        "empty": Probe(value="null", other_fields=_of("blank")),
        "null": Probe(value="empty", other_fields=_of("blank")),
    }
    numbers = {
        "nan": Probe(value="unequal", other_fields=_of("nan")),
        "float32": Probe(value="shortest", other_fields=_SINGLE),
        "round": Probe(value=2, other_fields=_of("fine")),
        "null": Probe(value="zero", other_fields=_of("nothing")),
    }
    times = {
        "precision": Probe(value="ms", other_fields=_of("moment")),
        "rounding": Probe(
            value="half_even",
            other_fields=_of("moment", **{"normalize.timestamps.precision": "ms"}),
        ),
    }
    arrays = {"arrays": Probe(value="set", other_fields=_NESTED)}
    groups = {"strings": texts, "numbers": numbers, "timestamps": times, "json": arrays}
    probes = {f"{part}.{name}": one for part, some in groups.items() for name, one in some.items()}
    for name, one in {**numbers, **texts, **times, **arrays}.items():
        column = one.other_fields["stages.0.measures"][0]["name"]  # type: ignore[index]  # `_of` made it
        probes[f"columns.*.{name}"] = replace(one, key=column)
    return probes


_LEAVES_OUT = "stages.0.measures.0.tolerances"
_JOB = {
    "timezone": Probe(value="Europe/Paris", other_fields=_DAY),
    "parameters.*.type": Probe(value="date", before="int", key="d", other_fields=_NUMBER),
    "parameters.*.default": Probe(value="2", before="1", key="d", other_fields=_NUMBER),
    "parameters.*.allowed": Probe(value=["5"], key="d", other_fields=_NUMBER),
    "reference": Probe(value="two"),
    **{f"normalize.{name}": one for name, one in _rules().items()},
    "normalize.nulls.keys": Probe(value="reject", other_fields={"stages.0.dimensions": ["key"]}),
    "duplicates": Probe(value="error"),
    "empty": Probe(value="error", other_fields={"sources.0.path": "empty/one.parquet"}),
    "schema.mode": Probe(value="compatible", other_fields=_COLUMNS),
    "schema.order": Probe(
        value=True, other_fields={**_COLUMNS, "sources.1.path": "turned.parquet"}
    ),
    "schema.nullability": Probe(
        value=True, other_fields={**_COLUMNS, "sources.1.path": "strict.parquet"}
    ),
    "schema.ignore": Probe(value=["single"], other_fields=_COLUMNS),
    "schema.equivalences": Probe(value=[["float64", "float32"]], other_fields=_COLUMNS),
    "results.breaks.max_rows": Probe(value=1),
    "results.breaks.sample_per_class": Probe(value=0),
    "results.breaks.retention": Probe(value="P7D"),
    "results.breaks.mask": Probe(value={"amount": "redact"}),
    "results.breaks.deltas": Probe(value=False, other_fields={_LEAVES_OUT: _CLOSE}),
    "execution.proof": Probe(value="rows"),
    "execution.strategy": Probe(value="narrow", plan_only=_WORK),
    "execution.extract": Probe(value="stream"),
    "execution.spill": Probe(value="1GiB", plan_only=_WORK),
    "execution.partitions": Probe(value=7, plan_only=_WORK),
    "execution.resume": Probe(value=False),
}
JOB_PROBES: Mapping[str, Probe] = {
    **_SOURCES_AND_STAGES,
    **{f"spec.{name}": one for name, one in _JOB.items()},
}
"""The probe of every field, but for the few that change no number (`test_every_field_of_a_job`)."""


def probe_of(path: str) -> Probe | None:
    """The probe of a field: of its variant, or of every variant."""
    return JOB_PROBES.get(path) or JOB_PROBES.get(_VARIANT.sub("<*>", path))
