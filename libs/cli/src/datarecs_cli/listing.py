"""The output of `get`: lists of objects and runs, or one of them."""

from collections.abc import Mapping, Sequence

from datarecs_cli.applying import shown_name
from datarecs_cli.client import Api, Json
from datarecs_cli.invocation import Invocation, Output, UsageFault
from datarecs_cli.object_watch import Lost, Observed, Scope, watch_objects
from datarecs_cli.output import Column, as_yaml, cell, exact_json, print_json, print_list
from datarecs_cli.run_names import run_named
from datarecs_core.captures.declared import LAST_CAPTURE, NEXT_DUE
from datarecs_core.resources.reconciling import RECONCILE_AT
from datarecs_core.resources.resource import Kind
from datarecs_core.resources.sink_conditions import StatusField
from datarecs_core.retention.policy import Target
from datarecs_specs.kinds import KindEntry

_OBJECTS = (
    Column(title="NAME", member="name"),
    Column(title="NAMESPACE", member="namespace"),
    Column(title="GENERATION", member="generation", number=True),
    Column(title="CREATED", member="created_at"),
)
_JOBS = (
    Column(title="NAME", member="name"),
    Column(title="NAMESPACE", member="namespace"),
    Column(title="PHASE", member="phase"),
    Column(title="GENERATION", member="generation", number=True),
    Column(title="CREATED", member="created_at"),
)
_SCHEDULES = (
    Column(title="NAME", member="name"),
    Column(title="JOB", member="job"),
    Column(title="WHEN", member="when"),
    Column(title="ZONE", member="timezone"),
    Column(title="SUSPENDED", member="suspend"),
)
_CHANGES = (
    Column(title="AT", member="at"),
    Column(title="CHANGE", member="op"),
    Column(title="PARTS", member="changed"),
    Column(title="GENERATION", member="generation", number=True),
    Column(title="BY", member="actor"),
)
_POLICIES = (
    Column(title="NAME", member="name"),
    Column(title="NAMESPACE", member="namespace"),
    Column(title="REMOVES", member="removes"),
    Column(title="DRY RUN", member="dry_run"),
    Column(title="LAST SWEEP", member="last_sweep_at"),
)
_CAPTURES = (
    Column(title="NAME", member="name"),
    Column(title="NAMESPACE", member="namespace"),
    Column(title="CONNECTION", member="connection"),
    Column(title="PHASE", member="phase"),
    Column(title="LAST", member="state"),
    Column(title="FINISHED", member="finished_at"),
    Column(title="NEXT", member="next_due_at"),
)
_SINKS = (
    Column(title="NAME", member="name"),
    Column(title="NAMESPACE", member="namespace"),
    Column(title="TOPICS", member="topics"),
    Column(title="PHASE", member="phase"),
    Column(title="TASKS", member="running"),
    Column(title="LAG", member="lag", number=True),
    Column(title="LAST COMMIT", member="last_commit_at"),
    Column(title="PROVEN", member="proven"),
)
_RUNS = (
    Column(title="RUN", member="run_id"),
    Column(title="JOB", member="job"),
    Column(title="STATUS", member="status"),
    Column(title="RESULT", member="result"),
    Column(title="UNMATCHED", member="rows_unmatched", number=True),
    Column(title="CREATED", member="created_at"),
    Column(title="REASON", member="trigger_reason"),
)
_WATCHED = (None, Output.TABLE, Output.TEXT, Output.JSON, Output.JSONL, Output.NAME)
_SERVER_FIELDS = ("uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp")
"""Metadata fields that only the server writes."""


def print_objects(
    api: Api, entry: KindEntry, where: Mapping[str, str], *, limit: int, invocation: Invocation
) -> None:
    """Objects of one kind, newest first; `where` may have `namespace` and `label_selector`."""
    items = _newest(api, entry.path, where, limit, invocation)
    if invocation.output in (Output.JSON, Output.JSONL, Output.YAML):
        print_list("get", _OBJECTS, items, invocation)
        return
    _print_rows(items, entry.kind, invocation)
    if not items:
        invocation.say(f"no {entry.path}; create them with: datarecs apply -f FILE")


