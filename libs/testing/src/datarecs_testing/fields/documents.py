"""The jobs that a probe compares: one without the field's new value, one with it.

Separate from the probes because most fields need the same sources and stages.
"""

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

ABSENT: Final = object()
"""A field that the job leaves out."""
_VARIANT = re.compile(r"spec\.(sources|stages)\[\]<(\w+)>\.(.+)")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A value that must not be without effect, and a job in which it matters."""

    value: object
    before: object = ABSENT
    """What the field holds in the job that is compared with."""
    key: str = "amount"
    """The name that a user chose, where the path has one."""
    other_fields: Mapping[str, object] = field(default_factory=dict)
    """Other fields of both jobs, by dotted path below `spec`."""
    drops: str = ""
    """A field below `spec` that is omitted because this field replaces it."""
    plan_only: str = ""
    """Why no tiny comparison can show it, so that a changed plan is enough."""


def connection(name: str, kind: str, config: Json) -> Json:
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "Connection",
        "metadata": {"name": name},
        "spec": {"type": kind, "config": config},
    }


_LAKE = {"type": "sql", "sqlite": "lake/lake.db"}
_SERVER = {"host": "127.0.0.1", "database": "books", "user": "reader"}
CONNECTIONS: tuple[Json, ...] = (
    connection("here", "files", {"root": "."}),
    connection("there", "files", {"root": "more"}),
    connection("lake", "iceberg", {"catalog": {**_LAKE, "name": "lake"}}),
    connection(
        "pond", "iceberg", {"catalog": {"type": "sql", "name": "pond", "sqlite": "lake/pond.db"}}
    ),
    connection("cluster", "kafka", {"brokers": ["127.0.0.1:9092"], "security": "PLAINTEXT"}),
    connection("cluster2", "kafka", {"brokers": ["localhost:9092"], "security": "PLAINTEXT"}),
    connection("db", "postgres", _SERVER),
    connection("db2", "postgres", _SERVER),
)
_AMOUNT = {"name": "amount"}
_ORIGINS: Mapping[str, Json] = {
    "postgres": {"connection": "db", "relation": "public.one"},
    "parquet": {"connection": "here", "path": "one.parquet"},
    "csv": {"connection": "here", "path": "one.csv"},
    "json": {"connection": "here", "path": "one.json"},
    "iceberg": {"connection": "lake", "relation": "books.one"},
    "kafka": {"connection": "cluster", "topic": "orders"},
}
ROWS: Json = {"name": "rows", "type": "row", "dimensions": ["id"], "measures": [_AMOUNT]}
QUERY = (
    "select grp as k, min(cased) as other, sum(amount) as t, sum(fine) as fine, min(code) as code"
    " from {} group by grp"
)
_STAGES: Mapping[str, Json] = {
    "counts": {"name": "probed", "type": "counts"},
    "schema": {"name": "probed", "type": "schema"},
    "aggregate": {
        "name": "probed",
        "type": "aggregate",
        "dimensions": [{"name": "grp"}],
        "measures": [_AMOUNT],
    },
    "row": {**ROWS, "name": "probed", "dimensions": [{"name": "id"}]},
    "digest": {
        "name": "probed",
        "type": "digest",
        "dimensions": [{"name": "id"}],
        "measures": [_AMOUNT],
    },
    "custom_sql": {
        "name": "probed",
        "type": "custom_sql",
        "dimensions": [{"name": "k"}],
        "measures": [{"name": "t"}],
        "queries": {name: QUERY.format(name) for name in ("one", "two", "three")},
    },
}
_FIRST = {"name": "first", "type": "aggregate", "dimensions": ["grp"], "measures": [_AMOUNT]}
_AFTER = {"name": "after", "type": "counts"}


def jobs_of(path: str, probe: Probe) -> tuple[list[Json], list[Json]]:
    """The documents without and with the probed value, connections first."""
    return _documents(path, probe, probe.before), _documents(path, probe, probe.value)


def _documents(path: str, probe: Probe, value: object) -> list[Json]:
    job = _job(path)
    for place, other in probe.other_fields.items():
        put(job["spec"], place, other)
    if value is not ABSENT:
        if value is probe.value and probe.drops:
            put(job["spec"], probe.drops, ABSENT)
        put(job, place_of(path, probe.key), value)
    return [*deepcopy(CONNECTIONS), job]


def _job(path: str) -> Json:
    match = _VARIANT.fullmatch(path)
    part, variant = (match[1], match[2]) if match else ("", "")
    kind = variant if part == "sources" else "parquet"
    sources = [{"name": "one", "kind": kind, **_ORIGINS[kind]}]
    others = ("two", "three") if part == "stages" else ("two",)
    sources += [
        {"name": name, "kind": "parquet", "connection": "here", "path": f"{name}.parquet"}
        for name in others
    ]
    stages = [ROWS]
    if part == "stages":
        stages = [_FIRST, _STAGES[variant], _AFTER]
    job = {
        "apiVersion": "datarecs.io/v1",
        "kind": "ReconciliationJob",
        "metadata": {"name": "probe"},
        "spec": {"sources": sources, "stages": stages},
    }
    copy: Json = json.loads(json.dumps(job))
    return copy


def place_of(path: str, key: str) -> str:
    """The path of a field in the documents made here: which source, which stage, which name."""
    match = _VARIANT.fullmatch(path)
    if match:
        path = f"spec.{match[1]}.{'0' if match[1] == 'sources' else '1'}.{match[3]}"
    return path.replace("[]", ".0").replace(".*", f".{key}")


def put(into: Json, place: str, value: object) -> None:
    """Set a value at a dotted path, making mappings on the way, or take it out with ABSENT."""
    *parents, last = place.split(".")
    at: Any = into
    for name, following in pairwise([*parents, last]):
        at = _below(at, name, following)
    if value is ABSENT:
        at.pop(last, None)
    elif isinstance(at, list):
        index = int(last)
        at[index : index + 1] = [deepcopy(value)]
    else:
        at[last] = deepcopy(value)


def _below(at: Any, name: str, following: str) -> Any:  # noqa: ANN401  mappings and lists of JSON
    if isinstance(at, list):
        index = int(name)
        if index == len(at):
            at.append([] if following.isdecimal() else {})
        return at[index]
    return at.setdefault(name, [] if following.isdecimal() else {})