def _newest(
    api: Api, path: str, where: Mapping[str, str], limit: int, invocation: Invocation
) -> list[Json]:
    """At most `limit` items; says so if there are more."""
    items = list(api.pages(path, limit=limit + 1, params=where))
    if len(items) > limit:
        invocation.say(f"only the newest {limit} {path}; --limit {limit * 10} lists more")
    return items[:limit]


def export_objects(
    api: Api, entry: KindEntry, where: Mapping[str, str], *, limit: int, invocation: Invocation
) -> None:
    """Objects of one kind as `apply` reads them: one YAML document each.

    Raises:
        UsageFault: a format that `apply` cannot read.
    """
    _check_export(invocation)
    items = _newest(api, entry.path, where, limit, invocation)
    print("---\n".join(as_yaml(exported(one)) + "\n" for one in items), end="")
    if not items:
        invocation.say(f"no {entry.path} to export")


def _check_export(invocation: Invocation) -> None:
    if invocation.output not in (None, Output.YAML):
        raise UsageFault(f"-o {invocation.output} cannot be applied: --export writes yaml")


def _print_rows(items: Sequence[Json], kind: object, invocation: Invocation) -> None:
    if kind == Kind.SCHEDULE:
        print_list("get", _SCHEDULES, [_schedule_row(one) for one in items], invocation)
    elif kind == Kind.RETENTION_POLICY:
        print_list("get", _POLICIES, [_policy_row(one) for one in items], invocation)
    elif kind == Kind.CAPTURE:
        print_list("get", _CAPTURES, [_capture_row(one) for one in items], invocation)
    elif kind == Kind.SINK_TABLE:
        print_list("get", _SINKS, [_sink_row(one) for one in items], invocation)
    else:
        columns = _JOBS if kind == Kind.RECONCILIATION_JOB else _OBJECTS
        print_list("get", columns, [_object_row(one) for one in items], invocation)


def _object_row(one: Json) -> Json:
    metadata = _part(one, "metadata")
    phase = _part(one, "status").get("phase")
    return {**metadata, "phase": phase, "created_at": metadata.get("creationTimestamp")}


def _schedule_row(one: Json) -> Json:
    spec = _part(one, "spec")
    when = spec.get("cron") or f"every {spec.get('interval')}"
    return {**spec, "name": _part(one, "metadata").get("name"), "when": when}


def _capture_row(one: Json) -> Json:
    status = _part(one, "status")
    last = _part(status, LAST_CAPTURE)
    return {
        **_object_row(one),
        "connection": _part(one, "spec").get("connection"),
        "state": last.get("state"),
        "finished_at": last.get("finished_at"),
        "next_due_at": status.get(NEXT_DUE),
    }


def _sink_row(one: Json) -> Json:
    status = _part(one, "status")
    return {
        **_object_row(one),
        **{name: status.get(name) for name in (StatusField.LAG, StatusField.LAST_COMMIT_AT)},
        "topics": ", ".join(map(str, _listed(_part(one, "spec").get("topics")))),
        "running": f"{status.get(StatusField.WORKERS, 0)}/{status.get(StatusField.TASKS, 0)}",
        "proven": _proven(status),
    }


def _proven(status: Json) -> object:
    """None of a sink that names no jobs."""
    conditions = _listed(status.get("conditions"))
    claims = (one for one in conditions if isinstance(one, Mapping))
    return next((one.get("status") for one in claims if one.get("type") == "Proven"), None)


def _policy_row(one: Json) -> Json:
    spec = _part(one, "spec")
    targets = _part(spec, "targets")
    removes = [
        f"{name} after {_part(targets, name).get('ttl')}" for name in Target if name in targets
    ]
    return {
        **_part(one, "metadata"),
        "removes": ", ".join(removes),
        "dry_run": spec.get("dry_run"),
        "last_sweep_at": _part(one, "status").get("last_sweep_at"),
    }


def _part(one: Json, name: str) -> Json:
    part = one.get(name)
    return part if isinstance(part, Mapping) else {}


def print_watch(api: Api, entry: KindEntry, scope: Scope, invocation: Invocation) -> None:
    """The objects and each change, one line each, until Ctrl-C.

    Raises:
        UsageFault: a format that has no lines.
    """
    if invocation.output not in _WATCHED:
        raise UsageFault(f"-o {invocation.output} is not a format of --watch: use json or name")
    for item in watch_objects(api, scope):
        if isinstance(item, Lost):
            invocation.say(f"connection lost ({item.reason}); reconnecting")
        else:
            print(_watched_line(entry, item, invocation.output), flush=True)


def _watched_line(entry: KindEntry, item: Observed, output: Output | None) -> str:
    metadata = _part(item.resource, "metadata")
    if output in (Output.JSON, Output.JSONL):
        missed = {"final_state_unknown": True} if item.is_last_known else {}
        return exact_json({"event": str(item.event), **missed, "object": item.resource})
    name = cell(shown_name(entry, str(metadata.get("name"))))
    if output is Output.NAME:
        return name
    state = "last known state" if item.is_last_known else f"generation {metadata['generation']}"
    return f"{item.event:<14}  {name}  {metadata['namespace']}  {state}"


def print_changes(items: Sequence[Json], invocation: Invocation) -> None:
    """Writes of an object, newest first."""
    if invocation.output in (Output.JSON, Output.JSONL, Output.YAML):
        print_list("changes", _CHANGES, items, invocation)
        return
    rows = [
        {**one, "name": one.get("at"), "changed": ", ".join(map(str, _listed(one.get("changed"))))}
        for one in items
    ]
    print_list("changes", _CHANGES, rows, invocation)


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def print_object(resource: Json, invocation: Invocation, *, export: bool) -> None:
    """Print one object: a line of the list, or all of it as YAML or JSON."""
    if export:
        _check_export(invocation)
        print(as_yaml(exported(resource)))
    elif invocation.output is Output.JSON:
        print_json("get", {"object": resource})
    elif invocation.output is Output.YAML:
        print(as_yaml(resource))
    else:
        _print_rows([resource], resource.get("kind"), invocation)


def exported(resource: Json) -> Json:
    """The object without the fields of the server, so that it can be applied again."""
    stored = _part(resource, "metadata")
    annotations = _part(stored, "annotations")
    declared = {name: value for name, value in annotations.items() if name != RECONCILE_AT}
    metadata = {
        name: value
        for name, value in {**stored, "annotations": declared}.items()
        if name not in _SERVER_FIELDS and value
    }
    return {
        "apiVersion": resource["apiVersion"],
        "kind": resource["kind"],
        "metadata": metadata,
        "spec": resource["spec"],
    }


def print_runs(api: Api, where: Mapping[str, str], limit: int, invocation: Invocation) -> None:
    """Runs, newest first."""
    items = _newest(api, "runs", where, limit, invocation)
    if invocation.output in (Output.JSON, Output.JSONL, Output.YAML):
        print_list("get", _RUNS, items, invocation)
        return
    print_list("get", _RUNS, [_run_row(one) for one in items], invocation)
    if not items:
        invocation.say("no runs; start one with: datarecs run JOB")


def _run_row(run: Json) -> Json:
    summary = run.get("summary")
    error = run.get("error")
    code = error.get("code") if isinstance(error, Mapping) else None
    unmatched = summary.get("rows_unmatched") if isinstance(summary, Mapping) else None
    return {**run, "result": run.get("result") or code, "rows_unmatched": unmatched}


def print_run(api: Api, name: str, invocation: Invocation) -> None:
    """One run's record."""
    run = api.get("runs", run_named(api, name))
    match invocation.output:
        case Output.JSON:
            print_json("get", {"object": run})
        case Output.YAML:
            print(as_yaml(run))
        case Output.NAME:
            print(run["run_id"])
        case _:
            columns = (
                Column(title="FIELD", member="field"),
                Column(title="VALUE", member="value"),
            )
            rows = [{"field": field, "value": value} for field, value in run.items() if value]
            print_list("get", columns, rows, invocation)
